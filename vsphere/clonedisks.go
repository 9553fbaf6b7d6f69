package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/fate"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// identifyDisks checks that a member that is to be powered on has the disks of its clone, and, where the directories of disks do not name
// their VM (vSAN, vVols), adds their uuids to its stamp, by which they are known wherever they are moved. It returns the member as it is then.
// A member that is prepared has both from then. Of any other the inventory tells what is needed, or now, if the step has just read the VM: a
// call is made only where something is missing or to be written.
func (v *VCenter) identifyDisks(ctx context.Context, ref plan.Ref, m *inventory.Member, a plan.Action, now *FreshVM) (*inventory.Member, error) {
	if disks.Identified(m.Stamp.Disks) || m.NamedHome && int(m.NumDisks) >= disks.Count(m.Stamp.Disks) && now == nil {
		return m, nil
	}
	var err error
	if now == nil {
		if now, err = v.ReadFresh(ctx, inventory.VMRef(a.MoRef)); err == nil {
			err = check(now, ref, a)
		}
	}
	if err == nil {
		err = v.completeOrUsed(ctx, m, a, now)
	}
	if err != nil || disks.NamedHome(now.File) {
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

// completeOrUsed is complete for a member that may have run: somebody may have removed one of its disks since. vCenter's events tell, if the
// member isn't so old that it has dropped them, or so new that it may not have stored them yet.
func (v *VCenter) completeOrUsed(ctx context.Context, m *inventory.Member, a plan.Action, now *FreshVM) error {
	lacks := complete(m.Stamp.Disks, now.Devices, a.VM)
	if lacks == nil {
		return nil
	}
	if made, on, err := fate.Life(ctx, v, a.MoRef); err != nil || on || !made && time.Since(m.Stamp.Created) > time.Hour {
		return err
	}
	return lacks
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
