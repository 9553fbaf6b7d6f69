package vcsim_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/pbm"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestStoragePodRecommendsItsDatastoresForAClone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Datacenters: 2, Hosts: 2, Pods: 2})
		c := loginTo(t, v)
		var pod mo.StoragePod
		ref := found(t, v, "/DC0/datastore/DC0_POD1")
		ok(t, c.RetrieveOne(c.ctx, ref, []string{"childEntity", "name"}, &pod))
		want := []types.ManagedObjectReference{
			found(t, v, "/DC0/datastore/DC0_POD1/DC0_POD1_DS0"), found(t, v, "/DC0/datastore/DC0_POD1/DC0_POD1_DS1"),
		}
		if !slices.Equal(pod.ChildEntity, want) {
			t.Fatalf("the pod has %v, want %v", pod.ChildEntity, want)
		}
		res, err := c.recommend(c.placement(ref))
		ok(t, err)
		var got []types.ManagedObjectReference
		for _, r := range res.Recommendations {
			got = append(got, r.Action[0].(*types.StoragePlacementAction).Destination)
		}
		if len(got) != 2 || !slices.Contains(got, want[0]) || !slices.Contains(got, want[1]) {
			t.Fatalf("got the recommendations %v, want %v", got, want)
		}
		ok(t, c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) { spec.Location.Datastore = &got[0] }))
		if d := details(t, v, "vm"); found(t, v, d.Datastore) != got[0] {
			t.Errorf("the clone is in %s", d.Datastore)
		}
	})
}

func (c *client) placement(pod types.ManagedObjectReference) types.StoragePlacementSpec {
	folder, vm, spec := c.folder.Reference(), c.template.Reference(), c.cloneSpec(nil)
	return types.StoragePlacementSpec{
		Type: string(types.StoragePlacementSpecPlacementTypeClone), Folder: &folder, Vm: &vm, CloneName: "vm", CloneSpec: &spec,
		PodSelectionSpec: types.StorageDrsPodSelectionSpec{StoragePod: &pod},
	}
}

func (c *client) recommend(spec types.StoragePlacementSpec) (*types.StoragePlacementResult, error) {
	return object.NewStorageResourceManager(c.Client.Client).RecommendDatastores(c.ctx, spec)
}

func TestRecommendationFailsWithoutADatastoreCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Pods: 1})
		c := loginTo(t, v)
		_, err := c.recommend(c.placement(found(t, v, "/DC0/datastore/LocalDS_0")))
		wantFault[*types.InvalidArgument](t, err)
		_, err = c.recommend(c.placement(types.ManagedObjectReference{Type: "StoragePod", Value: "gone"}))
		wantFault[*types.ManagedObjectNotFound](t, err)
		nameless := c.placement(found(t, v, "/DC0/datastore/DC0_POD0"))
		nameless.CloneName = ""
		_, err = c.recommend(nameless)
		wantFault[*types.InvalidArgument](t, err)
	})
}

func TestStoragePolicyMatchesOnlyItsDatastores(t *testing.T) {
	t.Parallel()
	v := startReal(t, vcsim.Config{Datastores: 2, Pods: 1})
	gold, err := v.AddStoragePolicy("gold", "/DC0/datastore/LocalDS_1", "/DC0/datastore/DC0_POD0/DC0_POD0_DS0")
	ok(t, err)
	c := loginTo(t, v)
	p, err := pbm.NewClient(c.ctx, c.Client.Client)
	ok(t, err)
	id, err := p.ProfileIDByName(c.ctx, "gold")
	if err != nil || id != gold {
		t.Errorf("got the id %s (%v), want %s", id, err, gold)
	}
	if _, err := p.ProfileIDByName(c.ctx, "VM Encryption Policy"); err != nil {
		t.Error(err)
	}
	if _, err := p.ProfileIDByName(c.ctx, "silver"); err == nil {
		t.Error("found the policy silver")
	}
	if n := v.Calls()["PbmQueryProfile"]; n != 3 {
		t.Errorf("counted %d queries", n)
	}
	requirement := []pbmtypes.BasePbmPlacementRequirement{
		&pbmtypes.PbmPlacementCapabilityProfileRequirement{ProfileId: pbmtypes.PbmProfileId{UniqueId: gold}},
	}
	res, err := p.CheckRequirements(c.ctx, nil, nil, requirement)
	ok(t, err)
	var got []string
	for _, hub := range res.CompatibleDatastores() {
		got = append(got, hub.HubId)
	}
	want := []string{
		found(t, v, "/DC0/datastore/LocalDS_1").Value, found(t, v, "/DC0/datastore/DC0_POD0").Value,
		found(t, v, "/DC0/datastore/DC0_POD0/DC0_POD0_DS0").Value,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(res.NonCompatibleDatastores()) != 2 {
		t.Errorf("compatible: %v, want %v; incompatible: %v", got, want, res.NonCompatibleDatastores())
	}

	key := details(t, v, template).Disks[0].Key
	ds := found(t, v, "/DC0/datastore/LocalDS_1")
	ok(t, c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) {
		spec.Location.Datastore, spec.Location.Profile, spec.Location.Disk = &ds, profile(gold), disk(key, ds, gold)
	}))
	if d := details(t, v, "vm"); !slices.Equal(d.Policies, []string{gold}) || !slices.Equal(d.Disks[0].Policies, []string{gold}) {
		t.Errorf("got the policies %v and the disks %+v", d.Policies, d.Disks)
	}
	associated, err := p.QueryAssociatedProfile(c.ctx, pbmtypes.PbmServerObjectRef{ObjectType: "virtualMachine", Key: theVM(t, v, "vm").Ref.Value})
	if err != nil || len(associated) != 1 || associated[0].UniqueId != gold {
		t.Errorf("PBM returns %v, %v", associated, err)
	}
}

func TestStoragePolicyServiceSupportsFaultsAndOutages(t *testing.T) {
	t.Parallel()
	v := startReal(t, vcsim.Config{})
	c := login(t, v)
	p, err := pbm.NewClient(c.ctx, c.Client.Client)
	ok(t, err)
	v.FailCall("PbmQueryProfile", new(types.SystemError), 1)
	_, err = p.ProfileIDByName(c.ctx, "gold")
	wantFault[*types.SystemError](t, err)
	v.Deny("PbmQueryProfile", "StorageProfile.View")
	_, err = p.ProfileIDByName(c.ctx, "gold")
	wantFault[*types.NoPermission](t, err)
	v.Heal()
	v.LoseReply("PbmQueryProfile", 1)
	if _, err = p.ProfileIDByName(c.ctx, "gold"); err == nil {
		t.Error("the call got a reply")
	}
	v.DropSessions()
	_, err = p.ProfileIDByName(c.ctx, "VM Encryption Policy")
	wantFault[*types.NotAuthenticated](t, err)
}
