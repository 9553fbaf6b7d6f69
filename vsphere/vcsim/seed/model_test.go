package seed_test

import (
	"testing"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/seed"
)

// All vCenters of a process share the simulator's globals; the race detector reports an access without the lock.
func TestAddingAHostDuringCreationOfAnotherInventory(t *testing.T) {
	shape := seed.Shape{Datacenters: 1, Clusters: 1, Hosts: 1, Datastores: 1, APIVersion: "8.0.3.0"}
	w, err := seed.New(shape, "11111111-1111-1111-1111-111111111111")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Drain()
	ctx := w.Context()
	hosts := w.Objects.Get(w.DatacenterOf(*w.At("/DC0/host")).HostFolder).(*simulator.Folder)
	before := len(w.Objects.All("HostSystem"))
	made := make(chan error)
	go func() {
		other, err := seed.New(shape, "22222222-2222-2222-2222-222222222222")
		if err == nil {
			err = other.Drain()
		}
		made <- err
	}()
	if _, fault := simulator.CreateStandaloneHost(ctx, hosts, types.HostConnectSpec{HostName: "esx-9"}); fault != nil {
		t.Errorf("add a host: %v", fault)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
	if added := len(w.Objects.All("HostSystem")) - before; added != 1 {
		t.Errorf("added %d hosts, want 1", added)
	}
}
