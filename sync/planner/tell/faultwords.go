// This file says the faults that the planner itself finds. The planner gives only their reasons. Faults of vCenter, of the spec's validation and of the
// hooks have their messages already.

package tell

import (
	"fmt"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// allInWords is inWords for each fault.
func (d *Decision) allInWords(faults []plan.FaultOf) (all []plan.FaultOf) {
	for _, f := range faults {
		all = append(all, plan.FaultOf{Who: f.Who, Fault: *d.inWords(f.Who, &f.Fault)})
	}
	return all
}

// inWords returns a fault with its message; nil if there is none. who is what it blocks.
func (d *Decision) inWords(who string, f *plan.Fault) *plan.Fault {
	if f == nil || f.Message != "" {
		return f
	}
	said := *f
	switch f.Reason {
	case plan.ReasonOtherInstall, plan.ReasonVCenterChanged, plan.ReasonSuperseded, plan.ReasonEditedTooOften, plan.ReasonPlacementImmutable, plan.ReasonDisksImmutable, plan.ReasonTooManyDisks:
		said.Message = d.blockInWords(d.BlockedBy)
	case plan.ReasonInventoryNotRead:
		said.Message = "it is not known yet where the groups' folders are"
	case plan.ReasonInvalidSpec:
		said.Message = d.entryInWords(f.Object)
	case plan.ReasonSuccessorDiffers, plan.ReasonProgressDeadline:
		said.Message = d.stuckInWords(f.Reason)
	case plan.ReasonProbeRefused, plan.ReasonProbePathSuspected:
		said.Message = d.suppressedInWords(f.Reason)
	case plan.ReasonTemplateAmbiguous:
		said.Message = fmt.Sprintf("template %q is ambiguous: set spec.template to one of %s", d.Group.Spec.Template, plan.AtMost(d.State.Template.Paths, 5))
	case plan.ReasonTemplateNotFound:
		said.Message = fmt.Sprintf("template %q not found in datacenter %s; %s", d.Group.Spec.Template, d.State.Template.Datacenter, d.templatesThere())
		if slices.ContainsFunc(d.Members, func(m Member) bool { return m.Difference == "" }) { // who then names another template replaces healthy members
			said.Message += "; members were cloned from it: bring it back, because another name would replace all of them"
		}
	case plan.ReasonAddressesExhausted:
		said.Message = fmt.Sprintf(
			"spec.networks has static addresses for %s, and none is free for this one: add addresses to the ranges (replicas, standby and update.maxSurge each need theirs); if only an update needs more, update.maxSurge 0 does, too",
			plan.Count(plan.AddressCount(&d.Group.Spec), "member"))
	}
	return &said
}

// blockInWords says why no action is possible.
func (d *Decision) blockInWords(b *plan.Block) string {
	switch here := d.State.VCenter; {
	case b.Reason == plan.ReasonOtherInstall:
		return fmt.Sprintf(
			"another install of VmGroup has this group as well (%s): nothing is created until only one has it; if both select the group, correct its label or a labelSelector",
			plan.Installs(d.Group))
	case b.Reason == plan.ReasonVCenterChanged && b.StaleMoRefs != "":
		return fmt.Sprintf("the %s were created in vCenter %s, whose moRefs are other VMs' in %s: remove those in %s", b.What, b.VCenter, here, b.StaleMoRefs)
	case b.Reason == plan.ReasonVCenterChanged:
		return fmt.Sprintf(
			"the %s were created in vCenter %s, and the server is connected to vCenter %s now: connect it to the former again, or change the group's label back; "+
				"or, if this vCenter has the VMs now, set the annotation %s=%[3]s", b.What, b.VCenter, here, v1alpha1.AnnotationMovedTo)
	case b.Reason == plan.ReasonPlacementImmutable:
		what := "the members were created"
		if b.Creating {
			what = "members are being created"
		}
		return fmt.Sprintf("%s in %s, and spec.placement names %s now: change datacenter and folder back, or scale the group to 0 first, which removes its members",
			what, plan.HomeText(b.Home), plan.HomeText(plan.HomeOf(&d.Group.Spec).String()))
	case b.Reason == plan.ReasonDisksImmutable:
		return b.Member + ": " + b.Lost + ": correct the spec, or scale the group to 0 first, which removes its members"
	case b.Reason == plan.ReasonTooManyDisks:
		return fmt.Sprintf(
			"the group would have %d persistent disks, including the detached ones in status.disks, and can have at most %d: delete disks that you no longer need and name their ids in the annotation %s, or scale the group in",
			b.Disks, v1alpha1.MaxPersistentDisks, v1alpha1.AnnotationGiveUpDisks)
	case b.Reason == plan.ReasonEditedTooOften && d.NotBegun:
		return fmt.Sprintf("since %s, new groups of the namespace %s wait, because groups have been deleted and created there more often than the server acts on: one begins each second (docs/troubleshooting.md#editedtoooften)",
			d.EditedTooOften.UTC().Format(time.RFC3339), d.Group.Namespace)
	case b.Reason == plan.ReasonEditedTooOften:
		return fmt.Sprintf("since %s, the group has been edited, or asked to try again, more often than the server acts on: the newest edit takes effect within seconds; find out who edits it (docs/troubleshooting.md#editedtoooften)",
			d.EditedTooOften.UTC().Format(time.RFC3339))
	case b.Removed != "":
		return fmt.Sprintf("%s was destroyed with the server's account, but not by this process: the server waits for the group's next hook call", b.Removed)
	case d.Finalizing && d.Older != nil:
		return fmt.Sprintf("the group was deleted, and this hook call is older than its deletion: the server does nothing until a newer call comes, "+
			"or, if etcd was restored from a backup, until none has come for %s; then it begins again (docs/troubleshooting.md#superseded)", d.Lease)
	case d.Finalizing:
		return fmt.Sprintf(
			"the deletion waits: the members' stamps, or an earlier hook call, have generation %d of this group, which was deleted as generation %d, so another cluster may serve these VMs, such as the one whose backup this cluster was restored from. "+
				"To leave the VMs alone, set the annotation %s=true; to remove them, %s=%[1]d",
			b.Newest, b.Called, v1alpha1.AnnotationAbandon, v1alpha1.AnnotationUndoGeneration)
	}
	return fmt.Sprintf(
		"the members' stamps, or an earlier hook call, have generation %d of this group, and this hook call has generation %d: the server waits for a newer call; if etcd was restored from a backup, or a cluster that was started from one has changed the VMs, edit the spec until its generation is %[1]d (docs/troubleshooting.md#superseded)",
		b.Newest, b.Called)
}

// entryInWords says what is wrong with an entry of spec.replace that names another member than the VM's.
func (d *Decision) entryInWords(moRef string) string {
	name := ""
	for i := range d.Members {
		if d.Members[i].MoRef == moRef {
			name = d.Members[i].Name
		}
	}
	return fmt.Sprintf("spec.replace names it with %s, which is %s: correct one of them", moRef, name)
}

// stuckInWords says why an update has stopped, or doesn't end.
func (d *Decision) stuckInWords(reason string) string {
	late := fmt.Sprintf("%s did not become available within %d s (update.progressDeadlineSeconds)", plan.AtMost(d.Update.Unavailable, 5), int(d.Policy.Deadline.Seconds()))
	switch {
	case reason == plan.ReasonSuccessorDiffers:
	case d.Update.Ends:
		return "the update does not end: " + late
	default:
		return "the update has stopped: " + late + "; edit the spec to continue or to go back"
	}
	var texts []string
	for m := range d.vms() {
		if m.InVain {
			texts = append(texts, fmt.Sprintf("%s was cloned for the present spec, and differs from it: it %s", m.display(), m.Differs))
		}
	}
	return "the update has stopped: " + plan.AtMost(texts, 3) + "; another clone would be no better: edit the spec to continue or to go back"
}

// healingSuspended says why no member is healed; empty if nothing keeps members from being healed.
func (d *Decision) healingSuspended() string {
	switch h := &d.Healing; {
	case len(h.InVain) > 0:
		return fmt.Sprintf("no member made from the present spec has ever been ready, and these VMs were not ready in time: %s. Another clone would be no better: edit the spec, or name members in spec.replace to try again",
			plan.AtMost(h.InVain, 5))
	case len(h.TooMany) > 0:
		return fmt.Sprintf("%s unhealthy (replicas: %d), and spec.healing.maxUnhealthy is %d: %s; healing resumes when fewer are unhealthy or you raise the limit",
			plan.Count(len(h.TooMany), "member"), d.Want, d.Policy.MaxUnhealthy, plan.AtMost(h.TooMany, 10))
	}
	return ""
}

// suppressedInWords says why failed probes don't make members unready.
func (d *Decision) suppressedInWords(reason string) string {
	const kept = "; until then, members keep their readiness, none is healed, and updates wait"
	readiness := &d.Group.Spec.Readiness
	switch {
	case reason == plan.ReasonProbePathSuspected:
		return fmt.Sprintf("all members that answered before fail at once on port %d: check that the server can reach them (routes, firewalls, NetworkPolicy) and that their service works%s",
			readiness.ProbePort(), kept)
	case d.Answers.NoneAllowed:
		return fmt.Sprintf("the server is not allowed to ask any member whether its service answers: name their networks in --probe-networks, or remove spec.readiness.%s%s",
			readiness.ProbeField(), kept)
	}
	var refused []string
	for i := range d.Members {
		if m := &d.Members[i]; m.ProbeRefused {
			refused = append(refused, m.display())
		}
	}
	return fmt.Sprintf("the server is not allowed to ask %s: add their networks to --probe-networks, or remove spec.readiness.%s%s", plan.AtMost(refused, 3), readiness.ProbeField(), kept)
}

// templatesThere names the templates where spec.template names none.
func (d *Decision) templatesThere() string {
	if len(d.State.Template.Others) == 0 {
		return "no templates there"
	}
	return "templates there: " + plan.AtMost(d.State.Template.Others, 10)
}
