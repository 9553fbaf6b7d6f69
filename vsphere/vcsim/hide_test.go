package vcsim_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// read reads the names of objects in one call.
func (c *client) read(t testing.TB, refs ...types.ManagedObjectReference) []types.ObjectContent {
	t.Helper()
	var objects []types.ObjectSpec
	for _, ref := range refs {
		objects = append(objects, types.ObjectSpec{Obj: ref})
	}
	res, err := property.DefaultCollector(c.Client.Client).RetrieveProperties(c.ctx, types.RetrieveProperties{
		SpecSet: []types.PropertyFilterSpec{{ObjectSet: objects, PropSet: []types.PropertySpec{{Type: "ManagedEntity", PathSet: []string{"name"}}}}},
	})
	ok(t, err)
	return res.Returnval
}

func TestHiddenObjectsReturnNoPermission(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		makeFolder(t, v, "/DC0/vm/folder")
		ref, other := addVM(t, v, "/DC0/vm/folder", "vm"), addVM(t, v, "/DC0/vm/folder", "other")
		folder, err := v.Find("/DC0/vm/folder")
		ok(t, err)
		vm := object.NewVirtualMachine(c.Client.Client, ref)

		for name, hidden := range map[string]types.ManagedObjectReference{"itself": ref, "its folder": folder} {
			v.Hide(hidden)
			got := c.read(t, ref, c.template.Reference())
			i := slices.IndexFunc(got, func(o types.ObjectContent) bool { return o.Obj == ref })
			if len(got) != 2 || i < 0 || len(got[i].PropSet) != 0 || len(got[i].MissingSet) != 1 {
				t.Fatalf("%s: a read returns %+v", name, got)
			}

			if _, is := got[i].MissingSet[0].Fault.Fault.(*types.NoPermission); !is {
				t.Errorf("%s: missing with %T", name, got[i].MissingSet[0].Fault.Fault)
			}
			_, err = vm.PowerOn(c.ctx)
			wantFault[*types.NoPermission](t, err)
			_, err = c.folder.MoveInto(c.ctx, []types.ManagedObjectReference{ref})
			wantFault[*types.NoPermission](t, err)
			if vms, err := find.NewFinder(c.Client.Client).VirtualMachineList(c.ctx, "/DC0/vm/folder/vm"); err == nil {
				t.Errorf("%s: listed %v", name, vms)
			}
			found, err := object.NewSearchIndex(c.Client.Client).FindByInventoryPath(c.ctx, "/DC0/vm/folder/vm")
			if err != nil || found != nil {
				t.Errorf("%s: found %v, %v", name, found, err)
			}
			if hidden == ref {
				if got := c.children(t, folder); !slices.Equal(got, []string{"other"}) {
					t.Errorf("%s: the folder lists %v", name, got)
				}
				_, err = object.NewFolder(c.Client.Client, folder).CreateFolder(c.ctx, "vm")
				wantFault[*types.DuplicateName](t, err) // the name is still in use
			}
			ok(t, v.SetExtraConfig("vm", "who", "admin"))
			v.Show(hidden)
			ok(t, v.SetIP("other", "10.0.0.1"))
			if got := c.read(t, ref, other); len(got) != 2 || len(got[0].MissingSet)+len(got[1].MissingSet) != 0 {
				t.Errorf("%s: after Show, a read returns %+v", name, got)
			}
		}
	})
}

// tagger is a client that is logged in to the REST API, and a tag.
type tagger struct {
	*client
	tags *tags.Manager
	tag  string
}

// The simulator sleeps while it moves a VM, with the locks of the VM and of its new folder held. Who looks where the VM is meanwhile must
// wait durably, or the bubble's time stands still.
func TestAnswersThatDependOnTheParentsOfABusyVMAreWaitedForDurably(t *testing.T) {
	const deletes = "VirtualMachine.Inventory.Delete"
	hide := func(v *vcsim.VCenter, other types.ManagedObjectReference) { v.Hide(other) }
	restrict := func(v *vcsim.VCenter, other types.ManagedObjectReference) {
		v.Restrict(deletes)
		v.Withdraw(deletes, other)
	}
	destroy := func(t *testing.T, _ *vcsim.VCenter, c *tagger, vm types.ManagedObjectReference) {
		_, err := object.NewVirtualMachine(c.Client.Client, vm).Destroy(c.ctx)
		ok(t, err)
	}
	twice := func(do func()) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(do)
		}
		both.Wait()
	}
	for name, test := range map[string]struct {
		limit func(v *vcsim.VCenter, other types.ManagedObjectReference)
		ask   func(t *testing.T, v *vcsim.VCenter, c *tagger, vm types.ManagedObjectReference)
	}{
		"a task while another object is hidden": {hide, destroy},
		"a task of a client with a role":        {restrict, destroy},
		"the privileges on it": {restrict, func(t *testing.T, _ *vcsim.VCenter, c *tagger, vm types.ManagedObjectReference) {
			twice(func() {
				held, err := object.NewAuthorizationManager(c.Client.Client).FetchUserPrivilegeOnEntities(c.ctx, []types.ManagedObjectReference{vm}, "me")
				if err != nil || !slices.Contains(held[0].Privileges, deletes) {
					t.Errorf("got %v, %v", held, err)
				}
			})
		}},
		"a tag for it": {hide, func(t *testing.T, _ *vcsim.VCenter, c *tagger, vm types.ManagedObjectReference) {
			twice(func() {
				if err := c.tags.AttachTag(c.ctx, c.tag, vm); err != nil {
					t.Error(err)
				}
			})
		}},
		"hiding it": {hide, func(_ *testing.T, v *vcsim.VCenter, _ *tagger, vm types.ManagedObjectReference) { v.Hide(vm) }},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, vcsim.Config{Latency: vcsim.Latency{Other: time.Second}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
				vm, other, into := addVM(t, v, "/DC0/vm", "vm"), addVM(t, v, "/DC0/vm", "other"), makeFolder(t, v, "/DC0/vm/folder")
				moves, err := object.NewVirtualMachine(c.Client.Client, vm).Relocate(c.ctx, types.VirtualMachineRelocateSpec{Folder: &into}, types.VirtualMachineMovePriorityDefaultPriority)
				ok(t, err)
				tag, err := v.AddTag("env", "prod")
				ok(t, err)
				own := &tagger{c, c.rest(t, v), tag}
				test.limit(v, other)
				time.Sleep(time.Second + time.Millisecond) // the simulator is at work
				test.ask(t, v, own, vm)
				ok(t, moves.Wait(c.ctx))
			})
		})
	}
}
