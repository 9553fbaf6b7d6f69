package vcsim_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const clusterPath = "/DC0/host/DC0_C0"

// apply changes a rule of the first cluster.
func (c *client) apply(t testing.TB, v *vcsim.VCenter, op types.ArrayUpdateOperation, info types.BaseClusterRuleInfo, key any) error {
	t.Helper()
	task, err := object.NewClusterComputeResource(c.Client.Client, found(t, v, clusterPath)).Reconfigure(c.ctx, &types.ClusterConfigSpecEx{
		RulesSpec: []types.ClusterRuleSpec{{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: op, RemoveKey: key}, Info: info}},
	}, true)
	if err != nil {
		return err
	}
	return task.Wait(c.ctx)
}

func apart(name string, key int32, vms ...types.ManagedObjectReference) *types.ClusterAntiAffinityRuleSpec {
	return &types.ClusterAntiAffinityRuleSpec{
		ClusterRuleInfo: types.ClusterRuleInfo{Key: key, Name: name, Enabled: types.NewBool(true), Mandatory: types.NewBool(true)}, Vm: vms,
	}
}

func rules(t testing.TB, v *vcsim.VCenter) []vcsim.Rule {
	t.Helper()
	all, err := v.Rules(clusterPath)
	ok(t, err)
	return all
}

func TestRulesAreAddedEditedAndRemoved(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		var vms []types.ManagedObjectReference
		for _, name := range []string{"a", "b", "c"} {
			vms = append(vms, addVM(t, v, "/DC0/vm", name))
		}
		ok(t, v.AddRule(clusterPath, "theirs", "a", "b"))
		ok(t, c.apply(t, v, types.ArrayUpdateOperationAdd, apart("ours", 0, vms[:2]...), nil))
		got := rules(t, v)
		if len(got) != 2 || got[0].Name != "theirs" || got[0].Mandatory || got[1].Key == 0 || got[1].UUID == "" ||
			got[1].Name != "ours" || !got[1].Enabled || !got[1].Mandatory || !got[1].Separate || !slices.Equal(got[1].VMs, []string{"a", "b"}) {
			t.Fatalf("got the rules %+v", got)
		}
		ours := got[1]
		edited := apart("ours too", ours.Key, vms...)
		edited.Mandatory, edited.Enabled = types.NewBool(false), nil
		ok(t, c.apply(t, v, types.ArrayUpdateOperationEdit, edited, nil))
		if got := rules(t, v)[1]; got.Key != ours.Key || got.UUID != ours.UUID || got.Name != "ours too" || got.Mandatory || !got.Enabled || len(got.VMs) != 3 {
			t.Errorf("after the edit, got %+v", got)
		}
		res, err := property.DefaultCollector(c.Client.Client).RetrieveProperties(c.ctx, types.RetrieveProperties{
			SpecSet: []types.PropertyFilterSpec{{
				ObjectSet: []types.ObjectSpec{{Obj: found(t, v, clusterPath)}},
				PropSet:   []types.PropertySpec{{Type: "ClusterComputeResource", PathSet: []string{"configurationEx.rule"}}},
			}},
		})
		ok(t, err)
		if list, is := res.Returnval[0].PropSet[0].Val.(types.ArrayOfClusterRuleInfo); !is || len(list.ClusterRuleInfo) != 2 {
			t.Errorf("a client reads %T %+v", res.Returnval[0].PropSet[0].Val, res.Returnval[0].PropSet[0].Val)
		}
		var whole mo.ClusterComputeResource
		ok(t, c.RetrieveOne(c.ctx, found(t, v, clusterPath), []string{"configurationEx"}, &whole))
		if read := whole.ConfigurationEx.(*types.ClusterConfigInfoEx).Rule; len(read) != 2 || len(read[1].(*types.ClusterAntiAffinityRuleSpec).Vm) != 3 {
			t.Errorf("a client reads %+v", read)
		}
		ok(t, c.apply(t, v, types.ArrayUpdateOperationRemove, nil, ours.Key))
		if got := rules(t, v); len(got) != 1 || got[0].Name != "theirs" {
			t.Errorf("left: %+v", got)
		}
	})
}

func TestInvalidRulesAreRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Clusters: 2})
		c := loginTo(t, v)
		a, b := addVM(t, v, "/DC0/vm", "a"), addVM(t, v, "/DC0/vm", "b")
		other := found(t, v, "/DC0/host/DC0_C1/Resources")
		ok(t, c.cloneAs(t, "elsewhere", func(spec *types.VirtualMachineCloneSpec) { spec.Location.Pool = &other }))
		ok(t, v.AddRule(clusterPath, "theirs", "a", "b"))
		before := rules(t, v)
		add, edit := types.ArrayUpdateOperationAdd, types.ArrayUpdateOperationEdit
		for what, one := range map[string]struct {
			op   types.ArrayUpdateOperation
			rule types.BaseClusterRuleInfo
			key  any
		}{
			"one VM":                    {add, apart("x", 0, a), nil},
			"one VM twice":              {add, apart("x", 0, a, a), nil},
			"VM of another cluster":     {add, apart("x", 0, a, theVM(t, v, "elsewhere").Ref), nil},
			"a template":                {add, apart("x", 0, a, c.template.Reference()), nil},
			"duplicate name":            {add, apart("theirs", 0, a, b), nil},
			"no name":                   {add, apart("", 0, a, b), nil},
			"no rule":                   {add, nil, nil},
			"edit of an unknown key":    {edit, apart("x", 4711, a, b), nil},
			"edit to one VM":            {edit, apart("theirs", before[0].Key, a), nil},
			"removal of an unknown key": {types.ArrayUpdateOperationRemove, nil, int32(4711)},
			"removal without a key":     {types.ArrayUpdateOperationRemove, nil, nil},
		} {
			err := c.apply(t, v, one.op, one.rule, one.key)
			if err == nil {
				t.Errorf("%s: accepted", what)
				continue
			}
			wantFault[*types.InvalidArgument](t, err)
		}
		wantFault[*types.InvalidName](t, c.apply(t, v, add, apart(strings.Repeat("x", 81), 0, a, b), nil))
		gone := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-gone"}
		wantFault[*types.ManagedObjectNotFound](t, c.apply(t, v, add, apart("x", 0, a, gone), nil))
		if got := rules(t, v); len(got) != 1 || got[0].UUID != before[0].UUID || len(got[0].VMs) != 2 {
			t.Errorf("the rules are %+v", got)
		}
	})
}

func TestStreamReportsThatADestroyedVMLeftItsRules(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		for _, name := range []string{"a", "b", "c"} {
			addVM(t, v, "/DC0/vm", name)
		}
		w := c.watch(t, types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: found(t, v, clusterPath)}},
			PropSet:   []types.PropertySpec{{Type: "ClusterComputeResource", PathSet: []string{"configurationEx"}}},
		})
		w.next(t, 1)
		ok(t, v.AddRule(clusterPath, "theirs", "a", "b", "c"))
		reports := func(what string, want int) {
			t.Helper()
			eventually(t, what, func() bool {
				set, err := w.ask(w.version, 5)
				ok(t, err)
				if set == nil {
					return false
				}
				w.version = set.Version
				config, is := set.FilterSet[0].ObjectSet[0].ChangeSet[0].Val.(types.ClusterConfigInfoEx)
				return is && len(config.Rule) == 1 && len(config.Rule[0].(*types.ClusterAntiAffinityRuleSpec).Vm) == want
			})
		}
		reports("the rule is reported", 3)
		ok(t, v.Destroy("c"))
		reports("the VM has left the rule", 2)
		ok(t, v.Destroy("b"))
		ok(t, v.Destroy("a"))
		if got := rules(t, v); len(got) != 1 || len(got[0].VMs) != 0 {
			t.Errorf("left: %+v", got)
		}
	})
}

func TestRuleChangesHaveLatencyAndCanFail(t *testing.T) {
	inABubble(t, vcsim.Config{Latency: vcsim.Latency{Other: 3 * time.Second}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		a, b := addVM(t, v, "/DC0/vm", "a"), addVM(t, v, "/DC0/vm", "b")
		began := time.Now()
		ok(t, c.apply(t, v, types.ArrayUpdateOperationAdd, apart("x", 0, a, b), nil))
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("it took %v", took)
		}
		v.FailTask(vcsim.ReconfigureCluster, nil, new(types.TaskInProgress), 1)
		wantFault[*types.TaskInProgress](t, c.apply(t, v, types.ArrayUpdateOperationAdd, apart("y", 0, a, b), nil))
		v.Deny("ReconfigureComputeResource_Task", "Host.Inventory.EditCluster")
		wantFault[*types.NoPermission](t, c.apply(t, v, types.ArrayUpdateOperationAdd, apart("y", 0, a, b), nil))
	})
}
