package vsphere

import "errors"

// owner says whose a VM is.
type owner int

const (
	// unmanaged: it bears no stamp, a garbled one, or the stamp of the VM that it is a copy of.
	unmanaged owner = iota
	// ours: it bears a valid stamp, of whatever group.
	ours
	// unknownVersion: it bears a stamp that only a newer server understands. It is counted and never touched.
	unknownVersion
	// unreadable: its configuration cannot be read now, so that it may be anybody's.
	unreadable
)

// ownerOf reads a VM's stamp. old is what it was filed as, so that an unchanged stamp is not decoded again.
func ownerOf(m *Machine, old *member) (Stamp, owner) {
	switch {
	case !m.Readable:
		return Stamp{}, unreadable
	case m.Stamp == "":
		return Stamp{}, unmanaged
	case old != nil && old.Stamp == m.Stamp && old.InstanceUUID == m.InstanceUUID:
		return old.stamp, ours
	}
	stamp, err := DecodeStamp(m.Stamp)
	switch {
	case errors.Is(err, ErrStampVersion):
		return Stamp{}, unknownVersion
	case err != nil || stamp.UID == "" || !stamp.Owned(stamp.UID, m.InstanceUUID):
		return Stamp{}, unmanaged
	}
	return stamp, ours
}

// goneMax bounds how many VMs are remembered as gone. One that was forgotten is read again when it is asked for.
const goneMax = 4096

// goneSet remembers the last moRefs that answered ManagedObjectNotFound: vCenter does not use a moRef twice.
type goneSet struct {
	refs  map[string]bool
	order []string
	next  int
}

func (g *goneSet) has(ref string) bool { return g.refs[ref] }

func (g *goneSet) add(ref string) {
	if g.refs[ref] {
		return
	}
	if g.refs == nil {
		g.refs = map[string]bool{}
	}
	g.refs[ref] = true
	if len(g.order) < goneMax {
		g.order = append(g.order, ref)
		return
	}
	delete(g.refs, g.order[g.next])
	g.order[g.next] = ref
	g.next = (g.next + 1) % goneMax
}

// drop is for the VM that was there after all, as after a restore of vCenter's database.
func (g *goneSet) drop(ref string) { delete(g.refs, ref) }
