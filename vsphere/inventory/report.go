package inventory

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// VMware Tools fall silent while they are upgraded, and when they break; the guest's service does not notice. So what a guest reported
// stands until it reports something else, or its VM is powered off, or has been powered on again.

// recall completes a member with what its guest reported before in this boot, where it reports nothing now. old can be nil. The caller
// holds mu.
func (n *Inventory) recall(m, old *Member) {
	on := m.Power == plan.PoweredOn
	m.Reported = on && m.HasReported()
	if on && old != nil && old.Reported && (m.Boot.IsZero() || plan.SameBoot(m.Boot, old.Boot)) {
		m.Reported = true
		if len(m.IPs) == 0 {
			m.IPs = old.IPs
		}
	}
}

// compare notes which of the addresses that a guest was given it does not report, although it reports others. The caller holds mu.
func (n *Inventory) compare(vm *plan.VM) {
	vm.Untaken = untakenAddresses(vm.IPs, addressesWithin(n.guestNetworks, vm.Given()))
}

// recorded completes VMs with what the group's status says that their guests reported last, where this replica of the server has seen no
// report since they were powered on: it might have just started. The caller holds mu.
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
			return r.MoRef == vm.MoRef && sameVM(r.InstanceUUID, vm.InstanceUUID) && !r.BootTime.IsZero() && plan.SameBoot(r.BootTime.Time, vm.Boot)
		})
		if at < 0 {
			continue
		}
		vm.Reported = true
		vm.IPs = firstAddresses(addressesWithin(n.guestNetworks, ask.Recorded[at].IPs), vm.Given())
		n.compare(&vm)
		if !changed {
			vms, changed = slices.Clone(vms), true
		}
		vms[i] = vm
	}
	return vms
}
