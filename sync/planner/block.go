// This file finds what blocks a group, before its VMs are examined.

package planner

import (
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// findBlock decides the columns left of the bar in Make's table.
func (f *facts) findBlock() (vCenterKnown bool, blocked *plan.Block) {
	s := &f.State
	if other := f.otherInstall(); other != nil {
		return false, other
	}
	switch {
	case !s.Known && !f.Finalizing && f.invalid != nil: // known without vCenter
		return false, &plan.Block{Fault: *f.invalid}
	case !s.Known:
		return false, &plan.Block{Fault: *f.State.Outage()}
	}
	if was, what := f.madeIn(); was != "" && was != s.VCenter {
		changed := &plan.Block{Fault: needsOperator(plan.ReasonVCenterChanged), VCenter: was, What: what}
		if f.Group.MovedTo() == s.VCenter {
			changed.StaleMoRefs = f.staleMoRefs
		}
		return false, changed
	}
	if f.Finalizing {
		return true, f.undeletable()
	}
	if f.invalid != nil {
		return true, &plan.Block{Fault: *f.invalid}
	}
	if s.Fault != nil {
		return true, &plan.Block{Fault: *s.Fault}
	}
	if elsewhere := f.elsewhere(); elsewhere != nil && f.wantAll() > 0 { // members can be removed, wherever they are
		return true, elsewhere
	}
	if lost := f.disksLost(); lost != nil && f.want > 0 {
		return true, lost
	}
	if many := f.tooManyDisks(); many != nil && f.want > 0 {
		return true, many
	}
	if newer := f.superseded(); newer != nil {
		return true, newer
	}
	if name := f.removedElsewhere(); name != "" {
		return true, &plan.Block{Fault: plan.Fault{Reason: plan.ReasonSuperseded}, Removed: name}
	}
	if !f.EditedTooOften.IsZero() {
		return true, &plan.Block{Fault: plan.Fault{Reason: plan.ReasonEditedTooOften}}
	}
	return true, nil
}

// moRefsIn names a field of the spec that has moRefs; empty if there is none.
func moRefsIn(spec *v1alpha1.VmGroupSpec) string {
	switch {
	case len(spec.Replace) > 0:
		return "spec.replace"
	case slices.ContainsFunc(spec.Adopt, func(entry string) bool { return !strings.Contains(entry, "/") }):
		return "spec.adopt"
	}
	return ""
}

// superseded returns a fault if the group's spec was newer before: by the members' stamps, or by an earlier hook call.
func (f *facts) superseded() *plan.Block {
	newest, called := f.NewestStamp, f.Group.Generation
	for i := range f.State.VMs {
		newest = max(newest, f.State.VMs[i].Generation)
	}
	if f.Older != nil {
		newest, called = max(newest, f.Group.Generation), f.Older.Generation
	}
	if newest <= called || f.Older == nil && newest == f.Group.UndoneGeneration() { // the group's annotation says nothing of an older call's generation
		return nil
	}
	return &plan.Block{Fault: plan.Fault{Reason: plan.ReasonSuperseded}, Newest: newest, Called: called}
}

// undeletable returns a fault if the deletion of a group waits: it isn't being deleted according to the newest hook call, or its spec was newer
// before the deletion, which has a generation of its own. Then another cluster may have the group, with this UID: the one from whose backup this
// cluster was restored. Its server writes to stamps, too, and Kubernetes can't tell. What this deletion wrote doesn't count.
func (f *facts) undeletable() *plan.Block {
	if f.Older != nil {
		return &plan.Block{Fault: plan.Fault{Reason: plan.ReasonSuperseded}}
	}
	newest := int64(0)
	if f.NewestStamp > f.Group.Generation {
		newest = f.NewestStamp
	}
	for i := range f.State.VMs {
		if vm := &f.State.VMs[i]; vm.Generation > f.Group.Generation || vm.Generation == f.Group.Generation && f.ownGeneration() && !f.deletionChanged(vm) {
			newest = max(newest, vm.Generation)
		}
	}
	if newest == 0 || newest == f.Group.UndoneGeneration() {
		return nil
	}
	return &plan.Block{Fault: needsOperator(plan.ReasonSuperseded), Newest: newest, Called: f.Group.Generation}
}

// ownGeneration reports whether the deletion has a generation of its own, so that a stamp of it can be that of a spec that this cluster never had. The API
// server gives one to each deletion (markAsDeleting in k8s.io/apiserver), and a resourceVersion to each object. Who calls the hooks with curl does neither.
func (f *facts) ownGeneration() bool { return f.Group.ResourceVersion != "" }

// deletionChanged reports whether it may be this deletion that gave a VM's stamp its generation: it marked the VM, perhaps once more, or asked its guest to
// shut down.
func (f *facts) deletionChanged(vm *plan.VM) bool {
	return vm.Marked || vm.Shutdown.At.After(f.deletionBegan().Add(-plan.ClockSkew))
}

// deletionBegan is when the deletion of the group began, by the clock that says the earliest time: the API server's, or that of a process of the server.
func (f *facts) deletionBegan() time.Time {
	began := f.Group.DeletionTimestamp.Time
	for _, at := range []time.Time{f.FinalizingSince, f.Group.Status.FinalizingSince.Time} {
		if !at.IsZero() && at.Before(began) {
			began = at
		}
	}
	return began
}

// removedElsewhere names a member in the stored status that another process of the server destroyed: that process may have a newer spec. The
// member's stamp, which had the newer generation, is gone, too. So this process could create a member in its place that the newest spec
// doesn't ask for, and the scale-in that follows could remove a member that the newest spec keeps. The next hook call has the newest spec,
// and a status without the member. (After a restart, this costs one call as well.) A new member, which the stored status doesn't list yet,
// shows the same if it was destroyed after the newest call.
func (f *facts) removedElsewhere() string {
	for i := range f.Group.Status.Members {
		r := &f.Group.Status.Members[i]
		if by, gone := f.departed.As(plan.IDOf(r)); gone && by.Ours && by.User != "" && !f.isBack(r) {
			return r.Name
		}
	}
	if r := &f.State.LastRemoved; r.At.After(f.Called) {
		return r.Name
	}
	return ""
}

// elsewhere returns a fault if members were, or are being, cloned into another folder than spec.placement names now. A member's name in its
// folder is the lock that keeps two VMs from getting one ordinal, and in two folders there would be two locks.
func (f *facts) elsewhere() *plan.Block {
	home := plan.HomeOf(&f.Group.Spec).String()
	for i := range f.State.VMs {
		if was := f.State.VMs[i].Home; was != home {
			return &plan.Block{Fault: needsOperator(plan.ReasonPlacementImmutable), Home: was}
		}
	}
	for _, p := range f.Pending {
		if p.Op == plan.Clone && p.State == plan.Running && p.Home != home {
			return &plan.Block{Fault: needsOperator(plan.ReasonPlacementImmutable), Home: p.Home, Creating: true}
		}
	}
	return nil
}

// disksLost returns a fault if the spec would take a disk from a member, or make one smaller: the CRD refuses that, so the spec has got
// around it.
func (f *facts) disksLost() *plan.Block {
	for i := range f.State.VMs {
		vm := &f.State.VMs[i]
		if lost := plan.DisksLost(&f.Group.Spec, vm.Disks); lost != "" && vm.Quarantined.IsZero() {
			return &plan.Block{Fault: needsOperator(plan.ReasonDisksImmutable), Member: plan.MemberName(f.Group.Name, vm.Ordinal), Lost: lost}
		}
	}
	return nil
}

// madeIn returns the vCenter in which the group's members or its persistent disks were created, by the status and the stamps; empty for a
// group without members, VMs in quarantine and persistent disks. Disks alone don't delay a deletion: the status lists them until the group
// ends, and an install for another vCenter can't do anything about them.
func (f *facts) madeIn() (vcenter, what string) {
	if f.Group.Status.VCenterUUID == f.State.VCenter { // VMs that came from another vCenter have its name in their stamps for a moment
		return "", ""
	}
	for i := range f.State.VMs {
		if was := f.State.VMs[i].VCenter; was != "" && was != f.State.VCenter {
			return was, "members"
		}
	}
	switch s := &f.Group.Status; {
	case f.recorded() > 0:
		return s.VCenterUUID, "members"
	case !f.Finalizing && len(f.Group.DisksLeft()) > 0:
		return s.VCenterUUID, "persistent disks"
	}
	return "", ""
}
