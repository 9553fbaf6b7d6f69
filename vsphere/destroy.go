package vsphere

import (
	"context"
	"path"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// destroy removes a member and the disks that its clone made. Its stamp is read once more before, and not from the
// inventory. Disks from elsewhere are detached first, and kept.
func (v *VCenter) destroy(ctx context.Context, ref plan.Ref, a plan.Action) error {
	vm := vmRef(a.MoRef)
	for {
		now, err := v.readFresh(ctx, vm)
		if missingObject(err) == vm {
			return v.reader.read(ctx, vm)
		}
		if err != nil {
			return err
		}
		if err := now.check(ref, a); err != nil {
			return err
		}
		if a.NeverOn {
			if err := v.neverOn(ctx, a, now); err != nil {
				return err
			}
		}
		kept := foreignDisks(now.devices, now.file)
		if len(kept) == 0 {
			break
		}
		if err := v.detach(ctx, ref, a, now, kept); err != nil {
			return err
		}
	}
	_, err := v.task(ctx, func(ctx context.Context, s *session) (task types.ManagedObjectReference, err error) {
		res, err := methods.Destroy_Task(ctx, s.vim, &types.Destroy_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil && missingObject(err) != vm {
		return err
	}
	return v.reader.read(ctx, vm)
}

// freshState is what is looked at right before a VM is destroyed.
type freshState struct {
	stamp, instanceUUID, changeVersion, file string
	power                                    types.VirtualMachinePowerState
	devices                                  []types.BaseVirtualDevice
}

func (v *VCenter) readFresh(ctx context.Context, vm types.ManagedObjectReference) (*freshState, error) {
	var now freshState
	err := v.call(ctx, func(ctx context.Context, s *session) error {
		objects, err := retrieve(ctx, s, types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: vm}},
			PropSet: []types.PropertySpec{{Type: vm.Type, PathSet: []string{stampPath, "config.instanceUuid",
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
func (v *VCenter) lookUnchanged(ctx context.Context, ref plan.Ref, a plan.Action, m *member) (*freshState, error) {
	now, err := v.readFresh(ctx, vmRef(a.MoRef))
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
	stamp, owner := ownerOf(&Machine{Readable: x.instanceUUID != "" && x.file != "", InstanceUUID: x.instanceUUID, Stamp: x.stamp}, nil)
	switch {
	case owner == unreadable:
		return faultf(plan.ReasonUnreachable, false, "The configuration of %s cannot be read, so nothing was done to it.", a.VM)
	case owner != ours || stamp.UID != ref.UID || stamp.Ordinal != a.Ordinal:
		return notOurs(a)
	case a.Marked && !(stamp.Marked && (fits(stamp.Why, a.Op) || !stamp.Quarantined.IsZero())):
		return wantedAfterAll(a)
	case a.Op == plan.PowerOn && stamp.Marked:
		return faultf(ReasonConcurrentAccess, false, "%s was chosen to go in the meantime, so it was not powered on.", a.VM)
	}
	return nil
}

// fits reports whether a mark of that kind is enough for a step: who is only power-cycled is not taken away.
func fits(why plan.Why, op plan.Op) bool {
	return why != plan.WhyPowerCycle || op == plan.PowerOff || op == plan.ShutdownGuest
}

func wantedAfterAll(a plan.Action) *Error {
	return faultf(ReasonConcurrentAccess, false, "The mark of %s was withdrawn, so it is wanted after all and stays.", a.VM)
}

// detach takes disks off a VM and keeps their files: an operation without a file operation.
func (v *VCenter) detach(ctx context.Context, ref plan.Ref, a plan.Action, now *freshState, disks []*types.VirtualDisk) error {
	spec := types.VirtualMachineConfigSpec{ChangeVersion: now.changeVersion}
	for _, disk := range disks {
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: disk})
		v.log.Warn().Str("group", ref.String()).Str("vm", a.VM).Str("disk", fileOf(disk)).Msg("a disk that the clone did not make is detached and kept")
	}
	return v.reconfigure(ctx, vmRef(a.MoRef), spec)
}

// foreignDisks are the disks that the VM's clone did not make, as far as can be told: a clone's disks lie in the
// directory of its .vmx file. What lies elsewhere was attached later: another VM's disk, a Kubernetes volume (those
// are first-class disks, in a directory of their own, and have an id). Kept by mistake is what a clone left on other
// datastores, because its template's disks are on several and the settings name none: better a disk too many
// than one too few, and the log names it.
func foreignDisks(devices []types.BaseVirtualDevice, vmx string) []*types.VirtualDisk {
	var own object.DatastorePath
	if !own.FromString(vmx) {
		return nil
	}
	var foreign []*types.VirtualDisk
	for _, device := range devices {
		disk, is := device.(*types.VirtualDisk)
		if !is {
			continue
		}
		var at object.DatastorePath
		if file := fileOf(disk); file == "" || !at.FromString(file) {
			continue
		}
		if disk.VDiskId != nil || at.Datastore != own.Datastore || path.Dir(at.Path) != path.Dir(own.Path) {
			foreign = append(foreign, disk)
		}
	}
	return foreign
}

func fileOf(disk *types.VirtualDisk) string {
	if backing, is := disk.Backing.(types.BaseVirtualDeviceFileBackingInfo); is {
		return backing.GetVirtualDeviceFileBackingInfo().FileName
	}
	return ""
}
