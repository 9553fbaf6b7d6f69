package test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// fitPersistent removes the settings that the API server refuses in a spec with persistent disks.
func (l *life) fitPersistent() {
	if s := &l.group.Spec; s.HasPersistentDisks() {
		s.Adopt, s.Deletion.QuarantineSeconds, s.Standby = nil, 0, 0
	}
}

// wrongDisks reports what must never happen to persistent disks: a disk is in two VMs, a VM has a disk of another group or ordinal, a disk that a
// guest wrote to is gone, or guests wrote to two disks of one ordinal and name.
func (w *watch) wrongDisks(l *life, vms []vcsim.VM) string {
	written, here := map[string]string{}, map[string]bool{}
	for _, d := range l.FirstClassDisks() {
		here[d.ID] = true
		owner := d.Metadata[disks.KeyOwner]
		known := slices.DeleteFunc(slices.Clone(d.UUIDs), func(id string) bool { return w.isExcused(id) }) // without the VMs that a user gave up while they were not in vCenter's inventory
		if len(known) > 1 {
			return fmt.Sprintf("the disk %s is in %v", d.Name, d.VMs)
		}
		if len(d.Written) == 0 {
			continue
		}
		if other, is := written[owner]; is {
			return fmt.Sprintf("guests wrote to two disks of %s: %s and %s", owner, other, d.ID)
		}
		written[owner] = d.ID
		for _, x := range d.Written {
			if of := ownerOf(vms, x.InstanceUUID); of != "" && !strings.HasPrefix(owner, of+"/") {
				return fmt.Sprintf("%s, of %s, wrote to the disk of %s", x.VM, of, owner)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, owner := range w.written {
		if !here[id] && !w.mayDelete(l, owner) {
			return fmt.Sprintf("the disk %s of %s is gone", id, owner)
		}
	}
	for owner, id := range written {
		if w.written == nil {
			w.written = map[string]string{}
		}
		w.written[id] = owner
	}
	return ""
}

// mayDelete reports whether the server may delete the disk of an owner with its ordinal. The caller holds mu.
func (w *watch) mayDelete(l *life, owner string) bool {
	parts := strings.Split(owner, "/")
	ordinal, _ := strconv.Atoi(parts[1])
	return l.profile.shape == "persistent" && ordinal >= w.wanted
}

// ownerOf returns the UID and the ordinal in the stamp of the VM with this instanceUuid; empty if no such VM has a stamp.
func ownerOf(vms []vcsim.VM, instanceUUID string) string {
	for _, vm := range vms {
		if s, err := stampOf(vm); err == nil && s.InstanceUUID == instanceUUID && !isStray(vm) {
			return fmt.Sprintf("%s/%d", s.UID, s.Ordinal)
		}
	}
	return ""
}
