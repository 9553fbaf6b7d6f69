package test

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// undoing is a change that vCenter accepts but drops, or that another tool reverts each second.
type undoing struct {
	asks  func(x *lasting, s *spec)
	drops func(call any)   // removes from a call the part that vCenter drops
	undo  func(x *lasting) // what the tool does each second; nil: there is no tool
	as    string           // the account that the tool uses; empty: the server's account
	each  int              // how many calls a change costs at most; 0: ten
	says  string           // what the status says; empty: the server doesn't check the change, and reports nothing
	calls []string         // the methods by which the server makes the change
}

var undoings = map[string]undoing{
	"vCenter drops a VM group": {
		asks:  wantsHostGroup,
		drops: withoutVMGroups,
		says:  "vCenter does not keep the DRS VM group", calls: []string{"ReconfigureComputeResource_Task"},
	},
	"a tool empties a VM group": {
		asks: wantsHostGroup, undo: emptyVMGroups, as: `LAB\backup`,
		says: `its events name who reconfigured the cluster since: LAB\backup. Stop what changes it back`, calls: []string{"ReconfigureComputeResource_Task"},
	},
	"vCenter drops the stamp of a preparation": {
		asks: func(_ *lasting, s *spec) { s.CustomAttributes = map[string]string{"owner": "shop"} },
		drops: func(call any) {
			if c, is := call.(*types.ReconfigVM_Task); is {
				c.Spec.ExtraConfig = nil
			}
		},
		says: "its events name only the server's own account", calls: []string{"ReconfigVM_Task"},
	},
	"a tool removes tags": {
		asks: func(_ *lasting, s *spec) { s.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop", Create: true}} },
		undo: func(x *lasting) {
			for _, vm := range x.members() {
				x.must(x.Untag(vm.Ref))
			}
		},
		says: "its events name who detached tags from a VM of this name since: Administrator@VSPHERE.LOCAL", calls: []string{attachTags},
		each: 16, // its member is read and its stamp written, before and after, and the tags are read
	},
	"a tool changes custom attributes": {
		asks: func(_ *lasting, s *spec) { s.CustomAttributes = map[string]string{"owner": "shop"} },
		undo: func(x *lasting) {
			key := value(object.GetCustomFieldsManager(x.admin.Client))
			at := value(key.FindKey(within(x.t), "owner"))
			for _, vm := range x.members() {
				x.must(key.Set(within(x.t), vm.Ref, at, "bank"))
			}
		},
		calls: []string{"SetField"},
	},
}

// withoutVMGroups removes the changes of DRS groups from a call.
func withoutVMGroups(call any) {
	if c, is := call.(*types.ReconfigureComputeResource_Task); is {
		c.Spec.(*types.ClusterConfigSpecEx).GroupSpec = nil
	}
}

const undoingCluster = "/DC0/host/DC0_C0"

func wantsHostGroup(x *lasting, s *spec) {
	x.must(x.SetHostGroup(undoingCluster, "site-a", undoingCluster+"/DC0_C0_H0"))
	s.Placement.Pool, s.Placement.HostGroup = "DC0_C0", &v1alpha1.HostGroup{Names: []string{"site-a"}}
}

func TestAChangeThatVCenterDoesNotKeepIsSaidAndMadeOnceAMinute(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for i, name := range slices.Sorted(maps.Keys(undoings)) {
		if leftOut(i) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { checkUndoing(t, undoings[name]) })
		})
	}
}

// eventCalls are the calls of 20 minutes in which a server looks for events of detached tags, three a minute.
const eventCalls = 3 * 20

// checkUndoing runs groups for 29 minutes while their change is undone, and checks what the server does and reports.
func checkUndoing(t *testing.T, u undoing) {
	u.each = cmp.Or(u.each, 10)
	x := newLasting(t, vcsim.Config{}, "")
	if u.as != "" {
		x.admin = value(x.Login(within(t), url.UserPassword(u.as, "secret"), x.transport))
	}
	groups := x.groupsOf(*lastingGroups)
	allUp(t, groups...)
	x.Rewrite(u.drops)
	for _, g := range groups {
		g.Edit(func(s *spec) { u.asks(x, s) })
	}
	live := func(during time.Duration) {
		if u.undo == nil {
			called(t, during, groups...)
			return
		}
		for end := time.Now().Add(during); time.Now().Before(end); {
			called(t, 3*time.Second, groups...)
			u.undo(x)
		}
	}
	live(9 * time.Minute) // three until the change counts as undone, and five in which it is made every few seconds
	x.since()
	first, texts := x.log.count(), statusesOf(groups)
	live(20 * time.Minute)
	changes, calls := 0, 0
	x.mu.Lock()
	for _, method := range x.calls {
		if calls++; slices.Contains(u.calls, method) {
			changes++
		}
	}
	x.mu.Unlock()
	lines := x.log.count() - first
	t.Logf("%d changes with %d calls in 20 minutes, %d lines in the log: %s", changes, calls, lines, groups[0].Status.LastMessage)
	most := 2 * 20 // a try is two calls at most
	if !slices.Contains(u.calls, "ReconfigureComputeResource_Task") {
		most *= len(groups) // only the rules of one cluster have one pace for all groups
	}
	if changes > most || calls > u.each*changes+2*idleCalls+eventCalls || u.says == "" && changes > 0 {
		t.Errorf("%d changes with %d calls in 20 minutes", changes, calls)
	}
	if lines > len(groups) {
		t.Errorf("%d lines in the log, want at most %d: %s", lines, len(groups), x.log.all[first:min(first+9, len(x.log.all))])
	}
	for i, text := range statusesOf(groups) {
		g := groups[i]
		if text != texts[i] {
			t.Errorf("the status changed:\n%s\n%s", texts[i], text)
		}
		if said := g.Status.Phase == v1alpha1.PhaseError && strings.Contains(g.Status.LastMessage, u.says); u.says != "" && !said || u.says == "" && g.Status.Phase != v1alpha1.PhaseRunning {
			t.Errorf("%s is %s: %s", g.Name, g.Status.Phase, g.Status.LastMessage)
		}
		if twice := saidTwice(t, g); len(twice) > 0 {
			t.Errorf("%s: said more than once: %v; want none", g.Name, twice)
		}
	}
	x.Rewrite(nil)
	if took := allUp(t, groups...); took > 3*time.Minute { // two minutes for the change, and one until the server reads the clusters again
		t.Errorf("as the specs say %s after the end; want at most %s", took, 3*time.Minute)
	}
}

// emptyVMGroups takes all VMs out of the VM groups of the cluster.
func emptyVMGroups(x *lasting) {
	at := value(x.Find(undoingCluster))
	var cluster mo.ClusterComputeResource
	x.must(x.admin.RetrieveOne(within(x.t), at, []string{"configurationEx"}, &cluster))
	change := &types.ClusterConfigSpecEx{}
	for _, g := range cluster.ConfigurationEx.(*types.ClusterConfigInfoEx).Group {
		if vms, is := g.(*types.ClusterVmGroup); is && len(vms.Vm) > 0 {
			emptied := *vms
			emptied.Vm = nil
			change.GroupSpec = append(change.GroupSpec, types.ClusterGroupSpec{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationEdit}, Info: &emptied})
		}
	}
	if len(change.GroupSpec) > 0 {
		x.task(object.NewClusterComputeResource(x.admin.Client, at).Reconfigure(within(x.t), change, true))
	}
}
