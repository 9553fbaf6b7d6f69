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

// readStamp reads what the clone was given, by its key.
func (t *trial) readStamp(ctx context.Context) verdict {
	stamp, instance, err := t.readTrial(ctx, t.vm)
	switch {
	case err != nil:
		return refused(err)
	case stamp != t.stamp:
		return broken("the clone does not have the extraConfig that was in its spec, or it cannot be read by its key", "members could not be told from unmanaged VMs")
	case instance != t.id:
		return broken("the clone has another instanceUuid than its spec had", "members would be taken for copies")
	}
	return held("%d bytes, written by the clone itself and read by their key; the instanceUuid is the one in the spec", len(stamp)).with(Facts{"bytes": count(len(stamp))})
}

// disksOfClone compares the clone's disks with those of what was cloned.
func (t *trial) disksOfClone(ctx context.Context) verdict {
	const consequence = "members' own disks would be taken for others', detached and left behind when they are destroyed"
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return refused(err)
	}
	was, is := strings.Fields(disks.Keys(t.draft.Devices())), strings.Fields(disks.Keys(now.Devices))
	slices.Sort(was)
	slices.Sort(is)
	facts := Facts{"disks": count(len(is)), "keysKept": yes(slices.Equal(was, is))}
	if !slices.Equal(was, is) {
		return broken(fmt.Sprintf("the clone's disks have the keys %v, and those of its source %v", is, was), consequence).with(facts)
	}
	sources := uuidsOf(t.draft.Devices())
	own := uuidsOf(now.Devices)
	for uuid := range own {
		if sources[uuid] {
			return broken("a disk of the clone has the uuid of its source's", consequence).with(facts)
		}
	}
	facts["uuids"] = count(len(own))
	return held("%d, with the keys of their sources, %d of them with uuids of their own", len(is), len(own)).with(facts)
}

// uuidsOf are the uuids of disks, as far as vCenter tells them.
func uuidsOf(devices []types.BaseVirtualDevice) map[string]bool {
	uuids := map[string]bool{}
	for _, entry := range strings.Fields(disks.Identify(disks.Keys(devices), devices)) {
		if _, uuid, told := strings.Cut(entry, "="); told {
			uuids[uuid] = true
		}
	}
	return uuids
}

// twoNetworks is what orderOfAdapters lacks.
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

// cardsOf are the network adapters of a VM, by their keys.
func cardsOf(devices []types.BaseVirtualDevice) (cards []*types.VirtualEthernetCard) {
	for _, device := range devices {
		if card, is := device.(types.BaseVirtualEthernetCard); is {
			cards = append(cards, card.GetVirtualEthernetCard())
		}
	}
	slices.SortStableFunc(cards, func(a, b *types.VirtualEthernetCard) int { return cmp.Compare(a.Key, b.Key) })
	return cards
}

// networkOf names what an adapter is connected with.
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

// orderOfAdapters looks whether the n-th adapter by its key is the n-th of the spec, and has a MAC address.
func (t *trial) orderOfAdapters(ctx context.Context) verdict {
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return refused(err)
	}
	wanted, cards := addedCards(t.spec.Config.DeviceChange), cardsOf(now.Devices)
	facts := Facts{"adapters": count(len(cards))}
	if len(cards) != len(wanted) {
		return broken(fmt.Sprintf("the clone has %d network adapters, and its spec had %d", len(cards), len(wanted)), "members would have other networks than their spec says").with(facts)
	}
	for i, card := range cards {
		switch {
		case card.MacAddress == "":
			return broken("an adapter of the clone has no MAC address", "members could not be told their network configuration").with(facts)
		case networkOf(card) != networkOf(wanted[i]):
			return broken(fmt.Sprintf("adapter %d by its key is not the one that was added as number %d", i+1, i+1), "static addresses would be on the wrong adapters").with(facts)
		}
	}
	return held("%d adapters have MAC addresses, and keys in the order of the spec", len(cards)).with(facts)
}

// linked is what linkedClone lacks.
func linked(t *trial, _ context.Context) string {
	if t.like == nil || t.like.Spec.Clone.Mode != v1alpha1.CloneLinked {
		return "needs a group (-f) of this template with clone.mode: Linked"
	}
	return ""
}

// linkedClone looks whether the clone's disks are children of the template's snapshot.
func (t *trial) linkedClone(ctx context.Context) verdict {
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return refused(err)
	}
	on, err := t.privileges(ctx, []types.ManagedObjectReference{inventory.VMRef(t.template.moRef)})
	if err != nil {
		return refused(err)
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
		return broken(fmt.Sprintf("%d disks of the clone are no children of the snapshot's", whole), "linked clones would take the time and space of full ones").with(facts)
	case alone:
		return held("its disks are children of the snapshot's; VirtualMachine.Provisioning.DeployTemplate was enough").with(facts)
	}
	return held("its disks are children of the snapshot's (the account may clone in other ways, too, so that this does not show that DeployTemplate is enough)").with(facts)
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
