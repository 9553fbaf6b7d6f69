package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// member is a VM and what the plan thinks of it.
type member struct {
	plan.VM
	name      string // the member's name, whatever the VM is called now
	duplicate bool   // another VM claims the same ordinal
	yields    bool   // it was given up, came back, and another VM runs in its stead

	// In what it differs from the spec; empty if in nothing. What is outdated only a new clone can change.
	outdated, resize string

	// uncustomized is why it is not ready whatever its guest reports; empty if its customization is done, or does not matter.
	uncustomized plan.CustomizationState

	ready bool
	since time.Time // when that was last seen to change
	// serving: ready for long enough, and nobody has begun to take it down; it may be marked to go.
	serving bool

	// retire is why it is to be replaced, and says for people what is the matter; empty if it is to stay.
	retire plan.Why
	matter string
	// restart is why it is reset; empty if it is not.
	restart string
	// held: it differs from the spec, and is kept so.
	held bool
	// leaves: it goes now. cycles: it is powered off now, and on again when it has its new size.
	leaves, cycles bool
}

// available members are those that count: serving, and not about to go.
func (m *member) available() bool { return m.serving && !m.Marked }

// going reports whether it is chosen to be removed; one that is chosen to be power-cycled stays.
func (m *member) going() bool { return m.Marked && m.Why != plan.WhyPowerCycle }

// differs says in what the member is not as the spec says; empty if it is.
func (m *member) differs() string {
	if m.outdated != "" && m.resize != "" {
		return m.resize + " and " + m.outdated
	}
	return m.resize + m.outdated
}

// judge finds what there is to think of the i-th member by itself.
func (v *view) judge(i int) {
	m := &v.members[i]
	m.uncustomized = v.uncustomized(m, i)
	m.ready = v.isReady(m) && m.uncustomized == ""
	m.since = v.readySince(m, i)
	halting := v.halting(m)
	m.serving = m.ready && !halting && !v.takenDown(m)
	if m.serving && v.Now.Sub(m.since) < v.policy.minReady {
		m.serving = false
		v.wakeAt(m.since.Add(v.policy.minReady))
	}
	m.resize, m.outdated = v.sizeDifference(&m.VM), v.cloneDifference(&m.VM)
}

// isReady reports whether a member is fit for work. A twin is not: one of them must go.
func (v *view) isReady(m *member) bool {
	if m.duplicate || !m.Reachable || m.Power != plan.PoweredOn || m.Question != "" {
		return false
	}
	switch v.policy.check {
	case v1alpha1.ReadyToolsRunning:
		return m.Tools
	case v1alpha1.ReadyGuestIP:
		return len(m.IPs) > 0
	}
	return true
}

// readySince is when the member's readiness was last seen to change. As a Pod's Ready condition does, it lives in the
// status: lost or stale, it makes us wait longer, never shorter.
func (v *view) readySince(m *member, i int) time.Time {
	if r := v.record(m.MoRef, i); r != nil && r.Ready == m.ready && !r.LastTransitionTime.IsZero() {
		return r.LastTransitionTime.UTC()
	}
	return v.Now.UTC().Truncate(time.Second)
}

// record is what the stored status says of a VM. It stands where the VM does, unless members came or went.
func (v *view) record(moRef string, i int) *v1alpha1.Member {
	all := v.Group.Status.Members
	if i < len(all) && all[i].MoRef == moRef {
		return &all[i]
	}
	for i := range all {
		if all[i].MoRef == moRef {
			return &all[i]
		}
	}
	return nil
}

// halting reports whether the member's guest was asked to halt, since the VM was last powered on, and may still do so. Boot
// is vCenter's own word, so no two clocks are compared. A request that is long past is void: the guest did not heed it.
func (v *view) halting(m *member) bool {
	if m.Power != plan.PoweredOn || m.Shutdown.At.IsZero() || !m.Shutdown.Boot.Equal(m.Boot) {
		return false
	}
	over := m.Shutdown.At.Add(v.policy.shutdown + haltGrace)
	v.wakeAt(over)
	return v.Now.Before(over)
}

// haltGrace is how long after its time-out a guest counts as halting: in that time the plug is pulled, if its member
// still has to go.
const haltGrace = time.Minute

// takenDown reports whether a step that takes the member down is under way, or was tried: its fate is not known then. A mark that
// is taken off may be one for which another replica takes the member down at this moment; Unmark waits for that, but
// one that failed may have written and not waited.
func (v *view) takenDown(m *member) bool {
	p := v.Pending[m.name]
	if p.MoRef != "" && p.MoRef != m.MoRef { // another VM had that name
		return false
	}
	return p.Op.TakesDown() && (p.State == plan.Running || !p.Fault.Untried) || p.Tried.TakesDown()
}

// sizeDifference says in what a VM has another size than the spec.
func (v *view) sizeDifference(vm *plan.VM) string {
	var in []string
	if vm.CPU != v.Group.Spec.CPU {
		in = append(in, fmt.Sprintf("%s instead of %d", count(int(vm.CPU), "CPU"), v.Group.Spec.CPU))
	}
	if want := v.Group.MemoryMB(); vm.MemoryMB != want {
		in = append(in, fmt.Sprintf("%d MB of memory instead of %d", vm.MemoryMB, want))
	}
	if len(in) == 0 {
		return ""
	}
	return "has " + strings.Join(in, " and ")
}

// cloneDifference says in what a VM was cloned otherwise than one would be now.
func (v *view) cloneDifference(vm *plan.VM) string {
	addresses, _ := plan.AddressesOf(&v.Group.Spec, vm.Ordinal)
	switch {
	case v.revision == "": // what a new one would be made from is not known now
	case vm.Revision != v.revision:
		return v.madeOtherwise()
	case vm.Addresses != plan.AddressText(addresses):
		return "has other addresses than spec.networks gives it now"
	case v.policy.replaceOnTemplate && v.templateChanged(vm):
		return "was made from an older version of the template"
	}
	return ""
}

// madeOtherwise says what a member of another revision was made from: where the spec names a template and nothing else
// that enters the revision, it can only be that.
func (v *view) madeOtherwise() string {
	if v.revision == plan.Revision(&v1alpha1.VmGroupSpec{Template: v.Group.Spec.Template}) {
		return "was made from another template"
	}
	return "was made from another revision of the spec"
}

// templateChanged reports whether the template of that name is another, or has other disks, than the VM was cloned from.
func (v *view) templateChanged(vm *plan.VM) bool {
	now := &v.State.Template
	return vm.Revision == v.revision && v.revision != "" && now.Fingerprint != "" && vm.Fingerprint != "" && vm.Fingerprint != now.Fingerprint &&
		!slices.Contains(now.Partial[:], vm.Fingerprint)
}
