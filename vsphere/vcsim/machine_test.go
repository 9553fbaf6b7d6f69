package vcsim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
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

func TestMemoryHotAddHasALimit(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		facts := func(name string) (limit, increment int64) {
			var vm mo.VirtualMachine
			ok(t, c.RetrieveOne(c.ctx, theVM(t, v, name).Ref, []string{"config"}, &vm))
			return vm.Config.HotPlugMemoryLimit, vm.Config.HotPlugMemoryIncrementSize
		}
		for name, size := range map[string]struct{ memory, limit int64 }{"small": {1024, 3072}, "large": {4096, 65536}} {
			addVM(t, v, "/DC0/vm", name)
			ok(t, v.Reconfigure(name, types.VirtualMachineConfigSpec{MemoryMB: size.memory}))
			ok(t, v.PowerOn(name))
			if limit, increment := facts(name); limit != 0 || increment != 0 {
				t.Errorf("%s without hot-add: up to %d MB in steps of %d", name, limit, increment)
			}
			ok(t, v.PowerOff(name))
			ok(t, v.SetHotAdd(name, false, true))
			ok(t, v.PowerOn(name))
			limit, increment := facts(name)
			if limit != size.limit || increment < 1 {
				t.Errorf("%s: up to %d MB in steps of %d", name, limit, increment)
			}
			for _, memory := range []int64{limit + increment, size.memory + 1} {
				wantFault[*types.MemoryHotPlugNotSupported](t, v.Reconfigure(name, types.VirtualMachineConfigSpec{MemoryMB: memory}))
			}
			ok(t, v.Reconfigure(name, types.VirtualMachineConfigSpec{MemoryMB: limit}))
			ok(t, v.PowerOff(name))
			if limit, increment := facts(name); limit != 0 || increment != 0 {
				t.Errorf("powered-off %s: up to %d MB in steps of %d", name, limit, increment)
			}
		}
	})
}

func TestClonesInheritHotAdd(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		flags := func(ref types.ManagedObjectReference) [2]bool {
			var vm mo.VirtualMachine
			ok(t, c.RetrieveOne(c.ctx, ref, []string{"config.cpuHotAddEnabled", "config.memoryHotAddEnabled"}, &vm))
			return [2]bool{*vm.Config.CpuHotAddEnabled, *vm.Config.MemoryHotAddEnabled}
		}
		if got := flags(c.template.Reference()); got != [2]bool{} {
			t.Errorf("a new template has %v", got)
		}
		for i, want := range [][2]bool{{true, false}, {false, true}} {
			before := c.changeVersion(t, c.template.Reference())
			ok(t, v.SetHotAdd(template, want[0], want[1]))
			if c.changeVersion(t, c.template.Reference()) == before {
				t.Error("the template keeps its version")
			}
			clone := c.clone(t, fmt.Sprint("vm-", i)).Reference()
			if got := flags(clone); got != want {
				t.Errorf("the clone has %v, want %v", got, want)
			}
		}
		ok(t, v.PowerOn("vm-0"))
		wantFault[*types.InvalidPowerState](t, v.SetHotAdd("vm-0", false, false))
	})
}

func TestCPUsMustFillTheirSockets(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		addVM(t, v, "/DC0/vm", "vm")
		cpus := func(n int32) error { return v.Reconfigure("vm", types.VirtualMachineConfigSpec{NumCPUs: n}) }
		ok(t, v.SetHotAdd("vm", true, false))
		ok(t, v.Reconfigure("vm", types.VirtualMachineConfigSpec{NumCPUs: 2, NumCoresPerSocket: types.NewInt32(2)}))
		wantFault[*types.InvalidVmConfig](t, cpus(3))
		ok(t, v.PowerOn("vm"))
		wantFault[*types.InvalidVmConfig](t, cpus(3))
		wantFault[*types.InvalidPowerState](t, v.Reconfigure("vm", types.VirtualMachineConfigSpec{NumCoresPerSocket: types.NewInt32(1)}))
		ok(t, cpus(4))
		ok(t, v.PowerOff("vm"))

		ok(t, v.ToTemplate("vm"))
		source := object.NewVirtualMachine(c.Client.Client, theVM(t, v, "vm").Ref)
		for name, spec := range map[string]types.VirtualMachineConfigSpec{
			"refused": {NumCPUs: 3}, "made": {NumCPUs: 3, NumCoresPerSocket: types.NewInt32(3)},
		} {
			task, err := source.Clone(c.ctx, c.folder, name, c.cloneSpec(&spec))
			ok(t, err)
			if err := task.Wait(c.ctx); name == "made" {
				ok(t, err)
			} else {
				wantFault[*types.InvalidVmConfig](t, err)
			}
		}
	})
}

func TestVCenterChoosesTheCoresPerSocketUntilTheyAreSet(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		addVM(t, v, "/DC0/vm", "vm")
		is := func(name string, auto bool, cores int32) {
			t.Helper()
			var vm mo.VirtualMachine
			ok(t, c.RetrieveOne(c.ctx, theVM(t, v, name).Ref, []string{"config.hardware.autoCoresPerSocket", "config.hardware.numCoresPerSocket"}, &vm))
			h := vm.Config.Hardware
			if got := h.AutoCoresPerSocket != nil && *h.AutoCoresPerSocket; got != auto || *h.NumCoresPerSocket != cores {
				t.Errorf("%s: automatic %t, %d cores", name, got, *h.NumCoresPerSocket)
			}
		}
		set := func(cpus, cores int32) error {
			return v.Reconfigure("vm", types.VirtualMachineConfigSpec{NumCPUs: cpus, NumCoresPerSocket: &cores})
		}
		ok(t, set(4, 4))
		is("vm", false, 4)
		ok(t, set(4, 0))
		is("vm", true, 4)
		ok(t, v.Reconfigure("vm", types.VirtualMachineConfigSpec{NumCPUs: 6}))
		ok(t, v.CloneVM("vm", "/DC0/vm", "clone"))
		is("clone", true, 4)
		ok(t, v.PowerOn("vm"))
		is("vm", true, 6)
		wantFault[*types.InvalidPowerState](t, set(0, 6))
		ok(t, v.PowerOff("vm"))
		ok(t, set(6, 3))
		is("vm", false, 3)
	})
}

func TestOlderVCenterRejectsNewerProperties(t *testing.T) {
	inABubble(t, vcsim.Config{APIVersion: "7.0.3.0"}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := addVM(t, v, "/DC0/vm", "vm")
		var vm mo.VirtualMachine
		wantFault[*types.InvalidProperty](t, c.RetrieveOne(c.ctx, ref, []string{"name", "config.hardware.autoCoresPerSocket"}, &vm))
		ok(t, c.RetrieveOne(c.ctx, ref, []string{"name"}, &vm))
	})
}

func TestRenameChangesTheVersionAndMoveDoesNot(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		target := makeFolder(t, v, "/DC0/vm/target")
		ref := addVM(t, v, "/DC0/vm", "vm")
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "name", "parent"))
		w.next(t, 1)
		version := c.changeVersion(t, ref)

		ok(t, v.Move("vm", "/DC0/vm/target"))
		if got := w.next(t, 5); len(got) != 1 || got[0] != fmt.Sprintf("modify %s parent=%v", ref.Value, target) {
			t.Errorf("the stream reported %v for the move", got)
		}
		if got := c.changeVersion(t, ref); got != version {
			t.Errorf("the move changed the version from %s to %s", version, got)
		}
		wait(t, c, func(ctx ctx) (*object.Task, error) {
			return object.NewVirtualMachine(c.Client.Client, ref).Rename(ctx, "new")
		})
		if got := w.next(t, 5); len(got) != 1 || got[0] != "modify "+ref.Value+" name=new" {
			t.Errorf("the stream reported %v for the rename", got)
		}
		if c.changeVersion(t, ref) == version {
			t.Error("the rename kept the version")
		}
	})
}

func TestPowerTasksHaveLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const latency = 5 * time.Second
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
			t.Error("the VM is on at once")
		}
		v.Release(vcsim.PowerOn)
		ok(t, task.Wait(c.ctx))
		if took := time.Since(began); took < latency || power() != types.VirtualMachinePowerStatePoweredOn {
			t.Errorf("after %v the VM is %v", took, power())
		}
		task, err = vm.PowerOn(c.ctx)
		ok(t, err)
		wantFault[*types.InvalidPowerState](t, task.Wait(c.ctx))

		ok(t, v.SetTools("vm", true))
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
	})
}

func TestOperatorActions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
			t.Error("a destroyed VM was powered on")
		}
		if calls := v.Calls(); len(calls) != 0 {
			t.Errorf("the operator's calls are counted: %v", calls)
		}
	})
}
