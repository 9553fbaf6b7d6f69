package vcsim_test

import (
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func (c *client) changeVersion(t testing.TB, ref types.ManagedObjectReference) string {
	t.Helper()
	var vm mo.VirtualMachine
	ok(t, c.RetrieveOne(c.ctx, ref, []string{"config.changeVersion"}, &vm))
	return vm.Config.ChangeVersion
}

func TestReconfigureChecksAndChangesTheVersion(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := addVM(t, v, "/DC0/vm", "vm")
		vm := object.NewVirtualMachine(c.Client.Client, ref)
		reconfigure := func(spec types.VirtualMachineConfigSpec) error {
			task, err := vm.Reconfigure(c.ctx, spec)
			ok(t, err)
			return task.Wait(c.ctx)
		}
		first := c.changeVersion(t, ref)
		ok(t, reconfigure(types.VirtualMachineConfigSpec{ChangeVersion: first, ExtraConfig: []types.BaseOptionValue{option("a", "1")}}))
		second := c.changeVersion(t, ref)
		if first == second {
			t.Errorf("the version stays %s", first)
		}
		wantFault[*types.ConcurrentAccess](t, reconfigure(types.VirtualMachineConfigSpec{
			ChangeVersion: first, ExtraConfig: []types.BaseOptionValue{option("a", "2")},
		}))
		if got := theVM(t, v, "vm").ExtraConfig["a"]; got != "1" || c.changeVersion(t, ref) != second {
			t.Errorf("a rejected reconfigure left a=%s", got)
		}
		ok(t, reconfigure(types.VirtualMachineConfigSpec{}))
		if c.changeVersion(t, ref) == second {
			t.Error("an empty reconfigure keeps the version")
		}
	})
}

func TestHotPlugOfAPoweredOnVM(t *testing.T) {
	t.Parallel()
	yes := types.NewBool(true)
	cpu, memory := new(types.CpuHotPlugNotSupported), new(types.MemoryHotPlugNotSupported)
	for name, c := range map[string]struct {
		flags, change types.VirtualMachineConfigSpec // of a VM of 2 CPUs and 1024 MB
		want          types.BaseMethodFault
	}{
		"the same":                  {change: types.VirtualMachineConfigSpec{NumCPUs: 2, MemoryMB: 1024}},
		"extraConfig":               {change: types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{option("a", "b")}}},
		"more CPUs":                 {change: types.VirtualMachineConfigSpec{NumCPUs: 3}, want: cpu},
		"more memory":               {change: types.VirtualMachineConfigSpec{MemoryMB: 2048}, want: memory},
		"fewer CPUs":                {change: types.VirtualMachineConfigSpec{NumCPUs: 1}, want: cpu},
		"less memory":               {change: types.VirtualMachineConfigSpec{MemoryMB: 512}, want: new(types.InvalidPowerState)},
		"a flag":                    {change: types.VirtualMachineConfigSpec{CpuHotAddEnabled: yes}, want: new(types.InvalidPowerState)},
		"more CPUs, allowed":        {flags: types.VirtualMachineConfigSpec{CpuHotAddEnabled: yes}, change: types.VirtualMachineConfigSpec{NumCPUs: 3}},
		"fewer CPUs, adding allows": {flags: types.VirtualMachineConfigSpec{CpuHotAddEnabled: yes}, change: types.VirtualMachineConfigSpec{NumCPUs: 1}, want: cpu},
		"fewer CPUs, allowed":       {flags: types.VirtualMachineConfigSpec{CpuHotRemoveEnabled: yes}, change: types.VirtualMachineConfigSpec{NumCPUs: 1}},
		"more memory, allowed":      {flags: types.VirtualMachineConfigSpec{MemoryHotAddEnabled: yes}, change: types.VirtualMachineConfigSpec{MemoryMB: 2048}},
		"less memory, adding allows": {flags: types.VirtualMachineConfigSpec{MemoryHotAddEnabled: yes},
			change: types.VirtualMachineConfigSpec{MemoryMB: 512}, want: new(types.InvalidPowerState)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := start(t, vcsim.Config{})
				addVM(t, v, "/DC0/vm", "vm")
				c.flags.NumCPUs = 2
				ok(t, v.Reconfigure("vm", c.flags))
				ok(t, v.PowerOn("vm"))
				err := v.Reconfigure("vm", c.change)
				switch c.want.(type) {
				case nil:
					ok(t, err)
				case *types.CpuHotPlugNotSupported:
					wantFault[*types.CpuHotPlugNotSupported](t, err)
				case *types.MemoryHotPlugNotSupported:
					wantFault[*types.MemoryHotPlugNotSupported](t, err)
				default:
					wantFault[*types.InvalidPowerState](t, err)
				}
				ok(t, v.PowerOff("vm"))
				ok(t, v.Reconfigure("vm", c.change)) // any change is allowed
			})
		})
	}
}
