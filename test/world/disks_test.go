package world

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The first-class disks of vCenter.

// disk is a first-class disk. Its metadata name its owner, and record whether the disk was ever attached to a VM.
type disk struct {
	id    string
	owner owner
	gib   int32
	bound bool
	gone  bool
	by    *replica  // the replica that deleted the disk
	lost  bool      // vCenter doesn't find the disk: it is being moved, or vCenter's catalogue is out of date
	open  bool      // a backup has it open
	shown time.Time // when vCenter begins to list the disk
	log   []string  // the VMs whose guests wrote to it, one entry for each boot
}

type owner struct {
	uid     types.UID
	ordinal int32
	name    string
}

func (o owner) String() string { return fmt.Sprintf("%s/%d/%s", o.uid, o.ordinal, o.name) }

// listLags are the delays after which vCenter can list a new disk.
var listLags = []time.Duration{0, time.Second, 5 * time.Second, time.Minute}

// makes makes a disk. The order of the ids differs from the order of creation, so that no step can rely on it.
func (v *vcenter) makes(of owner, gib int32) *disk {
	n := len(v.disks) + 1
	d := &disk{id: fmt.Sprintf("disk-%03d", n*619%1000), owner: of, gib: gib, shown: time.Now().Add(listLags[(int(v.set.seed)+n)%len(listLags)])}
	v.disks = append(v.disks, d)
	return d
}

func (v *vcenter) disk(id string) *disk {
	if i := slices.IndexFunc(v.disks, func(d *disk) bool { return d.id == id }); i >= 0 {
		return v.disks[i]
	}
	return nil
}

// readDisk returns a disk by its id, or the fault that vCenter would return.
func (v *vcenter) readDisk(id string) (*disk, error) {
	switch d := v.disk(id); {
	case v.storageOut:
		return nil, storageOut
	case d == nil, d.gone, d.lost:
		return nil, diskMissing
	default:
		return d, nil
	}
}

// users returns the VMs in the inventory to which a disk is attached.
func (v *vcenter) users(d *disk) (all []*machine) {
	for _, m := range v.vms {
		if !m.gone && slices.Contains(m.attached, d) {
			all = append(all, m)
		}
	}
	return all
}

// locked reports whether vCenter refuses to power on a VM because another VM has one of its disks open, even a VM that runs on a host outside
// the inventory.
func (v *vcenter) locked(m *machine) bool {
	return slices.ContainsFunc(m.attached, func(d *disk) bool {
		return d.open || slices.ContainsFunc(v.vms, func(x *machine) bool {
			return x != m && (!x.gone || x.away()) && x.Power == plan.PoweredOn && slices.Contains(x.attached, d)
		})
	})
}

// furnish gives a VM the persistent disks that members have when a life begins.
func (v *vcenter) furnish(m *machine, spec *v1alpha1.VmGroupSpec) {
	var given []plan.MemberDisk
	for i := range spec.Disks {
		d := v.makes(owner{m.uid, m.Ordinal, spec.Disks[i].Name}, spec.Disks[i].SizeGiB)
		d.bound, m.attached = true, append(m.attached, d)
		given = append(given, d.record(&spec.Disks[i]))
		given[i].UUID = plan.NoUUID
	}
	m.Disks, m.Prepared = plan.DiskText(given), plan.PreparationOf(spec)
	if m.tagged = plan.HasTags(spec); m.tagged {
		m.Tagged = plan.Tagged{MoRef: m.MoRef, At: m.Created}
	}
}

func (d *disk) record(want *v1alpha1.Disk) plan.MemberDisk {
	return plan.MemberDisk{Name: want.Name, SizeGiB: want.SizeGiB, Shape: plan.DiskShape(want), ID: d.id, Datastore: "datastore-1"}
}

// listDisks makes vCenter list all new disks at once, because a clone takes far longer than vCenter needs to list a disk.
func (v *vcenter) listDisks() {
	for _, d := range v.disks {
		d.shown = time.Time{}
	}
}
