package inventory

// goneMax bounds how many VMs are remembered as gone. A VM that was forgotten is read again when a group asks for it.
const goneMax = 4096

// goneSet remembers the last moRefs that answered ManagedObjectNotFound (vCenter reuses a moRef only after a restore).
type goneSet struct {
	refs  map[string]bool
	order []string
	next  int
}

func (g *goneSet) has(ref string) bool { return g.refs[ref] }

// add remembers a moRef. If the set is full, add forgets the oldest moRef and returns it.
func (g *goneSet) add(ref string) (forgotten string) {
	if g.refs[ref] {
		return ""
	}
	if g.refs == nil {
		g.refs = map[string]bool{}
	}
	g.refs[ref] = true
	if len(g.order) < goneMax {
		g.order = append(g.order, ref)
		return ""
	}
	forgotten = g.order[g.next]
	delete(g.refs, forgotten)
	g.order[g.next] = ref
	g.next = (g.next + 1) % goneMax
	return forgotten
}

// drop forgets a VM that exists again, for example after a restore of vCenter's database.
func (g *goneSet) drop(ref string) { delete(g.refs, ref) }
