package test

import (
	"regexp"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// touches notes that an operator powers off or removes a VM, or tries to.
func (w *watch) touches(vm vcsim.VM) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched[vm.Ref.Value] = true
}

func (w *watch) isTouched(ref string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.touched[ref]
}

var anyMoRef = regexp.MustCompile(`\bvm-[0-9]+\b`)

// checkBlame checks that Events blame an account only for VMs that an operator changed.
func (l *life) checkBlame() {
	for name, event := range l.group.Events {
		if !strings.Contains(string(event), " in vCenter by ") {
			continue
		}
		for _, ref := range anyMoRef.FindAllString(string(event), -1) {
			if !l.isTouched(ref) {
				l.t.Errorf("an Event blames an account for what no operator did to %s: %s: %s", ref, name, event)
			}
		}
	}
}

// checkLastEvents checks that the Events of a deleted group name each removed member and say which persistent disks are kept.
func (l *life) checkLastEvents(members []string, disks []v1alpha1.PersistentDisk) {
	events := eventsOf(l.t, l.group)
	for _, ref := range members {
		if !strings.Contains(events["MemberRemoved"], "("+ref+")") {
			l.t.Errorf("the Events of removals %q do not name %s", events["MemberRemoved"], ref)
		}
	}
	if len(disks) > 0 && events["DisksKept"] == "" {
		l.t.Errorf("no Event names the disks that are kept: %v", disks)
	}
}
