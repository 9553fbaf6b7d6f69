package vcsim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestChangeReadsAffectsClientsButNotAdmin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		c := login(t, v)
		vm := c.clone(t, "a").Reference()
		v.ChangeReads(func(o *types.ObjectContent) {
			for i := range o.PropSet {
				o.PropSet[i].Val = "other"
			}
		})
		name := func(vm *object.VirtualMachine) string {
			var m mo.VirtualMachine
			ok(t, vm.Properties(c.ctx, vm.Reference(), []string{"name"}, &m))
			return m.Name
		}
		if got := name(object.NewVirtualMachine(c.Client.Client, vm)); got != "other" {
			t.Errorf("a client reads %q", got)
		}
		if got := name(object.NewVirtualMachine(v.Admin().Client, vm)); got != "a" {
			t.Errorf("the admin reads %q", got)
		}
	})
}

func TestRewriteChangesRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		c := login(t, v)
		v.Rewrite(func(request any) {
			if clone, is := request.(*types.CloneVM_Task); is {
				clone.Name = "b"
			}
		})
		c.clone(t, "a")
		if _, err := v.Find("b"); err != nil {
			t.Error(err)
		}
	})
}

func TestRefuseLateReportsDuplicateNameAtTheEndOfTheClone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, late := range []bool{false, true} {
			v := start(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Minute}})
			c := login(t, v)
			v.RefuseLate(late)
			source, err := v.Find("/DC0/vm/" + template)
			ok(t, err)
			into, err := v.Find("/DC0/vm")
			ok(t, err)
			begin := func() *object.Task {
				task, err := object.NewVirtualMachine(c.Client.Client, source).Clone(c.ctx, object.NewFolder(c.Client.Client, into), "a", types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &c.pool}})
				ok(t, err)
				return task
			}
			began := time.Now()
			first, second := begin(), begin()
			err = second.Wait(c.ctx)
			if took := time.Since(began); !fault.Is(err, &types.DuplicateName{}) || late != (took >= time.Minute) {
				t.Errorf("late %v: %v after %s", late, err, took)
			}
			ok(t, first.Wait(c.ctx))
		}
	})
}
