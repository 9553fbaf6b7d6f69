package vcsim_test

import (
	"slices"
	"testing"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
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
					t.Errorf("%s: the folder lists %v; want %v", name, got, []string{"other"})
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
