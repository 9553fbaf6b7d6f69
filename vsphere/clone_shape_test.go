package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// placed runs a server in a world with several objects of each kind; the settings name the ambiguous ones.
func placed(t testing.TB, c vcsim.Config, change ...func(*Config)) (*world, *process) {
	t.Helper()
	c.Templates = []string{"ubuntu"}
	w := newWorldOf(t, c)
	cfg := w.config()
	cfg.Datacenter = "DC0"
	for _, f := range change {
		f(&cfg)
	}
	v, err := New(cfg)
	w.must(err)
	return w, w.run(v)
}

// inPlace runs a test in the world of placed, in virtual time and in parallel with others.
func inPlace(t *testing.T, c vcsim.Config, test func(*testing.T, *world, *process)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, c)
		test(t, w, p)
	})
}

// shaped returns the plan's Clone of a member with that spec.
func (p *process) shaped(ordinal int32, spec v1alpha1.VmGroupSpec) plan.Action {
	p.t.Helper()
	spec.Template = "ubuntu"
	placement := plan.HomeOf(&spec)
	folder := func() string { return p.State(web, plan.Query{Template: "ubuntu", Home: placement}).Folder }
	if folder() == "" {
		p.do(plan.Action{Op: plan.CreateFolder, Args: &plan.Details{Spec: &spec}})
	}
	s := p.State(web, plan.Query{Template: "ubuntu", Home: placement})
	addresses, _ := plan.AddressesOf(&spec, ordinal)
	return plan.Action{Op: plan.Clone, Key: plan.MemberName("web", ordinal), Ordinal: ordinal, Args: plan.CloneArgs{Folder: s.Folder, Template: s.Template.MoRef, Fingerprint: s.Template.Fingerprint, CPU: 2, MemoryMB: 1024, Revision: "r1", Details: &plan.Details{Spec: &spec, Zone: plan.ZoneOf(&spec, ordinal), Addresses: addresses, Home: placement.String()}}, Generation: 1}
}

// made clones a member with that spec, and returns its VM.
func (p *process) made(ordinal int32, spec v1alpha1.VmGroupSpec) vcsim.Details {
	p.t.Helper()
	a := p.shaped(ordinal, spec)
	p.do(a)
	d, err := p.world.Details(a.Key)
	p.world.must(err)
	return d
}

// refused clones a member with that spec, and returns the fault. The clone must leave no VM.
func (p *process) refused(ordinal int32, spec v1alpha1.VmGroupSpec, reason string, says ...string) *vcfault.Error {
	p.t.Helper()
	before := len(p.world.VMs())
	a := p.shaped(ordinal, spec)
	e := vctest.AsError(p.Do(context.Background(), web, a))
	if e == nil || e.Reason != reason || !vctest.Mentions(e.Message, says...) {
		p.t.Errorf("got the error %v; want %s with %q", e, reason, says)
	}
	if after := len(p.world.VMs()); after != before {
		p.t.Errorf("after the clone that was refused with %s, vCenter has %d VMs; want %d as before", reason, after, before)
	}
	return e
}

func TestALinkedCloneIsAChildOfTheTemplatesSnapshot(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		linked := v1alpha1.VmGroupSpec{Clone: v1alpha1.Clone{Mode: v1alpha1.CloneLinked}}
		p.refused(0, linked, vcfault.ReasonSnapshotNotFound, `"ubuntu"`, "take one", "clone.mode: Full")
		_, err := w.AddSnapshot("ubuntu", "base")
		w.must(err)
		template, err := w.Details("ubuntu")
		w.must(err)
		p.lookups.forget() // so that the next try looks it up again
		d := p.made(0, linked)
		if len(d.Disks) != 1 || d.Disks[0].Parent == "" {
			t.Errorf("the template has the disks %+v, and its linked clone %+v; want one disk with a parent", template.Disks, d.Disks)
		}
		if d := p.made(1, v1alpha1.VmGroupSpec{Clone: v1alpha1.Clone{Snapshot: "base"}}); d.Disks[0].Parent != "" {
			t.Errorf("a full clone of a snapshot is linked: %+v", d.Disks)
		}
		linked.Clone.Snapshot = "patched"
		if e := p.refused(2, linked, vcfault.ReasonSnapshotNotFound, `"patched"`, "base", "clone.mode: Full"); e != nil && !e.NeedsOperator {
			t.Error("the fault of the missing snapshot needs no operator; want one, because a retry fails as well")
		}
	})
}

func TestANewSnapshotIsFoundByTheNextTry(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		linked := v1alpha1.VmGroupSpec{Clone: v1alpha1.Clone{Mode: v1alpha1.CloneLinked}}
		p.refused(0, linked, vcfault.ReasonSnapshotNotFound)
		_, err := w.AddSnapshot("ubuntu", "base")
		w.must(err)
		vctest.Eventually(t, "the snapshot is found", func() bool { return p.Do(context.Background(), web, p.shaped(0, linked)) == nil })
	})
}

func TestMembersGoIntoTheirPoolOrZone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p := placed(t, vcsim.Config{Clusters: 2, Pools: 1}, func(c *Config) { c.Pool = "DC0_C0" })
		if d := p.made(0, v1alpha1.VmGroupSpec{}); d.Pool != "/DC0/host/DC0_C0/Resources" {
			t.Errorf("without a pool in the spec, web-0 is in %s; want the pool of the settings' cluster", d.Pool)
		}
		pools := func(pool string) v1alpha1.VmGroupSpec {
			return v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{Pool: pool}}
		}
		for i, c := range []struct{ name, path string }{
			{"DC0_C1", "/DC0/host/DC0_C1/Resources"},
			{"/DC0/host/DC0_C1", "/DC0/host/DC0_C1/Resources"},
			{"DC0_C1_RP1", "/DC0/host/DC0_C1/Resources/DC0_C1_RP1"},
			{"DC0_C1/Resources", "/DC0/host/DC0_C1/Resources"},
		} {
			if d := p.made(int32(i)+1, pools(c.name)); d.Pool != c.path {
				t.Errorf("with the pool %q in the spec, the member is in %s; want %s", c.name, d.Pool, c.path)
			}
		}
		zones := v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{Zones: []string{"DC0_C0", "DC0_C1"}}}
		if a, b := p.made(10, zones), p.made(11, zones); a.Pool != "/DC0/host/DC0_C0/Resources" || b.Pool != "/DC0/host/DC0_C1/Resources" {
			t.Errorf("the members of two zones are in %s and %s; want one in each cluster", a.Pool, b.Pool)
		}
		p.refused(20, pools("DC0_C9"), vcfault.ReasonPoolNotFound, "DC0_C9", "spec.placement.pool", "/DC0/host/DC0_C0", "/DC0/host/DC0_C1/Resources/DC0_C1_RP1")
		p.refused(20, pools("Resources"), vcfault.ReasonPoolAmbiguous, "spec.placement.pool", "/DC0/host/DC0_C0/Resources", "/DC0/host/DC0_C1/Resources")
		zones.Placement.Zones[0] = "DC0_C9"
		p.refused(20, zones, vcfault.ReasonPoolNotFound, "spec.placement.zones")
	})
}

func TestInAnotherDatacenterTheSettingsDoNotApply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{Datacenters: 2}, func(c *Config) { c.Pool, c.Datastore = "DC0_C0", "LocalDS_0" })
		_, err := w.AddTemplate("/DC1/vm", "ubuntu")
		w.must(err)
		away := v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{Datacenter: "DC1"}}
		p.until("the other template is seen", func() bool {
			return len(p.State(web, plan.Query{Template: "ubuntu", Home: plan.HomeOf(&away)}).Template.Paths) == 1
		})
		p.do(plan.Action{Op: plan.CreateFolder, Args: &plan.Details{Spec: &away}})
		p.until("the group's folder is seen", func() bool {
			return p.State(web, plan.Query{Template: "ubuntu", Home: plan.HomeOf(&away)}).Folder != ""
		})
		a := p.shaped(0, away)
		p.do(a)
		d, err := w.Details("web-0")
		w.must(err)
		if !strings.HasPrefix(d.Pool, "/DC1/host/DC1_C0/") || !strings.HasPrefix(d.Datastore, "/DC1/datastore/") {
			t.Errorf("web-0 is in the pool %s, on the datastore %s; want both of DC1", d.Pool, d.Datastore)
		}
		stamp, err := stamp.Decode(w.stampOf("web-0"))
		if err != nil || stamp.Home != "DC1:" {
			t.Errorf("got web-0's stamp %+v, and the error %v; want the home DC1:", stamp, err)
		}
	})
}

func TestMembersGoOntoTheDatastoreOrWhereTheirClusterRecommends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{Datastores: 2, Pods: 1}, func(c *Config) { c.Datastore = "LocalDS_0" })
		on := func(name string) v1alpha1.VmGroupSpec {
			return v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{Datastore: name}}
		}
		if d := p.made(0, v1alpha1.VmGroupSpec{}); d.Datastore != "/DC0/datastore/LocalDS_0" {
			t.Errorf("without a datastore in the spec, web-0 is on %s; want the settings' LocalDS_0", d.Datastore)
		}
		if d := p.made(1, on("LocalDS_1")); d.Datastore != "/DC0/datastore/LocalDS_1" {
			t.Errorf("with a datastore's name in the spec, web-1 is on %s; want LocalDS_1", d.Datastore)
		}
		if d := p.made(2, on("/DC0/datastore/DC0_POD0/DC0_POD0_DS1")); d.Datastore != "/DC0/datastore/DC0_POD0/DC0_POD0_DS1" {
			t.Errorf("with a datastore's path in the spec, web-2 is on %s; want DC0_POD0_DS1", d.Datastore)
		}
		if d := p.made(3, on("DC0_POD0")); !strings.HasPrefix(d.Datastore, "/DC0/datastore/DC0_POD0/") {
			t.Errorf("with a datastore cluster in the spec, web-3 is on %s; want a datastore of DC0_POD0", d.Datastore)
		}
		if n := w.Calls()["RecommendDatastores"]; n != 1 {
			t.Errorf("vCenter was asked for %d recommendations of datastores; want one", n)
		}
		p.refused(4, on("fast"), vcfault.ReasonDatastoreNotFound, "spec.placement.datastore", "/DC0/datastore/DC0_POD0", "/DC0/datastore/LocalDS_1")
	})
}

func TestAStoragePolicyChoosesADatastoreThatSatisfiesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{Datastores: 3, Pods: 1}, func(c *Config) { c.Datastore = "LocalDS_0" })
		gold, err := w.AddStoragePolicy("gold", "/DC0/datastore/LocalDS_2", "/DC0/datastore/DC0_POD0/DC0_POD0_DS1")
		w.must(err)
		silver, err := w.AddStoragePolicy("silver", "/DC0/datastore/LocalDS_0")
		w.must(err)
		by := func(policy, datastore string) v1alpha1.VmGroupSpec {
			return v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{StoragePolicy: policy, Datastore: datastore}}
		}
		check := func(d vcsim.Details, id string, on ...string) {
			t.Helper()
			if !slices.Contains(on, d.Datastore) || !slices.Equal(d.Policies, []string{id}) || !slices.Equal(d.Disks[0].Policies, []string{id}) || d.Disks[0].Datastore != d.Datastore {
				t.Errorf("the clone is on %s with the policies %v, and has the disks %+v; want all on one of %q, with the policy %s alone", d.Datastore, d.Policies, d.Disks, on, id)
			}
		}
		check(p.made(0, by("silver", "")), silver, "/DC0/datastore/LocalDS_0")
		check(p.made(1, by("gold", "")), gold, "/DC0/datastore/LocalDS_2", "/DC0/datastore/DC0_POD0/DC0_POD0_DS1")
		check(p.made(2, by("gold", "LocalDS_2")), gold, "/DC0/datastore/LocalDS_2")
		check(p.made(3, by("gold", "DC0_POD0")), gold, "/DC0/datastore/DC0_POD0/DC0_POD0_DS1")
		p.refused(4, by("gold", "LocalDS_1"), vcfault.ReasonStoragePolicyIncompatible, "LocalDS_1", "gold", "/DC0/datastore/LocalDS_2")
		p.refused(4, by("silver", "DC0_POD0"), vcfault.ReasonStoragePolicyIncompatible, "silver", "DC0_POD0")
		p.refused(4, by("platinum", ""), vcfault.ReasonStoragePolicyNotFound, "spec.placement.storagePolicy", "gold", "silver")
	})
}

// The template's own datastore may satisfy the policy and still be unusable for a clone (CAPV#2134, CAPV#3498).
func TestUnderAStoragePolicyADatastoreIsChosenThatTheHostsHaveAndThatIsNotInMaintenance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{Clusters: 2, Datastores: 2}, func(c *Config) { c.Pool = "DC0_C0" })
		gold := func(datastore string) v1alpha1.VmGroupSpec {
			return v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{Pool: "DC0_C1", StoragePolicy: "gold", Datastore: datastore}}
		}
		_, err := w.AddStoragePolicy("gold")
		w.must(err)
		template, err := w.Details("ubuntu")
		w.must(err)
		other := "/DC0/datastore/LocalDS_1"
		if template.Datastore == other {
			t.Fatal("the template is on the datastore that its clones are to be moved to")
		}
		on := func(ordinal int32, want string) {
			t.Helper()
			if d := p.made(ordinal, gold("")); d.Datastore != want || d.Disks[0].Datastore != want {
				t.Errorf("web-%d is on %s, and has the disks %+v; want both on %s", ordinal, d.Datastore, d.Disks, want)
			}
		}
		on(0, template.Datastore)
		w.must(w.MaintainDatastore(template.Datastore, true))
		p.lookups.forget()
		on(1, other)
		p.refused(3, gold(template.Datastore), vcfault.ReasonDatastoreInaccessible, "maintenance")
		w.must(w.MaintainDatastore(template.Datastore, false))
		w.must(w.UnmountDatastore(template.Datastore, "/DC0/host/DC0_C1"))
		p.lookups.forget()
		on(2, other)
		// The server takes the spec's datastore unchecked; vCenter reports what is wrong with it.
		p.refused(3, gold(template.Datastore), vcfault.ReasonDatastoreInaccessible)
	})
}

func TestALinkedCloneStaysLinkedUnderAStoragePolicy(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		_, err := w.AddSnapshot("ubuntu", "base")
		w.must(err)
		_, err = w.AddStoragePolicy("gold")
		w.must(err)
		a := p.shaped(0, v1alpha1.VmGroupSpec{Clone: v1alpha1.Clone{Mode: v1alpha1.CloneLinked}, Placement: v1alpha1.Placement{StoragePolicy: "gold"}})
		b, err := p.newCloneBuilder(web, a, a.Folder())
		w.must(err)
		for _, fill := range []func(context.Context) error{b.fillSource, b.fillSize, b.fillPool, b.fillStorage, b.fillDatastore} {
			w.must(fill(t.Context()))
		}
		const child = string(vim.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
		if at := b.spec.Location; at.DiskMoveType != child || len(at.Disk) != 1 || at.Disk[0].DiskMoveType != child || at.Datastore != nil {
			t.Errorf("the clone's location is %+v; want the move type %s for the VM and its disk, and no datastore", at, child)
		}
	})
}

func TestAnOutageOfThePolicyServiceIsNoOutageOfVCenter(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		gold := v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{StoragePolicy: "gold"}}
		_, err := w.AddStoragePolicy("gold")
		w.must(err)
		w.LoseReply("PbmQueryProfile", 1)
		p.refused(0, gold, vcfault.ReasonStoragePolicyUnavailable)
		w.Deny("PbmQueryProfile", "StorageProfile.View")
		p.refused(0, gold, vcfault.ReasonMissingPrivilege, "StorageProfile.View")
		if !p.state().Known {
			t.Error("the state is unknown because a call about storage policies failed")
		}
	})
}

func TestEachNetworkIsAnAdapterInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p := placed(t, vcsim.Config{Portgroups: 2, OpaqueNetworks: 1})
		on := func(names ...string) (spec v1alpha1.VmGroupSpec) {
			for _, name := range names {
				spec.Networks = append(spec.Networks, v1alpha1.Network{Network: name})
			}
			return spec
		}
		if d := p.made(0, v1alpha1.VmGroupSpec{}); len(d.NICs) != 1 || d.NICs[0].Network != "VM Network" {
			t.Errorf("a plain member has the adapters %+v; want the template's, on VM Network", d.NICs)
		}
		d := p.made(1, on("DC0_DVPG1", "/DC0/network/VM Network", "DC0_NSX0", "DVS0/DC0_DVPG0"))
		var got []string
		for _, nic := range d.NICs {
			got = append(got, nic.Type+" "+nic.Network)
		}
		if want := []string{"vmxnet3 DC0_DVPG1", "vmxnet3 VM Network", "vmxnet3 DC0_NSX0", "vmxnet3 DC0_DVPG0"}; !slices.Equal(got, want) {
			t.Errorf("web-1 has the adapters %q; want %q", got, want)
		}
		p.refused(2, on("nowhere"), vcfault.ReasonNetworkNotFound, "nowhere", "spec.networks", "/DC0/network/DC0_DVPG0", "/DC0/network/VM Network")
	})
}

func TestAMemberNamesItsOwner(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		if d := p.made(0, v1alpha1.VmGroupSpec{}); !vctest.Mentions(d.Config.Annotation, "web-0", "shop/web", "test", "kubectl edit vmgroup web -n shop") || d.Config.ManagedBy != nil {
			t.Errorf("web-0 has the notes %q and the manager %+v; want notes that name the member, the group, the cluster and kubectl edit, and no manager", d.Config.Annotation, d.Config.ManagedBy)
		}
		w.must(w.RegisterExtension(role.ExtensionKey))
		p.made(1, v1alpha1.VmGroupSpec{})
		if n := w.Calls()["FindExtension"]; n != 1 {
			t.Errorf("the extension was looked for %d times in one session; want 1", n)
		}
		was := p.notified("")
		w.DropSessions()
		p.until("the inventory is known again", func() bool { return p.notified("") >= was+2 && p.state().Known })
		if d := p.made(2, v1alpha1.VmGroupSpec{}); d.Config.ManagedBy == nil || *d.Config.ManagedBy != (vim.ManagedByInfo{ExtensionKey: role.ExtensionKey, Type: "vm"}) {
			t.Errorf("web-2 has the manager %+v; want the extension %s, with the type vm", d.Config.ManagedBy, role.ExtensionKey)
		}
	})
}

func TestFiftyClonesCostOneLookUp(t *testing.T) {
	t.Parallel()
	thin.NotShort(t)
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{Portgroups: 1, Pods: 1})
		_, err := w.AddSnapshot("ubuntu", "base")
		w.must(err)
		_, err = w.AddStoragePolicy("gold")
		w.must(err)
		w.must(w.AddCustomizationSpec("linux", false))
		spec := v1alpha1.VmGroupSpec{
			Clone:     v1alpha1.Clone{Mode: v1alpha1.CloneLinked},
			Placement: v1alpha1.Placement{Zones: []string{"DC0_C0"}, Datastore: "LocalDS_0", StoragePolicy: "gold"},
			Networks:  []v1alpha1.Network{{Network: "DC0_DVPG0"}, {Network: "VM Network"}}, CustomizationSpec: "linux",
		}
		p.shaped(0, spec)
		before := w.Calls()
		const vms = 50
		var wg sync.WaitGroup
		for i := range int32(vms) {
			a := p.shaped(i, spec)
			wg.Go(func() {
				if err := p.Do(context.Background(), web, a); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		text := ""
		for method, n := range w.Calls() {
			if n -= before[method]; n > 0 {
				text += fmt.Sprintf(" %s %d", method, n)
			}
			if n > 2 && (strings.HasPrefix(method, "Pbm") || method == "GetCustomizationSpec" || method == "FindExtension") {
				t.Errorf("%s was called %d times; want at most 2", method, n)
			}
		}
		t.Log(text)
		if n := w.Calls()["RetrievePropertiesEx"] - before["RetrievePropertiesEx"]; n > vms+30 {
			t.Errorf("%d clones took %d reads, want at most %d:%s", vms, n, vms+30, text)
		}
	})
}

func TestAfterAnObjectIsGoneEverythingIsLookedUpAgain(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		_, err := w.AddSnapshot("ubuntu", "base")
		w.must(err)
		linked := v1alpha1.VmGroupSpec{Clone: v1alpha1.Clone{Mode: v1alpha1.CloneLinked}}
		p.made(0, linked)
		w.must(w.RemoveSnapshots("ubuntu"))
		_, err = w.AddSnapshot("ubuntu", "another")
		w.must(err)
		a := p.shaped(1, linked)
		if e := vctest.AsError(p.Do(context.Background(), web, a)); e != nil && (e.Reason != vcfault.ReasonGone || !e.Transient) {
			t.Fatalf("got the error %v; want success, or %s, transient", e, vcfault.ReasonGone)
		}
		p.made(2, linked)
	})
}

func TestACloneRemembersWhatTheSpecCalledItsTemplate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p := placed(t, vcsim.Config{})
		p.made(0, v1alpha1.VmGroupSpec{})
		if vms := p.State(web, plan.Query{Template: "ubuntu"}).VMs; len(vms) != 1 || vms[0].Template != "ubuntu" {
			t.Errorf("got the members %+v; want one, of the template ubuntu", vms)
		}
	})
}
