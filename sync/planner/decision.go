// This file has the third stage of a plan, which decide makes.

package planner

import (
	"iter"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// decision is what becomes of each VM, and of each ordinal without a VM. While the group is blocked or being deleted, it has only what sets has.
type decision struct {
	facts *facts
	sets  *sets
	// free, arriving and standbyComing begin as those of sets, and grow by the ordinals that the decision gives to new members.
	free                    []*member
	arriving, standbyComing []int32
	slack                   int // how many more serving members can be taken down; negative while fewer serve than promised
	update                  update
	healing                 healing
	// withdrawing: some members have a mark that is to be withdrawn. Until it is, no other serving member is taken down: another replica may
	// have withdrawn it already, and be taking down a member that this replica keeps.
	withdrawing bool
	// remarking: this replica is writing a mark on a member that, since an edit of the spec, is not to be taken down. It will withdraw that mark.
	remarking  bool
	successors successors
	incorrect  []plan.FaultOf // entries of spec.replace and spec.adopt that an operator has to correct
	wake       wake
	adoption   []string // why entries of spec.adopt are not carried out
}

// update is the reason of members that differ from the spec.
type update struct {
	progress *v1alpha1.UpdateProgress // nil while no member differs from the spec, or those that do are held
	canary   *v1alpha1.CanaryProgress // the specs that update.canary has seen before
	stuck    *plan.Fault              // why the update has stopped
	inVain   []*member                // the members and standby members that were cloned in vain
	late     *plan.Fault              // some of the last members did not become available in time; no other is left to update
	// unavailable are the members that did not become available in time.
	unavailable []*member
	// closed: no window is open, so the update takes no further member down now. opens is when a window opens or closes next.
	closed bool
	opens  time.Time

	// What it has decided (tally): how many members it leaves as they are, whether it changes or replaces others, now or later, and whether
	// some of those wait for the standby members.
	held           int
	changes, waits bool
}

// healing is the reason of members that stay unready.
type healing struct {
	tooMany []string        // the unhealthy members, if no member is healed because they are too many
	inVain  []string        // those that were not ready in time, if no member is healed because none of the present spec has ever been ready
	trial   *v1alpha1.Trial // whether members made from the present spec become ready
}

// successors are what is known of members that take the place of others (successor.go).
type successors struct {
	// extra is how many more members there are than the group needs, once those that are removed now are gone. reserve are the fit standby members, and
	// the VMs in quarantine that fit the spec.
	extra, reserve int
	// unfinished: a member of the present spec is not finished, or is being created, or is about to be. unfit: the same of a standby member.
	unfinished, unfit bool
	// cloned is when the newest finished member of each zone was cloned from the present spec, booted when the last of all was powered on;
	// zero if none is finished. since is when the group ceased to be as its spec says.
	cloned        []time.Time
	booted, since time.Time
	// failing are the members whose clone, or whose successor's clone, failed when last tried. blocked are those of which an operator has to
	// mend the cause. none: no member can be created until an operator acts.
	blocked, failing []string
	none             bool
	// unfillable are the members that are kept because their places can't be filled again.
	unfillable []string
}

// taken reports whether no new member can have the ordinal: it is claimed, or a stray holds it, or a VM on its way to quarantine still has its name.
func (d *decision) taken(ordinal int32) bool {
	return d.isClaimed(ordinal) || d.sets.held[ordinal] ||
		slices.ContainsFunc(d.sets.quarantined, func(q member) bool { return q.Ordinal == ordinal && d.facts.blocksName(&q) })
}

// isClaimed reports whether a member or a standby member has the ordinal, whether or not vCenter shows it, or is to have it.
func (d *decision) isClaimed(ordinal int32) bool {
	return d.sets.isClaimed(ordinal) || slices.Contains(d.standbyComing, ordinal) || slices.Contains(d.arriving, ordinal)
}

// allVMs yields the VMs of the group, and the ordinals that are to have one.
func (d *decision) allVMs() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		for m := range d.sets.vms() {
			if !yield(m) {
				return
			}
		}
		for _, m := range d.free {
			if !yield(m) {
				return
			}
		}
	}
}

// vacancy adds a member that is to be created.
func (d *decision) vacancy(why string) *member {
	m := vacancy(why)
	d.free = append(d.free, m)
	return m
}

// assigned reports whether a vacancy has that ordinal.
func (d *decision) assigned(ordinal int32) bool {
	return slices.ContainsFunc(d.free, func(m *member) bool { return m.Ordinal == ordinal && m.name != "" })
}

// startable reports whether a member that is off can be powered on once it is prepared. Others are removed.
func (d *decision) startable(m *member) bool {
	return m.isOff() && !d.facts.neverRuns(m)
}
