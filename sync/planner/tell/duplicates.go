package tell

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// duplicatesText names the VMs that have the stamp of a member that another VM is, and says what to do about them; empty if there is none.
func (r *report) duplicatesText() string {
	var names []string
	for m := range r.vms() {
		if m.Duplicate || m.MarkReason == plan.MarkReasonDuplicate && !m.VM.Quarantined.IsZero() {
			names = append(names, fmt.Sprintf("%s (%s; stamp of %s)", plan.Printable(m.VM.Name), m.MoRef, m.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	text := "VMs that are not members, because another VM has their ordinal or they were given up: " + plan.AtMost(names, 5)
	if r.Finalizing {
		return text
	}
	return text + "; each that has ever run is powered off and kept: delete it in vCenter when you no longer need it"
}
