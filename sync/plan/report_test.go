package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

func TestASpecIsReportedInShort(t *testing.T) {
	n, one := intstr.FromInt32(0), intstr.FromInt32(1)
	g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{Template: "ubuntu-24.04", CPU: 2, Memory: 4,
		Update: v1alpha1.Update{MaxUnavailable: &n, Canary: &one, Paused: true, Windows: make([]v1alpha1.Window, 2)}, Deletion: v1alpha1.Deletion{QuarantineSeconds: 60}}}
	want := SpecReport{Template: "ubuntu-24.04", CPU: 2, MemoryMB: 4096, Strategy: "RollingUpdate, maxSurge 25%, maxUnavailable 0, canary 1, paused, 2 windows", QuarantineSeconds: 60}
	if got := *ReportSpec(g); got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
	g.Spec.Update = v1alpha1.Update{Strategy: v1alpha1.UpdateOnDelete}
	if got := ReportSpec(g).Strategy; got != "OnDelete" {
		t.Errorf("got the strategy %q; want OnDelete", got)
	}
}

func TestTheTemplatesThatMembersWereClonedFromAreKnown(t *testing.T) {
	spec := v1alpha1.VmGroupSpec{Template: "b"}
	o := Observed{Group: &v1alpha1.VmGroup{Spec: spec}}
	for ordinal, template := range []string{"c", "a", "b", "", "a"} {
		Apply(&o, Action{Op: Clone, Key: MemberName("web", int32(ordinal)), Ordinal: int32(ordinal), Args: CloneArgs{Details: &Details{Spec: &v1alpha1.VmGroupSpec{Template: template}}}})
	}
	Apply(&o, Action{Op: Clone, Key: "web-8", Ordinal: 8, Args: CloneArgs{Standby: true, Details: &Details{Spec: &v1alpha1.VmGroupSpec{Template: "standby"}}}})
	if got := o.FormerTemplates(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("got the former templates %q; want a and c", got)
	}
}

func TestAPhaseHasATimeSinceWhenItIsSo(t *testing.T) {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 11, 22, 9, minute, 0, 0, time.UTC))
	}
	status := &v1alpha1.VmGroupStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: at(1)},
		{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, LastTransitionTime: at(2)}}}
	if got := PhaseSince(status); !got.Equal(at(2).Time) {
		t.Errorf("the phase has been so since %s; want since Stalled, %s", got, at(2))
	}
	status.Conditions = append(status.Conditions, metav1.Condition{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, LastTransitionTime: at(3)})
	if got := PhaseSince(status); !got.Equal(at(3).Time) {
		t.Errorf("the phase has been so since %s; want since Paused, %s", got, at(3))
	}
	if got := PhaseSince(&v1alpha1.VmGroupStatus{}); !got.IsZero() {
		t.Errorf("the phase of an empty status has been so since %s; want the zero time", got)
	}
}

func TestAMessageForAReaderWithLinksNamesNoPath(t *testing.T) {
	f := Fault{Reason: "DatastoreFull", Message: "the datastore is full.", NeedsOperator: true}
	other := Fault{Reason: "TemplateNotFound", Message: "no template (see its folder)", NeedsOperator: true}
	if got, want := WithoutHelp(f.WithHelp().Message+"; "+other.WithHelp().Message+"; cloning 1 of 2"), "the datastore is full; no template (see its folder); cloning 1 of 2"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if with := f.WithHelp().Message; !strings.Contains(with, Help("DatastoreFull")) {
		t.Errorf("got the message %q; want one that names %s", with, Help("DatastoreFull"))
	}
}

func TestDuringAnOutageAGroupIsAsLastKnown(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	reachable := condition(v1alpha1.ConditionVCenterReachable, metav1.ConditionFalse, "InvalidLogin", "refused")
	for name, c := range map[string]struct {
		conditions     []metav1.Condition
		ready, desired int32
		phase          v1alpha1.Phase
		message        string
	}{
		"no outage":         {[]metav1.Condition{condition(v1alpha1.ConditionVCenterReachable, metav1.ConditionTrue, "Connected", "")}, 1, 1, "", ""},
		"another install's": {[]metav1.Condition{condition(v1alpha1.ConditionVCenterReachable, metav1.ConditionUnknown, "OtherInstall", "")}, 1, 1, "", ""},
		"the outage itself": {[]metav1.Condition{reachable, condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, "InvalidLogin", "2 of 2 members were ready")}, 2, 2, v1alpha1.PhaseRunning, "2 of 2 members were ready"},
		"one was missing":   {[]metav1.Condition{reachable, condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, "InvalidLogin", "1 of 2 members were ready")}, 1, 2, v1alpha1.PhasePending, "1 of 2 members were ready"},
		"it was blocked":    {[]metav1.Condition{reachable, condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, "TemplateNotFound", "as last known: no template")}, 2, 2, v1alpha1.PhaseError, "as last known: no template"},
	} {
		phase, message := PhaseBefore(&v1alpha1.VmGroupStatus{Conditions: c.conditions, ReadyReplicas: c.ready, CurrentReplicas: c.ready, DesiredReplicas: c.desired})
		if phase != c.phase || message != c.message {
			t.Errorf("%s: %q %q; want %q and %q", name, phase, message, c.phase, c.message)
		}
	}
}

// The condition names the members, and Stalled says why: on the page of a group they are one.
func TestWhatKeepsMembersFromBeingClonedNamesTheTemplate(t *testing.T) {
	const why = `web-1: template "nope" not found`
	status := &v1alpha1.VmGroupStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "TemplateNotFound", Message: why},
		{Type: v1alpha1.ConditionCloneBlocked, Status: metav1.ConditionTrue, Reason: "TemplateNotFound", Message: "web-1"},
		{Type: v1alpha1.ConditionDisksBlocked, Status: metav1.ConditionTrue, Reason: "DiskInSnapshot", Message: "web-0"}}}
	faults := ReportFaults(status, nil)
	if len(faults) != 2 || faults[0].Message != why || faults[1].Message != "web-0" {
		t.Errorf("got the faults %+v; want one about web-1 with the reason of Stalled, and one about web-0", faults)
	}
}
