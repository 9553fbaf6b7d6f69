package planner_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// statusOf is a condition's status; empty if it is absent.
func statusOf(s *v1alpha1.VmGroupStatus, kind string) metav1.ConditionStatus {
	i := slices.IndexFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return ""
	}
	return s.Conditions[i].Status
}

func TestTheConditionsOfAHealthyGroupAreFew(t *testing.T) {
	o := observed(1)
	o.State.VMs = []plan.VM{vm(&o, 0)}
	r := planner.Make(o)
	if r.Status.Phase != v1alpha1.PhaseRunning {
		t.Fatalf("%s %s", r.Status.Phase, r.Status.LastMessage)
	}
	var got []string
	for _, c := range r.Status.Conditions {
		got = append(got, c.Type+"="+string(c.Status))
	}
	if want := []string{"Ready=True", "VCenterReachable=True", "MembersDiffer=False"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

func TestAConditionThatWasTrueStaysWithoutVCenterAndGoesWithIt(t *testing.T) {
	o := observed(1)
	o.State.VMs = []plan.VM{vm(&o, 0)}
	next := func(reachable, known bool, want metav1.ConditionStatus) {
		t.Helper()
		o.State.VMs[0].Reachable, o.State.VMs[0].Unreachable = reachable, ""
		if !reachable {
			o.State.VMs[0].Unreachable = "disconnected"
		}
		o.State.Known = known
		r := planner.Make(o)
		if got := statusOf(&r.Status, v1alpha1.ConditionMembersUnreachable); got != want {
			t.Errorf("MembersUnreachable is %q, not %q", got, want)
		}
		o.Group = o.Group.DeepCopy()
		o.Group.Status = r.Status
	}
	next(true, true, "")
	next(false, true, metav1.ConditionTrue)
	next(false, false, metav1.ConditionTrue) // as last known
	next(false, true, metav1.ConditionTrue)
	next(true, true, "")
	next(true, false, "")
}

func TestASharedFaultIsReportedOnceAndSummariesDoNotRepeatIt(t *testing.T) {
	o := observed(12)
	o.State.Folder, o.Pending = "group-v7", map[string]plan.Pending{}
	for i := range int32(12) {
		o.Pending[plan.MemberName("web", i)] = plan.Pending{Op: plan.Clone, Ordinal: i, State: plan.BackingOff,
			Fault: plan.Fault{Reason: "MissingPrivilege", NeedsOperator: true, Message: "vCenter's user lacks a privilege: grant it."}}
	}
	r := planner.Make(o)
	const text = "12 members (web-0, web-1, web-2 and 9 more): vCenter's user lacks a privilege: grant it (docs/troubleshooting.md#missingprivilege)"
	if r.Status.LastMessage != text {
		t.Error(r.Status.LastMessage)
	}
	messages := map[string]string{}
	for _, c := range r.Status.Conditions {
		if c.Message != "" {
			messages[c.Type] = c.Message
		}
	}
	want := map[string]string{v1alpha1.ConditionReady: "0 of 12 members are ready", v1alpha1.ConditionVCenterReachable: "the inventory is known and fresh",
		v1alpha1.ConditionStalled: text, v1alpha1.ConditionCloneBlocked: "web-0, web-1, web-2, web-3, web-4, web-5, web-6, web-7, web-8, web-9 and 2 more"}
	if !maps.Equal(messages, want) {
		t.Errorf("%v", messages)
	}
}

func TestMoreMembersThanWantedAreNotAShare(t *testing.T) {
	o := observed(1)
	o.State.VMs = []plan.VM{vm(&o, 0), vm(&o, 1), vm(&o, 2)}
	r := planner.Make(o)
	if ready := r.Status.Conditions[0]; ready.Message != "3 members are ready, and 1 wanted" {
		t.Errorf("Ready says %q, not that 3 members are ready and 1 is wanted", ready.Message)
	}
}

// Naming another template replaces all members, so the message advises it only after a typo, not when a template is gone.
func TestATemplateThatIsGoneIsToComeBackIfMembersHaveIt(t *testing.T) {
	t.Parallel()
	const back = "members were cloned from it: bring it back"
	o := observed(2)
	addMembers(&o, 2)
	o.Group.Spec.Replicas, o.State.Template = new(int32(3)), plan.Template{Datacenter: "DC0"}
	if r := planner.Make(o); !strings.Contains(r.Status.LastMessage, `template "`+o.Group.Spec.Template+`" not found in datacenter DC0; no templates there; `+back) {
		t.Errorf("a template that members have: %q", r.Status.LastMessage)
	}
	o.Group.Spec.Template = "typo"
	o.Group.Generation++
	if r := planner.Make(o); !strings.Contains(r.Status.LastMessage, "not found in datacenter DC0") || strings.Contains(r.Status.LastMessage, back) {
		t.Errorf("a template that no member has: %q", r.Status.LastMessage)
	}
}

// A message ends with what to do, and half of that is of no use.
func TestALongSummaryEndsAfterAClauseOrAWord(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"spec.networks has static addresses for 4 members, and none is free for this: add addresses to the ranges": "spec.networks has static addresses for 4 members, and none is free for this …",
		strings.Repeat("word ", 30): strings.TrimSpace(strings.Repeat("word ", 18)) + " …",
		strings.Repeat("a", 200):    strings.Repeat("a", 90) + "…",
	} {
		o := observed(2)
		later(&o, 0)
		o.State.Folder, o.OwnFolders = "group-v7", []string{"group-v7"}
		o.Pending = map[string]plan.Pending{"web-1": {Op: plan.Clone, Ordinal: 1, State: plan.BackingOff, Fault: plan.Fault{Reason: "TemplateNotFound", NeedsOperator: true, Message: message}}}
		later(&o, 0)
		if s := o.Group.Status; s.Summary != "web-1: "+want {
			t.Errorf("%q: got the summary %q; want %q", message, s.Summary, "web-1: "+want)
		}
	}
}

func TestTheSummaryFitsIntoATable(t *testing.T) {
	o := observed(2)
	later(&o, 0)
	if s := o.Group.Status; s.Summary != s.LastMessage || s.Summary == "" {
		t.Errorf("%q of %q", s.Summary, s.LastMessage)
	}
	o.State.Folder, o.OwnFolders = "group-v7", []string{"group-v7"}
	o.Pending = map[string]plan.Pending{"web-1": {Op: plan.Clone, Ordinal: 1, State: plan.BackingOff, Fault: plan.Fault{Reason: "TemplateNotFound", NeedsOperator: true, Message: strings.Repeat("ä very long message ", 30)}}}
	later(&o, 0)
	if s := o.Group.Status; len(s.Summary) > 100 || !strings.HasPrefix(s.Summary, "web-1: ä very long") || !strings.HasSuffix(s.Summary, "…") || len(s.LastMessage) < 400 {
		t.Errorf("%q of %q", s.Summary, s.LastMessage)
	}
}
