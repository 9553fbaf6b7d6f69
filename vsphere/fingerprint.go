package vsphere

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/vim25/types"
)

// fingerprintLength is how many hexadecimal digits of the hash are kept: enough to tell the few versions of one
// template from each other.
const fingerprintLength = 10

// fingerprint tells a template's disks from those of another one, or of another version of it. contentId is the
// disk's own word: it changes when the disk is written to. config.changeVersion would not do: any edit of the template
// changes it, and so does registering the template again, and everybody's VMs would be rolled for it.
func fingerprint(instanceUUID string, devices []types.BaseVirtualDevice) string {
	var disks []*types.VirtualDisk
	for _, device := range devices {
		if disk, is := device.(*types.VirtualDisk); is {
			disks = append(disks, disk)
		}
	}
	slices.SortFunc(disks, func(a, b *types.VirtualDisk) int { return cmp.Compare(a.Key, b.Key) })
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%q", instanceUUID)
	for _, disk := range disks {
		capacity := disk.CapacityInBytes
		if capacity == 0 { // as hosts before 5.5 say it
			capacity = disk.CapacityInKB << 10
		}
		uuid, content := contentOf(disk.Backing)
		_, _ = fmt.Fprintf(hash, ",%d,%q,%q", capacity, uuid, content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:fingerprintLength]
}

// contentOf gives a disk's uuid and contentId.
func contentOf(backing types.BaseVirtualDeviceBackingInfo) (uuid, content string) {
	switch b := backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskSeSparseBackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskSparseVer2BackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskRawDiskMappingVer1BackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskLocalPMemBackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskFlatVer1BackingInfo:
		return "", b.ContentId
	case *types.VirtualDiskSparseVer1BackingInfo:
		return "", b.ContentId
	}
	return "", ""
}

// readDisks fills in the fingerprints of the templates of a reading, with one call more for up to 500 of them.
// Unmanaged VMs' devices are read for no other reason. What cannot be read stays empty, for it hinders nothing; only a
// session that has ended, or a vCenter that does not answer, fails the whole reading.
func readDisks(ctx context.Context, s *session, r *Reading) error {
	templates := map[types.ManagedObjectReference]*Machine{}
	var refs []types.ManagedObjectReference
	for i := range r.Machines {
		if m := &r.Machines[i]; m.Template && m.Readable {
			templates[vmRef(m.MoRef)] = m
			refs = append(refs, vmRef(m.MoRef))
		}
	}
	for chunk := range slices.Chunk(refs, bulk) {
		objects, err := retrieveLiving(ctx, s, chunk, "config.hardware.device")
		if e := classify("", err); e != nil && (e.Reason == ReasonNotAuthenticated || e.Reason == ReasonVCenterUnreachable || ctx.Err() != nil) {
			return err
		}
		for _, o := range objects {
			m := templates[o.Obj]
			for _, p := range o.PropSet {
				if devices, is := p.Val.(types.ArrayOfVirtualDevice); is && m != nil {
					m.Disks = fingerprint(m.InstanceUUID, devices.VirtualDevice)
				}
			}
		}
	}
	return nil
}

// retrieveLiving reads a property of those VMs that are still there.
func retrieveLiving(ctx context.Context, s *session, refs []types.ManagedObjectReference, path string) ([]types.ObjectContent, error) {
	refs = slices.Clone(refs)
	for len(refs) > 0 {
		spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{path}}}}
		for _, ref := range refs {
			spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
		}
		objects, err := retrieve(ctx, s, spec)
		at := slices.Index(refs, missingObject(err))
		if err == nil || at < 0 {
			return objects, err
		}
		refs = slices.Delete(refs, at, at+1)
	}
	return nil, nil
}
