package tell

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// report is what is told about a decision: the decision, in words, and the faults that it leads to.
type report struct {
	*Decision
	faults, cloneFaults []plan.FaultOf
}

// reportOf begins a report about a decision, whose faults it says in words.
func reportOf(d *Decision) *report {
	said := *d
	if d.BlockedBy != nil {
		block := *d.BlockedBy
		block.Fault = *d.inWords("", &block.Fault)
		said.BlockedBy = &block
	}
	said.Suppressed, said.Update.Stuck, said.Successors.Source = d.inWords("", d.Suppressed), d.inWords("", d.Update.Stuck), d.inWords("", d.Successors.Source)
	said.Faults, said.CloneFaults, said.DiskFaults = d.allInWords(d.Faults), d.allInWords(d.CloneFaults), d.allInWords(d.DiskFaults)
	return &report{Decision: &said}
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

// silent names these members.
func (r *report) silent() (names []string) {
	for i := range r.Members {
		if m := &r.Members[i]; m.isSilent() {
			names = append(names, m.display())
		}
	}
	return names
}
