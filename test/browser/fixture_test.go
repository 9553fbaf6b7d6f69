package browser

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// world is the data that the page shows, and that tests change.
type world struct {
	mu     sync.Mutex
	groups []plan.Report
	slots  plan.Slots
	health plan.Health
	calls  plan.Calls
}

func (w *world) Groups() ([]plan.Report, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]plan.Report{}, w.groups...), w.health.Known
}

func (w *world) Slots() plan.Slots {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slots
}

func (w *world) Health() plan.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.health
}

func (w *world) Calls() plan.Calls {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

func (w *world) change(how func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how(w)
	plan.SortReports(w.groups)
}

func group(namespace, name string, phase v1alpha1.Phase, desired int, message string) plan.Report {
	r := plan.Report{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("5f0c2c1e-1111-4000-8000-%012x", len(namespace)*1e6+len(name))), Generation: 4, Lease: phase != "",
		LastCall: time.Now().Add(-12 * time.Second), LeaseEnds: time.Now().Add(78 * time.Second), Phase: phase, DesiredReplicas: int32(desired), Message: message}
	r.UID += types.UID(namespace + name)
	if phase != "" {
		r.Since, r.UpdatedReplicas = time.Now().Add(-time.Hour), int32(desired)
		r.Spec = &plan.SpecReport{Template: "ubuntu-24.04-web", CPU: 2, MemoryMB: 4096, Strategy: "RollingUpdate, maxSurge 25%, maxUnavailable 25%"}
	}
	for i := range desired {
		r.Members = append(r.Members, v1alpha1.Member{Name: fmt.Sprintf("%s-%d", name, i), Ordinal: int32(i), MoRef: fmt.Sprintf("vm-%d", 4000+len(name)*100+i), PowerState: "poweredOn",
			IPs: []string{fmt.Sprintf("10.20.%d.%d", len(name), 10+i)}, Host: fmt.Sprintf("esx-%02d.example.com", i%4+1), Revision: "7d9f4c", Ready: true,
			LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))})
	}
	return r
}

// forecast lists the next actions for every group that is not settled.
func forecast(types.UID, int) plan.Outlook {
	outlook := plan.Outlook{More: true}
	for i, op := range []plan.Op{plan.PowerOn, plan.Mark, plan.ShutdownGuest, plan.Destroy, plan.Clone} {
		s := plan.Step{Round: i + 1, Action: plan.Action{Op: op, Key: "web-2", Reason: "update: it was cloned from another template"}}
		if op == plan.ShutdownGuest {
			s.After = 30 * time.Second
		}
		outlook.Steps = append(outlook.Steps, s)
	}
	return outlook
}

const reconciled = "successfully reconciled VmGroup"

// newWorld returns a world with a group in each state that the page can show.
func newWorld() *world {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d).UTC().Truncate(time.Second) }
	shop := group("shop", "web", v1alpha1.PhasePending, 4, "updating: 1 of 4 members updated; cloning 1 member; removing 1 member")
	shop.Members[3].Ready, shop.Members[3].Reason, shop.Members[3].Message = false, "NotReady", "VMware Tools do not run yet"
	shop.Pending = []plan.PendingReport{
		{Op: plan.Clone, VM: "web-4", State: plan.Running, Reason: "surge: one extra member during the update", Since: ago(40 * time.Second)},
		{Op: plan.PowerOn, VM: "web-3", State: plan.BackingOff, Reason: "powered off; should be on", RetryAfter: time.Now().Add(20 * time.Second),
			Fault: &plan.FaultReport{VM: "web-3", Reason: "ResourceLimit", Message: "the resource pool Production has no memory left for web-3 (4096 MB)"}},
	}
	shop.Faults = []plan.FaultReport{*shop.Pending[1].Fault, {Condition: v1alpha1.ConditionMembersDiffer, Reason: "DiffersFromSpec", Message: "another template than the spec: web-0, web-1, web-2"}}
	shop.Actions = []plan.ActionReport{
		{Time: ago(45 * time.Second), Op: plan.PowerOn, VM: "web-3", Reason: "powered off; should be on", Result: "ResourceLimit", Message: "the resource pool Production has no memory left for web-3 (4096 MB)", DurationSeconds: 2.1},
		{Time: ago(70 * time.Second), Op: plan.Prepare, VM: "web-3", Reason: "tags and attributes before it is powered on", Result: plan.ResultOK, DurationSeconds: 1.4},
		{Time: ago(75 * time.Second), Op: plan.Clone, VM: "web-3", Reason: "surge: one extra member during the update", Result: plan.ResultOK, DurationSeconds: 41.7},
		{Time: ago(4 * time.Minute), Op: plan.Destroy, VM: "web-3", Reason: "update: it was cloned from another template", Result: plan.ResultOK, DurationSeconds: 3.2},
	}
	shop.UpdatedReplicas, shop.FormerTemplates = 1, []string{"ubuntu-22.04-web"}
	shop.Update = &v1alpha1.UpdateProgress{Target: "7d9f4c, 2 CPUs, 4 GB", Available: 1, LastProgressTime: metav1.NewTime(ago(2 * time.Minute))}
	held := group("shop", "canary", v1alpha1.PhaseRunning, 8, "7 of 8 members differ from the spec and are kept (update.canary holds at 1)")
	held.UpdatedReplicas, held.FormerTemplates = 1, []string{"ubuntu-22.04-web"}
	held.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionUpdateHeld, Reason: "UpdateHeld", Message: held.Message}}
	stopped := group("shop", "stopped", v1alpha1.PhaseError, 3, "the update has stopped: stopped-3 did not become available within 1800 s (update.progressDeadlineSeconds); edit the spec to continue or to go back")
	stopped.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionUpdateHeld, Reason: "ProgressDeadlineExceeded", Message: stopped.Message}}
	paused := group("shop", "paused", v1alpha1.PhasePending, 3, "paused (spec.paused); to be done: cloning 1 member")
	paused.Members = paused.Members[:2]
	paused.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionPaused, Reason: "Paused", Message: "spec.paused is true: nothing is changed in vCenter"}}
	cut := group("edge", "unreachable", v1alpha1.PhasePending, 2, "2 of 2 members were ready")
	cut.PhaseBefore = v1alpha1.PhaseRunning
	cut.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionVCenterReachable, Reason: "VCenterUnreachable", Message: "vCenter cannot be reached (the connection is refused)"}}
	lost := group("shop", "missing", v1alpha1.PhaseError, 4, "missing-2: vCenter does not have its VM any more, and it may still run (docs/troubleshooting.md#membervanished)")
	lost.Members[2].Ready, lost.Members[2].Reason, lost.Members[2].Message = false, plan.ReasonMemberVanished, "it was unregistered by VSPHERE.LOCAL\\admin"
	lost.Members[2].VanishedAt = metav1.NewTime(ago(20 * time.Minute))
	lost.Members[3].Ready, lost.Members[3].Reason, lost.Members[3].Message = false, plan.ReasonUnreachable, "the VM is disconnected: skipped"
	lost.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionMembersVanished, Reason: plan.ReasonMemberVanished, Message: "missing-2 (vm-4702: it was unregistered by VSPHERE.LOCAL\\admin)"}}
	lost.Standby = []v1alpha1.StandbyMember{{Name: "missing-4", MoRef: "vm-4704", Ready: true, Host: "esx-01.example.com"}}
	lost.Spec.QuarantineSeconds = 86400
	lost.Quarantined = []v1alpha1.Quarantined{{Name: "missing-1-vm-4601", Ordinal: 1, MoRef: "vm-4601", Reason: "Healing", Since: metav1.NewTime(ago(time.Hour))}}
	db := group("shop", "postgres", v1alpha1.PhaseError, 3, "cannot clone postgres-2: there is no template ubuntu-24.04-db; templates are debian-13, ubuntu-24.04, ubuntu-24.04-web")
	db.Members = db.Members[:2]
	db.Actions = []plan.ActionReport{{Time: ago(3 * time.Minute), Op: plan.ShutdownGuest, VM: "postgres-1", Reason: "update: it was cloned from another template", Result: plan.ResultOK, DurationSeconds: 12}}
	db.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionCloneBlocked, Reason: "TemplateNotFound", Message: "there is no template ubuntu-24.04-db; templates are debian-13, ubuntu-24.04, ubuntu-24.04-web"}}
	queue := group("payments", "queue", v1alpha1.PhaseError, 5, "waits for an operator: queue-1 asks \"The virtual machine might have been moved or copied\"")
	queue.Members[1].Ready, queue.Members[1].Reason, queue.Members[1].Message = false, "QuestionPending", "the VM waits for an operator's answer"
	queue.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionQuestionPending, Reason: "QuestionPending", Message: "queue-1: msg.uuid.altered: choose between Cancel, I moved it, I copied it"}}
	waits := group("batch", "workers", v1alpha1.PhasePending, 12, "cloning 8 members")
	waits.Members = waits.Members[:4]
	waits.WaitsForSlot, waits.WaitsFor = true, []plan.Limit{{Of: "clones from host-12", Now: 4, Most: 32, Running: 4, Reason: "vCenter queued a task for 12 s at 2026-11-22 14:03 UTC"}}
	gone := group("staging", "old-frontend", v1alpha1.PhasePending, 2, "removing 2 members")
	gone.Finalizing, gone.Pending = true, []plan.PendingReport{{Op: plan.PowerOff, VM: "old-frontend-0", State: plan.Running, Reason: "the group is deleted", Since: ago(4 * time.Second)}}
	elsewhere := group("edge", "cache-frankfurt", "", 2, "this replica of the server was not called for the group lately: the members are as vCenter shows them")
	for i := range elsewhere.Members {
		elsewhere.Members[i].Ready, elsewhere.Members[i].Reason = false, "NoLease"
	}
	w := &world{slots: plan.Slots{Most: 8, Running: 8, Waiting: 1}, health: plan.Health{Known: true, VCenter: "vc"}, calls: plan.Calls{Began: ago(time.Hour), Last: ago(time.Second)},
		groups: []plan.Report{shop, held, stopped, paused, cut, lost, db, queue, waits, gone, elsewhere}}
	for _, name := range []string{"api", "frontend", "search", "mail", "grafana", "ingress"} {
		w.groups = append(w.groups, group("production", name, v1alpha1.PhaseRunning, 3, reconciled))
	}
	plan.SortReports(w.groups)
	return w
}
