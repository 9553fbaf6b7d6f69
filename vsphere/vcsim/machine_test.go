package vcsim_test

import (
	"testing"
	"time"

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

func TestAReconfigureChecksAndChangesTheVersion(t *testing.T) {
	t.Parallel()
	v := start(t, vcsim.Config{})
	c := login(t, v)
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
		t.Errorf("a refused reconfigure left a=%s", got)
	}
	ok(t, reconfigure(types.VirtualMachineConfigSpec{}))
	if c.changeVersion(t, ref) == second {
		t.Error("a reconfigure of nothing keeps the version")
	}
}

func TestARunningVMTakesHardwareAsItsHotPlugAllows(t *testing.T) {
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
			ok(t, v.Reconfigure("vm", c.change)) // whatever it is
		})
	}
}

func TestPowerTasksTakeTheirTime(t *testing.T) {
	t.Parallel()
	const latency = 50 * time.Millisecond
	v := start(t, vcsim.Config{Latency: vcsim.Latency{Power: latency}})
	v.Hold(vcsim.PowerOn)
	v.Hold(vcsim.ShutdownGuest)
	c := login(t, v)
	vm := object.NewVirtualMachine(c.Client.Client, addVM(t, v, "/DC0/vm", "vm"))
	power := func() types.VirtualMachinePowerState { return theVM(t, v, "vm").Power }

	began := time.Now()
	task, err := vm.PowerOn(c.ctx)
	ok(t, err)
	if power() != types.VirtualMachinePowerStatePoweredOff {
		t.Error("it is on at once")
	}
	v.Release(vcsim.PowerOn)
	ok(t, task.Wait(c.ctx))
	if took := time.Since(began); took < latency || power() != types.VirtualMachinePowerStatePoweredOn {
		t.Errorf("after %v it is %v", took, power())
	}
	task, err = vm.PowerOn(c.ctx)
	ok(t, err)
	wantFault[*types.InvalidPowerState](t, task.Wait(c.ctx))

	began = time.Now()
	ok(t, vm.ShutdownGuest(c.ctx))
	if power() != types.VirtualMachinePowerStatePoweredOn {
		t.Error("the guest halts at once")
	}
	v.Release(vcsim.ShutdownGuest)
	eventually(t, "the guest halts", func() bool { return power() == types.VirtualMachinePowerStatePoweredOff })
	if took := time.Since(began); took < latency {
		t.Errorf("the guest halted after %v", took)
	}
	wantFault[*types.InvalidPowerState](t, vm.ShutdownGuest(c.ctx))
}

func TestAPersonCanDoItAll(t *testing.T) {
	t.Parallel()
	v := start(t, vcsim.Config{})
	makeFolder(t, v, "/DC0/vm/ns/group")
	ref := addVM(t, v, "/DC0/vm/ns/group", "vm")
	ok(t, v.PowerOn("vm"))
	ok(t, v.SetIP("vm", "10.1.2.3"))
	ok(t, v.SetExtraConfig("vm", "key", "value"))
	vm := theVM(t, v, "vm")
	if vm.Ref != ref || vm.Path != "/DC0/vm/ns/group/vm" || vm.IP != "10.1.2.3" || vm.ExtraConfig["key"] != "value" ||
		vm.Power != types.VirtualMachinePowerStatePoweredOn {
		t.Errorf("got %+v", vm)
	}
	ok(t, v.SetExtraConfig("vm", "key", ""))
	if _, is := theVM(t, v, "vm").ExtraConfig["key"]; is {
		t.Error("the key is still there")
	}
	ok(t, v.Move("vm", "/DC0/vm"))
	ok(t, v.Rename("/DC0/vm/vm", "renamed"))
	ok(t, v.PowerOff("renamed"))
	ok(t, v.ToTemplate("renamed"))
	ok(t, v.ToVM("renamed"))
	ok(t, v.PowerOn("renamed"))
	ok(t, v.Destroy("renamed"))
	ok(t, v.Destroy(template))
	if vms := v.VMs(); len(vms) != 0 {
		t.Errorf("left: %+v", vms)
	}
	if v.PowerOn("renamed") == nil {
		t.Error("a VM that is gone was powered on")
	}
	if calls := v.Calls(); len(calls) != 0 {
		t.Errorf("the person's calls are counted: %v", calls)
	}
}
