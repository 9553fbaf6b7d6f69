package vcsim_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestConcurrentLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { load(t, 20, 16) })
}

// load creates VMs in a folder while streams watch, clients read, and operators interfere.
func load(t *testing.T, vms, slots int) {
	v := start(t, vcsim.Config{
		Latency: vcsim.Latency{Clone: 40 * time.Second, Power: 5 * time.Second, Reconfigure: 2 * time.Second},
		Guest:   vcsim.Guest{Tools: true, Boot: 30 * time.Second, IP: 10 * time.Second},
	})
	c := login(t, v)
	folder := object.NewFolder(c.Client.Client, makeFolder(t, v, "/DC0/vm/ns/group"))

	seen := make(map[types.ManagedObjectReference]types.VirtualMachinePowerState)
	watching := make(chan error, 1)
	pc, err := property.DefaultCollector(c.Client.Client).Create(c.ctx)
	ok(t, err)
	_, err = pc.CreateFilter(c.ctx, types.CreateFilter{Spec: tree(c.ServiceContent.RootFolder,
		"name", "runtime", "guest", "summary", "config.extraConfig", "config.hardware")})
	ok(t, err)
	go func() {
		watching <- pc.WaitForUpdatesEx(c.ctx, &property.WaitOptions{}, func(updates []types.ObjectUpdate) bool {
			for _, u := range updates {
				for _, change := range u.ChangeSet {
					if runtime, is := change.Val.(types.VirtualMachineRuntimeInfo); is {
						seen[u.Obj] = runtime.PowerState
					}
				}
			}
			on := 0
			for _, state := range seen {
				if state == types.VirtualMachinePowerStatePoweredOn {
					on++
				}
			}
			return on == vms
		})
	}()

	done := make(chan struct{})
	var others sync.WaitGroup
	for _, interfere := range []func(i int){
		func(int) { v.VMs() },
		func(int) { c.read(t, c.template.Reference(), c.folder.Reference(), folder.Reference()) },
		func(i int) {
			name := fmt.Sprint("unmanaged-", i)
			addVM(t, v, "/DC0/vm/ns", name)
			ok(t, v.Move(name, "/DC0/vm/ns/group"))
			ok(t, v.Rename(name, name+"x"))
			ok(t, v.Destroy(name+"x"))
		},
	} {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-time.After(2 * time.Second):
					interfere(i)
				}
			}
		})
	}

	free := make(chan struct{}, slots)
	var makers sync.WaitGroup
	for i := range vms {
		free <- struct{}{}
		makers.Go(func() {
			defer func() { <-free }()
			make1(t, c, folder, fmt.Sprint("vm-", i))
		})
	}
	makers.Wait()
	close(done)
	others.Wait()
	ok(t, <-watching)
	if n := len(c.children(t, folder.Reference())); n != vms {
		t.Errorf("the folder lists %d VMs", n)
	}
}

func make1(t *testing.T, c *client, folder *object.Folder, name string) {
	task, err := c.template.Clone(c.ctx, folder, name, c.cloneSpec(&types.VirtualMachineConfigSpec{
		ExtraConfig: []types.BaseOptionValue{option("stamp", name)},
	}))
	ok(t, err)
	info, err := task.WaitForResult(c.ctx, nil)
	ok(t, err)
	vm := object.NewVirtualMachine(c.Client.Client, info.Result.(types.ManagedObjectReference))
	for _, begin := range []func() (*object.Task, error){
		func() (*object.Task, error) {
			return vm.Reconfigure(c.ctx, types.VirtualMachineConfigSpec{NumCPUs: 2, ExtraConfig: []types.BaseOptionValue{
				option("stamp", name+"2"), option("SET.guest.ipAddress", "10.0.0.1"),
			}})
		},
		func() (*object.Task, error) { return vm.PowerOn(c.ctx) },
	} {
		task, err := begin()
		ok(t, err)
		ok(t, task.Wait(c.ctx))
	}
	var props mo.VirtualMachine
	ok(t, c.RetrieveOne(c.ctx, vm.Reference(), []string{"config", "runtime", "guest"}, &props))
}
