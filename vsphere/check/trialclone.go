package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// readStamp reads the clone's stamp by its key.
func (t *trial) readStamp(ctx context.Context) outcome {
	stamp, instance, err := t.readTrial(ctx, t.vm)
	switch {
	case err != nil:
		return failedBy(err)
	case stamp != t.stamp:
		return refuted("the clone does not have the extraConfig of its spec, or its key cannot be read", "members could not be distinguished from unmanaged VMs")
	case instance != t.id:
		return refuted("the clone's instanceUuid differs from its spec", "members would be mistaken for copies")
	}
	return confirmed("%d bytes, written by the clone itself and read by key; the instanceUuid is that of the spec", len(stamp)).with(Facts{"bytes": count(len(stamp))})
}

// disksOfClone compares the clone's disks with the source's. A linked clone's disks have the source's uuids (govmomi#1682).
func (t *trial) disksOfClone(ctx context.Context) outcome {
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return failedBy(err)
	}
	was, sources := keysAndUUIDs(t.draft.Devices())
	is, own := keysAndUUIDs(now.Devices)
	known := len(own)
	own = slices.DeleteFunc(own, func(uuid string) bool { return slices.Contains(sources, uuid) })
	facts := Facts{"disks": count(len(is)), "keysKept": yes(slices.Equal(was, is)), "uuids": count(known), "newUUIDs": count(len(own))}
	foreign := disks.Foreign(now.Devices, now.File, disks.Identify(disks.Keys(t.draft.Devices()), now.Devices, now.File))
	const consequence = "members' own disks would be mistaken for foreign ones, detached and left behind when the members are destroyed"
	switch {
	case !slices.Equal(was, is):
		return refuted(fmt.Sprintf("the clone's disks have the keys %v, its source's %v", is, was), consequence).with(facts)
	case len(foreign) > 0:
		return refuted("a disk of the clone is not named after its VM", consequence).with(facts)
	}
	return confirmed("%d, named after their VM, with the keys of the source's disks, %d of them with new uuids", len(is), len(own)).with(facts)
}

// keysAndUUIDs returns the keys of disks, as a member's stamp records them, and the uuids that vCenter reports of these disks.
func keysAndUUIDs(devices []types.BaseVirtualDevice) (keys, uuids []string) {
	keys = strings.Fields(strings.ReplaceAll(disks.Keys(devices), "=", ""))
	slices.Sort(keys)
	for _, disk := range disks.In(devices) {
		if uuid := disks.UUID(disk); uuid != "" {
			uuids = append(uuids, uuid)
		}
	}
	return keys, uuids
}

// twoNetworks returns what orderOfAdapters lacks.
func twoNetworks(t *trial, _ context.Context) string {
	networks := networksOf(adaptersOf(t.spec.Config.DeviceChange))
	slices.Sort(networks)
	if len(slices.Compact(networks)) < 2 {
		return "needs a group (-f) of this template with two different networks"
	}
	return ""
}

// adaptersOf returns the network adapters that a clone's spec adds or keeps, in its order.
func adaptersOf(changes []types.BaseVirtualDeviceConfigSpec) (adapters []types.BaseVirtualDevice) {
	for _, change := range changes {
		spec := change.GetVirtualDeviceConfigSpec()
		if _, is := spec.Device.(types.BaseVirtualEthernetCard); is && spec.Operation != types.VirtualDeviceConfigSpecOperationRemove {
			adapters = append(adapters, spec.Device)
		}
	}
	return adapters
}

// networksOf names the networks of adapters.
func networksOf(adapters []types.BaseVirtualDevice) (networks []string) {
	for _, adapter := range adapters {
		switch b := adapter.GetVirtualDevice().Backing.(type) {
		case *types.VirtualEthernetCardDistributedVirtualPortBackingInfo:
			networks = append(networks, b.Port.PortgroupKey)
		case *types.VirtualEthernetCardOpaqueNetworkBackingInfo:
			networks = append(networks, b.OpaqueNetworkId)
		case *types.VirtualEthernetCardNetworkBackingInfo:
			networks = append(networks, b.DeviceName)
		default:
			networks = append(networks, "")
		}
	}
	return networks
}

// orderOfAdapters checks that the adapters, sorted by key, are in the order of the spec and have MAC addresses.
func (t *trial) orderOfAdapters(ctx context.Context) outcome {
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return failedBy(err)
	}
	wanted, has := networksOf(adaptersOf(t.spec.Config.DeviceChange)), networksOf(hardware.NICsIn(now.Devices))
	facts := Facts{"adapters": count(len(has))}
	switch {
	case len(has) != len(wanted):
		return refuted(fmt.Sprintf("the clone has %d network adapters, its spec %d", len(has), len(wanted)), "members would not have the networks of their spec").with(facts)
	case slices.Contains(hardware.MACsOf(now.Devices), ""):
		return refuted("an adapter of the clone has no MAC address", "members could not get their network configuration").with(facts)
	case !slices.Equal(has, wanted):
		return refuted("the adapters in the order of their keys are not in the order of the spec", "static addresses would be on the wrong adapters").with(facts)
	}
	return confirmed("%d adapters have MAC addresses and keys in the order of the spec", len(has)).with(facts)
}

// linked returns what linkedClone lacks.
func linked(t *trial, _ context.Context) string {
	if t.like == nil || t.like.Spec.Clone.Mode != v1alpha1.CloneLinked {
		return "needs a group (-f) of this template with clone.mode: Linked"
	}
	return ""
}

// linkedClone checks that the clone's disks are children of the template's snapshot.
func (t *trial) linkedClone(ctx context.Context) outcome {
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return failedBy(err)
	}
	if whole := len(slices.DeleteFunc(disks.In(now.Devices), disks.IsDelta)); whole > 0 {
		return refuted(fmt.Sprintf("%d disks of the clone are not children of the snapshot's", whole), "linked clones would need the time and space of full ones").with(Facts{"wholeDisks": count(whole)})
	}
	return confirmed("its disks are children of the snapshot's")
}

// setting changes one value of extraConfig.
func setting(key, value, changeVersion string) types.VirtualMachineConfigSpec {
	return types.VirtualMachineConfigSpec{ChangeVersion: changeVersion, ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: key, Value: value}}}
}

// absentKey reads an extraConfig key that never existed and one that was emptied: both must be empty, without a fault.
func (t *trial) absentKey(ctx context.Context) outcome {
	const consequence, emptied = "VMs without a stamp, or released ones, would seem unreadable or still be members", trialKey + ".emptied"
	for _, value := range []string{"1", ""} {
		if err := t.reconfigure(setting(emptied, value, "")); err != nil {
			return failedBy(err)
		}
	}
	for key, how := range map[string]string{trialKey + ".absent": "is absent", emptied: "was emptied"} {
		value, o, err := t.option(ctx, t.vm, key)
		switch {
		case vcfault.Known(err) && ctx.Err() == nil:
			return refuted(fmt.Sprintf("reading a key that %s fails: %s", how, vcfault.Classify("", err).Reason), consequence).with(Facts{"fault": yes(true)})
		case err != nil:
			return failedBy(err)
		case o.Withheld:
			return refuted(fmt.Sprintf("a key that %s is reported as missing, with a fault", how), consequence).with(Facts{"fault": yes(true)})
		case value != "":
			return refuted(fmt.Sprintf("a key that %s has a value", how), consequence).with(Facts{"fault": yes(false)})
		}
	}
	return confirmed("an absent key and an emptied one are read as empty, without a fault")
}

// changeVersionGuards makes two changes with the same changeVersion.
func (t *trial) changeVersionGuards(ctx context.Context) outcome {
	const guarded = trialKey + ".guarded"
	before, err := t.state(ctx)
	if err == nil {
		err = t.reconfigure(setting(guarded, "1", before.version))
	}
	if err != nil {
		return failedBy(err)
	}
	switch err = t.reconfigure(setting(guarded, "2", before.version)); {
	case err == nil:
		return refuted("a change with an outdated changeVersion succeeded", "replicas of the server would overwrite each other's marks")
	case !vcfault.Has[*types.ConcurrentAccess](err):
		return failedBy(err)
	}
	return confirmed("a second change with the same changeVersion gets ConcurrentAccess")
}
