package plan

import (
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// A moRef means nothing outside of its vCenter: another one has other VMs with the same moRefs. If a group's VMs come from another vCenter, what the
// status says of each of them there stays as the record of a VM that is missing, with the vCenter's instanceUuid after the moRef ("vm-42:6b1a…", as in
// the vSphere Client's identifiers), until the VM is found in this vCenter.

// reachedBy returns the moRef by which a record names a VM in the vCenter now, if its moRef is one of the vCenter was.
func reachedBy(moRef, was, now string) string {
	at, in, elsewhere := strings.Cut(moRef, ":")
	switch {
	case elsewhere && in == now:
		return at
	case elsewhere || moRef == "" || was == "" || was == now:
		return moRef
	}
	return moRef + ":" + was
}

// VCenterOf returns the instanceUuid of the vCenter that a recorded moRef is of, if that is not the vCenter of the status; otherwise "".
func VCenterOf(moRef string) string {
	_, in, _ := strings.Cut(moRef, ":")
	return in
}

// Moved returns a group as it is in a vCenter. If an operator said that this one has the VMs now (AnnotationMovedTo), the records of the status are of
// it, or name their vCenter. Otherwise Moved returns the group itself.
func Moved(g *v1alpha1.VmGroup, vcenter string) *v1alpha1.VmGroup {
	was := g.Status.VCenterUUID
	if vcenter == "" || g.MovedTo() != vcenter {
		return g
	}
	moved := *g
	moved.Status = *g.Status.DeepCopy()
	s := &moved.Status
	if s.VCenterUUID = vcenter; was != vcenter { // other objects have these moRefs there
		s.Names = nil
	}
	for i := range s.Members {
		s.Members[i].MoRef = reachedBy(s.Members[i].MoRef, was, vcenter)
	}
	for i := range s.Standby {
		s.Standby[i].MoRef = reachedBy(s.Standby[i].MoRef, was, vcenter)
	}
	for i := range s.Quarantined {
		s.Quarantined[i].MoRef = reachedBy(s.Quarantined[i].MoRef, was, vcenter)
	}
	for i := range s.GivenUp {
		s.GivenUp[i].MoRef = reachedBy(s.GivenUp[i].MoRef, was, vcenter)
	}
	for i := range s.Strays {
		s.Strays[i].MoRef = reachedBy(s.Strays[i].MoRef, was, vcenter)
	}
	for i := range s.Disks {
		s.Disks[i].MoRef = reachedBy(s.Disks[i].MoRef, was, vcenter)
	}
	return &moved
}
