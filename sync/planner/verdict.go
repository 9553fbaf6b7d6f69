package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// decision is what is to become of a VM of the group, or of a member that doesn't exist yet. A VM without a decision is kept as it is, or
// waits: for a precondition, for its turn, or because the spec holds it.
type decision int

const (
	toClone     decision = iota // a member that is missing is cloned, or is being cloned
	toAdopt                     // a VM becomes a member
	toBringBack                 // a VM in quarantine becomes a member again
	toStart                     // a member is powered on
	toResize                    // a member gets another size in place
	toPrepare                   // a member gets tags, attributes and its network configuration
	toSetDisks                  // a member gets disks, or larger ones
	toLeave                     // a member is removed
	toStandBy                   // a standby member is made, prepared or resized
	toDiscard                   // a standby member is removed
	toTidy                      // a duplicate, or a VM in or for quarantine, is moved or removed
)

// verdict is a decision about one VM.
type verdict struct {
	// who is the member's name; empty for one that has no ordinal yet.
	who string
	to  decision
	// blocked: its last try failed, and what has to happen first is among the faults.
	blocked bool
}

// decide records a verdict. All that the status says about what is going on is counted from these.
func (v *view) decide(to decision, who string, goesOn bool) {
	v.verdicts = append(v.verdicts, verdict{who: who, to: to, blocked: !goesOn})
}

// decided counts the verdicts of these kinds that nothing blocks.
func (v *view) decided(kinds ...decision) (n int) {
	for _, d := range v.verdicts {
		n += int(oneIf(!d.blocked && slices.Contains(kinds, d.to)))
	}
	return n
}

// updating counts the members that are to be replaced or resized, now or later.
func (v *view) updating() (n int) {
	if v.hold != nil || v.Finalizing {
		return 0
	}
	for i := range v.members {
		m := &v.members[i]
		n += int(oneIf(!m.duplicate && (m.differs() != "" && !m.held || m.retire == plan.WhyReplace)))
	}
	return n
}
