package disks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// The keys of a disk's metadata. VcenterVStorageObjectManager returns them in ConfigInfo since vSphere 7.0 U2. vCenter takes a key with an
// empty value for a tag ([doc] VslmCreateSpec.metadata), so a key without a value is left out.
const (
	KeyOwner   = "codeconnect.vmworld.com.vmgroup.owner"
	KeyCluster = "codeconnect.vmworld.com.vmgroup.cluster"
	KeyBound   = "codeconnect.vmworld.com.vmgroup.bound"
)

// bound is the value of KeyBound.
const bound = "true"

// Owner identifies a disk by its group, its ordinal, and its name in the spec. The zero value means no owner.
type Owner struct {
	UID     string // of the VmGroup
	Ordinal int
	Disk    string // its name in spec.disks
}

// String returns the owner as it is in the metadata: "<uid>/<ordinal>/<disk>".
func (o Owner) String() string { return fmt.Sprintf("%s/%d/%s", o.UID, o.Ordinal, o.Disk) }

// ParseOwner is the inverse of Owner.String. It reports whether the text is an owner.
func ParseOwner(text string) (Owner, bool) {
	part := strings.Split(text, "/")
	if len(part) != 3 || part[0] == "" || part[2] == "" {
		return Owner{}, false
	}
	ordinal, err := strconv.Atoi(part[1])
	o := Owner{UID: part[0], Ordinal: ordinal, Disk: part[2]}
	return o, err == nil && ordinal >= 0 && o.String() == text
}

// Ref is a disk's ID and datastore. A disk that moves keeps its ID.
type Ref struct {
	ID        string // the FCD's, a UUID
	Datastore string // the moRef
}

func (r Ref) id() types.ID { return types.ID{Id: r.ID} }

func (r Ref) datastore() types.ManagedObjectReference { return datastoreRef(r.Datastore) }

func datastoreRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Datastore", Value: moRef}
}

// Disk is a first-class disk as vCenter returns it.
type Disk struct {
	Ref
	Name       string // as people write it
	File       string // "[datastore] directory/name.vmdk"; another one after the disk was moved
	CapacityMB int64
	// Keep reports whether vCenter keeps the disk when a VM that it is attached to is destroyed. vCenter's default is documented both ways
	// (VslmCreateSpec: true; BaseConfigInfo: false), so Keep of an unset flag is false, and Create sets the flag.
	Keep bool
	// Tracked reports whether changed block tracking is on for the disk, as backup software sets it. vCenter does not attach such a disk to a
	// VM without changed block tracking (VMware KB 88193, vsphere-csi-driver#1416).
	Tracked bool

	// Owner is the zero value if the disk's metadata names none.
	Owner Owner
	// Cluster is the --cluster-id of the server that created the disk; empty if that server had none.
	Cluster string
	// Bound reports whether a guest may have used the disk (Bind). A disk that is bound may contain data.
	Bound bool
}

// readDisk returns a disk from vCenter's answer.
func readDisk(o types.VStorageObject, datastore string) Disk {
	c := o.Config
	d := Disk{Ref: Ref{ID: c.Id.Id, Datastore: datastore}, Name: naming.Unescape(c.Name), CapacityMB: c.CapacityInMB,
		Keep: c.KeepAfterDeleteVm != nil && *c.KeepAfterDeleteVm, Tracked: c.ChangedBlockTrackingEnabled != nil && *c.ChangedBlockTrackingEnabled}
	if backing, is := c.Backing.(types.BaseBaseConfigInfoFileBackingInfo); is {
		file := backing.GetBaseConfigInfoFileBackingInfo()
		d.File = file.FilePath
		if file.Datastore.Value != "" {
			d.Datastore = file.Datastore.Value
		}
	}
	for _, entry := range c.Metadata {
		switch entry.Key {
		case KeyOwner:
			d.Owner, _ = ParseOwner(entry.Value)
		case KeyCluster:
			d.Cluster = entry.Value
		case KeyBound:
			d.Bound = entry.Value == bound
		}
	}
	return d
}

// NameOf returns the name of an ordinal's persistent disk: "<namespace>/<group>-<ordinal>/<disk>" or, if that is too long, the same with the
// middle cut and a hash of it instead. The ordinal and the disk stay readable.
//
// vCenter's container storage takes 80 characters (kubernetes-sigs/vsphere-csi-driver#435), and vCenter stores each '/' as three
// (vmware/rbvmomi#169).
func NameOf(group plan.Ref, ordinal int32, disk string) string {
	const most = 80 - 2*len("2f")
	owner, end := group.String(), fmt.Sprintf("-%d/%s", ordinal, disk)
	if len(owner)+len(end) > most {
		hash := sha256.Sum256([]byte(owner))
		end = "-" + hex.EncodeToString(hash[:4]) + end
		owner = owner[:most-len(end)]
	}
	return owner + end
}
