package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// updated syncs a group after an edit until it is RUNNING for that generation, and fails if fewer than least members run meanwhile.
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{})
		allowed := func(c *vsphere.Config, _ *loop.Config) { c.ExtraKeys = vsphere.ExtraKeys{"sched.*"} }
		g := r.serve(allowed).group("web", 2)
		g.Spec.ExtraConfig = map[string]string{"sched.cpu.latencySensitivity": "high", "isolation.tools.copy.disable": "FALSE"}
		if text := blocked(t, g, "InvalidConfiguration"); !strings.Contains(text, `"isolation.tools.copy.disable"`) || !strings.Contains(text, "--extra-config") {
			t.Errorf("status: %s", text)
		}
		if _, answer := ask(t, g, "/plan", g.VmGroup.DeepCopy(), false); !strings.Contains(answer, "isolation.tools.copy.disable") {
			t.Errorf("the plan is %s", answer)
		}
		if n := len(r.members()); n > 0 {
			t.Errorf("there are %d members", n)
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{})
		g := r.serve().group("web", 2)
		for _, want := range [][]string{{"grid_t4-4c"}, {"10de:1eb8", "grid_t4-4c"}, nil} {
			before := refs(r.members())
			g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Hardware.PCIDevices = want })
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

// pciDevices are the devices of hosts that a VM has, as the spec names them.
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
