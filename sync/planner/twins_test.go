package planner_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// Of two VMs of one ordinal, none goes by itself that has the ordinal's persistent disks: the server would detach them, while another
// replica, which sees only that one, powers it on (test/world, seed 1100016589).
func TestATwinWithPersistentDisksIsNotRemoved(t *testing.T) {
	disks := plan.DiskText([]plan.MemberDisk{{Name: "data", SizeGiB: 1, ID: "disk-1"}})
	for name, c := range map[string]struct {
		disks [2]string
		on    int // -1: none
		goes  string
	}{
		"neither has any":          {[2]string{}, -1, "vm-2"},
		"both have (a stale view)": {[2]string{disks, disks}, -1, ""},
		"the second has them":      {[2]string{"", disks}, -1, "vm-1"},
		"the first has them":       {[2]string{disks, ""}, -1, "vm-2"},
		"one without is on":        {[2]string{"", disks}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed(1)
			o.Group.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
			for i, ref := range []string{"vm-1", "vm-2"} {
				m := plan.VM{MoRef: ref, Name: "web-0", Power: plan.PoweredOff, Reachable: true, CPU: 2, MemoryMB: 4096, VCenter: o.State.VCenter, Disks: c.disks[i]}
				if i == c.on {
					m.Power = plan.PoweredOn
				}
				o.State.VMs = append(o.State.VMs, m)
			}
			goes := ""
			for _, a := range planner.Make(o).Actions {
				if a.Op == plan.Destroy || a.Op == plan.DeleteDisks || a.Op == plan.PowerOff {
					goes = a.MoRef
				}
			}
			if goes != c.goes {
				t.Errorf("%q goes, want %q", goes, c.goes)
			}
		})
	}
}

// A member that was chosen to go may be made again by a replica that does not know of the scale-in: whichever of the two goes, no
// other member goes instead.
func TestNothingGoesInsteadOfATwinThatWasChosen(t *testing.T) {
	for name, on := range map[string]bool{"it is still on": true, "it is off": false} {
		t.Run(name, func(t *testing.T) {
			o := observed(2)
			one := intstr.FromInt32(1)
			o.Group.Spec.Update.MaxUnavailable = &one
			addMembers(&o, 3)
			chosen := &o.State.VMs[2]
			chosen.Marked, chosen.MarkedAt, chosen.Why = true, o.Now.Add(-time.Minute), plan.WhyScaleIn
			if !on {
				chosen.Power = plan.PoweredOff
			}
			again := *chosen
			again.MoRef, again.Marked, again.Why, again.Power = "vm-again", false, "", plan.PoweredOff
			o.State.VMs = append(o.State.VMs, again)
			for _, a := range planner.Make(o).Actions {
				if a.Ordinal != chosen.Ordinal {
					t.Errorf("%s of %s: %s", a.Op, a.VM, a.Reason)
				}
			}
		})
	}
}
