package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// identifyDisks adds the uuids of the disks that its clone made to a member's stamp, before it is powered on for the first time, and returns
// the member as it is then. By them its disks are known wherever they are: on vSAN directories have UUIDs for names, so that of a disk that was
// moved tells nothing. A member that is prepared has them from then, and costs nothing here.
func (v *VCenter) identifyDisks(ctx context.Context, ref plan.Ref, m *inventory.Member, a plan.Action) (*inventory.Member, error) {
	if disks.Identified(m.Stamp.Disks) {
		return m, nil
	}
	now, err := v.ReadFresh(ctx, inventory.VMRef(a.MoRef))
	if err == nil {
		err = check(now, ref, a)
	}
	if err == nil {
		err = complete(m.Stamp.Disks, now.Devices, a.VM)
	}
	if err != nil {
		return m, err
	}
	foreign := now.ForeignDisks() // somebody may have attached one in another's place meanwhile
	own := slices.DeleteFunc(slices.Clone(now.Devices), func(device types.BaseVirtualDevice) bool {
		disk, is := device.(*types.VirtualDisk)
		return is && slices.Contains(foreign, disk)
	})
	identified := m.Stamp
	if identified.Disks = disks.Identify(m.Stamp.Disks, own); identified.Disks == m.Stamp.Disks {
		return m, nil
	}
	if now.Stamp != m.Stamp.Encode() {
		return m, changedMeanwhile()
	}
	if err = v.writeStamp(ctx, a.MoRef, now.ChangeVersion, identified.Encode()); err != nil {
		return m, err
	}
	return v.own(ref, a)
}

// complete returns an error if a clone's VM, which never ran, has not all disks that its stamp records: vCenter can end a clone without an
// error and without its disks.
func complete(record string, devices []types.BaseVirtualDevice, vm string) error {
	lacking := disks.Lacking(record, devices)
	if len(lacking) == 0 {
		return nil
	}
	return vcfault.New(vcfault.ReasonDiskMissing, true, "%s was cloned without disks of its template (%s): look at the clone's task in vCenter and at the datastore, and name the member in spec.replace.",
		vm, strings.Join(strings.Fields(strings.Trim(fmt.Sprint(lacking), "[]")), ", "))
}
