package test

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// departures are the ways in which VMs leave vCenter's inventory, where they continue to run, and come back.
var departures = []operation{
	{"a host is removed", 10, func(l *life) {
		host := pick(l.rand, []string{"/DC0/host/DC0_C0/DC0_C0_H0", "/DC0/host/DC0_C0/DC0_C0_H1", "/DC0/host/DC0_C1/DC0_C1_H0", "/DC0/host/DC0_C1/DC0_C1_H1"})
		if slices.ContainsFunc(l.RemovedHosts(), func(name string) bool { return strings.HasPrefix(host, "/DC0/host/"+name[:len("DC0_C0")]) }) {
			return // otherwise the cluster would lose its last host
		}
		if l.depart(func(vm vcsim.VM) bool { d, err := l.Details(vm.Path); return err == nil && d.Host == host }) {
			l.say("an operator removes %s: %v", host, l.RemoveHost(host))
		}
	}},
	{"a host is added back", 5, func(l *life) {
		if removed := l.RemovedHosts(); len(removed) > 0 {
			host := pick(l.rand, removed)
			l.say("an operator adds %s back: %v", host, l.returning(func() error { return l.AddHost(host) }))
		}
	}},
	onMember("unregister", 5, func(l *life, vm vcsim.VM) error {
		if err := l.PowerOff(vm.Path); isOn(vm) && err != nil {
			return err
		}
		if !l.depart(func(other vcsim.VM) bool { return other.Ref == vm.Ref }) {
			return nil
		}
		return l.Unregister(vm.Path)
	}),
	{"register", 5, func(l *life) {
		if away := l.OutsideInventory(); len(away) > 0 {
			vm := pick(l.rand, away)
			l.say("an operator registers %s: %v", vm.Name, l.returning(func() error { return l.Register(vm.InstanceUUID) }))
		}
	}},
	{"a backup", 6, func(l *life) { l.backup = l.Backup() }},
	{"vCenter is restored from a backup", 6, func(l *life) {
		if l.backup != nil && l.depart(func(vm vcsim.VM) bool { return true }) {
			l.say("vCenter is restored")
			l.must(l.Restore(l.backup))
			l.disconnectAll("Restore")
		}
	}},
}

// depart notes the VMs that are about to leave the inventory. It returns false, so that they stay, if the status doesn't list one of them yet: if all
// replicas of the server stopped now, no record of that VM would be left (docs/design.md, known limits).
func (l *life) depart(leaves func(vcsim.VM) bool) bool {
	var kept []string
	for _, vm := range slices.DeleteFunc(l.ours(), func(vm vcsim.VM) bool { return !leaves(vm) }) {
		stamp, _ := stampOf(vm)
		switch {
		case !stamp.Quarantined.IsZero():
			kept = append(kept, vm.First)
		case !slices.ContainsFunc(l.group.Status.Members, func(m v1alpha1.Member) bool { return m.InstanceUUID == vm.First }):
			return false
		}
	}
	l.watch.excuse(kept...)
	return true
}

// returning brings VMs back to the inventory. The VMs get new moRefs, so returning updates the moRefs of unmanaged VMs that the life has noted.
func (l *life) returning(do func() error) error {
	if l.deleting {
		l.missingStay() // the server may have finished the deletion already, without the missing VMs
	}
	before := refsOf(l.VMs())
	err := do()
	for _, vm := range l.VMs() {
		if slices.Contains(before, vm.Ref.Value) {
			continue
		}
		l.retagged[vm.Ref.Value] = true // a VM loses its tags when it leaves the inventory
		for ref, was := range l.unmanaged {
			if was.InstanceUUID == vm.InstanceUUID && was.ExtraConfig[strayKey] == vm.ExtraConfig[strayKey] && ref != vm.Ref.Value {
				delete(l.unmanaged, ref)
				l.unmanaged[vm.Ref.Value] = vm
			}
		}
	}
	return err
}

// bringBack brings back all hosts and VMs that have left the inventory.
func (l *life) bringBack() {
	for _, host := range l.RemovedHosts() {
		l.say("an operator adds %s back: %v", host, l.returning(func() error { return l.AddHost(host) }))
	}
	for _, vm := range l.OutsideInventory() {
		l.say("an operator registers %s: %v", vm.Name, l.returning(func() error { return l.Register(vm.InstanceUUID) }))
	}
}

// giveUp acts for an operator who knows that a VM is permanently gone, although vCenter's events no longer say so. The operator also removes
// entries of spec.replace that are older than the loss of the VM, or that name another member's VM, as after a restore of vCenter.
func (l *life) giveUp(a metacontroller.Answer) {
	for _, m := range a.Status.Members {
		n := len(l.group.Spec.Replace)
		l.group.Spec.Replace = slices.DeleteFunc(slices.Clone(l.group.Spec.Replace), func(r v1alpha1.Replacement) bool {
			return r.MoRef == m.MoRef && (m.Replace != "" || r.Name != fmt.Sprintf("web-%d", m.Ordinal))
		})
		if len(l.group.Spec.Replace) < n {
			l.edited("%s (%s) is taken out of spec.replace", m.Name, m.MoRef)
			return
		}
		there := slices.ContainsFunc(slices.Concat(l.AllVMs()), func(vm vcsim.VM) bool { return vm.First == m.InstanceUUID })
		named := slices.ContainsFunc(l.group.Spec.Replace, func(r v1alpha1.Replacement) bool { return r.MoRef == m.MoRef })
		if m.Reason == plan.ReasonMemberVanished && !there && !named {
			l.group.Spec.Replace = append(l.group.Spec.Replace, v1alpha1.Replacement{Name: fmt.Sprintf("web-%d", m.Ordinal), MoRef: m.MoRef})
			l.edited("%s (%s) is given up: %s", m.Name, m.MoRef, m.Message)
		}
	}
}
