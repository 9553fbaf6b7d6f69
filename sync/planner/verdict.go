package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// activity is something that is being done for a VM, or for an ordinal that no VM has yet.
type activity int

// The activities, in the order of the status message.
const (
	cloning       activity = iota // it is made from the template
	adopting                      // it becomes a member
	returning                     // a VM in quarantine becomes a member again
	resizing                      // it gets another size in place
	starting                      // it is powered on
	leaving                       // a member is removed
	preparing                     // it gets tags, attributes and its network configuration
	restamping                    // its stamp gets what vCenter calls it now
	settingDisks                  // it gets disks, or larger ones
	standingBy                    // a standby member is made, prepared or resized
	discarding                    // a standby member is removed
	tidying                       // a duplicate, or a VM in or for quarantine, is moved or removed
	allActivities = iota
)

// activities say what goes on. background: the message says it after what concerns the members that serve. byDeletion: a sentence about the deletion says
// it already. busy: the group is busy while it goes on; clones, adoptions and returns make it busy by their ordinals. updates: an update may consist of it.
// standby: it concerns standby members alone.
var activities = [allActivities]struct {
	says, noun                                     string
	background, byDeletion, busy, updates, standby bool
}{
	cloning:      {says: "cloning %s", noun: "member", byDeletion: true, updates: true},
	adopting:     {says: "adopting %s", noun: "VM"},
	returning:    {says: "bringing %s back from quarantine", noun: "VM", updates: true},
	resizing:     {says: "resizing %s", noun: "member", busy: true, updates: true},
	starting:     {says: "powering on %s", noun: "member", busy: true, updates: true},
	leaving:      {says: "removing %s", noun: "member", byDeletion: true, busy: true, updates: true},
	preparing:    {says: "preparing %s (tags, attributes, network)", noun: "member", background: true, busy: true, updates: true},
	restamping:   {says: "recording what vCenter calls %s now", noun: "VM", background: true},
	settingDisks: {says: "changing the disks of %s", noun: "member", background: true, busy: true, updates: true},
	standingBy:   {says: "creating or updating %d of %s", noun: "standby member", background: true, byDeletion: true, standby: true},
	discarding:   {says: "removing %s", noun: "standby member", background: true, standby: true},
	tidying:      {says: "quarantining or removing %s", noun: "VM", background: true, byDeletion: true},
}

// verdict is what becomes of a VM, or of an ordinal that no VM has yet. The status message counts the activities of all verdicts.
type verdict struct {
	becomes plan.Decision
	why     string
	// needs are what is to be done for it, in this order. keptBy says what keeps it as it is.
	needs  []need
	keptBy string
	// awaits is what it waits for before its next step; waits is the precondition for which it waits with its mark.
	awaits string
	waits  *precondition
	// does are the activities that concern it. Blocked ones are not counted: a fault says why they are blocked.
	does, blocked [allActivities]bool
}

// need is something that is to be done for a VM or an ordinal, and why. The next step follows from the need and the VM's current state
// (nextSteps).
type need struct {
	what
	why string
}

type what int

const (
	needsUnmark      what = iota // it has a mark, and is not to be taken down
	needsPromotion               // a standby member is to become a member, or an operator powered it on
	needsRemoval                 // it is to be removed
	needsAdoption                // it has its former folder or name
	needsReset                   // healing restarts it
	needsSize                    // it has another size
	needsData                    // it is off, and has to get its persistent disks first
	needsPreparation             // it is off, and was never prepared
	needsPower                   // it is off
	needsTags                    // it was prepared for another spec
	needsDisks                   // it has other disks
	needsDiscard                 // of a standby member: it is to be removed
	needsUpkeep                  // of a standby member: it differs from the spec in what changes in place
	needsReturn                  // of a VM in quarantine: it is to be a member again
	needsQuarantine              // of a VM in quarantine: it is not where it is to be kept
	needsDestruction             // of a VM in quarantine: its time is over
	needsAdopting                // of an ordinal: a VM that spec.adopt names gets it
	needsClone                   // of an ordinal: its VM is to be cloned
	allNeeds         = iota
)

// decide records the verdict about a VM that is no member, or about an ordinal.
func (m *member) decide(becomes plan.Decision, why string) { m.becomes, m.why = becomes, why }

// wants notes what is to be done for a VM or an ordinal.
func (m *member) wants(n what, why string) { m.needs = append(m.needs, need{n, why}) }

// begins notes an activity, and whether something blocks it.
func (m *member) begins(what activity, unblocked bool) {
	m.does[what], m.blocked[what] = true, !unblocked
}

// vacancy is a member that has no VM yet. Its ordinal may not be known either.
func vacancy(why string) *member {
	m := &member{}
	m.decide(plan.Create, why)
	return m
}

// assign gives a vacancy its ordinal.
func (m *member) assign(group string, ordinal int32) {
	m.Ordinal, m.name = ordinal, plan.MemberName(group, ordinal)
}

// What a member can wait for.
const (
	otherMembers = "other members to be available"
	aSuccessor   = "its successor"
	anOperator   = "an operator: no successor can be created"
)
