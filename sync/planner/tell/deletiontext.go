// This file puts into words how far the deletion of a group is.

package tell

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// abandonHint says how to end a deletion that waits for a vCenter that will never answer.
const abandonHint = "if vCenter is permanently gone, the annotation " + v1alpha1.AnnotationAbandon + "=true ends the deletion and leaves the VMs behind"

// deletion says what remains to be done until the group is gone.
func (r *report) deletion() []string {
	if r.exist() > 0 {
		return r.deletionOfVMs()
	}
	made := 0 // a fault says what the deletion waits for if others arrive: strays that are not decided yet
	for _, ordinal := range r.Arriving {
		made += int(oneIf(!r.Held[ordinal]))
	}
	switch {
	case made > 0 && r.Policy.Retain:
		return []string{fmt.Sprintf("waiting to release %s still being cloned or adopted", plan.Count(made, "VM"))}
	case made > 0:
		return []string{fmt.Sprintf("waiting to remove %s still being cloned or adopted", plan.Count(made, "VM"))}
	case len(r.Arriving) > 0:
		return nil
	case !r.Deletion.RulesGone: // rulesText, or the fault, says so
		return nil
	case r.State.FolderUnknown:
		return []string{"the deletion waits until the server knows whether the group has a folder", abandonHint}
	case r.Deletion.FolderLeft && r.Deletion.FolderKept:
		return []string{fmt.Sprintf("if the group's folder can't be removed, the deletion completes anyway, %s after it began", r.Lease)}
	case r.Deletion.FolderLeft && r.Policy.Retain:
		return []string{"removing the group's folder, if it is empty"}
	case r.Deletion.FolderLeft:
		return []string{"removing the group's folder"}
	case !r.Emptied:
		return []string{"confirming that no VM of the group is left in vCenter"}
	case r.Deletion.Childless:
		return []string{"no VM of the group is left in vCenter"}
	}
	var objects []string
	for key := range r.Children {
		objects = append(objects, key.String())
	}
	slices.Sort(objects)
	return []string{"no VM of the group is left in vCenter", "waiting for Metacontroller to delete " + plan.AtMost(objects, 5)}
}

// vmCount counts VMs of a deleted group by kind.
type vmCount struct{ members, duplicates, standby, quarantined int }

func (c vmCount) all() int { return c.members + c.duplicates + c.standby + c.quarantined }

// text says how many VMs are released or removed; empty if none is.
func (c vmCount) text(verb string) string {
	var parts []string
	if c.members > 0 {
		parts = append(parts, plan.Count(c.members, "member"))
	}
	if c.duplicates > 0 {
		parts = append(parts, plan.Count(c.duplicates, "duplicate"))
	}
	if c.standby > 0 {
		parts = append(parts, plan.Count(c.standby, "standby member"))
	}
	if c.quarantined > 0 {
		parts = append(parts, plan.Count(c.quarantined, "VM")+" in quarantine")
	}
	if len(parts) == 0 {
		return ""
	}
	return verb + " " + strings.Join(parts, ", ")
}

// deletionOfVMs says how many VMs of a deleted group are released and removed now, or else that the deletion waits for them. The same VMs
// are released as in removeAll.
func (r *report) deletionOfVMs() (texts []string) {
	var released, removed vmCount
	blocked, last, alone, of := 0, 0, false, &removed
	if r.Policy.Retain {
		of = &released
	}
	for i := range r.Members {
		m := &r.Members[i]
		if r.isBlocked(m) {
			blocked++
			continue
		}
		of.duplicates += int(oneIf(m.Duplicate))
		of.members += int(oneIf(!m.Duplicate))
		last, alone = last+int(oneIf(m.Outlasts)), alone || m.LastToGo
	}
	for i := range r.Standby {
		if r.isBlocked(&r.Standby[i]) {
			blocked++
		} else {
			removed.standby++
		}
	}
	for i := range r.Quarantined {
		switch q := &r.Quarantined[i]; {
		case r.isBlocked(q):
			blocked++
		case r.Policy.Retain && q.MarkReason == plan.MarkReasonDuplicate:
			released.quarantined++
		default:
			removed.quarantined++
		}
	}
	blocked += len(r.NotFound) + len(r.NotFoundStandby) + len(r.NotFoundQuarantined)
	switch going := released.all() + removed.all(); {
	case going == last && r.Policy.Retain: // the last member waits for the others
		return []string{fmt.Sprintf("the deletion waits until %s can be released or removed", plan.Count(blocked, "VM"))}
	case going == 0:
		return []string{fmt.Sprintf("the deletion waits until %s can be removed", plan.Count(blocked, "VM"))}
	case going == 1 && alone && r.Policy.Retain && !r.Deletion.LeaseOver:
		return []string{"waiting to release the last member until no other replica of the server can act for the group"}
	}
	return slices.DeleteFunc([]string{released.text("releasing"), removed.text("removing")}, func(s string) bool { return s == "" })
}

// isBlocked reports whether a VM of a deleted group can't be released or removed now: a fault or a question blocks its step, or vCenter can't
// reach it.
func (r *report) isBlocked(m *Member) bool {
	return !m.Reachable || m.Question != "" || m.StepBlocked
}
