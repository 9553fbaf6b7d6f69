package test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// updated syncs a group after an edit until it is RUNNING for that generation, and fails if fewer than least members run at any time until
// then.
func (r *rig) updated(g *metacontroller.Group, least int) {
	r.t.Helper()
	until(r.t, g, "the edit reaches all members", func(a metacontroller.Answer) bool {
		if n := tally(r.members(), isOn); n < least {
			r.t.Errorf("%d members run during the update, want at least %d", n, least)
		}
		return a.Status.Phase == v1alpha1.PhaseRunning && a.Status.ObservedGeneration == g.Generation
	})
}

func TestAnAdvancedSettingIsRefusedUntilTheServerAllowsItAndAnEditReplacesTheMembers(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		allowed := func(c *vsphere.Config, _ *loop.Config) { c.ExtraKeys = vsphere.ExtraKeys{"sched.*"} }
		g := r.serve(allowed).group("web", 2)
		g.Spec.ExtraConfig = map[string]string{"sched.cpu.latencySensitivity": "high", "isolation.tools.copy.disable": "FALSE"}
		if text := blocked(t, g, "InvalidConfiguration"); !strings.Contains(text, `"isolation.tools.copy.disable"`) || !strings.Contains(text, "--extra-config") {
			t.Errorf("the status says %q; want %q and %q in the text", text, `"isolation.tools.copy.disable"`, "--extra-config")
		}
		if _, answer := ask(t, g, "/plan", g.VmGroup.DeepCopy(), false); !strings.Contains(answer, "isolation.tools.copy.disable") {
			t.Errorf("the plan is %s; want %q in the text", answer, "isolation.tools.copy.disable")
		}
		if n := len(r.members()); n > 0 {
			t.Errorf("the group has %d members; want none", n)
		}
		const key = "sched.cpu.latencySensitivity"
		for _, value := range []string{"high", "normal"} {
			before := refs(r.members())
			g.Edit(func(s *v1alpha1.VmGroupSpec) { s.ExtraConfig = map[string]string{key: value} })
			r.updated(g, min(1, len(before)))
			for _, vm := range r.members() {
				if vm.ExtraConfig[key] != value || before[vm.Name] == vm.Ref.Value {
					t.Errorf("%s (%s, before %s) has %s = %q", vm.Name, vm.Ref.Value, before[vm.Name], key, vm.ExtraConfig[key])
				}
			}
		}
		remove(t, g)
	})
}

func TestMembersHaveTheirPCIDevicesAndAnEditReplacesThem(t *testing.T) {
	thin.NotShort(t)
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		g.Spec.Hardware.PCIDevices, g.Spec.Hardware.Version = []string{"10de:1eb8"}, 17
		if text := blocked(t, g, "InvalidConfiguration"); !strings.Contains(text, `"10de:1eb8"`) || !strings.Contains(text, "--pci-devices") || len(r.members()) > 0 {
			t.Errorf("without --pci-devices, the status is: %s", text)
		}
		g.URL = r.serve(func(c *vsphere.Config, _ *loop.Config) { c.PCIDevices = vsphere.PCIDevices{"10de:1eb8", "grid_t4-*"} }).url
		g.Edit(func(s *v1alpha1.VmGroupSpec) { // without an edit, the new server would report the former error until it has read vCenter
			s.Hardware.PCIDevices, s.Hardware.Version = []string{"grid_t4-4c"}, 0
		})
		if text := blocked(t, g, "InvalidConfiguration"); !strings.Contains(text, "spec.hardware.version") || r.Calls()["CloneVM_Task"] > 0 {
			t.Errorf("%d clones; status: %s", r.Calls()["CloneVM_Task"], text)
		}
		if _, answer := ask(t, g, "/plan", g.VmGroup.DeepCopy(), false); !strings.Contains(answer, "PCI devices need 17") {
			t.Errorf("the plan for a template of an older hardware version is %s; want %q in the text", answer, "PCI devices need 17")
		}
		for _, want := range [][]string{{"grid_t4-4c"}, {"10de:1eb8", "grid_t4-4c"}, nil} {
			before := refs(r.members())
			g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware.PCIDevices, s.Hardware.Version = want, 17 })
			r.updated(g, min(1, len(before)))
			for _, vm := range r.members() {
				config := r.details(vm.Path).Config
				reserved := config.MemoryAllocation != nil && config.MemoryAllocation.Reservation != nil && *config.MemoryAllocation.Reservation == int64(vm.MemoryMB)
				if got := pciDevices(&config); !slices.Equal(got, want) || reserved != (len(want) > 0) || before[vm.Name] == vm.Ref.Value {
					t.Errorf("%s (%s, before %s) has the devices %v, all memory reserved: %t; want %v", vm.Name, vm.Ref.Value, before[vm.Name], got, reserved, want)
				}
			}
		}
		remove(t, g)
	})
}

func TestReservationsLimitsAndSharesChangeOnRunningMembers(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		const template = "/DC0/vm/vm-operator-template"
		r.must(r.ToVM(template))
		r.must(r.Reconfigure(template, types.VirtualMachineConfigSpec{CpuAllocation: &types.ResourceAllocationInfo{Limit: types.NewInt64(1500)}}))
		r.must(r.ToTemplate(template))
		g := r.serve().group("web", 2)
		up(t, g)
		before := refs(r.members())
		for n, x := range []struct {
			hardware v1alpha1.Hardware
			want     string
		}{
			{v1alpha1.Hardware{CPULimitMHz: 800, CPUShares: new(intstr.FromString(v1alpha1.SharesHigh)), ReserveAllMemory: types.NewBool(true)}, "CPU 0 to 800 high, memory 4096 to -1 normal"},
			{v1alpha1.Hardware{CPUReservationMHz: 500, MemoryReservationMiB: 512, MemoryLimitMiB: 1024}, "CPU 500 to 1500 normal, memory 512 to 1024 normal"},
			{v1alpha1.Hardware{CPUShares: new(intstr.FromInt32(3000)), MemoryShares: new(intstr.FromInt32(v1alpha1.MaxShares))}, "CPU 0 to 1500 custom 3000, memory 0 to -1 custom 503316480"},
			{v1alpha1.Hardware{CPUShares: new(intstr.FromInt32(4000)), MemoryShares: new(intstr.FromString(v1alpha1.SharesLow))}, "CPU 0 to 1500 custom 4000, memory 0 to -1 low"},
			{v1alpha1.Hardware{}, "CPU 0 to 1500 normal, memory 0 to -1 normal"},
		} {
			file := g.VmGroup.DeepCopy()
			file.Spec.Hardware = x.hardware
			if _, answer := ask(t, g, "/plan", file, false); !strings.Contains(answer, "reservations, limits or shares") {
				t.Errorf("the plan is %s; want %q in the text", answer, "reservations, limits or shares")
			}
			g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware = x.hardware })
			r.updated(g, len(before)) // no member is powered off during the update
			if now := refs(r.members()); !maps.Equal(now, before) {
				t.Errorf("members were %v, and are %v", before, now)
			}
			g.Scale(3 + int32(n)) // checks that a new clone gets the same allocation
			r.updated(g, len(before))
			before = refs(r.members())
			for name := range before {
				if got := allocationOf(r.details(webFolder + name).Config); got != x.want {
					t.Errorf("%s has %s, want %s", name, got, x.want)
				}
			}
		}
		remove(t, g)
	})
}

func TestAMemberThatCannotHaveItsReservationRunsOn(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		up(t, g)
		before := refs(r.members())
		r.FailTask(vcsim.Reconfigure, nil, &types.InvalidArgument{InvalidProperty: "spec.cpuAllocation.reservation"}, 0)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware.CPUReservationMHz = 500 })
		blocked(t, g, "InvalidConfiguration")
		for began := time.Now(); time.Since(began) < 10*time.Minute; time.Sleep(5 * time.Second) {
			_, err := g.Sync(within(t))
			r.must(err)
		}
		if now := refs(r.members()); !maps.Equal(now, before) || tally(r.members(), isOn) != 2 {
			t.Errorf("members were %v, and are %v, %d on", before, now, tally(r.members(), isOn))
		}
		r.Heal()
		r.updated(g, 2)
	})
}

// allocationOf describes a VM's reservations, limits and shares of CPU and memory.
func allocationOf(c types.VirtualMachineConfigInfo) string {
	text := func(a *types.ResourceAllocationInfo) string {
		x := types.ResourceAllocationInfo{Reservation: types.NewInt64(0), Limit: types.NewInt64(-1), Shares: &types.SharesInfo{Level: types.SharesLevelNormal}}
		if a != nil {
			x = types.ResourceAllocationInfo{Reservation: cmp.Or(a.Reservation, x.Reservation), Limit: cmp.Or(a.Limit, x.Limit), Shares: cmp.Or(a.Shares, x.Shares)}
		}
		if x.Shares.Level == types.SharesLevelCustom {
			return fmt.Sprintf("%d to %d custom %d", *x.Reservation, *x.Limit, x.Shares.Shares)
		}
		return fmt.Sprintf("%d to %d %s", *x.Reservation, *x.Limit, x.Shares.Level)
	}
	return "CPU " + text(c.CpuAllocation) + ", memory " + text(c.MemoryAllocation)
}

func TestACloneOfAnOlderTemplateIsUpgradedBeforeItsFirstPowerOn(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		template := r.details("/DC0/vm/vm-operator-template").Config.Version
		g := r.serve().group("web", 2)
		for _, x := range []struct {
			least int32
			want  string
		}{{0, template}, {9, template}, {15, "vmx-15"}, {17, "vmx-17"}} {
			before, upgrades := refs(r.members()), r.Calls()["UpgradeVM_Task"]
			g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version = x.least })
			r.updated(g, min(1, len(before)))
			for _, vm := range r.members() {
				if got := r.details(vm.Path).Config.Version; got != x.want || before[vm.Name] == vm.Ref.Value {
					t.Errorf("%s (%s, before %s) has %s, want %s", vm.Name, vm.Ref.Value, before[vm.Name], got, x.want)
				}
			}
			if n := r.Calls()["UpgradeVM_Task"] - upgrades; (n > 0) != (x.want != template) {
				t.Errorf("%d upgrades for %d", n, x.least)
			}
		}
		clones := r.Calls()["CloneVM_Task"]
		edited := g.VmGroup.DeepCopy()
		edited.Spec.Hardware.Version = 99
		if _, answer := ask(t, g, "/plan", edited, false); !strings.Contains(answer, "hardware version 99") {
			t.Errorf("the plan of an edit that no host can carry out is %s; want %q in the text", answer, "hardware version 99")
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version = 99 })
		if text := blocked(t, g, "NotSupported"); !strings.Contains(text, "hardware version 99") || !strings.Contains(text, "spec.hardware.version") {
			t.Errorf("the status says %q; want %q and %q in the text", text, "hardware version 99", "spec.hardware.version")
		}
		if n := r.Calls()["CloneVM_Task"] - clones; n > 0 {
			t.Errorf("%d clones of a hardware version that no host supports; want none", n)
		}
		r.FailTask(vcsim.Upgrade, nil, new(types.NotSupported), 0)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version = 18 })
		if text := blocked(t, g, "NotSupported"); !strings.Contains(text, "cannot be upgraded to hardware version 18") || !strings.Contains(text, "spec.hardware.version") {
			t.Errorf("status of a member on an older host: %s; want %q and %q in the text", text, "cannot be upgraded to hardware version 18", "spec.hardware.version")
		}
		r.Heal()
		if n := tally(r.members(), func(vm vcsim.VM) bool { return isOn(vm) && r.details(vm.Path).Config.Version == "vmx-17" }); n < 2 {
			t.Errorf("%d members of the former version run; want at least 2", n)
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version = 17 })
		r.updated(g, 2)
		remove(t, g)
	})
}

// Usually the template has no virtual TPM, because no member may use the secrets of a template's TPM.
func TestEachMemberGetsAVirtualTPMOfItsOwnBeforeItsFirstPowerOnAndAnEditReplacesThem(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		up(t, g)
		before := refs(r.members())
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware.VTPM, s.Hardware.Version = true, 19 })
		if text := blocked(t, g, "InvalidConfiguration"); !strings.Contains(text, "EFI") || !strings.Contains(text, "spec.hardware.vtpm") {
			t.Errorf("the status says %q; want %q and %q in the text", text, "EFI", "spec.hardware.vtpm")
		}
		r.must(r.BootWithEFI("/DC0/vm/vm-operator-template"))
		if text := blocked(t, g, "InvalidConfiguration"); !strings.Contains(text, "key provider") {
			until(t, g, "the missing key provider", func(a metacontroller.Answer) bool {
				return strings.Contains(a.Status.LastMessage, "default key provider")
			})
		}
		if _, answer := ask(t, g, "/plan", g.VmGroup.DeepCopy(), false); !strings.Contains(answer, "default key provider") {
			t.Errorf("the plan is %s; want %q in the text", answer, "default key provider")
		}
		if n := tally(r.members(), isOn); n < 2 {
			t.Errorf("%d members run; want at least 2", n)
		}
		r.AddKeyProvider()
		var early []string
		r.Rewrite(func(call any) {
			var on []types.ManagedObjectReference
			switch call := call.(type) {
			case *types.PowerOnVM_Task:
				on = []types.ManagedObjectReference{call.This}
			case *types.PowerOnMultiVM_Task:
				on = call.Vm
			}
			for _, ref := range on {
				if r.tpmOf(ref) == "" {
					early = append(early, ref.Value)
				}
			}
		})
		r.updated(g, 1)
		g.Scale(3)
		r.updated(g, 2)
		secrets := map[string]bool{}
		for _, vm := range r.members() {
			d := r.details(vm.Path)
			if secrets[d.TPM] = true; d.TPM == "" || before[vm.Name] == vm.Ref.Value {
				t.Errorf("%s (%s, before %s) has the TPM %q", vm.Name, vm.Ref.Value, before[vm.Name], d.TPM)
			}
		}
		if len(secrets) != 3 || len(early) > 0 {
			t.Errorf("three members have %d secrets; powered on without one: %v", len(secrets), early)
		}
		r.Rewrite(nil)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware.VTPM = false })
		r.updated(g, 2)
		for _, vm := range r.members() {
			if d := r.details(vm.Path); d.TPM != "" {
				t.Errorf("%s has the TPM %q; want none", vm.Name, d.TPM)
			}
		}
		remove(t, g)
	})
}

// tpmOf returns the secret of a VM's virtual TPM; empty without one.
func (r *rig) tpmOf(ref types.ManagedObjectReference) string {
	for _, vm := range r.VMs() {
		if vm.Ref == ref {
			return r.details(vm.Path).TPM
		}
	}
	return ""
}

// pciDevices returns the host devices of a VM, by the names that the spec uses.
func pciDevices(config *types.VirtualMachineConfigInfo) (all []string) {
	for _, d := range config.Hardware.Device {
		switch b := d.GetVirtualDevice().Backing.(type) {
		case *types.VirtualPCIPassthroughDynamicBackingInfo:
			all = append(all, fmt.Sprintf("%04x:%04x", b.AllowedDevice[0].VendorId, b.AllowedDevice[0].DeviceId))
		case *types.VirtualPCIPassthroughVmiopBackingInfo:
			all = append(all, b.Vgpu)
		}
	}
	return all
}
