package vcfault

import (
	"cmp"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Lack is a missing privilege, and the object that it is missing on.
type Lack struct {
	// ID is the id of the privilege; empty if vCenter names none.
	ID string
	// On is the object; nil if vCenter names none.
	On *types.ManagedObjectReference
}

// LacksIn returns the privileges that a NoPermission in an error's tree names; none if there is no such fault.
func LacksIn(err error) []Lack {
	for _, f := range faultsIn(err) {
		if no, is := f.(types.BaseNoPermission); is {
			return lacksOf(no)
		}
	}
	return nil
}

func lacksOf(f types.BaseNoPermission) (all []Lack) {
	p := f.GetNoPermission()
	for i := range p.MissingPrivileges {
		m := &p.MissingPrivileges[i]
		for _, id := range m.PrivilegeIds {
			all = append(all, Lack{id, &m.Entity})
		}
	}
	if len(all) == 0 {
		all = []Lack{{p.PrivilegeId, p.Object}}
	}
	return all
}

// Text names the privilege and the object, by its path if that is not empty. It leaves out the moRef of a VM or a task, which differs from try to
// try.
func (l Lack) Text(path string) string {
	id := cmp.Or(l.ID, "(vCenter does not say which)")
	switch {
	case l.On == nil:
		return id
	case path != "":
		return id + " on " + path
	case l.On.Type == "VirtualMachine" || l.On.Type == "Task" || l.On.Value == "":
		return id + " on the " + l.On.Type
	}
	return id + " on the " + l.On.Type + " " + l.On.Value
}

// LackMessage returns the message for missing privileges, each of which is one text. The order of the texts does not matter.
func LackMessage(texts []string) string {
	slices.Sort(texts)
	return "vCenter's user lacks the privilege " + plan.AtMost(slices.Compact(texts), 20) + ": grant it."
}
