package check

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// trialVMGroup is the DRS VM group that the trial adds.
type trialVMGroup struct {
	cluster types.ManagedObjectReference
	// name is the name in the trial's call, with a character that vCenter may escape; empty if the trial adds no group.
	name string
	// added reports whether the task that adds the group succeeded.
	added bool
}

// editCluster is the privilege to change a cluster's configuration.
const editCluster = "Host.Inventory.EditCluster"

// drsCluster finds the cluster, and returns why the trial cannot change its configuration.
func drsCluster(t *trial, ctx context.Context) string {
	if !t.DRS {
		return "needs --drs, because a VM group is part of the cluster's configuration"
	}
	owner, err := t.v.OwnerOf(ctx, t.at.Pool)
	if err != nil || owner.Type != "ClusterComputeResource" {
		return "the resource pool is in no cluster"
	}
	if held, err := t.privileges(ctx, []types.ManagedObjectReference{owner}); err != nil || !held[owner][editCluster] {
		return "needs " + editCluster + " on the cluster"
	}
	t.vmGroup.cluster = owner
	return ""
}

// addVMGroup adds a DRS VM group of the trial's VM to the cluster, and removes it. It does not try a group without a VM: vCenter may refuse
// such a group (reported: vmware/vic#7556), and the server adds none.
func (t *trial) addVMGroup(ctx context.Context) outcome {
	const consequence = "rules for host groups would be set again and again, or stay behind"
	t.progress("adding a DRS VM group of %s to the cluster; it is removed at once", trialName)
	t.vmGroup.name = scratchPrefix + "a/b " + t.id[:8]
	err := t.changeCluster(types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
		Info: &types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: t.vmGroup.name, UserCreated: types.NewBool(true)},
			Vm: []types.ManagedObjectReference{t.vm}}}}})
	if err != nil {
		return failedBy(err)
	}
	t.vmGroup.added = true
	found, err := t.findVMGroup(ctx)
	if err != nil {
		return failedBy(err)
	}
	if found == nil {
		return refuted("it is not in the cluster's configuration after the task that adds it", consequence)
	}
	if len(found.Vm) != 1 || found.Vm[0] != t.vm {
		return refuted("it does not have the VM that it was given", consequence)
	}
	escaped := found.Name != t.vmGroup.name
	facts := Facts{"escaped": yes(escaped), "userCreated": yes(found.UserCreated != nil && *found.UserCreated)}
	if err := t.sweepVMGroup(); err != nil {
		return failedBy(fmt.Errorf("remove the VM group: %w", err)).with(facts)
	}
	return confirmed("added and removed, with its VM; a / in its name is %s", map[bool]string{true: "escaped", false: "kept"}[escaped]).with(facts)
}

// findVMGroup finds the trial's VM group in the cluster's configuration; nil if it is not there.
func (t *trial) findVMGroup(ctx context.Context) (*types.ClusterVmGroup, error) {
	var config types.ClusterConfigInfoEx
	_, err := t.read(ctx, t.vmGroup.cluster, session.To("configurationEx", &config))
	for _, info := range config.Group {
		if g, is := info.(*types.ClusterVmGroup); is && (g.Name == t.vmGroup.name || naming.Unescape(g.Name) == t.vmGroup.name) {
			return g, err
		}
	}
	return nil, err
}

// sweepVMGroup removes the trial's VM group by the name that vCenter has for it.
func (t *trial) sweepVMGroup() error {
	if t.vmGroup.name == "" {
		return nil
	}
	found, err := t.findVMGroup(t.end)
	name := t.vmGroup.name
	switch {
	case err != nil:
		return err
	case found != nil:
		name = found.Name
	case !t.vmGroup.added:
		return nil
	}
	err = t.changeCluster(types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationRemove, RemoveKey: name}}}})
	if err == nil || found == nil {
		t.vmGroup = trialVMGroup{cluster: t.vmGroup.cluster}
		return nil
	}
	return err
}

func (t *trial) changeCluster(change types.ClusterConfigSpecEx) error {
	_, err := t.v.Task(t.end, func(ctx context.Context, s *session.Session) (types.ManagedObjectReference, error) {
		res, err := methods.ReconfigureComputeResource_Task(ctx, s.Vim, &types.ReconfigureComputeResource_Task{
			This: t.vmGroup.cluster, Spec: &change, Modify: true,
		})
		if err != nil {
			return types.ManagedObjectReference{}, err
		}
		return res.Returnval, nil
	})
	return err
}
