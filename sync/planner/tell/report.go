package tell

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// report is what is told about a decision: the decision, and the faults that it leads to.
type report struct {
	*Decision
	faults, cloneFaults []plan.FaultOf
}

// add adds a fault.
func (r *report) add(who string, fault plan.Fault) {
	r.faults = append(r.faults, plan.FaultOf{Who: who, Fault: fault})
}

// addClone adds why a member can't be cloned, until an operator acts or, while a content library is being read, for a moment.
func (r *report) addClone(who string, fault plan.Fault) {
	if r.add(who, fault); fault.NeedsOperator {
		r.cloneFaults = append(r.cloneFaults, plan.FaultOf{Who: who, Fault: fault})
	}
}
