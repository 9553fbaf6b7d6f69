package vcsim_test

import (
	"context"
	"slices"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func makeFolder(t testing.TB, v *vcsim.VCenter, path string) types.ManagedObjectReference {
	t.Helper()
	ref, err := v.MakeFolder(path)
	ok(t, err)
	return ref
}

func addVM(t testing.TB, v *vcsim.VCenter, folder, name string) types.ManagedObjectReference {
	t.Helper()
	ref, err := v.AddVM(folder, name)
	ok(t, err)
	return ref
}

func (c *client) destroy(folder types.ManagedObjectReference) error {
	task, err := object.NewCommon(c.Client.Client, folder).Destroy(c.ctx)
	if err != nil {
		return err
	}
	return task.Wait(c.ctx)
}

func (c *client) unregisterAndDestroy(ctx context.Context, folder types.ManagedObjectReference) error {
	res, err := methods.UnregisterAndDestroy_Task(ctx, c.Client.Client, &types.UnregisterAndDestroy_Task{This: folder})
	if err != nil {
		return err
	}
	return object.NewTask(c.Client.Client, res.Returnval).Wait(ctx)
}

func wantGone(t testing.TB, c *client, refs ...types.ManagedObjectReference) {
	t.Helper()
	for _, ref := range refs {
		var e mo.ManagedEntity
		wantFault[*types.ManagedObjectNotFound](t, c.RetrieveOne(c.ctx, ref, []string{"name"}, &e))
	}
}

func TestUnregisterAndDestroyKeepsTheDisks(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		outer, inner := makeFolder(t, v, "/DC0/vm/outer"), makeFolder(t, v, "/DC0/vm/outer/inner")
		a, b := addVM(t, v, "/DC0/vm/outer", "a"), addVM(t, v, "/DC0/vm/outer/inner", "b")
		was := map[string]string{}
		for _, vm := range v.VMs() {
			was[vm.Name] = vm.InstanceUUID
		}
		ok(t, c.unregisterAndDestroy(c.ctx, outer))
		wantGone(t, c, outer, inner, a, b)
		var names []string
		for _, kept := range v.OutsideInventory() {
			names = append(names, kept.Name)
			if kept.Path == "" {
				t.Errorf("kept: %+v", kept)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("the VMs outside the inventory are %v; want %v", names, []string{"a", "b"})
		}
		if got := c.children(t, c.folder.Reference()); !slices.Equal(got, []string{template}) {
			t.Errorf("the parent lists %v; want %v", got, []string{template})
		}
		kept := v.OutsideInventory()[0]
		pool := object.NewResourcePool(c.Client.Client, c.pool)
		task, err := c.folder.RegisterVM(c.ctx, kept.Path, kept.Name, false, pool, nil)
		ok(t, err)
		if err := task.Wait(c.ctx); err != nil {
			t.Errorf("register: %v", err)
		}
		if again := allNamed(v.VMs(), kept.Name); len(again) != 1 || again[0].InstanceUUID != was[kept.Name] {
			t.Errorf("after its registration, the VMs called %s are %+v; want one, with the former instance UUID", kept.Name, again)
		}
		if left := v.OutsideInventory(); len(left) != 1 || left[0].Name == kept.Name {
			t.Errorf("the VMs outside the inventory are %+v; want one, and not %s", left, kept.Name)
		}
	})
}

func TestDestroyingAFolderDestroysItsVMs(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		outer, inner := makeFolder(t, v, "/DC0/vm/outer"), makeFolder(t, v, "/DC0/vm/outer/inner")
		a, b := addVM(t, v, "/DC0/vm/outer", "a"), addVM(t, v, "/DC0/vm/outer/inner", "b")
		ok(t, c.destroy(outer))
		wantGone(t, c, outer, inner, a, b)
		if kept := v.OutsideInventory(); len(kept) != 0 {
			t.Errorf("the VMs outside the inventory are %v; want none", kept)
		}
		wantFault[*types.NotSupported](t, c.destroy(c.folder.Reference()))
		wantFault[*types.NotSupported](t, c.destroy(c.ServiceContent.RootFolder))
	})
}

func TestNamesAreUniqueInAFolder(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		makeFolder(t, v, "/DC0/vm/target")
		holder := addVM(t, v, "/DC0/vm/target", "vm")
		addVM(t, v, "/DC0/vm", "vm")
		addVM(t, v, "/DC0/vm/target", "other")
		const mine = "/DC0/vm/vm"

		f := wantFault[*types.DuplicateName](t, v.Move(mine, "/DC0/vm/target"))
		if f.Name != "vm" || f.Object != holder {
			t.Errorf("the fault names %v with %q", f.Object, f.Name)
		}
		wantFault[*types.DuplicateName](t, v.Rename("other", "vm"))
		wantFault[*types.DuplicateName](t, v.Reconfigure("other", types.VirtualMachineConfigSpec{Name: "vm"}))
		wantFault[*types.DuplicateName](t, v.Rename(mine, "target"))
		_, err := v.AddVM("/DC0/vm/target", "vm")
		wantFault[*types.DuplicateName](t, err)
		_, err = c.folder.CreateFolder(c.ctx, "vm")
		wantFault[*types.DuplicateName](t, err)

		ok(t, v.Rename(mine, "free"))
		ok(t, v.Move("/DC0/vm/free", "/DC0/vm/target"))
		ok(t, v.Rename("free", "free")) // to its own name
		if vm := theVM(t, v, "free"); vm.Path != "/DC0/vm/target/free" {
			t.Errorf("the path is %s; want %s", vm.Path, "/DC0/vm/target/free")
		}
		var detail mo.VirtualMachine
		ok(t, c.RetrieveOne(c.ctx, theVM(t, v, "free").Ref, []string{"name", "config.name", "summary.config.name"}, &detail))
		if detail.Name != "free" || detail.Config.Name != "free" || detail.Summary.Config.Name != "free" {
			t.Errorf("got the names %q, %q, %q; want %q, %q and %q", detail.Name, detail.Config.Name, detail.Summary.Config.Name, "free", "free", "free")
		}
	})
}
