package vcsim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vslm"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Source: vmware/rbvmomi#169.
func TestTheNameOfAFirstClassDiskIsEscaped(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ds, err := v.Find("/DC0/datastore/LocalDS_0")
		ok(t, err)
		m := vslm.NewObjectManager(c.Client.Client)
		task, err := m.CreateDisk(c.ctx, types.VslmCreateSpec{Name: "shop/web%0", CapacityInMB: 1, BackingSpec: &types.VslmCreateSpecDiskFileBackingSpec{
			VslmCreateSpecBackingSpec: types.VslmCreateSpecBackingSpec{Datastore: ds}}})
		ok(t, err)
		info, err := task.WaitForResult(c.ctx, nil)
		ok(t, err)
		made := info.Result.(types.VStorageObject).Config
		read, err := m.Retrieve(c.ctx, ds, made.Id.Id)
		ok(t, err)
		for _, name := range []string{made.Name, read.Config.Name} {
			if name != "shop%2fweb%250" {
				t.Errorf("the name is %q; want %q", name, "shop%2fweb%250")
			}
		}
	})
}

// QueryEvents drops bursts; a collector has all events, the oldest first, in pages.
func TestEventsComeInPages(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		const clones = 35
		for range clones {
			c.clone(t, "web")
			ok(t, v.Destroy("web"))
		}
		filter := types.EventFilterSpec{EventTypeId: []string{"VmRemovedEvent"}}
		if n := len(c.events(t, filter)); n != 30 {
			t.Errorf("QueryEvents returns %d events; want 30", n)
		}
		made, err := methods.CreateCollectorForEvents(c.ctx, c.Client.Client, &types.CreateCollectorForEvents{This: *c.ServiceContent.EventManager, Filter: filter})
		ok(t, err)
		var keys []int32
		for {
			page, err := methods.ReadNextEvents(c.ctx, c.Client.Client, &types.ReadNextEvents{This: made.Returnval, MaxCount: 10})
			ok(t, err)
			if len(page.Returnval) == 0 {
				break
			}
			for _, e := range page.Returnval {
				keys = append(keys, e.GetEvent().Key)
			}
		}
		if len(keys) != clones {
			t.Errorf("the collector has %d events; want %d", len(keys), clones)
		}
		for i := range keys[1:] {
			if keys[i] >= keys[i+1] {
				t.Errorf("event %d comes before %d", keys[i], keys[i+1])
			}
		}
	})
}

// vCenter stores times in milliseconds, often one microsecond short. Events of a host without an account name "User".
func TestEventsHaveTheTimesAndUsersThatAVCenterStores(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		time.Sleep(1234567 * time.Nanosecond)
		addVM(t, v, "/DC0/vm", "vm")
		ok(t, v.PowerOn("vm"))
		ok(t, v.SetTools("vm", true))
		ok(t, object.NewVirtualMachine(v.Admin().Client, theVM(t, v, "vm").Ref).ShutdownGuest(c.ctx))
		var off []types.BaseEvent
		for len(off) == 0 {
			time.Sleep(time.Second)
			off = c.events(t, types.EventFilterSpec{EventTypeId: []string{"VmPoweredOffEvent"}})
		}
		if user := off[0].GetEvent().UserName; user != "User" {
			t.Errorf("the guest's shutdown is by %q; want %q", user, "User")
		}
		short := map[bool]int{}
		for _, e := range c.events(t, types.EventFilterSpec{}) {
			at := e.GetEvent().CreatedTime
			if ns := at.Nanosecond() % 1e6; ns != 0 && ns != 999_000 {
				t.Errorf("%T was at %s", e, at.Format(time.RFC3339Nano))
			}
			short[at.Nanosecond()%1e6 != 0]++
		}
		if short[true] == 0 || short[false] == 0 {
			t.Errorf("events that are a microsecond short: %v", short)
		}
	})
}

// A recorded 8.0.1 describes ClusterReconfiguredEvent as this test expects it; VmReconfiguredEvent is documented.
func TestAReconfigurationIsAnEventByItsUser(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		const cluster = "/DC0/host/DC0_C0"
		at, err := v.Find(cluster)
		ok(t, err)
		byUser := func(spec *types.ClusterConfigSpecEx) error {
			task, err := object.NewClusterComputeResource(c.Client.Client, at).Reconfigure(c.ctx, spec, true)
			ok(t, err)
			return task.Wait(c.ctx)
		}
		addVM(t, v, "/DC0/vm", "vm")
		ok(t, byUser(&types.ClusterConfigSpecEx{}))
		wantFault[*types.InvalidArgument](t, byUser(&types.ClusterConfigSpecEx{RulesSpec: []types.ClusterRuleSpec{{
			ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd}, Info: &types.ClusterAntiAffinityRuleSpec{}}}}))
		ok(t, v.SetHostGroup(cluster, "site-a", cluster+"/DC0_C0_H0"))
		ok(t, v.Reconfigure("vm", types.VirtualMachineConfigSpec{NumCPUs: 2}))
		for of, kind := range map[types.ManagedObjectReference]string{at: "ClusterReconfiguredEvent", theVM(t, v, "vm").Ref: "VmReconfiguredEvent"} {
			var users []string
			for _, e := range c.events(t, types.EventFilterSpec{EventTypeId: []string{kind}, Entity: &types.EventFilterSpecByEntity{
				Entity: of, Recursion: types.EventFilterSpecRecursionOptionSelf}}) {
				users = append(users, e.GetEvent().UserName)
			}
			const admin = "Administrator@VSPHERE.LOCAL"
			want := map[string][]string{"ClusterReconfiguredEvent": {admin, v.URL().User.Username()}, "VmReconfiguredEvent": {admin}}
			if !slices.Equal(users, want[kind]) {
				t.Errorf("%s of %s by %q; want %q", kind, of, users, want[kind])
			}
		}
	})
}
