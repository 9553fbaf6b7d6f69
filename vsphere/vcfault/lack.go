package vcfault

import (
	"cmp"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Lack is a privilege and the object that it is missing on.
type Lack struct {
	// ID is the privilege's; empty where vCenter names none.
	ID string
	// On is nil where vCenter names none.
	On *types.ManagedObjectReference
}

// LacksIn returns the privileges that vCenter's NoPermission names in an error; none if there is no such fault.
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

// Text says what is missing where; path can be empty. It leaves out a VM's moRef, which differs from try to try.
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

// LackMessage is the message of missing privileges, of which each text is one. Equal texts in any order give equal messages.
func LackMessage(texts []string) string {
	slices.Sort(texts)
	return "vCenter's user lacks the privilege " + plan.AtMost(slices.Compact(texts), 20) + ": grant it."
}
