package world

import "fmt"

// In some lives, vCenter changes instanceUuids, as it does when two VMs have the same one. The server's look at vCenter's events, which show that the VM is
// the same (plan.Renumbered), is no part of this simulation: a replica that sees the VM knows it.

// identities is what happens in such lives only.
var identities = []kind{
	{"vCenter changes an instanceUuid", 4, false, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.uid != "" && !m.stray && !m.IsTemplate }), a); m != nil {
			w.renumbers++
			m.Renumbered = fmt.Sprintf("%s-renumbered-%d", m.InstanceUUID, w.renumbers)
			m.reconfigured()
		}
	}},
}
