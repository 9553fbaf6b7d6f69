package inventory

// goneMax bounds how many keys a goneSet remembers. A VM that was forgotten is read again when a group asks for it.
const goneMax = 4096

// goneSet remembers the last goneMax keys, such as the moRefs that answered ManagedObjectNotFound (vCenter reuses a moRef only after a restore).
type goneSet[K comparable] struct {
	refs  map[K]bool
	order []K
	next  int
}

func (g *goneSet[K]) has(key K) bool { return g.refs[key] }

// add remembers a key. If the set is full, add forgets the oldest key and returns it.
func (g *goneSet[K]) add(key K) (forgotten K) {
	if g.refs[key] {
		return forgotten
	}
	if g.refs == nil {
		g.refs = map[K]bool{}
	}
	g.refs[key] = true
	if len(g.order) < goneMax {
		g.order = append(g.order, key)
		return forgotten
	}
	forgotten = g.order[g.next]
	delete(g.refs, forgotten)
	g.order[g.next] = key
	g.next = (g.next + 1) % goneMax
	return forgotten
}

// drop forgets a VM that exists again, for example after a restore of vCenter's database.
func (g *goneSet[K]) drop(key K) { delete(g.refs, key) }
