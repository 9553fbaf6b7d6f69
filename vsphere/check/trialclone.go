package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
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

// disksOfClone compares the clone's disks with those of the source.
func (t *trial) disksOfClone(ctx context.Context) outcome {
	const consequence = "members' own disks would be mistaken for foreign ones, detached and left behind when the members are destroyed"
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return failedBy(err)
	}
	was, is := strings.Fields(disks.Keys(t.draft.Devices())), strings.Fields(disks.Keys(now.Devices))
	slices.Sort(was)
	slices.Sort(is)
	facts := Facts{"disks": count(len(is)), "keysKept": yes(slices.Equal(was, is))}
	if !slices.Equal(was, is) {
		return refuted(fmt.Sprintf("the clone's disks have the keys %v, its source's %v", is, was), consequence).with(facts)
	}
	sources := uuidsOf(t.draft.Devices())
	own := uuidsOf(now.Devices)
	for uuid := range own {
		if sources[uuid] {
			return refuted("a disk of the clone has the same uuid as the source's", consequence).with(facts)
		}
	}
	facts["uuids"] = count(len(own))
	return confirmed("%d, with the keys of the source's disks, %d of them with new uuids", len(is), len(own)).with(facts)
}

// uuidsOf returns the uuids of disks, as far as vCenter reports them.
func uuidsOf(devices []types.BaseVirtualDevice) map[string]bool {
	uuids := map[string]bool{}
	for _, entry := range strings.Fields(disks.Identify(disks.Keys(devices), devices)) {
		if _, uuid, known := strings.Cut(entry, "="); known {
			uuids[uuid] = true
		}
	}
	return uuids
}

// twoNetworks returns what orderOfAdapters lacks.
func twoNetworks(t *trial, _ context.Context) string {
	var seen []string
	for _, card := range addedCards(t.spec.Config.DeviceChange) {
		if on := networkOf(card); on != "" && !slices.Contains(seen, on) {
			seen = append(seen, on)
		}
	}
	if len(seen) < 2 {
		return "needs a group (-f) of this template with two different networks"
	}
	return ""
}

func addedCards(changes []types.BaseVirtualDeviceConfigSpec) (cards []*types.VirtualEthernetCard) {
	for _, change := range changes {
		spec := change.GetVirtualDeviceConfigSpec()
		if card, is := spec.Device.(types.BaseVirtualEthernetCard); is && spec.Operation == types.VirtualDeviceConfigSpecOperationAdd {
			cards = append(cards, card.GetVirtualEthernetCard())
		}
	}
	return cards
}

// cardsOf returns the network adapters of a VM, sorted by key.
func cardsOf(devices []types.BaseVirtualDevice) (cards []*types.VirtualEthernetCard) {
	for _, device := range devices {
		if card, is := device.(types.BaseVirtualEthernetCard); is {
			cards = append(cards, card.GetVirtualEthernetCard())
		}
	}
	slices.SortStableFunc(cards, func(a, b *types.VirtualEthernetCard) int { return cmp.Compare(a.Key, b.Key) })
	return cards
}

// networkOf names the network of an adapter.
func networkOf(card *types.VirtualEthernetCard) string {
	switch b := card.Backing.(type) {
	case *types.VirtualEthernetCardDistributedVirtualPortBackingInfo:
		return b.Port.PortgroupKey
	case *types.VirtualEthernetCardOpaqueNetworkBackingInfo:
		return b.OpaqueNetworkId
	case *types.VirtualEthernetCardNetworkBackingInfo:
		return b.DeviceName
	}
	return ""
}

// orderOfAdapters checks that the adapters, sorted by key, are in the order of the spec and have MAC addresses.
func (t *trial) orderOfAdapters(ctx context.Context) outcome {
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return failedBy(err)
	}
	wanted, cards := addedCards(t.spec.Config.DeviceChange), cardsOf(now.Devices)
	facts := Facts{"adapters": count(len(cards))}
	if len(cards) != len(wanted) {
		return refuted(fmt.Sprintf("the clone has %d network adapters, its spec %d", len(cards), len(wanted)), "members would not have the networks of their spec").with(facts)
	}
	for i, card := range cards {
		switch {
		case card.MacAddress == "":
			return refuted("an adapter of the clone has no MAC address", "members could not get their network configuration").with(facts)
		case networkOf(card) != networkOf(wanted[i]):
			return refuted(fmt.Sprintf("adapter %d in the order of keys is not number %d of the spec", i+1, i+1), "static addresses would be on the wrong adapters").with(facts)
		}
	}
	return confirmed("%d adapters have MAC addresses and keys in the order of the spec", len(cards)).with(facts)
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
	on, err := t.privileges(ctx, []types.ManagedObjectReference{inventory.VMRef(t.template.moRef)})
	if err != nil {
		return failedBy(err)
	}
	alone, whole := true, 0
	for _, disk := range disks.In(now.Devices) {
		if !isChild(disk) {
			whole++
		}
	}
	for _, privileges := range on {
		alone = !privileges["VirtualMachine.Provisioning.Clone"] && !privileges["VirtualMachine.Provisioning.CloneTemplate"]
	}
	facts := Facts{"wholeDisks": count(whole), "byDeployTemplateAlone": yes(alone)}
	switch {
	case whole > 0:
		return refuted(fmt.Sprintf("%d disks of the clone are not children of the snapshot's", whole), "linked clones would need the time and space of full ones").with(facts)
	case alone:
		return confirmed("its disks are children of the snapshot's; VirtualMachine.Provisioning.DeployTemplate was enough").with(facts)
	}
	return confirmed("its disks are children of the snapshot's (the account has other clone privileges, too, so this does not show that DeployTemplate is enough)").with(facts)
}

func isChild(disk *types.VirtualDisk) bool {
	switch b := disk.Backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		return b.Parent != nil
	case *types.VirtualDiskSeSparseBackingInfo:
		return b.Parent != nil
	case *types.VirtualDiskSparseVer2BackingInfo:
		return b.Parent != nil
	}
	return false
}
