package planner_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// later stores the status of the last plan, and makes a plan at that time.
func later(o *plan.Observed, after time.Duration) plan.Result {
	o.Now = o.Now.Add(after)
	r := planner.Make(*o)
	o.Group = o.Group.DeepCopy()
	o.Group.Status = r.Status
	return r
}

func condition(t *testing.T, r *plan.Result, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(r.Status.Conditions, kind)
	if c == nil {
		t.Fatalf("there is no %s: %+v", kind, r.Status.Conditions)
	}
	return *c
}

var (
	cutOff  = plan.VCenterState{Fault: &plan.Fault{Reason: "VCenterUnreachable", Message: "vCenter cannot be reached"}}
	refused = plan.VCenterState{Fault: &plan.Fault{Reason: "InvalidLogin", NeedsOperator: true, Message: "vCenter refuses the account"}}
)

func TestASpecIsInvalidWithoutVCenter(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]plan.VCenterState{"cut off": cutOff, "refused": refused, "being read": {}} {
		o := observed(2)
		o.State.VMs = []plan.VM{vm(&o, 0), vm(&o, 1)}
		later(&o, 0)
		o.State = outage
		o.Group.Generation++
		o.Group.Spec.CPU = -1
		r := later(&o, time.Minute)
		if r.Status.Phase != v1alpha1.PhaseError || len(r.Actions) > 0 || r.Status.ReadyReplicas != 2 || len(r.Status.Members) != 2 || !strings.Contains(r.Status.LastMessage, "spec.cpu") {
			t.Errorf("%s: %s, %d ready, actions %v: %s", name, r.Status.Phase, r.Status.ReadyReplicas, r.Actions, r.Status.LastMessage)
		}
		for _, kind := range []string{v1alpha1.ConditionSpecInvalid, v1alpha1.ConditionStalled} {
			if c := condition(t, &r, kind); c.Status != metav1.ConditionTrue || c.Reason != plan.ReasonInvalidSpec {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if c := condition(t, &r, v1alpha1.ConditionVCenterReachable); c.Status != metav1.ConditionFalse || c.Reason == plan.ReasonInvalidSpec {
			t.Errorf("%s: %+v", name, c)
		}
		o.Group.Generation++
		o.Group.Spec.CPU = 1
		if r = later(&o, time.Minute); r.Status.Phase == v1alpha1.PhaseError || meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionSpecInvalid) {
			t.Errorf("%s, and the spec is correct again: %s %s", name, r.Status.Phase, r.Status.LastMessage)
		}
	}
}

// stalled is a group of two that has waited for an operator since began: its second member can't be cloned.
func stalled(t *testing.T) (o plan.Observed, began metav1.Time) {
	t.Helper()
	o = observed(2)
	o.State.VMs, o.State.Folder, o.OwnFolders = []plan.VM{vm(&o, 0)}, "group-v7", []string{"group-v7"}
	o.Pending = map[string]plan.Pending{"web-1": {Op: plan.Clone, Ordinal: 1, State: plan.BackingOff, Fault: plan.Fault{Reason: "TemplateNotFound", NeedsOperator: true, Message: "template \"nope\" not found"}}}
	r := later(&o, 0)
	began = condition(t, &r, v1alpha1.ConditionStalled).LastTransitionTime
	if r.Status.Phase != v1alpha1.PhaseError {
		t.Fatalf("%s: %s", r.Status.Phase, r.Status.LastMessage)
	}
	return o, began
}

func TestWhatWasWrongBeforeAnOutageStaysAsLastKnown(t *testing.T) {
	t.Parallel()
	o, began := stalled(t)
	known := o.State
	check := func(r plan.Result, said string) {
		t.Helper()
		if r.Status.Phase != v1alpha1.PhaseError || len(r.Actions)+len(r.Events) > 0 || !strings.HasPrefix(r.Status.LastMessage, said+"web-1: template \"nope\" not found") {
			t.Errorf("%s, actions %v, Events %v: %s", r.Status.Phase, r.Actions, r.Events, r.Status.LastMessage)
		}
		for kind, want := range map[string]metav1.ConditionStatus{v1alpha1.ConditionReady: metav1.ConditionFalse, v1alpha1.ConditionStalled: metav1.ConditionTrue, v1alpha1.ConditionCloneBlocked: metav1.ConditionTrue} {
			if c := condition(t, &r, kind); c.Status != want || c.Reason != "TemplateNotFound" || !c.LastTransitionTime.Equal(&began) || kind != v1alpha1.ConditionReady && !strings.HasPrefix(c.Message, said+"web-1") {
				t.Errorf("%s is %+v, not %s since %s for TemplateNotFound", kind, c, want, began)
			}
		}
	}
	for _, o.State = range []plan.VCenterState{cutOff, cutOff, refused, cutOff, {}} {
		r := later(&o, 10*time.Minute)
		check(r, "as last known: ")
		if c := condition(t, &r, v1alpha1.ConditionVCenterReachable); c.Status != metav1.ConditionFalse || c.Reason == "TemplateNotFound" {
			t.Errorf("VCenterReachable is %+v, not False for a reason of vCenter's", c)
		}
		if again := later(&o, time.Minute); asJSON(t, again.Status) != asJSON(t, r.Status) {
			t.Errorf("equal facts give another status: %s", difference(asJSON(t, r.Status), asJSON(t, again.Status)))
		}
	}
	o.State = known
	check(later(&o, time.Minute), "")
}

// A deletion that waited for an operator before the outage does so after it; its alert doesn't begin anew.
func TestADeletionThatWaitsForAnOperatorDoesSoDuringAnOutageToo(t *testing.T) {
	t.Parallel()
	o := observed(2)
	o.State.VMs, o.State.Folder, o.OwnFolders = []plan.VM{vm(&o, 0), vm(&o, 1)}, "group-v7", []string{"group-v7"}
	later(&o, 0)
	o.Finalizing, o.FinalizingSince = true, now
	o.Group.DeletionTimestamp = &metav1.Time{Time: now}
	o.Group.Generation++
	o.State.VMs[1].Question = "Did you move it, or did you copy it? (1: Cancel, 2: I moved it)"
	r := later(&o, time.Minute)
	began := condition(t, &r, v1alpha1.ConditionStalled).LastTransitionTime
	known := o.State
	for name, outage := range map[string]plan.VCenterState{"cut off": cutOff, "refused": refused, "being read": {}} {
		o.State = outage
		r = later(&o, 10*time.Minute)
		if c := condition(t, &r, v1alpha1.ConditionStalled); r.Status.Phase != v1alpha1.PhaseError || c.Reason != plan.ReasonQuestionPending || !c.LastTransitionTime.Equal(&began) ||
			!strings.HasPrefix(r.Status.LastMessage, "as last known: ") || !strings.Contains(r.Status.LastMessage, "did you copy it") || !strings.Contains(r.Status.LastMessage, "; the deletion waits for vCenter: ") {
			t.Errorf("%s: %s since %s (not %s): %s", name, r.Status.Phase, c.LastTransitionTime, began, r.Status.LastMessage)
		}
		if len(r.Events) > 0 {
			t.Errorf("%s: Events %v", name, r.Events)
		}
	}
	o.State = known
	if r = later(&o, time.Minute); condition(t, &r, v1alpha1.ConditionStalled).LastTransitionTime != began {
		t.Errorf("after the outage: %+v", r.Status.Conditions)
	}
	o.State = cutOff
	o.Group.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
	if r = later(&o, time.Minute); r.Status.Phase == v1alpha1.PhaseError || !r.Finalized {
		t.Errorf("abandoned: %s, finalized %t: %s", r.Status.Phase, r.Finalized, r.Status.LastMessage)
	}
}

func TestAnEditDuringAnOutageEndsWhatWasLastKnown(t *testing.T) {
	t.Parallel()
	o, _ := stalled(t)
	o.State = cutOff
	o.Group.Generation++
	r := later(&o, time.Minute)
	if r.Status.Phase != v1alpha1.PhasePending || statusOf(&r.Status, v1alpha1.ConditionStalled) != "" || statusOf(&r.Status, v1alpha1.ConditionReady) != metav1.ConditionUnknown ||
		statusOf(&r.Status, v1alpha1.ConditionCloneBlocked) != metav1.ConditionUnknown {
		t.Errorf("%s: %+v", r.Status.Phase, r.Status.Conditions)
	}
}

// A wrong password of the server is nothing that a group's owner can correct, or has to read about. It stalls no group, and no Event tells of it.
func TestAnOutageThatOnlyTheServersOperatorCanEndStallsNoGroup(t *testing.T) {
	t.Parallel()
	o := observed(1)
	o.State.VMs = []plan.VM{vm(&o, 0)}
	later(&o, 0)
	o.State = refused
	r := later(&o, time.Minute)
	if c := condition(t, &r, v1alpha1.ConditionVCenterReachable); r.Status.Phase != v1alpha1.PhasePending || statusOf(&r.Status, v1alpha1.ConditionStalled) != "" || len(r.Events) > 0 ||
		c.Reason != "InvalidLogin" || condition(t, &r, v1alpha1.ConditionReady).Reason != "InvalidLogin" {
		t.Errorf("%s, Events %v: %+v", r.Status.Phase, r.Events, r.Status.Conditions)
	}
	if text := asJSON(t, r.Status); strings.Contains(text, "refuses the account") || !strings.Contains(r.Status.LastMessage, "the people who run the server have to correct that") {
		t.Error(text)
	}
	o.State = cutOff
	if r = later(&o, time.Minute); r.Status.Phase != v1alpha1.PhasePending || strings.Contains(r.Status.LastMessage, "people") {
		t.Errorf("%s: %s", r.Status.Phase, r.Status.LastMessage)
	}
}

func TestAMissingMemberSaysThatItsVMIsAsLastKnown(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"its host was removed", ""} {
		o := observed(1)
		o.State.VMs = []plan.VM{vm(&o, 0)}
		later(&o, 0)
		gone := o.State.VMs[0]
		o.State.VMs = nil
		if how != "" {
			o.State.Vanished = []plan.Vanished{{Name: gone.Name, Ordinal: 0, MoRef: gone.MoRef, InstanceUUID: gone.InstanceUUID, How: how}}
		}
		r := later(&o, time.Minute)
		m := r.Status.Members[0]
		if m.PowerState != "poweredOn" || !strings.HasSuffix(m.Message, "; powerState, ips and host are as last known") || m.LastTransitionTime.IsZero() {
			t.Errorf("the member is not shown as last known: %+v", m)
		}
		if again := later(&o, time.Minute); asJSON(t, again.Status) != asJSON(t, r.Status) || strings.Contains(r.Status.LastMessage, "as last known") {
			t.Errorf("%s: %s", r.Status.LastMessage, difference(asJSON(t, r.Status), asJSON(t, again.Status)))
		}
		o.State.VMs, o.State.Vanished = []plan.VM{gone}, nil
		if r = later(&o, time.Minute); strings.Contains(r.Status.Members[0].Message, "as last known") {
			t.Errorf("it is back: %+v", r.Status.Members[0])
		}
	}
}

// A figure that is added to the status, too.
func TestTheStatusKeepsAllFiguresWhileVCenterIsUnknown(t *testing.T) {
	t.Parallel()
	ofSpec := []string{"ObservedGeneration", "DesiredReplicas", "Selector", "Phase", "LastMessage", "Summary", "Conditions", "Orphaned", "FinalizingSince"}
	o := observed(3)
	o.State = plan.VCenterState{Known: false}
	was := reflect.ValueOf(&o.Group.Status).Elem()
	filled(was)
	r := planner.Make(o)
	for i := range was.NumField() {
		name := was.Type().Field(i).Name
		kept := reflect.DeepEqual(reflect.ValueOf(r.Status).Field(i).Interface(), was.Field(i).Interface())
		if of := slices.Contains(ofSpec, name); kept == of || was.Field(i).IsZero() {
			t.Errorf("%s is %+v, and was %+v; want it kept: %t", name, reflect.ValueOf(r.Status).Field(i), was.Field(i), !of)
		}
	}
}

// filled sets each field to a value that is not zero.
func filled(x reflect.Value) {
	switch {
	case x.Type() == reflect.TypeFor[metav1.Time]():
		x.Set(reflect.ValueOf(metav1.NewTime(now.Add(-time.Hour))))
	case x.Kind() == reflect.String:
		x.SetString("before")
	case x.Kind() == reflect.Bool:
		x.SetBool(true)
	case x.CanInt():
		x.SetInt(77)
	case x.Kind() == reflect.Pointer:
		x.Set(reflect.New(x.Type().Elem()))
		filled(x.Elem())
	case x.Kind() == reflect.Slice:
		x.Set(reflect.MakeSlice(x.Type(), 1, 1))
		filled(x.Index(0))
	case x.Kind() == reflect.Struct:
		for i := range x.NumField() {
			filled(x.Field(i))
		}
	}
}

// A field that nothing sets, or that no story shows, can be forgotten by the next change.
func TestEachFieldOfTheStatusIsSetInAStory(t *testing.T) {
	t.Parallel()
	elsewhere := []string{"status.Members.Replace", "status.Orphaned", "status.Standby.Host", "status.Standby.VMName", "status.Trial.Replaced",
		"status.GivenUp.VMPathName", "status.Members.VMPathName", "status.Quarantined.VMPathName", "status.Standby.InstanceUUID", "status.Standby.VMPathName", "status.Strays.InstanceUUID", "status.Strays.Message", "status.Strays.MoRef", "status.Strays.Name", "status.Strays.Ordinal", "status.Strays.Template",
		"status.Names.Field", "status.Names.Name", "status.Names.Zone", "status.Names.Object", "status.Names.Ignored.Object", "status.Names.Ignored.Path"}
	left := map[string]bool{}
	statusFields(reflect.TypeFor[v1alpha1.VmGroupStatus](), "status", func(path string) { left[path] = true })
	everyResult(func(_ string, r *plan.Result) {
		setFields(reflect.ValueOf(r.Status), "status", func(path string) { delete(left, path) })
	})
	for _, path := range elsewhere {
		if !left[path] {
			t.Errorf("a story has %s, or there is no such field: remove it from elsewhere", path)
		}
		delete(left, path)
	}
	for _, path := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("no story has %s: set it in observedStatus, and show it in a story (or add it to elsewhere, if another test does)", path)
	}
}

// statusFields finds the paths of the fields of a type of the API.
func statusFields(of reflect.Type, path string, found func(string)) {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[v1alpha1.VmGroupStatus]().PkgPath() {
		found(path)
		return
	}
	for i := range of.NumField() {
		statusFields(of.Field(i).Type, path+"."+of.Field(i).Name, found)
	}
}

// setFields finds the paths of the fields that are not zero.
func setFields(x reflect.Value, path string, found func(string)) {
	switch {
	case x.IsZero():
	case x.Kind() == reflect.Slice && x.Type().Elem().PkgPath() == reflect.TypeFor[v1alpha1.VmGroupStatus]().PkgPath():
		for i := range x.Len() {
			setFields(x.Index(i), path, found)
		}
	case x.Kind() == reflect.Pointer:
		setFields(x.Elem(), path, found)
	case x.Kind() == reflect.Struct && x.Type().PkgPath() == reflect.TypeFor[v1alpha1.VmGroupStatus]().PkgPath():
		for i := range x.NumField() {
			setFields(x.Field(i), path+"."+x.Type().Field(i).Name, found)
		}
	default:
		found(path)
	}
}
