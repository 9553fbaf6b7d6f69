package tell

import (
	"iter"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Decision is what the planner knows of a group and has decided about it. It is plain data, so telling can't call back. Nothing changes it.
type Decision struct {
	*plan.Observed

	// VCenterKnown: vCenter's state is known, and it is the vCenter of the group. Otherwise the status keeps its figures.
	VCenterKnown bool
	// ShortOutage: vCenter's state was known until a moment ago, so the stored status is returned unchanged.
	ShortOutage bool
	// Invalid is why the spec is refused; nil if it is valid. BlockedBy is why no action is possible; nil if actions are.
	Invalid   *plan.Fault
	BlockedBy *plan.Block
	// Orphaned: the group was deleted with --cascade=orphan. Abandoned: an operator has asked to end its deletion without vCenter.
	Orphaned, Abandoned bool
	// RevisionKnown: it is known which revision a member has that is cloned now, and so which members are up to date.
	RevisionKnown bool
	// Want is spec.replicas.
	Want   int
	Policy Policy
	Holds  plan.Holds
	// AwaitsService: the group should have a Service, and has none yet. MissingChildren are those that Kubernetes doesn't have although Metacontroller was told to create them.
	AwaitsService   bool
	MissingChildren []string
	// Suppressed is why failed probes don't make members unready; nil if they do.
	Suppressed *plan.Fault

	// Members are those that vCenter shows, by ordinal and moRef; so are Standby, the standby members, and Quarantined, the VMs in quarantine. Free are
	// the ordinals that are to have a VM.
	Members, Standby, Quarantined []Member
	Free                          []Member
	// NotFound are recorded members that vCenter doesn't show and that aren't gone. GivenUp are those that were given up and whose ordinal no other VM
	// has, Replaced those whose ordinal another VM has.
	NotFound, GivenUp []NotFound
	Replaced          []v1alpha1.Member
	// NotFoundStandby and NotFoundQuarantined are recorded VMs that vCenter doesn't show and that aren't gone.
	NotFoundStandby     []v1alpha1.StandbyMember
	NotFoundQuarantined []v1alpha1.Quarantined
	// Gone are the members in the stored status that are gone.
	Gone []Gone
	// Ordinals is how many ordinals members have, whether or not vCenter shows them.
	Ordinals int
	// Unreachable, Unconfirmed and Missing name members that vCenter can't reach, that it doesn't show for a reason that isn't known yet, and that it
	// no longer has.
	Unreachable, Unconfirmed, Missing []string
	// Arriving and StandbyComing are the ordinals that are getting a member or standby member. Awaited are those of Arriving that don't follow from
	// this decision. Held are those that strays hold.
	Arriving, Awaited, StandbyComing []int32
	Held                             map[int32]bool

	Update Update
	// Healing is why no member is healed. Trial is the next status' trial.
	Healing Healing
	Trial   *v1alpha1.Trial
	// Adoption says why entries of spec.adopt aren't carried out.
	Adoption []string
	Deletion Deletion

	// Steps are the steps that are wanted, started or not. ToClone is how many members are to be cloned whose clones aren't running.
	Steps   []Step
	ToClone int
	// Activities are what is being done, in the order of the message. Waits are what members with a mark wait for.
	Activities []Activity
	Waits      []Activity
	// WaitsForDisks: a member isn't removed until the status lists its disks. WaitsForCall: the group's folder waits for the next hook call.
	WaitsForDisks, WaitsForCall bool
	// Faults are those of steps, of the update and of the spec. CloneFaults keep members from being cloned until an operator acts, DiskFaults keep disks
	// from being added or growing.
	Faults, CloneFaults, DiskFaults []plan.FaultOf
	Successors                      Successors
	// Wake is after how long the plan must be made again although nothing has changed; zero if it depends on no time.
	Wake time.Duration
}

// Policy is what telling needs of the spec with its defaults applied.
type Policy struct {
	Check                     v1alpha1.ReadinessCheck
	Retain, ReplaceOnTemplate bool
	Canary                    int           // -1: none
	ReplaceMissing            time.Duration // 0: never
	Deadline                  time.Duration
	MaxUnhealthy              int
}

// Member is a VM, or an ordinal that is to have one.
type Member struct {
	*plan.VM
	// Name is the member's name, whatever the VM is called now. Key is that of its steps.
	Name, Key string
	// Duplicate: another VM of its ordinal is the member.
	Duplicate bool
	// Returned: it was missing, vCenter shows it again, and the group has more members than it wants. GivenUp: and the group had given it up. Away is the
	// record that shows that it was missing; nil if none does.
	Returned, GivenUp bool
	Away              *v1alpha1.Member
	// Differs says how it differs from the spec, other than in its disks, and Difference in anything; empty if it doesn't.
	Differs, Difference string
	// TemplateChanged: it was cloned from another version of the template.
	TemplateChanged bool
	// Uncustomized is the state of its guest customization while that keeps it unready. CustomizationFailed: the customization failed, whether or not
	// that keeps it unready.
	Uncustomized        plan.CustomizationState
	CustomizationFailed bool
	// Ready changed at Since. Available: it serves, and isn't marked to be taken down. RunsUnready: it is on, and nothing but its readiness is missing.
	Ready, Available, RunsUnready bool
	Since                         time.Time
	// Silence is what its probe says against its being ready; empty if nothing. ProbeRefused: the server is not allowed to probe it.
	Silence      string
	ProbeRefused bool
	// UntakenTooLong: its guest has had its time to take the addresses that it was given, and reports others.
	UntakenTooLong bool
	// Halting: its guest was asked to shut down, and may still do so. AskedLately: even if its VM is off now, that may be why.
	Halting, AskedLately bool
	// HeldUntil is until when annotations keep it from being taken down; zero if they don't.
	HeldUntil time.Time
	// Leaves: it leaves its set now. TakenDown: a step that takes it down is running or has failed.
	Leaves, TakenDown bool
	// Nominated is why it is to be replaced; empty if it isn't.
	Nominated plan.MarkReason
	// Fit: of a standby member: it can be promoted now. Unfit: it has to be created again.
	Fit, Unfit bool
	// InVain: it was cloned for the present spec, and differs from it in what only another clone could change.
	InVain bool
	// Becomes is the verdict, and Reason why. Kept: it differs from the spec, and the update keeps it as it is; KeptBy is what else keeps it as it is.
	// MarkWaits is what it waits for with its mark, and Awaits what it waits for before its next step. AwaitsSource: it waits for something to clone.
	Becomes                           plan.Decision
	Reason, KeptBy, MarkWaits, Awaits string
	Kept, AwaitsSource                bool
	// Of a deleted group: Outlasts: it is kept until all other VMs are gone. LastToGo: it gets the mark of the deletion. StepBlocked: the last try of its
	// step failed.
	Outlasts, LastToGo, StepBlocked bool
}

// NotFound is a recorded member that vCenter doesn't show. Missing: vCenter no longer has it, and its message says why. Hidden: vCenter neither shows it
// nor reports that it left. Named: spec.replace names it.
type NotFound struct {
	v1alpha1.Member
	Missing, Hidden, Named bool
}

// Gone is a member in the stored status that is gone, and who destroyed it.
type Gone struct {
	*v1alpha1.Member
	By plan.Actor
}

// Update is how far an update is.
type Update struct {
	// Target describes what members are updated to.
	Target string
	// Progress and Canary are those of the next status.
	Progress *v1alpha1.UpdateProgress
	Canary   *v1alpha1.CanaryProgress
	// Stuck is why the update has stopped; nil if it hasn't. Unavailable names the members that did not become available in time. Ends: no other member is
	// left to update.
	Stuck       *plan.Fault
	Unavailable []string
	Ends        bool
	// Changes: members are to be replaced or resized, now or later, by the update or because spec.replace names them. Waits: some of them wait for the
	// standby members.
	Changes, Waits bool
	// Held is how many members are left as they are. Closed: no window is open. Opens is when the next one does.
	Held   int
	Closed bool
	Opens  time.Time
}

// Healing is why no member is healed; both lists are empty if nothing keeps members from being healed.
type Healing struct {
	// TooMany are the unhealthy members, if they are too many.
	TooMany []string
	// InVain are those that were not ready in time, if no member of the present spec has ever been ready.
	InVain []string
}

// Deletion is how far the deletion of a group is.
type Deletion struct {
	// Reason says why the members are removed or released.
	Reason string
	// RulesGone: no DRS rule is left, or none that can be removed. FolderLeft: the group's own folder exists and is to be removed. FolderKept: it can't
	// be. Childless: no children keep the group. LeaseOver: no other replica can act for the group.
	RulesGone, FolderLeft, FolderKept, Childless, LeaseOver bool
}

// Successors is why members aren't replaced.
type Successors struct {
	// Source is why nothing can be cloned; nil if something can.
	Source *plan.Fault
	// Unfillable are the members whose places can't be filled again. Blocked are those whose clone, or whose successor's clone, an operator has to mend.
	Unfillable, Blocked []string
	// Unfinished: a member of the present spec isn't finished.
	Unfinished bool
}

// Step is a step that is wanted. Starts: it can start now. Blocked: its last try failed, or its VM has a pending question.
type Step struct {
	Key             string
	Starts, Blocked bool
	OfMember        bool
}

// Activity is what is being done for N VMs or ordinals, or what they wait for.
type Activity struct {
	plan.Activity
	N int
}

// paused reports whether the spec asks that nothing be changed.
func (d *Decision) paused() bool { return d.Group.Spec.Paused }

// allVMs yields the VMs of the group, and the ordinals that are to have one.
func (d *Decision) allVMs() iter.Seq[*Member] {
	return each(d.Members, d.Standby, d.Quarantined, d.Free)
}

// each yields members.
func each(lists ...[]Member) iter.Seq[*Member] {
	return func(yield func(*Member) bool) {
		for _, members := range lists {
			for i := range members {
				if !yield(&members[i]) {
					return
				}
			}
		}
	}
}

// vms yields the VMs of the group.
func (d *Decision) vms() iter.Seq[*Member] { return each(d.Members, d.Standby, d.Quarantined) }

// countReady counts the members that are ready.
func (d *Decision) countReady() (n int) {
	for i := range d.Members {
		n += int(oneIf(d.Members[i].Ready))
	}
	return n
}

// exist returns how many VMs of the group exist.
func (d *Decision) exist() int {
	return len(d.Members) + len(d.Standby) + len(d.Quarantined) + len(d.NotFound) + len(d.NotFoundQuarantined) + len(d.NotFoundStandby)
}

// failing counts the members whose steps are blocked.
func (d *Decision) failing() (n int) {
	for i := range d.Steps {
		n += int(oneIf(d.Steps[i].Blocked && d.Steps[i].OfMember))
	}
	return n
}

// plans reports whether a step is wanted for a member.
func (d *Decision) plans(who string) bool {
	for i := range d.Steps {
		if d.Steps[i].Key == who {
			return true
		}
	}
	return false
}

// does reports whether an activity of some kind goes on.
func (d *Decision) does(kind func(*plan.Activity) bool) bool {
	for i := range d.Activities {
		if d.Activities[i].N > 0 && kind(&d.Activities[i].Activity) {
			return true
		}
	}
	return false
}

// display returns the member's name, with its name in vCenter if that differs.
func (m *Member) display() string { return m.displayWith("") }

// displayWith is display with another note about the member.
func (m *Member) displayWith(note string) string {
	return plan.DisplayName(m.Name, m.Renamed(m.Name), note)
}

// oneIf is for counting.
func oneIf(is bool) int32 {
	if is {
		return 1
	}
	return 0
}

// isSilent reports whether the member's VMware Tools ran since it was powered on, and don't any more, although it counts as ready.
func (m *Member) isSilent() bool { return m.Ready && m.Reported && !m.Tools }
