package vcsim

import (
	"context"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
)

func TestAnAttributeOfAVMThatGoesMeanwhileIsAFault(t *testing.T) {
	t.Parallel()
	v, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	key, err := v.AddAttribute("owner")
	if err != nil {
		t.Fatal(err)
	}
	vm, err := v.AddVM("/DC0/vm", "gone")
	if err != nil {
		t.Fatal(err)
	}
	client, err := govmomi.NewClient(ctx, v.URL(), true)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := object.GetCustomFieldsManager(client.Client)
	if err != nil {
		t.Fatal(err)
	}
	v.world.RLock() // the call has to wait behind whoever reads
	done := make(chan error, 1)
	go func() { done <- fields.Set(ctx, vm, key, "ann") }()
	for v.world.TryRLock() { // until it does: it was let in, and its VM was there
		v.world.RUnlock()
		time.Sleep(time.Millisecond)
	}
	v.objects.Remove(v.context(), vm)
	v.world.RUnlock()
	if err := <-done; !fault.Is(err, new(types.ManagedObjectNotFound)) {
		t.Errorf("not ManagedObjectNotFound: %v", err)
	}
	v.VMs() // the world is free again
}
