package vcsim_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// eventsOf lists the kinds and users of a VM's events, in their order, but for those of its UUIDs.
func (c *client) eventsOf(t *testing.T, vm types.ManagedObjectReference) (kinds []string) {
	t.Helper()
	all := c.events(t, types.EventFilterSpec{Entity: &types.EventFilterSpecByEntity{Entity: vm, Recursion: types.EventFilterSpecRecursionOptionSelf}})
	slices.Reverse(all)
	for _, e := range all {
		kind := reflect.TypeOf(e).Elem().Name()
		if !strings.Contains(kind, "UuidAssigned") && !strings.Contains(kind, "Reconfigured") {
			kinds = append(kinds, kind+" by "+e.GetEvent().UserName)
		}
	}
	return kinds
}

// A VM's events must say how the VM came into the inventory, and who brought it.
func TestAVMsEventsSayHowItWasMadeAndByWhom(t *testing.T) {
	inABubble(t, vcsim.Config{Hosts: 2}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		user := v.URL().User.Username()
		created, err := v.AddVM("/DC0/vm", "created")
		ok(t, err)
		deployed := c.clone(t, "deployed")
		task, err := deployed.Clone(c.ctx, c.folder, "cloned", c.cloneSpec(nil))
		ok(t, err)
		info, err := task.WaitForResult(c.ctx, nil)
		ok(t, err)
		cloned := info.Result.(types.ManagedObjectReference)
		for vm, want := range map[types.ManagedObjectReference][]string{
			created:              {"VmBeingCreatedEvent by Administrator@VSPHERE.LOCAL", "VmCreatedEvent by Administrator@VSPHERE.LOCAL"},
			deployed.Reference(): {"VmBeingDeployedEvent by " + user, "VmDeployedEvent by " + user, "VmBeingClonedEvent by " + user},
			cloned:               {"VmClonedEvent by " + user},
		} {
			if got := c.eventsOf(t, vm); !slices.Equal(got, want) {
				t.Errorf("got the events %q; want %q", got, want)
			}
		}
	})
}

// A saved VM must be registered as it was saved, under its instanceUuid and stamp, with disks of its own, and off.
func TestASavedVMIsRegisteredAsItWas(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		c.clone(t, "one")
		ok(t, v.SetExtraConfig("one", "key", "value"))
		ok(t, v.PowerOn("one"))
		was, err := v.Details("one")
		ok(t, err)
		saved, err := v.Save("one")
		ok(t, err)
		ok(t, v.Destroy("one"))
		saved.Config.InstanceUuid = "a94f6a0c-0b2a-4d8b-9b1e-000000000001"
		vmx, err := v.PutFiles(saved, "restored")
		ok(t, err)
		task, err := c.folder.RegisterVM(c.ctx, vmx, "two", false, object.NewResourcePool(c.Client.Client, c.pool), nil)
		ok(t, err)
		info, err := task.WaitForResult(c.ctx, nil)
		ok(t, err)
		is, err := v.Details("two")
		ok(t, err)
		if is.ExtraConfig["key"] != "value" || is.InstanceUUID != saved.Config.InstanceUuid || is.Power != types.VirtualMachinePowerStatePoweredOff ||
			len(is.Disks) != len(was.Disks) || is.Disks[0].File == was.Disks[0].File {
			t.Errorf("got the VM %+v with the disks %+v; want %+v off, with disks of its own", is.VM, is.Disks, was.VM)
		}
		if got, want := c.eventsOf(t, info.Result.(types.ManagedObjectReference)), []string{"VmRegisteredEvent by " + v.URL().User.Username()}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got the events %q; want %q", got, want)
		}
		ok(t, v.PowerOn("two"))
		ok(t, v.Destroy("two"))
	})
}

// VMs of a host that is added have an event that names no user, and a VM's other instanceUuid has one, too.
func TestADiscoveryAndAnotherInstanceUUIDAreEvents(t *testing.T) {
	inABubble(t, vcsim.Config{Hosts: 2}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		vm := c.clone(t, "one")
		ok(t, v.Reconfigure("one", types.VirtualMachineConfigSpec{InstanceUuid: "a94f6a0c-0b2a-4d8b-9b1e-000000000001"}))
		if got := c.eventsOf(t, vm.Reference()); !slices.Contains(got, "VmInstanceUuidChangedEvent by Administrator@VSPHERE.LOCAL") {
			t.Errorf("got the events %q; want that of another instanceUuid", got)
		}
		d, err := v.Details("one")
		ok(t, err)
		ok(t, v.RemoveHost(d.Host))
		ok(t, v.AddHost(d.Host[strings.LastIndexByte(d.Host, '/')+1:]))
		ref, err := v.Find("one")
		ok(t, err)
		if got := c.eventsOf(t, ref); !slices.Equal(got, []string{"VmDiscoveredEvent by "}) {
			t.Errorf("got the events %q; want a discovery by no user", got)
		}
	})
}
