package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// quiet is a group of eight that matches its spec.
func quiet() plan.Report {
	g := plan.Report{Namespace: "shop", Name: "web", UID: "uid-web", Generation: 3, Lease: true, LastCall: began, Phase: v1alpha1.PhaseRunning, Message: "successfully reconciled VmGroup",
		Since: began.Add(-time.Hour), DesiredReplicas: 8, UpdatedReplicas: 8,
		Spec: &plan.SpecReport{Template: "ubuntu-24.04", CPU: 2, MemoryMB: 4096, Strategy: "RollingUpdate, maxSurge 25%, maxUnavailable 25%"}}
	for i := range int32(8) {
		g.Members = append(g.Members, v1alpha1.Member{Name: fmt.Sprintf("web-%d", i), Ordinal: i, MoRef: fmt.Sprintf("vm-%d", i), Ready: true, LastTransitionTime: metav1.NewTime(began.Add(-2 * time.Hour))})
	}
	return g
}

// shown is the text of a group's page and of the overview.
func shown(t *testing.T, g plan.Report, steps ...plan.Step) (group, overview string) {
	t.Helper()
	p := New(Config{VCenter: "vc.example.com", Source: &source{groups: []plan.Report{g}, health: plan.Health{Known: true, VCenter: "dbed6e0c"}},
		Next: func(types.UID, int) plan.Outlook { return plan.Outlook{Steps: steps} }})
	_, group, _ = get(p, groupPath+"shop/web", "")
	_, overview, _ = get(p, "/", "")
	return textOf(t, group), textOf(t, overview)
}

func says(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q: %s", want, text)
		}
	}
}

func TestAGroupsPageSaysWhatItsSpecAsksForSinceWhenItIsSoAndInWhichVCenter(t *testing.T) {
	t.Parallel()
	group, overview := shown(t, quiet())
	says(t, group, "web Running since 2026-11-22 08:00:00 UTC", "Phase RUNNING", "Template ubuntu-24.04", "Size 2 CPUs, 4 GiB", "Updates RollingUpdate, maxSurge 25%, maxUnavailable 25%",
		"vCenter vc.example.com", "None: the group is as its spec says.", "web-0 vm-0 Ready since 2026-11-22 07:00:00 UTC")
	says(t, overview, "Connected vc.example.com dbed6e0c", "Running since 2026-11-22 08:00:00 UTC web shop 8 of 8")
	if strings.Contains(group, "members are as the spec says") {
		t.Errorf("the page shows an update although there is none: %s", group)
	}
}

func TestAHeldUpdateIsNeverSaidToBeAsItsSpecSays(t *testing.T) {
	t.Parallel()
	g := quiet()
	held := "7 of 8 members differ from the spec and are kept (update.canary holds at 1)"
	g.Message, g.UpdatedReplicas, g.FormerTemplates = held, 1, []string{"ubuntu-22.04"}
	g.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionMembersDiffer, Reason: "DiffersFromSpec", Message: "7 members: each was cloned from another template"},
		{Condition: v1alpha1.ConditionUpdateHeld, Reason: "UpdateHeld", Message: held}}
	group, overview := shown(t, g)
	says(t, group, "web Update held since", "Phase RUNNING", "None: "+held+".", "1 of 8 members are as the spec says", "From ubuntu-22.04 to ubuntu-24.04", "What to do: Remove that field to continue")
	says(t, overview, "1 Update held runs; members differ from the spec", "0 Running")
	if strings.Contains(group+overview, "the group is as its spec says") {
		t.Error("the page says that the group is as its spec says, unlike the status: ", group)
	}
}

func TestAnUpdateShowsHowFarItIs(t *testing.T) {
	t.Parallel()
	g := quiet()
	g.Phase, g.Message, g.UpdatedReplicas, g.FormerTemplates = v1alpha1.PhasePending, "updating: 3 of 8 members updated", 3, []string{"ubuntu-20.04", "ubuntu-22.04"}
	g.Update = &v1alpha1.UpdateProgress{Target: "7d9f4c, 2 CPUs, 4 GiB", Available: 2, LastProgressTime: metav1.NewTime(began)}
	group, _ := shown(t, g)
	says(t, group, "3 of 8 members are as the spec says, 2 of them available since 2026-11-22 09:00:00 UTC", "From ubuntu-20.04 , ubuntu-22.04 to ubuntu-24.04")
}

func TestPausedIsAStateOfItsOwn(t *testing.T) {
	t.Parallel()
	g := quiet()
	g.Message = "paused (spec.paused); the group is as its spec says"
	g.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionPaused, Reason: "Paused", Message: "spec.paused is true: nothing is changed in vCenter"}}
	for _, g.Phase = range []v1alpha1.Phase{v1alpha1.PhaseRunning, v1alpha1.PhasePending} {
		group, overview := shown(t, g)
		says(t, group, "web Paused since", "None while the group is paused (spec.paused).")
		says(t, overview, "1 Paused spec.paused: nothing is changed")
	}
	_, body, _ := get(New(Config{Source: &source{groups: []plan.Report{g, quiet()}}}), "/?state=paused", "")
	says(t, textOf(t, body), "1 of 2 groups")
}

// During an outage of vCenter, the page shows the groups as last known, and reports the outage once.
func TestAnOutageIsSaidOnceAndGroupsAreAsLastKnown(t *testing.T) {
	t.Parallel()
	outage := plan.FaultReport{Condition: v1alpha1.ConditionVCenterReachable, Reason: "VCenterUnreachable", Message: "vc.example.com does not answer"}
	of := func(name string, phase, before v1alpha1.Phase, ready int, message string) plan.Report {
		g := quiet()
		g.Name, g.UID, g.Phase, g.PhaseBefore, g.Message, g.Faults = name, types.UID(name), phase, before, message, []plan.FaultReport{outage}
		for i := range g.Members {
			g.Members[i].Ready = i < ready
		}
		return g
	}
	fails := of("fails", v1alpha1.PhaseError, v1alpha1.PhaseError, 0, "as last known: there is no template x")
	fails.Faults = append(fails.Faults, plan.FaultReport{Condition: v1alpha1.ConditionCloneBlocked, Reason: "TemplateNotFound", Message: "as last known: fails-1"})
	s := &source{unknown: true, health: plan.Health{UnknownSince: began, Fault: &plan.Fault{Reason: outage.Reason, Message: outage.Message}}, groups: []plan.Report{
		of("a-runs", v1alpha1.PhasePending, v1alpha1.PhaseRunning, 8, "8 of 8 members were ready"),
		of("also-runs", v1alpha1.PhaseError, v1alpha1.PhaseRunning, 8, "8 of 8 members were ready"), // an operator has to act, because vCenter refused the credentials
		of("begins", v1alpha1.PhasePending, v1alpha1.PhasePending, 0, "0 of 8 members were ready"), fails}}
	p := New(Config{Source: s})
	_, body, _ := get(p, "/", "")
	text := textOf(t, body)
	says(t, text, "Not known since 2026-11-22 09:00:00 UTC", "Until it is, the server does nothing, and the groups are shown as last known.", "1 Error", "1 Pending", "2 Running",
		"fails shop 0 of 8 as last known: there is no template x TemplateNotFound", "Error since 2026-11-22 08:00:00 UTC fails")
	if n := strings.Count(text, "does not answer"); n != 1 || strings.Count(text, "VCenterUnreachable") != 1 {
		t.Errorf("the outage is said %d times: %s", n, text)
	}
	if a, b, c := strings.Index(text, "fails"), strings.Index(text, "begins"), strings.Index(text, "a-runs"); a > b || b > c {
		t.Errorf("the page does not list fails, begins and a-runs in this order: %s", text)
	}
	_, body, _ = get(p, groupPath+"shop/fails", "")
	says(t, textOf(t, body), "fails Error since 2026-11-22 08:00:00 UTC", "the group is shown as last known", "None while vCenter's state is unknown.", "What to do: Restore the connection")
}

// A group that is being deleted can wait for other objects than before, and needs other advice.
func TestADeletedGroupHasTheAdviceOfADeletion(t *testing.T) {
	t.Parallel()
	g := quiet()
	g.Phase, g.Message = v1alpha1.PhaseError, "web-7: vCenter does not have the VM any more"
	g.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionMembersVanished, Reason: plan.ReasonMemberVanished, Message: "web-7 (vm-7)"}}
	living, _ := shown(t, g)
	g.Finalizing = true
	deleted, _ := shown(t, g)
	says(t, living, "What to do: Bring it back : add the host")
	says(t, deleted, "What to do: Bring it back, and the server removes it. Or leave it behind", "None: the group waits because of the above MemberVanished.")
}

func TestAMissingMemberIsShownAsLastKnown(t *testing.T) {
	t.Parallel()
	g := quiet()
	for i := range g.Members {
		g.Members[i].PowerState, g.Members[i].IPs, g.Members[i].Host = "poweredOn", []string{"10.0.0.7"}, "esx-1"
	}
	g.Members[6].Reason, g.Members[6].Ready = plan.ReasonMemberNotSeen, false
	g.Members[7].Reason, g.Members[7].Ready, g.Members[7].VanishedAt = plan.ReasonMemberVanished, false, metav1.NewTime(began)
	g.Members[7].Message = "its host was removed; " + plan.AsLastKnown
	g.Verdicts = []plan.Verdict{{VM: "web-7", MoRef: "vm-7", Is: plan.Wait, Reason: "missing: its host was removed", WaitsFor: "its VM to return"}}
	text, _ := shown(t, g)
	says(t, text, "power, addresses and host as last known 2026-11-22 09:00:00 UTC Wait (waits for its VM to return) last known poweredOn last known 10.0.0.7 last known esx-1",
		"power, addresses and host as last known 2026-11-22 07:00:00 UTC last known poweredOn", "web-0 vm-0 Ready since 2026-11-22 07:00:00 UTC poweredOn 10.0.0.7 esx-1")
	if n := strings.Count(text, "as last known"); n != 2 {
		t.Errorf("%d members are as last known, want 2: %s", n, text)
	}
	if n := strings.Count(text, "its host was removed"); n != 1 || !strings.Contains(text, "Wait (waits for its VM to return)") {
		t.Errorf("the page says %d times why the member is missing, want once, and what it waits for: %s", n, text)
	}
}

func TestMembersThatNeedAttentionAreListedFirst(t *testing.T) {
	t.Parallel()
	g := quiet()
	g.Phase, g.DesiredReplicas = v1alpha1.PhasePending, 9
	g.Verdicts = []plan.Verdict{{VM: "web-8", Is: plan.Create, Reason: "too few members: 8 of 9"}}
	g.Members[7].Ready, g.Members[7].Reason, g.Members[7].Message = false, plan.ReasonMemberVanished, "its host was removed"
	g.Members[6].Ready, g.Members[6].Reason = false, plan.ReasonUnreachable
	g.Members[5].Ready, g.Members[5].Reason = false, plan.ReasonNotReady
	g.Quarantined = []v1alpha1.Quarantined{{Name: "web-1-old", Ordinal: 1, MoRef: "vm-91", Reason: "Update", Since: metav1.NewTime(began)},
		{Name: "web-2-old", Ordinal: 2, MoRef: "vm-92", Reason: "Duplicate", Since: metav1.NewTime(began)}}
	g.Spec.QuarantineSeconds = 3600
	text, _ := shown(t, g)
	at := 0
	for _, want := range []string{"web-6 vm-6 Unreachable", "web-7 vm-7 Missing", "its host was removed", "web-5 vm-5 Not ready", "web-8 Not there yet Create: too few members: 8 of 9", "web-0 vm-0 Ready", "web-4 vm-4 Ready",
		"In quarantine", "web-1-old vm-91 Update was ordinal 1 since 2026-11-22 09:00:00 UTC ; to be destroyed 2026-11-22 10:00:00 UTC", "web-2-old vm-92 Duplicate was ordinal 2 since 2026-11-22 09:00:00 UTC ; kept until an operator deletes it in vCenter"} {
		next := strings.Index(text[at:], want)
		if next < 0 {
			t.Fatalf("the page does not say %q after what precedes it: %s", want, text)
		}
		at += next
	}
}

func TestARunningStepIsNotAlsoANextStep(t *testing.T) {
	t.Parallel()
	g := quiet()
	g.Phase = v1alpha1.PhasePending
	g.Pending = []plan.PendingReport{{Op: plan.PowerOff, VM: "web-1", State: plan.Running, Reason: "its new size", Since: began}, {Op: plan.PowerOn, VM: "web-2", State: plan.BackingOff, Reason: "is off", RetryAfter: began}}
	step := func(round int, op plan.Op, vm string) plan.Step {
		return plan.Step{Round: round, Action: plan.Action{Op: op, Key: vm, Reason: "because"}}
	}
	text, _ := shown(t, g, step(1, plan.PowerOff, "web-1"), step(2, plan.Reconfigure, "web-1"), step(2, plan.PowerOn, "web-2"), step(3, plan.PowerOff, "web-1"))
	says(t, text, "Why 1 Reconfigure web-1 because 1 PowerOn web-2 because 2 PowerOff web-1 because")
	text, _ = shown(t, g, step(1, plan.PowerOff, "web-1"))
	says(t, text, "None beyond the steps in progress.")
}

// Messages name a place in the documents, for readers without links. The page omits the place if it shows the link.
func TestNoPathToADocumentStandsBesideItsLink(t *testing.T) {
	t.Parallel()
	g := quiet()
	fault := plan.Fault{Reason: plan.ReasonMemberVanished, NeedsOperator: true, Message: "web-7 is not in vCenter any more, and it may still run"}
	g.Phase, g.Message, g.Members[7].Message = v1alpha1.PhaseError, fault.WithHelp().Message+"; updating: 6 of 8 members updated", fault.WithHelp().Message
	g.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionMembersVanished, Reason: fault.Reason, Message: fault.WithHelp().Message}}
	group, overview := shown(t, g)
	says(t, group, fault.Message+"; updating: 6 of 8 members updated", "What to do: Bring it back : add the host to vCenter again", "None: the group waits because of the above MemberVanished.")
	if strings.Contains(group+overview, ".md") {
		t.Error("a path: ", group, overview)
	}
	g.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionUpdateHeld, Reason: "ProgressDeadlineExceeded", Message: "the update has stopped"}}
	group, _ = shown(t, g)
	says(t, group, "What to do: Roll back : restore the former spec")
}

func TestWhatToDoIsSaidWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	said := 0
	for name, r := range theManual().reasons {
		if r.Todo != "" {
			said++
		}
		if text := strings.ToLower(string(r.Todo)); strings.Contains(text, "see below") || strings.TrimSpace(text) == "the same" {
			t.Errorf("%s: %s", name, r.Todo)
		}
	}
	for _, name := range []string{"HealingSuspended", "ChildMissing", "AdoptionFailed", "MemberVanished", "ProgressDeadlineExceeded", "VCenterUnreachable", "UpdateHeld", "Paused"} {
		if theManual().reason(name).Todo == "" {
			t.Errorf("%s: nothing is to be done", name)
		}
	}
	if said < 100 {
		t.Errorf("only %d", said)
	}
}

// A healthy group with a stray was said to wait because of it.
func TestAGroupWithAStrayDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	g := quiet()
	g.Phase = v1alpha1.PhaseRunning
	stray := plan.FaultReport{Condition: v1alpha1.ConditionStrayVMs, Reason: plan.ReasonStrayVM, Message: "web-1 (vm-43): it was cloned by eve"}
	g.Faults = []plan.FaultReport{stray}
	group, overview := shown(t, g)
	says(t, group, "Problems, and what to do StrayVM", "cloned by eve", "What to do: To make the VM the member", "None: the group is as its spec says.")
	says(t, overview, "StrayVM")

	g.Phase = v1alpha1.PhaseError
	g.Faults = []plan.FaultReport{stray, {Condition: v1alpha1.ConditionMembersVanished, Reason: plan.ReasonMemberVanished, Message: "web-7 is gone"}}
	group, _ = shown(t, g)
	says(t, group, "None: the group waits because of the above MemberVanished.")
}
