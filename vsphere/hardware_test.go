package vsphere

import (
	"reflect"
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestAMemberHasTheHardwareOfTheSpecAndTheRestFromTheTemplate(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		w.must(w.ToVM("ubuntu"))
		w.must(w.Reconfigure("ubuntu", vim.VirtualMachineConfigSpec{
			CpuHotAddEnabled: vim.NewBool(true), CpuAllocation: &vim.ResourceAllocationInfo{Reservation: vim.NewInt64(300), Limit: vim.NewInt64(900)},
		}))
		w.must(w.ToTemplate("ubuntu"))
		c := p.made(0, v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{
			CoresPerSocket: 2, MemoryHotAdd: vim.NewBool(true), CPULimitMHz: 800, CPUShares: new(intstr.FromString(v1alpha1.SharesLow)), ReserveAllMemory: vim.NewBool(true), MemoryShares: new(intstr.FromInt32(12_345)),
		}}).Config
		if cores := *c.Hardware.NumCoresPerSocket; cores != 2 || !*c.CpuHotAddEnabled || !*c.MemoryHotAddEnabled || !*c.MemoryReservationLockedToMax {
			t.Errorf("got %d cores per socket, hot-add of CPUs %t and of memory %t, and all memory reserved %t; want 2, and true", cores, *c.CpuHotAddEnabled, *c.MemoryHotAddEnabled, *c.MemoryReservationLockedToMax)
		}
		if a := c.CpuAllocation; *a.Reservation != 300 || *a.Limit != 800 || a.Shares.Level != vim.SharesLevelLow {
			t.Errorf("got for CPUs the reservation %d MHz, the limit %d MHz and the shares %+v; want 300, 800 and low", *a.Reservation, *a.Limit, a.Shares)
		}
		if a := c.MemoryAllocation; *a.Reservation != 1024 || *a.Shares != (vim.SharesInfo{Level: vim.SharesLevelCustom, Shares: 12_345}) {
			t.Errorf("got for memory the reservation %d MB and the shares %+v; want 1024, and 12345", *a.Reservation, a.Shares)
		}
	})
}

func TestSecureBootNeedsATemplateThatBootsWithEFI(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		spec := v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{SecureBoot: vim.NewBool(true), BootDelaySeconds: 2}}
		p.refused(0, spec, vcfault.ReasonInvalidConfiguration, `"ubuntu"`, "BIOS", "EFI", "spec.hardware.secureBoot")
		w.must(w.BootWithEFI("ubuntu"))
		p.lookups.forget()
		if o := p.made(0, spec).Config.BootOptions; !*o.EfiSecureBootEnabled || o.BootDelay != 2000 {
			t.Errorf("got secure boot %t, and a boot delay of %d ms; want true, and 2000", *o.EfiSecureBootEnabled, o.BootDelay)
		}
	})
}

func TestAMemberHasTheAdvancedSettingsThatTheServerAllows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p := placed(t, vcsim.Config{}, func(c *Config) { c.ExtraKeys = ExtraKeys{"sched.*", "disk.enableUUID"} })
		value := func(o []vim.BaseOptionValue, key string) any {
			for _, x := range o {
				if x.GetOptionValue().Key == key {
					return x.GetOptionValue().Value
				}
			}
			return nil
		}
		c := p.made(0, v1alpha1.VmGroupSpec{ExtraConfig: map[string]string{"disk.EnableUUID": "TRUE", "sched.cpu.latencySensitivity": "high"}}).Config
		if value(c.ExtraConfig, "disk.EnableUUID") != "TRUE" || value(c.ExtraConfig, "sched.cpu.latencySensitivity") != "high" || value(c.ExtraConfig, stamp.Key) == nil {
			t.Errorf("got the extraConfig %v; want the keys of the spec and the stamp", c.ExtraConfig)
		}
		p.refused(1, v1alpha1.VmGroupSpec{ExtraConfig: map[string]string{"isolation.tools.copy.disable": "FALSE"}}, vcfault.ReasonInvalidConfiguration, `"isolation.tools.copy.disable"`, "--extra-config")
	})
}

func TestAMemberHasThePCIDevicesOfTheSpecAndAllItsMemoryReserved(t *testing.T) {
	inPlace(t, vcsim.Config{Portgroups: 1}, func(t *testing.T, w *world, p *process) {
		w.must(w.BootFromNetwork("ubuntu")) // so the clone is tried again with other adapters
		spec := v1alpha1.VmGroupSpec{
			Networks: []v1alpha1.Network{{Network: "DC0_DVPG0"}}, RootDisk: &v1alpha1.RootDisk{SizeGiB: 20},
			Hardware: v1alpha1.Hardware{PCIDevices: []string{"10de:1eb8", "grid_t4-4c"}},
		}
		p.refused(0, spec, vcfault.ReasonInvalidConfiguration, `"ubuntu"`, "hardware version 13", "need 17", "spec.hardware.version", "spec.hardware.pciDevices")
		spec.Hardware.Version = 17
		p.preparedWith(spec)
		d, err := w.Details("web-0")
		w.must(err)
		c := d.Config
		var got []vim.BaseVirtualDeviceBackingInfo
		for _, d := range c.Hardware.Device {
			switch d := d.(type) {
			case *vim.VirtualPCIPassthrough:
				got = append(got, d.Backing)
			case *vim.VirtualDisk:
				if d.CapacityInBytes != 20<<30 {
					t.Errorf("the disk has %d bytes; want 20 GiB", d.CapacityInBytes)
				}
			}
		}
		want := []vim.BaseVirtualDeviceBackingInfo{
			&vim.VirtualPCIPassthroughDynamicBackingInfo{AllowedDevice: []vim.VirtualPCIPassthroughAllowedDevice{{VendorId: 0x10de, DeviceId: 0x1eb8}}},
			&vim.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: "grid_t4-4c"},
		}
		if !reflect.DeepEqual(got, want) || *c.MemoryAllocation.Reservation != 1024 {
			t.Errorf("got the devices %+v, and %d MB reserved; want %+v, and 1024", got, *c.MemoryAllocation.Reservation, want)
		}
		p.refused(1, v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{PCIDevices: []string{"grid_t4-4c", "15b3:1018"}, Version: 17}}, vcfault.ReasonInvalidConfiguration, `"15b3:1018"`, "--pci-devices")
	})
}

func TestAStarAllowsAnyTextAndEverythingElseItself(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"svga.*", "SVGA.vramSize", true}, {"svga.*", "svga.", true}, {"svga.*", "svga", false}, {"svga.*", "xsvga.a", false},
		{"*", "", true}, {"*", "a/b", true}, {"a.*", "a./b/c", true}, {"*.b", "a.b.b", true}, {"*.b", "a.b.c", false},
		{"a*b*c", "a1b2c", true}, {"a*b*c", "ac", false}, {"a*b*c", "abbc", true}, {"a*a", "a", false}, {"a**a", "aa", true},
		{"disk.EnableUUID", "disk.enableuuid", true}, {"disk.EnableUUID", "disk.EnableUUID2", false},
		{"a?", "ab", false}, {"a?", "a?", true}, {"[ab]", "a", false}, {"[ab]", "[AB]", true}, {`a\*`, `a\b`, true}, {"a+b", "aab", false},
	} {
		if got := (Patterns{"none", c.pattern}).allow(c.text); got != c.want {
			t.Errorf("the pattern %q allows %q: %t; want %t", c.pattern, c.text, got, c.want)
		}
	}
	if (ExtraKeys{"*"}).allow("guestInfo.x") || (Patterns{}).allow("a") {
		t.Error("the pattern * allows a key of the guest, or no pattern allows a key")
	}
	for _, pattern := range []string{"", " a", "a "} {
		if (ExtraKeys{"a", pattern}).Validate() == nil || (PCIDevices{pattern}).Validate() == nil {
			t.Errorf("%q is accepted as a pattern", pattern)
		}
	}
}
