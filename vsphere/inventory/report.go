package inventory

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// VMware Tools report nothing while they are upgraded and when they fail, although the guest's service runs on. So the inventory keeps a
// guest's last report until the guest reports something else, or its VM is powered off or booted again.

// recall fills in what a member's guest reported earlier in this boot and does not report now. old is the member's last reading, or nil.
func recall(m, old *Member) {
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
			return vm.ID().Is(plan.IDOf(&r)) && !r.BootTime.IsZero() && plan.SameBoot(r.BootTime.Time, vm.BootTime)
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
