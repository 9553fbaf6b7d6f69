package planner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// another adds a second VM with an ordinal.
func another(o *plan.Observed, ordinal int32, change func(*plan.VM)) {
	x := vm(o, ordinal)
	x.MoRef, x.InstanceUUID, x.Name = "vm-back", "id-back", "web-1 (1)"
	change(&x)
	o.State.VMs = append(o.State.VMs, x)
}

func TestTheReplacementStaysAndTheVMThatComesBackBesideItIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*plan.Observed)
		want    []plan.Op
	}{
		"it runs": {func(o *plan.Observed) {
			another(o, 1, func(x *plan.VM) { x.Tools = true })
		}, []plan.Op{plan.Mark, plan.ShutdownGuest, plan.Quarantine}},
		"its guest is not to be asked": {func(o *plan.Observed) {
			another(o, 1, func(*plan.VM) {})
			o.Group.Spec.Deletion.ShutdownTimeoutSeconds = new(int32)
		}, []plan.Op{plan.Mark, plan.PowerOff, plan.Quarantine}},
		"it is off, and was on": {func(o *plan.Observed) {
			another(o, 1, func(x *plan.VM) { x.Power, x.BootTime = plan.PoweredOff, time.Time{} })
			o.Pending = map[string]plan.Pending{"web-1": {Op: plan.Destroy, MoRef: "vm-back", State: plan.BackingOff, Fault: plan.Fault{Reason: plan.ReasonDuplicateMember}}}
		}, []plan.Op{plan.Mark, plan.Quarantine}},
		"the replacement is off for its new size": {func(o *plan.Observed) {
			another(o, 1, func(x *plan.VM) { x.Tools = true })
			m := &o.State.VMs[1]
			m.Power, m.Marked, m.MarkReason, m.CPU, m.BootTime = plan.PoweredOff, true, plan.MarkReasonPowerCycle, 1, time.Time{}
		}, []plan.Op{plan.Mark, plan.ShutdownGuest, plan.Quarantine}},
	} {
		t.Run(name, func(t *testing.T) {
			o := atWork(2)
			o.State.VMs[1].Created = o.Now.Add(-time.Minute)
			c.prepare(&o)
			var done []plan.Op
			for range 8 {
				r := planner.Make(o)
				for _, a := range r.Actions {
					switch {
					case a.MoRef != "vm-back":
						continue
					case (a.Op == plan.PowerOff || a.Op == plan.ShutdownGuest || a.Op == plan.Quarantine) && !a.Marked && a.Op != plan.ShutdownGuest:
						t.Errorf("%s without a mark", a.Op)
					}
					done = append(done, a.Op)
					plan.Apply(&o, a)
					o.Pending = nil
				}
				if i := slices.IndexFunc(r.Status.Members, func(m v1alpha1.Member) bool { return m.MoRef == "vm-101" }); name[:2] == "it" && !r.Status.Members[i].Ready {
					t.Fatalf("the replacement does not serve: %+v", r.Status.Members)
				}
				o.Now = o.Now.Add(time.Hour)
			}
			if !slices.Equal(done, c.want) {
				t.Errorf("%v, want %v", done, c.want)
			}
			o.Group.Status = planner.Make(o).Status
			s := o.Group.Status
			if len(s.Quarantined) != 1 || s.Quarantined[0].MoRef != "vm-back" || s.Quarantined[0].Reason != "Duplicate" || !strings.Contains(s.LastMessage, "web-1 (1) (vm-back; stamp of web-1); each that has ever run is powered off and kept: delete it in vCenter") ||
				!meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionDuplicateMember) {
				t.Errorf("the status doesn't report vm-back as a duplicate in quarantine: %+v", s)
			}
			for _, a := range planner.Make(o).Actions {
				if a.MoRef == "vm-back" {
					t.Errorf("%s of the one that is kept", a.Op)
				}
			}
		})
	}
}

// When its group is deleted, a duplicate in quarantine is destroyed or released, as members are.
func TestAKeptDuplicateIsDestroyedOrRetainedWithItsGroup(t *testing.T) {
	for policy, want := range map[v1alpha1.DeletionPolicy]plan.Op{v1alpha1.DeletionDelete: plan.Destroy, v1alpha1.DeletionRetain: plan.Release} {
		o := atWork(1)
		o.Group.Spec.Deletion.Policy = policy
		another(&o, 0, func(x *plan.VM) {
			x.Marked, x.MarkReason, x.Power, x.Quarantined = true, plan.MarkReasonDuplicate, plan.PoweredOff, now
		})
		remove(&o)
		var done []plan.Op
		for range 5 {
			for _, a := range planner.Make(o).Actions {
				if a.MoRef == "vm-back" {
					done = append(done, a.Op)
				}
				plan.Apply(&o, a)
			}
			o.Now = o.Now.Add(time.Hour)
		}
		if !slices.Equal(done, []plan.Op{want}) {
			t.Errorf("%s: %v", policy, done)
		}
	}
}

// Each place in the order of comparePlace decides before the next ones do.
func TestWhichOfTwoVMsIsTheMember(t *testing.T) {
	disks := plan.DiskText([]plan.MemberDisk{{Name: "data", SizeGiB: 1, ID: "disk-1"}})
	off := func(x *plan.VM) { x.Power, x.BootTime = plan.PoweredOff, time.Time{} }
	for name, c := range map[string]struct{ old, young func(*plan.VM) }{
		"the young one is off":                           {func(*plan.VM) {}, off},
		"the young one runs, and cannot be reached":      {func(*plan.VM) {}, func(x *plan.VM) { x.Reachable = false }},
		"the old one cannot be reached, and runs":        {func(x *plan.VM) { x.Reachable = false }, off},
		"both are off, and the old one has the disks":    {func(x *plan.VM) { off(x); x.Disks = disks }, off},
		"both are off, and the young one is standing by": {off, func(x *plan.VM) { off(x); x.Standby = true }},
	} {
		o := atWork(2)
		o.Group.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
		o.State.VMs[1].Created = o.Now.Add(-time.Hour)
		c.old(&o.State.VMs[1])
		another(&o, 1, func(x *plan.VM) { x.Created = o.Now.Add(-time.Minute); c.young(x) })
		for i := range planner.Make(o).Status.Members {
			if m := planner.Make(o).Status.Members[i]; m.Ordinal == 1 && (m.Reason == plan.ReasonDuplicateMember) != (m.MoRef == "vm-back") {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
	for _, change := range []func(*plan.VM){func(*plan.VM) {}, off} {
		o := atWork(2)
		o.State.VMs[1].Created = o.Now.Add(-time.Hour)
		change(&o.State.VMs[1])
		another(&o, 1, func(x *plan.VM) { x.Created = o.Now.Add(-time.Minute); change(x) })
		for _, m := range planner.Make(o).Status.Members {
			if m.Ordinal == 1 && (m.Reason == plan.ReasonDuplicateMember) != (m.MoRef == "vm-101") {
				t.Errorf("both %s: %+v", o.State.VMs[1].Power, m)
			}
		}
	}
}

// The server doesn't destroy a duplicate that has the ordinal's persistent disks: it would detach them while another replica, which sees only
// that VM, powers it on (test/world, seed 1100016589).
func TestADuplicateWithPersistentDisksIsNotRemoved(t *testing.T) {
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

// A duplicate whose guest runs may serve clients that know its address, although it has no endpoint. While fewer members serve than are
// promised, and the member of its ordinal isn't ready, the duplicate isn't shut down. (Found by the model in test/world, seed 1200000280.)
func TestADuplicateThatServesWaitsForTheMemberOfItsOrdinal(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *plan.Observed, member *plan.VM)
		goes   bool
	}{
		"the member boots":                      {func(*plan.Observed, *plan.VM) {}, false},
		"the member serves":                     {func(_ *plan.Observed, m *plan.VM) { m.Tools = true }, true},
		"the member boots, and one can be down": {func(o *plan.Observed, _ *plan.VM) { o.Group.Spec.Update.MaxUnavailable = of(1) }, true},
		"the duplicate's guest is silent":       {func(o *plan.Observed, _ *plan.VM) { o.State.VMs[2].Tools = false }, true},
		"the duplicate's guest halts": {func(o *plan.Observed, _ *plan.VM) {
			o.State.VMs[2].Shutdown = plan.Moment{At: o.Now.Add(-30 * time.Second), Boot: o.State.VMs[2].BootTime}
		}, true},
		"the member is off, and waits for the duplicate": {func(_ *plan.Observed, m *plan.VM) {
			m.Power, m.Marked, m.MarkReason, m.CPU, m.BootTime = plan.PoweredOff, true, plan.MarkReasonPowerCycle, 1, time.Time{}
		}, true},
	} {
		o := atWork(2)
		o.Group.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
		o.Group.Spec.Deletion.ShutdownTimeoutSeconds = new(int32)
		o.State.VMs[0].Tools, o.State.VMs[1].Created = true, o.Now.Add(-time.Minute)
		another(&o, 1, func(x *plan.VM) {
			x.Tools, x.Marked, x.MarkReason, x.BootTime = true, true, plan.MarkReasonDuplicate, o.Now.Add(-time.Hour)
		})
		c.change(&o, &o.State.VMs[1])
		r := planner.Make(o)
		if goes := slices.ContainsFunc(r.Actions, func(a plan.Action) bool { return a.MoRef == "vm-back" && a.Op.TakesDown() }); goes != c.goes {
			t.Errorf("%s: it goes: %v, want %v; %+v", name, goes, c.goes, r.Actions)
		}
		for _, v := range r.Verdicts {
			if v.MoRef == "vm-back" && !c.goes && v.WaitsFor != "other members to be available" {
				t.Errorf("%s: it waits for %q", name, v.WaitsFor)
			}
		}
	}
}

// A member that boots isn't powered off for its new size while the duplicate of its ordinal serves: the server would remove the duplicate at
// once, and then neither would serve. (Found by the model in test/world, seed 41024983.)
func TestAMemberIsNotPowerCycledWhileAnotherVMHasItsOrdinal(t *testing.T) {
	for contested, want := range map[bool]bool{true: false, false: true} {
		o := atWork(2)
		o.Group.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
		o.State.VMs[0].Tools, o.State.VMs[1].CPU, o.State.VMs[1].Created = true, 1, o.Now.Add(-time.Minute)
		if contested {
			another(&o, 1, func(x *plan.VM) {
				x.Tools, x.Marked, x.MarkReason, x.BootTime = true, true, plan.MarkReasonDuplicate, o.Now.Add(-time.Hour)
			})
		}
		r := planner.Make(o)
		if cycles := slices.ContainsFunc(r.Actions, func(a plan.Action) bool {
			return a.MoRef == o.State.VMs[1].MoRef && marks(a, plan.MarkReasonPowerCycle)
		}); cycles != want {
			t.Errorf("contested: %v, it is power-cycled: %v; %+v", contested, cycles, r.Actions)
		}
	}
}
