package inventory

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// VMware Tools report nothing while they are upgraded and when they fail, although the guest's service runs on. So the inventory keeps a
// guest's last report until the guest reports something else, or its VM is powered off or booted again.

// recall fills in what a member's guest reported earlier in this boot and does not report now. old is the member's last reading, or nil. The
// caller holds mu.
func (n *Inventory) recall(m, old *Member) {
	on := m.Power == plan.PoweredOn
	m.Reported = on && m.HasReported()
	if on && old != nil && old.Reported && (m.BootTime.IsZero() || plan.SameBoot(m.BootTime, old.BootTime)) {
		m.Reported = true
		if len(m.IPs) == 0 {
			m.IPs = old.IPs
		}
	}
}

// compare sets the static addresses that a guest does not report, although it reports others. The caller holds mu.
func (n *Inventory) compare(vm *plan.VM) {
	vm.UnreportedAddresses = untakenAddresses(vm.IPs, addressesWithin(n.guestNetworks, vm.StaticAddresses()))
}

// recorded fills in what the group's status says that guests reported last, for VMs of which this replica has seen no report since they were
// powered on, for example because the replica has just started. The caller holds mu.
func (n *Inventory) recorded(vms []plan.VM, ask *plan.Query) []plan.VM {
	if ask.RecordedIn != "" && ask.RecordedIn != n.vcenter {
		return vms
	}
	changed := false
	for i := range vms {
		vm := vms[i]
		if vm.Reported || vm.Power != plan.PoweredOn {
			continue
		}
		at := slices.IndexFunc(ask.Recorded, func(r v1alpha1.Member) bool {
			return r.MoRef == vm.MoRef && sameVM(r.InstanceUUID, vm.InstanceUUID) && !r.BootTime.IsZero() && plan.SameBoot(r.BootTime.Time, vm.BootTime)
		})
		if at < 0 {
			continue
		}
		vm.Reported = true
		vm.IPs = firstAddresses(addressesWithin(n.guestNetworks, ask.Recorded[at].IPs), vm.StaticAddresses())
		n.compare(&vm)
		if !changed {
			vms, changed = slices.Clone(vms), true
		}
		vms[i] = vm
	}
	return vms
}

// HasTags reports whether the server gave tags or attributes to any member.
func (n *Inventory) HasTags() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, m := range n.objects.members {
		if m.Stamp.Tagged.MoRef != "" {
			return true
		}
	}
	return false
}

// Untagged records that VMs with these names may have lost tags at these times. Members whose tags were compared before are to be compared again: so
// their stamps count as those of another VM, until they are written again.
func (n *Inventory) Untagged(names map[string]time.Time) {
	groups := map[types.UID]bool{}
	n.mu.Lock()
	for ref, m := range n.objects.members {
		tagged := &m.Stamp.Tagged
		if at, lost := names[m.Name]; !lost || tagged.MoRef == "" || tagged.MoRef == plan.TagDetached || !at.After(tagged.At) {
			continue
		}
		x := *m
		x.Stamp.Tagged.MoRef = plan.TagDetached
		n.objects.members[ref] = &x
		n.objects.groups[x.Stamp.UID].refs[ref] = &x
		groups[x.Stamp.UID] = true
	}
	for uid := range groups {
		n.rebuild(uid)
	}
	if len(groups) > 0 {
		n.version++
	}
	n.mu.Unlock()
	for uid := range groups {
		n.changed(uid)
	}
}
