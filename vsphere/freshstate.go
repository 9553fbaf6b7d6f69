package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// freshState is what is looked at right before a VM is destroyed.
type freshState struct {
	stamp, instanceUUID, changeVersion, file string
	power                                    types.VirtualMachinePowerState
	devices                                  []types.BaseVirtualDevice
}

func (v *VCenter) readFresh(ctx context.Context, vm types.ManagedObjectReference) (*freshState, error) {
	var now freshState
	err := v.call(ctx, func(ctx context.Context, s *session.Session) error {
		objects, err := session.Retrieve(ctx, s, types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: vm}},
			PropSet: []types.PropertySpec{{Type: vm.Type, PathSet: []string{stamp.Path, "config.instanceUuid",
				"config.changeVersion", "config.files.vmPathName", "config.hardware.device", "runtime.powerState"}}},
		})
		now = freshState{}
		for _, o := range objects {
			for _, p := range o.PropSet {
				now.take(p)
			}
		}
		return err
	})
	return &now, err
}

// lookUnchanged looks at a member whose configuration must be the one that is known of it.
func (v *VCenter) lookUnchanged(ctx context.Context, ref plan.Ref, a plan.Action, m *inventory.Member) (*freshState, error) {
	now, err := v.readFresh(ctx, inventory.VMRef(a.MoRef))
	if err == nil {
		err = now.check(ref, a)
	}
	if err == nil && now.changeVersion != m.ChangeVersion {
		err = changedMeanwhile()
	}
	return now, err
}

func (x *freshState) take(p types.DynamicProperty) {
	switch val := p.Val.(type) {
	case types.OptionValue:
		x.stamp, _ = val.Value.(string)
	case types.VirtualMachinePowerState:
		x.power = val
	case types.ArrayOfVirtualDevice:
		x.devices = val.VirtualDevice
	case string:
		switch p.Name {
		case "config.instanceUuid":
			x.instanceUUID = val
		case "config.changeVersion":
			x.changeVersion = val
		case "config.files.vmPathName":
			x.file = val
		}
	}
}

// check reports whether the VM may be destroyed: it is the group's, that ordinal, no copy, and, unless the whole group
// goes, still marked for it: another replica may have withdrawn the mark.
func (x *freshState) check(ref plan.Ref, a plan.Action) error {
	bears, owner := stamp.Read(x.stamp, x.instanceUUID, x.instanceUUID != "" && x.file != "")
	switch {
	case owner == stamp.Unreadable:
		return vcfault.New(plan.ReasonUnreachable, false, "The configuration of %s cannot be read, so nothing was done to it.", a.VM)
	case owner != stamp.Ours || bears.UID != ref.UID || bears.Ordinal != a.Ordinal:
		return notOurs(a)
	case a.Marked && !(bears.Marked && (fits(bears.Why, a.Op) || !bears.Quarantined.IsZero())):
		return wantedAfterAll(a)
	case a.Op == plan.PowerOn && bears.Marked:
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "%s was chosen to go in the meantime, so it was not powered on.", a.VM)
	}
	return nil
}

// fits reports whether a mark of that kind is enough for a step: who is only power-cycled is not taken away.
func fits(why plan.Why, op plan.Op) bool {
	return why != plan.WhyPowerCycle || op == plan.PowerOff || op == plan.ShutdownGuest
}

func wantedAfterAll(a plan.Action) *vcfault.Error {
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The mark of %s was withdrawn, so it is wanted after all and stays.", a.VM)
}

// lookAgain looks afresh at a member that goes because it is marked, or is powered on because it is not: another copy of the
// server may have withdrawn the mark a moment ago, or set it.
func (v *VCenter) lookAgain(ctx context.Context, ref plan.Ref, a plan.Action) error {
	now, err := v.readFresh(ctx, inventory.VMRef(a.MoRef))
	if err != nil {
		return err
	}
	return now.check(ref, a)
}
