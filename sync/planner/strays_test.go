package planner_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestStrays(t *testing.T) {
	t.Run("have no step", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		for _, a := range planner.Make(o).Actions {
			if slices.ContainsFunc(o.State.Strays, func(x plan.Stray) bool { return x.MoRef == a.MoRef }) {
				t.Fatalf("%s %s is for the stray %s", a.Op, a.Key, a.MoRef)
			}
		}
	}))
	t.Run("keep their ordinals from being cloned while they hold them", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		for _, a := range planner.Make(o).Actions {
			if a.Op == plan.Clone && slices.ContainsFunc(o.State.Strays, func(x plan.Stray) bool { return x.Holds && x.Ordinal == a.Ordinal }) {
				t.Fatalf("%s is cloned, and a stray holds the ordinal", a.Key)
			}
		}
	}))
	t.Run("that hold no ordinal change nothing but their list", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		for i := range o.State.Strays {
			o.State.Strays[i].Holds, o.State.Strays[i].IsTemplate = false, false
		}
		changeNothing(t, o)
	}))
	t.Run("that are decided change nothing of a deletion but their list", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		remove(&o)
		for i := range o.State.Strays {
			o.State.Strays[i].Pending, o.State.Strays[i].IsTemplate = false, false
		}
		changeNothing(t, o)
	}))
}

// changeNothing compares the plan of an observation with that of the same one without strays.
func changeNothing(t *rapid.T, o plan.Observed) {
	without := o
	without.State.Strays = nil
	got, want := withoutStrays(planner.Make(o)), withoutStrays(planner.Make(without))
	if got != want {
		t.Fatalf("with the strays %+v the plan is\n%s\nnot\n%s", o.State.Strays, got, want)
	}
}

// withoutStrays returns a result as text, without what it says of strays.
func withoutStrays(r plan.Result) string {
	r.Status.Strays = nil
	meta.RemoveStatusCondition(&r.Status.Conditions, v1alpha1.ConditionStrayVMs)
	r.Events = slices.DeleteFunc(r.Events, func(e plan.Event) bool { return e.Reason == plan.ReasonStrayVM })
	text, err := json.MarshalIndent([]any{r.Status, r.Actions, r.Finalized, r.Wake}, "", " ")
	if err != nil {
		panic(err)
	}
	return string(text)
}

func addStray(o *plan.Observed, ordinal int32, change func(*plan.Stray)) {
	x := plan.Stray{VM: vm(o, ordinal), Why: "it was created by backup", Path: "/DC0/vm/restores/web"}
	x.MoRef = fmt.Sprintf("vm-%d", 700+ordinal)
	change(&x)
	o.State.Strays = append(o.State.Strays, x)
}

func TestWhatTheStatusSaysOfStrays(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*plan.Stray)
		phase   v1alpha1.Phase
		message string
		listed  bool
		clones  int
	}{
		"of no consequence": {func(*plan.Stray) {}, v1alpha1.PhasePending, "cloning 1 member", true, 1},
		"that holds its ordinal, so the member gets another": {func(x *plan.Stray) { x.Holds = true }, v1alpha1.PhasePending, "cloning 1 member", true, 1},
		"that isn't decided": {func(x *plan.Stray) { x.Holds, x.Pending = true, true }, v1alpha1.PhasePending, "finding out whether the VM vm-701 is the group's", false, 0},
		"that was a member, and is a template": {func(x *plan.Stray) { x.Holds, x.IsTemplate, x.Why = true, true, "it was converted to a template" }, v1alpha1.PhasePending,
			"/DC0/vm/restores/web (vm-701) was web-1, is a template now, and is kept", true, 1},
	} {
		o := observed(2)
		addMembers(&o, 1)
		addStray(&o, 1, c.change)
		r := planner.Make(o)
		condition := meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionStrayVMs)
		clones := 0
		for _, a := range r.Actions {
			clones += isOne(a.Op == plan.Clone)
		}
		if r.Status.Phase != c.phase || !strings.Contains(r.Status.LastMessage, c.message) || condition != c.listed || (len(r.Status.Strays) == 1) != c.listed || clones != c.clones {
			t.Errorf("%s: got %s, %q, %+v, listed %t, %d clones; want %s, %q, listed %t, %d clones",
				name, r.Status.Phase, r.Status.LastMessage, r.Status.Strays, condition, clones, c.phase, c.message, c.listed, c.clones)
		}
	}
}

// A group with persistent disks has no other ordinals, so it waits for an operator.
func TestAStrayThatHoldsTheOrdinalOfDisksNeedsAnOperator(t *testing.T) {
	o := observed(2)
	o.Group.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
	addMembers(&o, 1)
	addStray(&o, 1, func(x *plan.Stray) { x.Holds = true })
	r := planner.Make(o)
	const want = "web-1: it is not cloned, because the VM /DC0/vm/restores/web (vm-701) has its stamp, and it was created by backup: if it is to be a member, add vm-701 to spec.adopt"
	if r.Status.Phase != v1alpha1.PhaseError || !strings.Contains(r.Status.LastMessage, want) {
		t.Errorf("got %s, %q; want %s, %q", r.Status.Phase, r.Status.LastMessage, v1alpha1.PhaseError, want)
	}
}

// The status keeps what it said of a stray, because vCenter's events end: too many others must not push it out.
// A member that is one too many, and whose ordinal a stray holds, was marked and unmarked in turns while no window was open: an update that can't fill its
// ordinal kept it.
func TestAMemberThatIsOneTooManyGoesAlthoughAStrayHoldsItsOrdinal(t *testing.T) {
	t.Parallel()
	o := observed(4)
	o.Group.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
	o.Group.Spec.Update.Windows = []v1alpha1.Window{{Start: "20:00", DurationSeconds: 3600}}
	o.State.Folder = "group-v7"
	for _, ordinal := range []int32{0, 1, 2, 6} {
		o.State.VMs = append(o.State.VMs, vm(&o, ordinal))
	}
	o.State.VMs[3].Revision = "0123456789"
	identify(&o)
	o.Group.Status = planner.Make(o).Status
	stray := vm(&o, 6)
	stray.MoRef, stray.IsTemplate = "vm-3060", true
	o.State.Strays = []plan.Stray{{VM: stray, Holds: true, Why: "it was converted to a template"}}
	var last *plan.Action
	for _, s := range planner.Forecast(o).Steps {
		if s.Action.Key == "web-6" {
			last = &s.Action
		}
		if s.Action.Op == plan.Unmark {
			t.Fatalf("%s: %s", s.Action.Key, s.Action.Reason)
		}
	}
	if last == nil || last.Op != plan.Destroy && last.Op != plan.Quarantine {
		t.Errorf("the last step of web-6 is %+v; want it removed", last)
	}
}

func TestStraysThatTheStatusListsStayListed(t *testing.T) {
	o := observed(1)
	addMembers(&o, 1)
	for n := range int32(v1alpha1.MaxStrays + 20) {
		addStray(&o, 1, func(x *plan.Stray) { x.MoRef = fmt.Sprintf("vm-%d", 700+n) })
	}
	last := o.State.Strays[len(o.State.Strays)-1]
	o.Group.Status.Strays = []v1alpha1.Stray{{Name: "web-1", Ordinal: 1, MoRef: last.MoRef, InstanceUUID: last.InstanceUUID}}
	listed := planner.Make(o).Status.Strays
	if len(listed) != v1alpha1.MaxStrays || !slices.ContainsFunc(listed, func(s v1alpha1.Stray) bool { return s.MoRef == last.MoRef }) {
		t.Errorf("got %d strays; want %d, and %s among them", len(listed), v1alpha1.MaxStrays, last.MoRef)
	}
}

// An entry of spec.adopt makes a stray that holds its ordinal the member of that ordinal.
func TestAnEntryOfAdoptMakesAStrayTheMember(t *testing.T) {
	o := observed(2)
	addMembers(&o, 1)
	addStray(&o, 1, func(x *plan.Stray) { x.Holds = true })
	o.Group.Spec.Adopt = []string{"vm-701"}
	o.State.Candidates = []plan.Candidate{{Entry: "vm-701", MoRef: "vm-701", Name: "web-1", ChangeVersion: "1", Ordinal: 1}}
	actions := planner.Make(o).Actions
	if len(actions) != 1 || actions[0].Op != plan.Adopt || actions[0].Ordinal != 1 || actions[0].MoRef != "vm-701" {
		t.Errorf("got the actions %+v; want the adoption of vm-701 as web-1", actions)
	}
}
