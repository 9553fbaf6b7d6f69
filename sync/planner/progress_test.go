package planner_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// inProgress draws a group whose members are in the states that steps leave behind, while no step runs or has failed.
func inProgress(t *rapid.T) plan.Observed {
	o := observed(rapid.Int32Range(0, 4).Draw(t, "replicas"))
	policies(t, &o.Group.Spec)
	o.Group.Spec.Readiness = v1alpha1.Readiness{}
	o.State.Template.Fingerprint = "now"
	o.State.Folder, o.State.Quarantine = "group-v7", "group-v8"
	o.Group.Status.VCenterUUID = vcenter
	for ordinal := range rapid.Int32Range(0, 6).Draw(t, "VMs") {
		m := vm(&o, ordinal)
		m.Folder, m.Fingerprint, m.Tools, m.IPs, m.BootTime = o.State.Folder, "now", true, []string{fmt.Sprintf("10.0.0.%d", ordinal+1)}, now.Add(-1000e9)
		m.Created, m.InstanceUUID = m.BootTime, "id-of-"+m.MoRef
		record := v1alpha1.Member{Name: m.Name, Ordinal: ordinal, MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, Ready: true}
		record.LastTransitionTime.Time = m.BootTime
		if rapid.Bool().Draw(t, "of an older spec") {
			m.Revision, m.Generation = "0123456789", m.Generation-1
		}
		switch rapid.IntRange(0, 3).Draw(t, "power") {
		case 0:
			m.Prepared = plan.Unprepared + m.Prepared
			fallthrough
		case 1:
			m.Power, m.Tools, m.IPs, m.BootTime, record.Ready = plan.PoweredOff, false, nil, m.BootTime.Add(-m.BootTime.Sub(m.BootTime)), false
		}
		if rapid.IntRange(0, 3).Draw(t, "marked") == 0 {
			m.Marked, m.MarkedAt = true, now.Add(-60e9)
			m.MarkReason = rapid.SampledFrom([]plan.MarkReason{plan.MarkReasonScaleIn, plan.MarkReasonUpdate, plan.MarkReasonHealing, plan.MarkReasonReplace, plan.MarkReasonPowerCycle}).Draw(t, "why")
		}
		if rapid.IntRange(0, 2).Draw(t, "came back") == 0 { // with another moRef
			record.MoRef = "was-" + m.MoRef
		}
		if rapid.IntRange(0, 4).Draw(t, "recorded") > 0 {
			o.Group.Status.Members = append(o.Group.Status.Members, record)
		}
		o.State.VMs = append(o.State.VMs, m)
	}
	return o
}

// waits matches the words in which a status says what a group waits for.
var waits = regexp.MustCompile(`wait|until|not ready|held|keeping`)

// What waits without saying for what waits forever, and nobody knows why.
func TestAGroupThatIsNotAsItsSpecSaysHasAStepOrSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := inProgress(t)
		r := planner.Make(o)
		if r.Status.Phase == v1alpha1.PhasePending && len(r.Actions) == 0 && r.Wake == 0 && !waits.MatchString(r.Status.LastMessage) {
			for _, m := range o.State.VMs {
				t.Logf("%s (%s): %s, prepared %q, revision %s, marked for %q", m.Name, m.MoRef, m.Power, m.Prepared, m.Revision, m.MarkReason)
			}
			for _, v := range r.Verdicts {
				t.Logf("%+v", v)
			}
			t.Fatalf("of %d: %s", o.Group.Replicas(), r.Status.LastMessage)
		}
	})
}

// Found by TestChaos, seed 910591: vCenter was restored from a backup in the middle of an update, and all members had other moRefs, so each counted as
// one that came back while there were too many. None was nominated then, and the update kept an extra member for those that could never run.
func TestMembersThatCameBackAndNeverRanAreReplaced(t *testing.T) {
	t.Parallel()
	o := observed(3)
	addMembers(&o, 4, func(m *plan.VM) {
		m.Tools, m.IPs = true, []string{"192.0.2.1"}
		if m.Ordinal < 3 {
			m.Revision, m.Generation, m.Prepared, m.Power, m.Tools, m.IPs = "0123456789", m.Generation-1, plan.Unprepared, plan.PoweredOff, false, nil
		}
	})
	identify(&o)
	o.Group.Status = planner.Make(o).Status
	for i := range o.State.VMs {
		o.State.VMs[i].MoRef += "1"
	}
	for range 20 {
		r := planner.Make(o)
		store(t, &o, &r)
		if len(r.Actions) == 0 && r.Status.Phase != v1alpha1.PhaseRunning {
			t.Fatalf("nothing is done: %s", r.Status.LastMessage)
		}
		for _, a := range r.Actions {
			plan.Apply(&o, a)
		}
		o.Now = o.Now.Add(time.Minute)
		o.Called = o.Now
	}
	if r := planner.Make(o); r.Status.Phase != v1alpha1.PhaseRunning || r.Status.UpdatedReplicas != 3 || r.Status.CurrentReplicas != 3 {
		t.Errorf("%+v", r.Status)
	}
}
