package vcsim

import (
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
)

func TestSetFieldFailsIfTheVMVanishesMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		v, err := Start(Config{Listener: network.Listen()})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close() //nolint:errcheck // tested elsewhere
		key, err := v.AddAttribute("owner")
		if err != nil {
			t.Fatal(err)
		}
		vm, err := v.AddVM("/DC0/vm", "gone")
		if err != nil {
			t.Fatal(err)
		}
		transport := network.Transport()
		defer transport.CloseIdleConnections()
		client, err := v.Login(t.Context(), v.URL().User, transport)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := object.GetCustomFieldsManager(client.Client)
		if err != nil {
			t.Fatal(err)
		}
		v.world.Lock() // blocks the call
		done := make(chan error, 1)
		go func() { done <- fields.Set(t.Context(), vm, key, "ann") }()
		synctest.Wait() // the call waits, after its checks
		v.objects.Remove(v.world.Context(), vm)
		v.world.Unlock()
		if err := <-done; !fault.Is(err, new(types.ManagedObjectNotFound)) {
			t.Errorf("got %v, want ManagedObjectNotFound", err)
		}
		v.VMs() // the world is unlocked again
	})
}
