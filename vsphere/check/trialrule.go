package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// trialRules are the DRS rules and groups that the trial adds to pin two VMs to one host. name begins their names; empty if the trial adds none. grouped
// reports whether the task that adds the groups succeeded.
type trialRules struct {
	name    string
	grouped bool
}

const vmsSuffix, hostSuffix = " VMs", " host"

// twoVMs returns what optionalRule lacks.
func twoVMs(t *trial, ctx context.Context) string {
	if why := drsCluster(t, ctx); why != "" {
		return why
	}
	switch cluster := t.cluster(t.vmGroup.cluster); {
	case cluster.Unread || !cluster.DRS:
		return "DRS is off in " + cluster.Name
	case t.copied.Value == "":
		return "there is no second VM, because the VM was not copied"
	}
	return ""
}

// optionalRule finds out whether DRS powers a VM on where it breaks an anti-affinity rule that isn't mandatory: it pins the VM and its copy to one host
// by a mandatory VM-host rule, and powers both on.
func (t *trial) optionalRule(ctx context.Context) outcome {
	t.progress("adding DRS rules for %s and its copy to the cluster, and powering both on; the rules are removed at once", trialName)
	before, err := t.state(ctx)
	if err != nil {
		return failedBy(err)
	}
	level := t.cluster(before.host).Level
	if err := t.addRules(before.host); err != nil {
		return failedBy(fmt.Errorf("add the rules: %w", err))
	}
	v := t.powerOnBoth(ctx, before.host, level)
	for _, vm := range []types.ManagedObjectReference{t.vm, t.copied} {
		if err := t.off(ctx, vm); err != nil && v.err == nil {
			v = failedBy(err).with(v.facts)
		}
	}
	if err := t.sweepRules(); err != nil && v.err == nil {
		v = failedBy(fmt.Errorf("remove the rules: %w", err)).with(v.facts)
	}
	if err := t.removeCopy(); err != nil && v.err == nil {
		v = failedBy(err).with(v.facts)
	}
	return v
}

func (t *trial) removeCopy() error {
	vm := t.copied
	t.copied = types.ManagedObjectReference{}
	return t.remove(vm)
}

func (t *trial) powerOnBoth(ctx context.Context, host types.ManagedObjectReference, level types.DrsBehavior) outcome {
	if _, err := t.v.PowerOn(t.end, t.at.Datacenter, t.vm, level); err != nil {
		return failedBy(err)
	}
	_, err := t.v.PowerOn(t.end, t.at.Datacenter, t.copied, level)
	refused := vcfault.BreaksRule(err, func(rule string) bool { return strings.HasPrefix(rule, t.rules.name) })
	facts := Facts{"refused": yes(refused), "level": word(level)}
	switch {
	case refused:
		return confirmed("no: DRS refuses to power a VM on where it breaks an optional rule; the server then leaves the member out of the rule until it is on").with(facts)
	case err != nil:
		return failedBy(err).with(facts)
	}
	for _, vm := range []types.ManagedObjectReference{t.vm, t.copied} {
		var at types.ManagedObjectReference
		if _, err := t.read(ctx, vm, session.To("runtime.host", &at)); err != nil {
			return failedBy(err).with(facts)
		}
		if at != host {
			return refuted("a VM is on outside the host group of a mandatory rule", "members would run outside their host groups").with(facts)
		}
	}
	return confirmed("yes: DRS powers a VM on although it breaks an optional rule").with(facts)
}

// addRules adds, in two calls, the groups and then the rules that name them.
func (t *trial) addRules(host types.ManagedObjectReference) error {
	t.rules.name = scratchPrefix + "rules " + t.id[:8]
	group := func(suffix string) types.ClusterGroupInfo {
		return types.ClusterGroupInfo{Name: t.rules.name + suffix, UserCreated: types.NewBool(true)}
	}
	both := []types.ManagedObjectReference{t.vm, t.copied}
	add := types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd}
	err := t.changeCluster(types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{
		{ArrayUpdateSpec: add, Info: &types.ClusterVmGroup{ClusterGroupInfo: group(vmsSuffix), Vm: both}},
		{ArrayUpdateSpec: add, Info: &types.ClusterHostGroup{ClusterGroupInfo: group(hostSuffix), Host: []types.ManagedObjectReference{host}}}}})
	if err != nil {
		return err
	}
	t.rules.grouped = true
	rule := func(suffix string, mandatory bool) types.ClusterRuleInfo {
		return types.ClusterRuleInfo{Name: t.rules.name + suffix, Enabled: types.NewBool(true), Mandatory: types.NewBool(mandatory), UserCreated: types.NewBool(true)}
	}
	return t.changeCluster(types.ClusterConfigSpecEx{RulesSpec: []types.ClusterRuleSpec{
		{ArrayUpdateSpec: add, Info: &types.ClusterVmHostRuleInfo{ClusterRuleInfo: rule(" one host", true), VmGroupName: group(vmsSuffix).Name, AffineHostGroupName: group(hostSuffix).Name}},
		{ArrayUpdateSpec: add, Info: &types.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: rule(" apart", false), Vm: both}}}})
}

// sweepRules removes the trial's rules and groups, in two calls, because a rule names groups. It reads which there are, because a reply may have been
// lost.
func (t *trial) sweepRules() error {
	if t.rules.name == "" {
		return nil
	}
	var config types.ClusterConfigInfoEx
	if _, err := t.read(t.end, t.vmGroup.cluster, session.To("configurationEx", &config)); err != nil {
		return err
	}
	remove := func(key any) types.ArrayUpdateSpec {
		return types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationRemove, RemoveKey: key}
	}
	var change types.ClusterConfigSpecEx
	for _, info := range config.Rule {
		if r := info.GetClusterRuleInfo(); strings.HasPrefix(r.Name, t.rules.name) {
			change.RulesSpec = append(change.RulesSpec, types.ClusterRuleSpec{ArrayUpdateSpec: remove(r.Key)})
		}
	}
	if len(change.RulesSpec) > 0 {
		if err := t.changeCluster(change); err != nil {
			return err
		}
	}
	change, seen := types.ClusterConfigSpecEx{}, false
	for _, name := range []string{t.rules.name + vmsSuffix, t.rules.name + hostSuffix} {
		found := slices.ContainsFunc(config.Group, func(g types.BaseClusterGroupInfo) bool { return g.GetClusterGroupInfo().Name == name })
		if seen = seen || found; found || t.rules.grouped {
			change.GroupSpec = append(change.GroupSpec, types.ClusterGroupSpec{ArrayUpdateSpec: remove(name)})
		}
	}
	if len(change.GroupSpec) > 0 {
		if err := t.changeCluster(change); err != nil && seen {
			return err
		}
	}
	t.rules = trialRules{}
	return nil
}
