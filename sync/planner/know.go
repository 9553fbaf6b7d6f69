// This file finds the facts.

package planner

import (
	"maps"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func factsOf(o *plan.Observed) *facts {
	staleMoRefs := ""
	if o.State.Known {
		if moved := plan.Moved(o.Group, o.State.VCenter); o.Finalizing || o.Group.Status.VCenterUUID == o.State.VCenter {
			o.Group = moved
		} else if staleMoRefs = moRefsIn(&o.Group.Spec); staleMoRefs == "" {
			o.Group = moved
		}
	}
	f := &facts{Observed: o, staleMoRefs: staleMoRefs, holds: plan.HoldsOf(o.Group), want: int(o.Group.Replicas()), prepared: plan.PreparationOf(&o.Group.Spec),
		allocation: plan.AllocationOf(&o.Group.Spec), departed: o.State.Departed(), instances: make(map[string]bool, len(o.State.VMs))}
	for i := range o.State.VMs {
		f.instances[o.State.VMs[i].InstanceUUID] = true
	}
	if errs := o.Group.Validate(); len(errs) > 0 {
		fields := make([]string, len(errs))
		for i, err := range errs {
			fields[i] = err.Error()
		}
		f.invalid = &plan.Fault{Reason: plan.ReasonInvalidSpec, NeedsOperator: true, Message: plan.SentencesAtMost(fields, 10)}
	}
	if o.Related.Fault == nil {
		f.revision = plan.RevisionWith(&o.Group.Spec, o.Related.Digest)
	}
	f.templates = templatesOf(o.State.Strays)
	f.forgetClones()
	f.policy = PolicyOf(&o.Group.Spec, f.want)
	f.policy.Retain = f.policy.Retain || f.orphaned()
	f.hideLaterFolder()
	f.disksListed = byOrdinal(o.Group.Status.Disks)
	if f.hasPersistentDisks() {
		f.disksNow = byOrdinal(plan.DiskStatuses(f.Group, f.State.VMs))
	}
	f.vCenterKnown, f.blockedBy = f.findBlock()
	f.shortOutage, f.shortOutageOver = f.inShortOutage()
	return f
}

// forgetClones drops failures of clones that no longer matter: the member exists, because another replica cloned it or vCenter's reply was
// lost; or the name that another object had is free, so the clone is tried again at once.
func (f *facts) forgetClones() {
	var over []string
	for name, p := range f.Pending {
		if p.Op == plan.Clone && p.Fault.Reason != "" && (f.isMade(p.Ordinal) || p.Fault.Reason == plan.ReasonNameConflict && slices.Contains(f.State.Free, name)) {
			over = append(over, name)
		}
	}
	if len(over) == 0 {
		return
	}
	f.Pending = maps.Clone(f.Pending)
	for _, name := range over {
		p := f.Pending[name]
		if p.Fault = (plan.Fault{}); p.State == plan.Running {
			f.Pending[name] = p
		} else {
			delete(f.Pending, name)
		}
	}
}

// isMade reports whether a member with that ordinal exists.
func (f *facts) isMade(ordinal int32) bool {
	return f.State.Known && slices.ContainsFunc(f.State.VMs, func(vm plan.VM) bool { return vm.Ordinal == ordinal && vm.Quarantined.IsZero() })
}

// hideLaterFolder treats a folder that was created after the newest hook call as missing. The group may have been deleted since that call,
// and the folder may belong to a new group of the same name, which must not get this group's clones. If the group still exists, its next
// hook call shows that the folder is its own.
func (f *facts) hideLaterFolder() {
	if folder := f.State.Folder; folder != "" && !f.Finalizing && !f.Owns(folder) {
		f.later = true
		f.State.Folder, f.State.Quarantine = "", ""
	}
}
