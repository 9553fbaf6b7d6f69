package vsphere

import (
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestAMemberHasTheHardwareOfTheSpecAndTheRestFromTheTemplate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{})
		w.must(w.ToVM("ubuntu"))
		w.must(w.Reconfigure("ubuntu", vim.VirtualMachineConfigSpec{
			CpuHotAddEnabled: vim.NewBool(true), CpuAllocation: &vim.ResourceAllocationInfo{Reservation: vim.NewInt64(300), Limit: vim.NewInt64(900)},
		}))
		w.must(w.ToTemplate("ubuntu"))
		c := p.made(0, v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{
			CoresPerSocket: 2, MemoryHotAdd: vim.NewBool(true), CPULimitMHz: 800, CPUShares: v1alpha1.SharesLow, ReserveAllMemory: vim.NewBool(true), MemoryShares: v1alpha1.SharesHigh,
		}}).Config
		if cores := *c.Hardware.NumCoresPerSocket; cores != 2 || !*c.CpuHotAddEnabled || !*c.MemoryHotAddEnabled || !*c.MemoryReservationLockedToMax {
			t.Errorf("%d cores per socket, hot-add %t and %t, all memory reserved %t", cores, *c.CpuHotAddEnabled, *c.MemoryHotAddEnabled, *c.MemoryReservationLockedToMax)
		}
		if a := c.CpuAllocation; *a.Reservation != 300 || *a.Limit != 800 || a.Shares.Level != vim.SharesLevelLow {
			t.Errorf("CPUs: reservation %d, limit %d, shares %+v", *a.Reservation, *a.Limit, a.Shares)
		}
		if a := c.MemoryAllocation; *a.Reservation != 1024 || a.Shares.Level != vim.SharesLevelHigh {
			t.Errorf("memory: reservation %d, shares %+v", *a.Reservation, a.Shares)
		}
	})
}

func TestSecureBootNeedsATemplateThatBootsWithEFI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{})
		spec := v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{SecureBoot: vim.NewBool(true), BootDelaySeconds: 2}}
		p.refused(0, spec, vcfault.ReasonInvalidConfiguration, `"ubuntu"`, "BIOS", "EFI", "spec.hardware.secureBoot")
		w.must(w.BootWithEFI("ubuntu"))
		p.lookups.forget()
		if o := p.made(0, spec).Config.BootOptions; !*o.EfiSecureBootEnabled || o.BootDelay != 2000 {
			t.Errorf("secure boot %t, a delay of %d ms", *o.EfiSecureBootEnabled, o.BootDelay)
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
			t.Errorf("%v", c.ExtraConfig)
		}
		p.refused(1, v1alpha1.VmGroupSpec{ExtraConfig: map[string]string{"isolation.tools.copy.disable": "FALSE"}}, vcfault.ReasonInvalidConfiguration, `"isolation.tools.copy.disable"`, "--extra-config")
	})
}
