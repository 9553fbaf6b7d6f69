package vcsim_test

import (
	"path"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// powerOnWithQuestion starts a power-on that blocks on a question.
func (c *client) powerOnWithQuestion(t *testing.T, v *vcsim.VCenter, vm types.ManagedObjectReference) *object.Task {
	t.Helper()
	v.AskAtPowerOn(func(vcsim.VM) bool { return true }, vcsim.MovedOrCopied)
	task, err := object.NewVirtualMachine(c.Client.Client, vm).PowerOn(c.ctx)
	ok(t, err)
	synctest.Wait()
	if len(v.Asking()) != 1 {
		t.Fatalf("VMs with a question: %v", v.Asking())
	}
	return task
}

func TestDestroyFolderFailsForAVMWithAQuestion(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		folder := makeFolder(t, v, "/DC0/vm/folder")
		task := c.powerOnWithQuestion(t, v, addVM(t, v, "/DC0/vm/folder", "a"))
		wantFault[*types.TaskInProgress](t, c.destroy(folder))
		wantFault[*types.TaskInProgress](t, c.unregisterAndDestroy(c.ctx, folder))
		ok(t, v.Answer("a", "I Copied It"))
		ok(t, task.Wait(c.ctx))
	})
}

func TestQuestionOutlivesItsPowerOnWhenTheHostIsRemoved(t *testing.T) {
	inABubble(t, vcsim.Config{Hosts: 2}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		task := c.powerOnWithQuestion(t, v, c.clone(t, "a").Reference())
		d, err := v.Details("a")
		ok(t, err)
		ok(t, v.RemoveHost(d.Host))
		wantFault[*types.ManagedObjectNotFound](t, task.Wait(c.ctx))
		ok(t, v.AddHost(path.Base(d.Host)))
		if len(v.Asking()) != 1 {
			t.Errorf("VMs with a question: %v", v.Asking())
		}
		ok(t, v.Answer("a", "Cancel"))
	})
}
