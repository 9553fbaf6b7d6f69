package vcsim_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func option(key, value string) types.BaseOptionValue {
	return &types.OptionValue{Key: key, Value: value}
}

// theVM returns the VM with a name.
func theVM(t testing.TB, v *vcsim.VCenter, name string) vcsim.VM {
	t.Helper()
	vms := v.VMs()
	i := slices.IndexFunc(vms, func(vm vcsim.VM) bool { return vm.Name == name })
	if i < 0 {
		t.Fatalf("no VM %s", name)
	}
	return vms[i]
}

func TestClonesOfOneTemplateRunInParallel(t *testing.T) {
	inABubble(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Second}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() { c.clone(t, fmt.Sprint("vm-", i)) })
		}
		wg.Wait()
		if took := time.Since(began); took < time.Second || took > 4*time.Second {
			t.Errorf("8 clones with a latency of 1 s took %v", took)
		}
		if n := len(v.VMs()); n != 9 {
			t.Errorf("got %d VMs, want 9", n)
		}
	})
}

func TestRunningTasksDoNotLockObjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Hour, Power: time.Hour, Reconfigure: time.Hour, Other: time.Hour}})
		_, err := v.AddVM("/DC0/vm", "vm")
		ok(t, err)
		c := login(t, v)
		vm := object.NewVirtualMachine(c.Client.Client, theVM(t, v, "vm").Ref)
		c.startClone(t, "clone")
		_, err = vm.PowerOn(c.ctx)
		ok(t, err)
		_, err = vm.Reconfigure(c.ctx, types.VirtualMachineConfigSpec{NumCPUs: 2})
		ok(t, err)
		within(t, 5*time.Second, "a read", func() {
			for _, ref := range []types.ManagedObjectReference{vm.Reference(), c.template.Reference(), c.folder.Reference()} {
				var e mo.ManagedEntity
				ok(t, c.RetrieveOne(c.ctx, ref, []string{"name", "recentTask"}, &e))
			}
		})
		within(t, 5*time.Second, "the admin's power-on", func() { ok(t, v.PowerOn("vm")) })
	})
}

func TestRunningCloneReservesItsNameButIsInvisible(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.Hold(vcsim.Clone)
		first := c.startClone(t, "vm")

		second := wantFault[*types.DuplicateName](t, c.startClone(t, "vm").Wait(c.ctx))
		if second.Name != "vm" || second.Object.Type != "VirtualMachine" {
			t.Errorf("the fault names %v with %q", second.Object, second.Name)
		}
		var holder mo.VirtualMachine
		wantFault[*types.ManagedObjectNotFound](t, c.RetrieveOne(c.ctx, second.Object, []string{"name"}, &holder))
		_, err := c.folder.CreateFolder(c.ctx, "vm")
		wantFault[*types.DuplicateName](t, err)
		wantFault[*types.DuplicateName](t, v.Rename(template, "vm"))
		if got := c.children(t, c.folder.Reference()); !slices.Equal(got, []string{template}) {
			t.Errorf("the folder lists %v", got)
		}

		v.Release(vcsim.Clone)
		info, err := first.WaitForResult(c.ctx, nil)
		ok(t, err)
		third := wantFault[*types.DuplicateName](t, c.startClone(t, "vm").Wait(c.ctx))
		if third.Object != info.Result {
			t.Errorf("the fault names %v, want %v", third.Object, info.Result)
		}
	})
}

func TestRunningCloneIsARecentTaskOfItsUser(t *testing.T) {
	inABubble(t, vcsim.Config{User: "me", Password: "secret", Latency: vcsim.Latency{Clone: time.Hour}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		task := c.startClone(t, "vm")

		var tm mo.TaskManager
		ok(t, c.RetrieveOne(c.ctx, *c.ServiceContent.TaskManager, []string{"recentTask"}, &tm))
		if !slices.Contains(tm.RecentTask, task.Reference()) {
			t.Errorf("recentTask is %v, without %v", tm.RecentTask, task.Reference())
		}
		var tasks []mo.Task
		ok(t, c.Retrieve(c.ctx, tm.RecentTask, []string{"info"}, &tasks))
		var mine []types.TaskInfo
		for _, one := range tasks {
			if one.Info.DescriptionId == string(vcsim.Clone) {
				mine = append(mine, one.Info)
			}
		}
		if len(mine) != 1 {
			t.Fatalf("%d clones are running", len(mine))
		}
		reason, _ := mine[0].Reason.(*types.TaskReasonUser)
		if reason == nil || reason.UserName != "me" || mine[0].State != types.TaskInfoStateRunning ||
			mine[0].Name != "CloneVM_Task" || *mine[0].Entity != c.template.Reference() || mine[0].QueueTime.IsZero() {
			t.Errorf("got %+v with the reason %+v", mine[0], mine[0].Reason)
		}
	})
}

func TestCloneAppliesItsSpecToTheSourceConfiguration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		ok(t, v.ToVM(template))
		ok(t, v.Reconfigure(template, types.VirtualMachineConfigSpec{
			NumCPUs: 3, MemoryMB: 2048, Annotation: "from the template", CpuHotAddEnabled: types.NewBool(true),
			ExtraConfig: []types.BaseOptionValue{option("kept", "template"), option("both", "template"), option("gone", "template")},
		}))
		ok(t, v.ToTemplate(template))
		c := login(t, v)

		plain := c.clone(t, "plain")
		got := theVM(t, v, "plain")
		if got.CPUs != 3 || got.MemoryMB != 2048 || got.ExtraConfig["kept"] != "template" || got.Power != types.VirtualMachinePowerStatePoweredOff || got.Template {
			t.Errorf("without a spec: %+v", got)
		}
		var detail mo.VirtualMachine
		ok(t, c.RetrieveOne(c.ctx, plain.Reference(), []string{"config"}, &detail))
		if !*detail.Config.CpuHotAddEnabled || detail.Config.Annotation != "from the template" {
			t.Errorf("without a spec: %+v", detail.Config)
		}
		devices := object.VirtualDeviceList(detail.Config.Hardware.Device)
		disks, nics := devices.SelectByType((*types.VirtualDisk)(nil)), devices.SelectByType((*types.VirtualEthernetCard)(nil))
		if len(disks) != 1 || len(nics) != 1 {
			t.Errorf("the clone has %d disks and %d network adapters", len(disks), len(nics))
		}

		const id = "11111111-2222-3333-4444-555555555555"
		task, err := c.template.Clone(c.ctx, c.folder, "special", c.cloneSpec(&types.VirtualMachineConfigSpec{
			NumCPUs: 4, MemoryMB: 4096, InstanceUuid: id, Annotation: "mine",
			ExtraConfig: []types.BaseOptionValue{option("both", "spec"), option("new", "spec"), option("gone", ""), option("never", "")},
		}))
		ok(t, err)
		ok(t, task.Wait(c.ctx))
		got = theVM(t, v, "special")
		if got.CPUs != 4 || got.MemoryMB != 4096 || got.InstanceUUID != id {
			t.Errorf("with a spec: %+v", got)
		}
		for key, want := range map[string]string{"kept": "template", "both": "spec", "new": "spec"} {
			if got.ExtraConfig[key] != want {
				t.Errorf("%s is %q, want %q", key, got.ExtraConfig[key], want)
			}
		}
		for _, key := range []string{"gone", "never"} {
			if value, is := got.ExtraConfig[key]; is {
				t.Errorf("%s exists: %q", key, value)
			}
		}
	})
}

func TestRecreatedVMHasANewIdentity(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		c.clone(t, "vm")
		before := theVM(t, v, "vm")
		ok(t, v.Destroy("vm"))
		c.clone(t, "vm")
		after := theVM(t, v, "vm")
		if before.Ref == after.Ref || before.InstanceUUID == after.InstanceUUID {
			t.Errorf("the new VM has the old identity %v %s", after.Ref, after.InstanceUUID)
		}
	})
}

func TestCloneAppearsOnlyWhenComplete(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		done := make(chan struct{})
		var wg sync.WaitGroup
		defer wg.Wait()
		defer close(done)
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-v.Changed():
				}
				for _, vm := range v.VMs() {
					if !vm.Template && vm.ExtraConfig["stamp"] == "" {
						t.Errorf("%s appeared without its stamp", vm.Name)
						return
					}
				}
			}
		})
		for i := range 10 {
			task, err := c.template.Clone(c.ctx, c.folder, fmt.Sprint("vm-", i), c.cloneSpec(&types.VirtualMachineConfigSpec{
				ExtraConfig: []types.BaseOptionValue{option("stamp", "mine")},
			}))
			ok(t, err)
			ok(t, task.Wait(c.ctx))
		}
	})
}

func TestCloneFailsForMissingReferences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := func(kind string) types.ManagedObjectReference {
			return types.ManagedObjectReference{Type: kind, Value: "gone-1"}
		}
		v := start(t, vcsim.Config{})
		c := login(t, v)
		for _, where := range []string{"Folder", "ResourcePool", "Datastore", "HostSystem"} {
			spec, folder, ref := c.cloneSpec(nil), c.folder, gone(where)
			switch where {
			case "Folder":
				folder = object.NewFolder(c.Client.Client, ref)
			case "ResourcePool":
				spec.Location.Pool = &ref
			case "Datastore":
				spec.Location.Datastore = &ref
			case "HostSystem":
				spec.Location.Host = &ref
			}
			_, err := c.template.Clone(c.ctx, folder, "vm", spec)
			if f := wantFault[*types.ManagedObjectNotFound](t, err); f.Obj != ref {
				t.Errorf("%s: the fault names %v", where, f.Obj)
			}
		}
		task, err := c.template.Clone(c.ctx, c.folder, "vm", types.VirtualMachineCloneSpec{})
		ok(t, err)
		wantFault[*types.InvalidArgument](t, task.Wait(c.ctx))

		v.Hold(vcsim.Clone)
		late := c.startClone(t, "vm")
		ok(t, v.Destroy(template))
		v.Release(vcsim.Clone)
		wantFault[*types.ManagedObjectNotFound](t, late.Wait(c.ctx))
	})
}

func TestCancelledCloneLeavesNothingBehind(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.Hold(vcsim.Clone)
		task := c.startClone(t, "vm")
		ok(t, task.Cancel(c.ctx))
		v.Release(vcsim.Clone)
		wantFault[*types.RequestCanceled](t, task.Wait(c.ctx))
		eventually(t, "the name is available again", func() bool { return c.startClone(t, "vm").Wait(c.ctx) == nil })
		if n := len(v.VMs()); n != 2 {
			t.Errorf("got %d VMs, want the template and the second clone", n)
		}
	})
}

func TestCloneCanPowerOnOrBecomeATemplate(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		on, tmpl := c.cloneSpec(nil), c.cloneSpec(nil)
		on.PowerOn, tmpl.Template = true, true
		for name, spec := range map[string]types.VirtualMachineCloneSpec{"on": on, "tmpl": tmpl} {
			task, err := c.template.Clone(c.ctx, c.folder, name, spec)
			ok(t, err)
			ok(t, task.Wait(c.ctx))
		}
		eventually(t, "the clone is powered on", func() bool { return theVM(t, v, "on").Power == types.VirtualMachinePowerStatePoweredOn })
		if !theVM(t, v, "tmpl").Template {
			t.Error("the clone is not a template")
		}
	})
}
