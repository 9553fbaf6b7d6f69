package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// view is an observation put in order, and what the steering makes of it.
type view struct {
	*Observed
	want int
	// sighted: vCenter's facts are known and of the right vCenter; else the stored figures are kept.
	sighted bool
	// hold is why nothing may be done at all; nil if something may.
	hold *Fault

	members  []member          // all VMs of the group, by ordinal and moRef
	unseen   []v1alpha1.Member // recorded in the status, not seen, and not confirmed gone
	ordinals int               // how many different ordinals the two hold
	arriving []int32           // ordinals being cloned that are not seen yet
	revision string            // of a member that is cloned now

	// What steer and finalize find.
	actions  []Action
	missing  []int32 // ordinals to clone, in backoff or not
	starting int     // members to be powered on
	leaving  int     // members to be removed
	waitCall bool    // a folder is needed, and the last hook call is too old to make one
	faults   []named // what hinders, by member
}

// member is a VM and what the plan thinks of it.
type member struct {
	VM
	name      string // the member's name, whatever the VM is called now
	duplicate bool   // another VM claims the same ordinal
	differs   string // in what it differs from the spec; empty if in nothing
}

// ready tells whether a member is fit for work.
func (m *member) ready() bool { return m.Reachable && m.Power == PoweredOn && !m.duplicate }

// named is a fault and the member it hinders (empty: the group).
type named struct {
	who string
	Fault
}

func survey(o *Observed) *view {
	v := &view{Observed: o, want: int(o.Group.Replicas()), revision: Revision(&o.Group.Spec)}
	v.sighted, v.hold = v.holdBack()
	if !v.sighted {
		return v
	}
	v.sortMembers()
	v.sortUnseen()
	v.sortArriving()
	return v
}

// holdBack decides what the table at Make says left of the bar.
func (v *view) holdBack() (sighted bool, hold *Fault) {
	s := &v.Sight
	switch {
	case !s.Known && s.Trouble != nil:
		return false, s.Trouble
	case !s.Known:
		return false, &Fault{Reason: ReasonInventoryNotRead, Message: "vCenter's inventory is being read"}
	}
	if was := v.madeIn(); was != "" && was != s.VCenter {
		return false, &Fault{Reason: ReasonVCenterChanged, Person: true, Message: fmt.Sprintf(
			"the members were made in vCenter %s, and %s answers now: point the server back, or recreate the group", was, s.VCenter)}
	}
	if v.Finalizing {
		return true, nil
	}
	if errs := v.Group.Validate(); len(errs) > 0 {
		return true, &Fault{Reason: ReasonInvalidSpec, Person: true, Message: errs.ToAggregate().Error()}
	}
	if s.Trouble != nil {
		return true, s.Trouble
	}
	newest := v.NewestStamp
	for i := range s.VMs {
		newest = max(newest, s.VMs[i].Generation)
	}
	if newest > v.Group.Generation {
		return true, &Fault{Reason: ReasonSuperseded, Message: fmt.Sprintf(
			"the members' stamps speak of generation %d of this group; this request is of generation %d, and waits for a newer one",
			newest, v.Group.Generation)}
	}
	return true, nil
}

// madeIn is the vCenter that the group's members were made in, as the status and the stamps have it. A group
// without members belongs to none.
func (v *view) madeIn() string {
	for i := range v.Sight.VMs {
		if was := v.Sight.VMs[i].VCenter; was != "" && was != v.Sight.VCenter {
			return was
		}
	}
	if len(v.Group.Status.Members) > 0 {
		return v.Group.Status.VCenterUUID
	}
	return ""
}

func (v *view) sortMembers() {
	v.members = make([]member, len(v.Sight.VMs))
	for i, vm := range v.Sight.VMs {
		v.members[i] = member{VM: vm, name: MemberName(v.Group.Name, vm.Ordinal)}
	}
	slices.SortFunc(v.members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.MoRef, b.MoRef))
	})
	for i := range v.members {
		m := &v.members[i]
		if i > 0 && v.members[i-1].Ordinal == m.Ordinal {
			m.duplicate, v.members[i-1].duplicate = true, true
		} else {
			v.ordinals++
		}
		m.differs = v.difference(&m.VM)
	}
}

// difference says in what a member differs from the spec.
func (v *view) difference(vm *VM) string {
	var in []string
	if vm.CPU != v.Group.Spec.CPU {
		in = append(in, fmt.Sprintf("%d CPUs instead of %d", vm.CPU, v.Group.Spec.CPU))
	}
	if want := v.Group.MemoryMB(); vm.MemoryMB != want {
		in = append(in, fmt.Sprintf("%d MB of memory instead of %d", vm.MemoryMB, want))
	}
	if vm.Revision != v.revision {
		in = append(in, "another template")
	}
	return strings.Join(in, ", ")
}

// sortUnseen finds the recorded members that vCenter shows no more without having said that they are gone: they
// may be hidden by a lost privilege, and their ordinals stay taken.
func (v *view) sortUnseen() {
	recorded := v.Group.Status.Members
	if len(recorded) == 0 {
		return
	}
	here := make(map[string]bool, len(v.members)+len(v.Sight.Gone))
	for i := range v.members {
		here[v.members[i].MoRef] = true
	}
	for _, ref := range v.Sight.Gone {
		here[ref] = true
	}
	for _, m := range recorded {
		if here[m.MoRef] {
			continue
		}
		v.unseen = append(v.unseen, m)
		if !v.has(m.Ordinal) && !slices.ContainsFunc(v.unseen[:len(v.unseen)-1], func(u v1alpha1.Member) bool { return u.Ordinal == m.Ordinal }) {
			v.ordinals++
		}
	}
}

func (v *view) sortArriving() {
	for _, p := range v.Pending {
		if p.Op == Clone && p.State == Running && !v.taken(p.Ordinal) {
			v.arriving = append(v.arriving, p.Ordinal)
		}
	}
	slices.Sort(v.arriving)
}

// has tells whether a VM with that ordinal is seen.
func (v *view) has(ordinal int32) bool {
	_, found := slices.BinarySearchFunc(v.members, ordinal, func(m member, o int32) int { return cmp.Compare(m.Ordinal, o) })
	return found
}

// taken tells whether an ordinal is held by a VM, seen or not.
func (v *view) taken(ordinal int32) bool {
	return v.has(ordinal) || slices.ContainsFunc(v.unseen, func(m v1alpha1.Member) bool { return m.Ordinal == ordinal })
}
