package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Calls are Metacontroller's hook calls to this replica of the server, for all groups.
type Calls struct {
	// Began is when the process began, and Last when the last call came; zero if none has.
	Began, Last time.Time
	// Silent reports whether the last call, or the start, is so long ago that all leases have ended, so the server does nothing.
	Silent bool
}

// Listed is a group as vCenter's stamps show it, whichever replica acts for it: its VMs by ordinal, without those in quarantine.
type Listed struct {
	Ref
	VMs []VM
}

// Report is what one replica of the server knows about a group, as GET /groups returns it. It contains no user data.
type Report struct {
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation,omitempty"`
	// Lease reports whether this replica was recently called for the group and can act for it; LastCall and LeaseEnds say when, and until
	// when.
	Lease     bool      `json:"lease"`
	LastCall  time.Time `json:"lastCall,omitzero"`
	LeaseEnds time.Time `json:"leaseEnds,omitzero"`
	// LastKnown reports that this replica gets no hook calls for any group: the report is as of LastCall.
	LastKnown bool `json:"lastKnown,omitempty"`
	// Finalizing reports whether the group is being removed.
	Finalizing bool           `json:"finalizing,omitempty"`
	Phase      v1alpha1.Phase `json:"phase,omitempty"`
	// PhaseBefore is the phase as last known, while vCenter's state is unknown; empty while it is known.
	PhaseBefore v1alpha1.Phase `json:"phaseBefore,omitempty"`
	Message     string         `json:"message"`
	// Since is since when the group has had its phase, or been paused.
	Since time.Time `json:"since,omitzero"`
	// Spec is a summary of the group's spec; nil if this replica was not called for the group.
	Spec *SpecReport `json:"spec,omitempty"`
	// DesiredReplicas, UpdatedReplicas and Update are as in the status; omitted if this replica was not called for the group.
	DesiredReplicas int32                    `json:"desiredReplicas,omitempty"`
	UpdatedReplicas int32                    `json:"updatedReplicas,omitempty"`
	Update          *v1alpha1.UpdateProgress `json:"update,omitempty"`
	// FormerTemplates are templates other than the spec's that members were cloned from.
	FormerTemplates []string `json:"formerTemplates,omitempty"`
	// Members are as in the status.
	Members []v1alpha1.Member `json:"members"`
	// Standby, Quarantined and Disks are as in the status.
	Standby     []v1alpha1.StandbyMember  `json:"standby,omitempty"`
	Quarantined []v1alpha1.Quarantined    `json:"quarantined,omitempty"`
	Disks       []v1alpha1.PersistentDisk `json:"disks,omitempty"`
	// Verdicts are those of the last plan. A VM without a verdict is kept as it is.
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Pending are the actions that run or back off. Faults are the conditions that are unusual, and the faults of pending actions.
	Pending []PendingReport `json:"pending"`
	Faults  []FaultReport   `json:"faults"`
	// WaitsForSlot reports whether the group's next step waits until steps of other groups have ended.
	WaitsForSlot bool `json:"waitsForSlot,omitempty"`
	// WaitsFor are the limits that the next step waits for.
	WaitsFor []Limit `json:"waitsFor,omitempty"`
	// LastPlan is the last plan with an action; plans of a settled group have no actions.
	LastPlan *PlanReport `json:"lastPlan,omitempty"`
	// Actions are the actions that ended last, the newest first. Only the report of a single group has them.
	Actions []ActionReport `json:"actions,omitempty"`
}

// SpecReport is a summary of a group's spec.
type SpecReport struct {
	Template string `json:"template"`
	CPU      int32  `json:"cpu"`
	MemoryMB int64  `json:"memoryMB"`
	// Strategy says how members are updated, in the words of the spec.
	Strategy string `json:"strategy"`
	// QuarantineSeconds is how long removed members are kept.
	QuarantineSeconds int32 `json:"quarantineSeconds,omitempty"`
}

// ReportSpec summarizes a group's spec.
func ReportSpec(g *v1alpha1.VmGroup) *SpecReport {
	u := &g.Spec.Update
	is := []string{string(cmp.Or(u.Strategy, v1alpha1.UpdateRolling))}
	if u.Strategy != v1alpha1.UpdateOnDelete {
		orDefault := func(n *intstr.IntOrString, usual string) string {
			if n == nil {
				return usual
			}
			return n.String()
		}
		is = append(is, "maxSurge "+orDefault(u.MaxSurge, v1alpha1.DefaultMaxSurge), "maxUnavailable "+orDefault(u.MaxUnavailable, v1alpha1.DefaultMaxUnavailable))
	}
	if u.Canary != nil {
		is = append(is, "canary "+u.Canary.String())
	}
	if u.Paused {
		is = append(is, "paused")
	}
	if len(u.Windows) > 0 {
		is = append(is, Count(len(u.Windows), "window"))
	}
	return &SpecReport{Template: Printable(g.Spec.Template), CPU: g.Spec.CPU, MemoryMB: g.MemoryMB(), Strategy: strings.Join(is, ", "), QuarantineSeconds: g.Spec.Deletion.QuarantineSeconds}
}

// FormerTemplates are the templates, other than the spec's, that members were cloned from, as far as their stamps say.
func (o *Observed) FormerTemplates() (former []string) {
	for i := range o.State.VMs {
		vm := &o.State.VMs[i]
		if vm.Template != "" && vm.Template != o.Group.Spec.Template && !vm.Standby && vm.Quarantined.IsZero() {
			former = append(former, Printable(vm.Template))
		}
	}
	slices.Sort(former)
	return slices.Compact(former)
}

// PhaseBefore returns a group's last known phase and its message, while vCenter's state is unknown; empty while it is known.
func PhaseBefore(status *v1alpha1.VmGroupStatus) (phase v1alpha1.Phase, message string) {
	reachable := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionVCenterReachable)
	if reachable == nil || reachable.Status != metav1.ConditionFalse {
		return "", ""
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		return v1alpha1.PhaseError, c.Message
	}
	phase = v1alpha1.PhasePending
	if status.ReadyReplicas >= status.DesiredReplicas && status.CurrentReplicas == status.DesiredReplicas && status.Update == nil {
		phase = v1alpha1.PhaseRunning
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c != nil {
		message = c.Message
	}
	return phase, message
}

// PhaseSince returns since when a group has had its phase, or has been paused; zero if unknown.
func PhaseSince(status *v1alpha1.VmGroupStatus) time.Time {
	for _, kind := range []string{v1alpha1.ConditionPaused, v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return c.LastTransitionTime.UTC()
		}
	}
	return time.Time{}
}

// ActionReport is an action that ended.
type ActionReport struct {
	// Time is when it ended.
	Time time.Time `json:"time"`
	Op   Op        `json:"op"`
	// VM is the member's name; empty if the action concerns no single member.
	VM string `json:"vm,omitempty"`
	// Reason says in words why the action was taken.
	Reason string `json:"reason"`
	// Result is ResultOK, or the reason of the fault; then Message is the fault's message.
	Result  string `json:"result"`
	Message string `json:"message,omitempty"`
	// Times is the number of consecutive tries that failed with this result; zero: one. First is the time of the first of them, Time that of
	// the last.
	Times int       `json:"times,omitempty"`
	First time.Time `json:"first,omitzero"`
	// DurationSeconds is the time from the action's start until its effect was visible, in seconds.
	DurationSeconds float64 `json:"durationSeconds"`
	// QueuedSeconds is the part of DurationSeconds for which vCenter queued the action's tasks, because it was busy.
	QueuedSeconds float64 `json:"queuedSeconds,omitempty"`
}

// ResultOK is the result of an action that succeeded.
const ResultOK = "ok"

// ReportEnded reports an action that ended; the zero Fault is success.
func ReportEnded(a *Action, fault Fault, at time.Time, took, queued time.Duration) ActionReport {
	return ActionReport{Time: at, Op: a.Op, VM: a.MemberName(), Reason: a.Reason, Result: cmp.Or(fault.Reason, ResultOK), Message: fault.Message,
		DurationSeconds: took.Seconds(), QueuedSeconds: queued.Seconds()}
}

// PendingReport is an action that is running, or that failed and is backing off.
type PendingReport struct {
	Op Op `json:"op"`
	// VM is the member's name; empty if the action concerns no single member.
	VM    string `json:"vm,omitempty"`
	State State  `json:"state"`
	// Reason says in words why the action is there.
	Reason string `json:"reason"`
	// Since is when the action started; RetryAfter is when a failed one is tried again.
	Since      time.Time `json:"since,omitzero"`
	RetryAfter time.Time `json:"retryAfter,omitzero"`
	// Fault is why the last try failed.
	Fault *FaultReport `json:"fault,omitempty"`
}

// ReportPending reports a pending action; the zero Fault is none.
func ReportPending(a *Action, state State, fault Fault) PendingReport {
	p := PendingReport{Op: a.Op, VM: a.MemberName(), State: state, Reason: a.Reason}
	if fault.Reason != "" {
		p.Fault = &FaultReport{VM: p.VM, Reason: fault.Reason, Message: fault.Message}
	}
	return p
}

// FaultReport is a condition of the group that is unusual, or why an action for a member failed.
type FaultReport struct {
	Condition string `json:"condition,omitempty"`
	VM        string `json:"vm,omitempty"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

// Blocks reports whether the fault keeps the group from reaching its spec. MembersDiffer doesn't: an update changes the members, or another
// condition says what the update waits for. UserDataUnrecognized doesn't: members get the user data anyway. Nor does ToolsSilent: its members are ready.
func (f *FaultReport) Blocks() bool {
	return f.Condition != v1alpha1.ConditionMembersDiffer && f.Condition != v1alpha1.ConditionTemplateChanged && f.Condition != v1alpha1.ConditionUserDataUnrecognized &&
		f.Condition != v1alpha1.ConditionToolsSilent
}

// PlanReport is a plan: the steps that it wanted, each with its reason.
type PlanReport struct {
	At    time.Time    `json:"at"`
	Steps []StepReport `json:"steps"`
}

// StepReport is one step of a plan.
type StepReport struct {
	Op     Op     `json:"op"`
	VM     string `json:"vm,omitempty"`
	Reason string `json:"reason"`
}

// ReportSteps reports actions without their parameters.
func ReportSteps(actions []Action) []StepReport {
	steps := make([]StepReport, len(actions))
	for i := range actions {
		steps[i] = StepReport{Op: actions[i].Op, VM: actions[i].MemberName(), Reason: actions[i].Reason}
	}
	return steps
}

// MemberName is the name of the member that an action concerns; empty if it concerns no single one.
func (a Action) MemberName() string {
	if !a.ConcernsMember() {
		return ""
	}
	return a.Key
}

// ReportFaults returns the unusual conditions that are True, and the faults of pending actions.
func ReportFaults(status *v1alpha1.VmGroupStatus, pending []PendingReport) []FaultReport {
	faults := []FaultReport{}
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		switch c.Type {
		case v1alpha1.ConditionReady, v1alpha1.ConditionProgressing, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled:
			continue // this condition only sums up the others
		}
		if blocks := c.Status == metav1.ConditionTrue; blocks == (c.Type == v1alpha1.ConditionVCenterReachable) {
			continue
		}
		fault := FaultReport{Condition: c.Type, Reason: c.Reason, Message: c.Message}
		switch c.Type {
		case v1alpha1.ConditionCloneBlocked, v1alpha1.ConditionDisksBlocked, v1alpha1.ConditionNameConflict:
			if stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == c.Reason {
				fault.Message = stalled.Message // the condition only names the members
			}
		}
		faults = append(faults, fault)
	}
	for _, p := range pending {
		if p.Fault != nil {
			faults = append(faults, *p.Fault)
		}
	}
	return faults
}

// reasonNoLease is the reason of members whose readiness this replica doesn't know.
const reasonNoLease = "NoLease"

// Report returns what a replica knows about a group that it isn't called for. known reports whether vCenter's state is known.
func (g *Listed) Report(known bool) Report {
	r := Report{Namespace: g.Namespace, Name: g.Name, UID: g.UID, Pending: []PendingReport{}, Faults: []FaultReport{},
		Members: make([]v1alpha1.Member, len(g.VMs)),
		Message: "Metacontroller hasn't called this replica for the group recently: the members are as vCenter shows them"}
	if !known {
		r.Message += ", or as it last showed them: what vCenter has is unknown now"
	}
	for i := range g.VMs {
		vm := &g.VMs[i]
		r.Generation = max(r.Generation, vm.Generation)
		r.Members[i] = v1alpha1.Member{Name: MemberName(g.Name, vm.Ordinal), Ordinal: vm.Ordinal, MoRef: vm.MoRef, PowerState: string(vm.Power), IPs: vm.IPs,
			Host: vm.Host, Revision: vm.Revision, Reason: reasonNoLease,
			Message: "only the replica that Metacontroller calls for the group knows whether the member is ready"}
		if !vm.Reachable {
			r.Members[i].Reason, r.Members[i].Message = ReasonUnreachable, Joined("the VM is "+vm.Unreachable, AsLastKnown)
		}
		if vm.Name != r.Members[i].Name {
			r.Members[i].VMName = Printable(vm.Name)
		}
	}
	return r
}

// Recall completes listed VMs whose guests this replica has seen no report of since they were powered on: it copies the guest's last report
// from the statuses in reports. It doesn't change the VMs that it is given, and calls reports only if there are such VMs.
func Recall(listed []Listed, reports func() []Report) {
	silent := func(vm VM) bool { return vm.Power == PoweredOn && !vm.HasReported() }
	var all []Report
	for i := range listed {
		g := &listed[i]
		if !slices.ContainsFunc(g.VMs, silent) {
			continue
		}
		if all == nil {
			all = reports()
		}
		at := slices.IndexFunc(all, func(r Report) bool { return r.UID == g.UID })
		if at < 0 {
			continue
		}
		cloned := false
		for j := range g.VMs {
			vm := &g.VMs[j]
			if !silent(*vm) {
				continue
			}
			for k := range all[at].Members {
				m := &all[at].Members[k]
				if m.MoRef != vm.MoRef || m.BootTime.IsZero() || !SameBoot(m.BootTime.Time, vm.BootTime) {
					continue
				}
				if !cloned {
					g.VMs, cloned = slices.Clone(g.VMs), true
				}
				g.VMs[j].Reported, g.VMs[j].IPs = true, m.IPs
			}
		}
	}
}

// AllReports returns the reports of the groups that this replica was called for, and of groups that it knows only from stamps in vCenter.
func AllReports(kept []Report, listed []Listed, known bool) []Report {
	all, has := make([]Report, 0, len(kept)+len(listed)), make(map[types.UID]bool, len(kept))
	for i := range kept {
		r := &kept[i]
		ended := r.Finalizing && !r.Lease && !r.LastKnown && len(r.Pending) == 0 && known &&
			!slices.ContainsFunc(listed, func(g Listed) bool { return g.UID == r.UID })
		if !ended { // another replica may have got the call that completed the deletion
			all, has[r.UID] = append(all, *r), true
		}
	}
	for i := range listed {
		if !has[listed[i].UID] {
			all = append(all, listed[i].Report(known))
		}
	}
	SortReports(all)
	return all
}

// Slots are the vCenter tasks of this replica: how many can run at once, how many do, and how many groups wait for a slot.
type Slots struct {
	Most    int `json:"most"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Limits say how many steps of each kind can run at once.
	Limits []Limit `json:"limits"`
}

// Limit says how many steps of one kind can run at once, and why.
type Limit struct {
	// Of says which steps: "clones", or "clones from host-12".
	Of string `json:"of"`
	// Now is how many can run, Most the maximum of Now, and Running how many run.
	Now     int `json:"now"`
	Most    int `json:"most"`
	Running int `json:"running"`
	// Reason says why Now has its value.
	Reason string `json:"reason"`
}

// SortReports sorts reports by namespace and name; of several groups with one name (one was lost and applied again), those
// under lease come first.
func SortReports(all []Report) {
	slices.SortFunc(all, func(a, b Report) int {
		if c := cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name)); c != 0 {
			return c
		}
		if a.Lease != b.Lease {
			if a.Lease {
				return -1
			}
			return 1
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
}

// UsableIPs returns the addresses of a guest that can be published, in their order.
func UsableIPs(ips []string) []netip.Addr {
	var all []netip.Addr
	for _, ip := range ips {
		if a, ok := Usable(ip); ok {
			all = append(all, a)
		}
	}
	return all
}

// Usable parses an address that a guest reports, and reports whether the server can publish it: the API server refuses an EndpointSlice
// with an unspecified, loopback or link-local address, or an address with a zone, and one guest must not block its group.
func Usable(ip string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(ip)
	a = a.Unmap()
	return a, err == nil && a.Zone() == "" && a.IsGlobalUnicast()
}
