package v1alpha1

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of disks.
const (
	// MaxDisks bounds spec.disks: a SCSI controller takes 15 disks, and one of them is the template's own.
	MaxDisks = 14
	// MaxDiskGiB is the largest virtual disk, in GiB (VMware Configuration Maximums, vSphere 8: 62 TB).
	MaxDiskGiB = 63488
	// MaxDiskName bounds the name of a disk, in characters.
	MaxDiskName = 30
	// MaxPersistentDisks bounds the persistent disks of a group, including those without a VM: status.disks has an entry of up to 250 bytes
	// for each, and etcd limits an object to 1.5 MiB.
	MaxPersistentDisks = 4000
	// MaxGivenUp bounds the ids in the annotation give-up-disks, and MaxUID those in take-disks-of and moved-to-vcenter, in characters.
	MaxGivenUp, MaxUID = 1000, 64
)

// Disk is an additional disk of each member. It belongs to the member, or, if it is persistent, to the member's ordinal.
type Disk struct {
	// name of the disk, unique in the list: at most 30 characters, a-z, 0-9 and '-', beginning with a letter. In user data, {{
	// ds.meta_data.disks.<name> }} is the disk's device; write '_' for '-' in the name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be a-z, 0-9 and '-', begin with a letter, and end with a letter or digit"
	// +required
	Name string `json:"name"`
	// sizeGiB is the disk's size in GiB: 1 to 63488. It can grow, but not shrink.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=63488
	// +required
	SizeGiB int32 `json:"sizeGiB"`
	// datastore of the disk: its name or inventory path, of at most 1024 characters; not a datastore cluster. Default: the member's datastore,
	// or one that storagePolicy allows.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Datastore string `json:"datastore,omitempty"`
	// storagePolicy is the name of the disk's VM storage policy, of at most 80 characters. Default: spec.placement.storagePolicy.
	// +kubebuilder:validation:MaxLength=80
	// +optional
	StoragePolicy string `json:"storagePolicy,omitempty"`
	// provisioning is Thin (the default: vSphere allocates space when the guest writes), Thick (vSphere allocates all space at creation) or
	// EagerZeroed (it also writes zeros).
	// +default="Thin"
	// +optional
	Provisioning Provisioning `json:"provisioning,omitempty"`
	// persistent says that the disk belongs to the ordinal: the next VM of that ordinal gets it, with its data. Default false.
	// +optional
	Persistent bool `json:"persistent,omitempty"`
	// retention says what happens to a persistent disk when its member is permanently removed.
	// +optional
	Retention DiskRetention `json:"retention,omitzero"`
}

// DiskRetention says what happens to a persistent disk when its member is permanently removed.
type DiskRetention struct {
	// whenDeleted is for the group's deletion: Retain (the default) or Delete.
	// +default="Retain"
	// +optional
	WhenDeleted Retention `json:"whenDeleted,omitempty"`
	// whenScaled is for a scale-in: Retain (the default) or Delete.
	// +default="Retain"
	// +optional
	WhenScaled Retention `json:"whenScaled,omitempty"`
}

// Retention is what happens to a persistent disk.
// +kubebuilder:validation:Enum=Retain;Delete
type Retention string

// What happens to a persistent disk.
const (
	RetentionRetain Retention = "Retain"
	RetentionDelete Retention = "Delete"
)

// PersistentDisk is a disk of an ordinal, as it was last seen.
type PersistentDisk struct {
	// name in spec.disks.
	// +required
	Name string `json:"name"`
	// ordinal that the disk belongs to.
	// +required
	Ordinal int32 `json:"ordinal"`
	// id of the first-class disk in vCenter.
	// +required
	ID string `json:"id"`
	// datastore is the moRef of the datastore that the disk was last seen on.
	// +required
	Datastore string `json:"datastore"`
	// sizeGiB is the size that the server gave the disk, in GiB.
	// +required
	SizeGiB int32 `json:"sizeGiB"`
	// state is Attached or Detached.
	// +required
	State DiskState `json:"state"`
	// moRef of the VM that the disk is attached to, or of a VM to be removed that it was attached to.
	// +optional
	MoRef string `json:"moRef,omitempty"`
}

// DiskState says whether a VM of the group has a persistent disk.
type DiskState string

// The states of a persistent disk.
const (
	DiskAttached DiskState = "Attached"
	DiskDetached DiskState = "Detached"
)

// AnnotationGiveUpDisks on a group lists the ids, separated by commas, of persistent disks that the group gives up: each one's ordinal gets
// a new, empty disk. Without this annotation, the server never creates a replacement for a disk that was in use.
const AnnotationGiveUpDisks = "vm.codeconnect.vmworld.com/give-up-disks"

// AnnotationTakeDisksOf on a group has the UID of a deleted group of the same namespace and name whose persistent disks were retained:
// members that never had persistent disks of their own get those.
const AnnotationTakeDisksOf = "vm.codeconnect.vmworld.com/take-disks-of"

// TakesDisksOf returns the UID in AnnotationTakeDisksOf, or "" if the group has no such annotation.
func (g *VmGroup) TakesDisksOf() string {
	return strings.TrimSpace(g.Annotations[AnnotationTakeDisksOf])
}

// GivenUp returns the ids in AnnotationGiveUpDisks.
func (g *VmGroup) GivenUp() map[string]bool {
	text := g.Annotations[AnnotationGiveUpDisks]
	if text == "" {
		return nil
	}
	ids := map[string]bool{}
	for id := range strings.SplitSeq(text, ",") {
		ids[strings.TrimSpace(id)] = true
	}
	return ids
}

// DisksLeft returns the ids of the persistent disks that status.disks lists and AnnotationGiveUpDisks doesn't.
func (g *VmGroup) DisksLeft() (ids []string) {
	given := g.GivenUp()
	for i := range g.Status.Disks {
		if id := g.Status.Disks[i].ID; !given[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// validateDiskNumbers checks the number of a group's persistent disks, and the annotations about persistent disks.
func (g *VmGroup) validateDiskNumbers() (errs field.ErrorList) {
	if int(g.Replicas())*g.Spec.persistentDisks() > MaxPersistentDisks {
		errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), g.Replicas(), tooManyPersistent))
	}
	at := field.NewPath("metadata", "annotations")
	if n := strings.Count(g.Annotations[AnnotationGiveUpDisks], ",") + 1; n > MaxGivenUp {
		errs = append(errs, field.Invalid(at.Key(AnnotationGiveUpDisks), fmt.Sprintf("%d ids", n), fmt.Sprintf("must have at most %d ids: remove those that status.disks no longer lists", MaxGivenUp)))
	}
	if of := g.TakesDisksOf(); len(of) > MaxUID {
		errs = append(errs, field.TooLong(at.Key(AnnotationTakeDisksOf), "", MaxUID))
	}
	if in := g.MovedTo(); len(in) > MaxUID {
		errs = append(errs, field.TooLong(at.Key(AnnotationMovedTo), "", MaxUID))
	}
	return errs
}

// HasPersistentDisks reports whether members have disks that outlive them.
func (s *VmGroupSpec) HasPersistentDisks() bool { return s.persistentDisks() > 0 }

// persistentDisks returns the number of persistent disks of each member.
func (s *VmGroupSpec) persistentDisks() (n int) {
	for i := range s.Disks {
		if s.Disks[i].Persistent {
			n++
		}
	}
	return n
}

// Provisioning says when the space of a disk is allocated and zeroed.
// +kubebuilder:validation:Enum=Thin;Thick;EagerZeroed
type Provisioning string

// The ways to provision a disk.
const (
	ProvisioningThin        Provisioning = "Thin"
	ProvisioningThick       Provisioning = "Thick"
	ProvisioningEagerZeroed Provisioning = "EagerZeroed"
)

// RootDisk is a member's copy of the template's first disk.
type RootDisk struct {
	// sizeGiB is the disk's size in GiB: 1 to 63488, and at least the template's. It can grow, but not shrink.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=63488
	// +required
	SizeGiB int32 `json:"sizeGiB"`
}

var diskName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// validateDisks checks the disks. Only the CRD's rules refuse an edit that shrinks, removes or reorders disks, because Validate doesn't
// know the former spec. (The planner blocks a group whose members have other disks than the spec.)
func (s *VmGroupSpec) validateDisks(spec *field.Path) (errs field.ErrorList) {
	if s.RootDisk != nil {
		errs = append(errs, between(spec.Child("rootDisk", "sizeGiB"), s.RootDisk.SizeGiB, 1, MaxDiskGiB)...)
		if s.Clone.Mode == CloneLinked {
			errs = append(errs, field.Invalid(spec.Child("rootDisk"), s.RootDisk.SizeGiB, linkedRootDisk))
		}
	}
	if len(s.Disks) == 0 {
		return errs
	}
	path := spec.Child("disks")
	if len(s.Disks) > MaxDisks {
		return append(errs, field.TooMany(path, len(s.Disks), MaxDisks))
	}
	seen := make(map[string]bool, len(s.Disks))
	for i := range s.Disks {
		d, at := &s.Disks[i], path.Index(i)
		switch {
		case utf8.RuneCountInString(d.Name) > MaxDiskName:
			errs = append(errs, field.TooLongCharacters(at.Child("name"), d.Name, MaxDiskName))
		case !diskName.MatchString(d.Name):
			errs = append(errs, field.Invalid(at.Child("name"), d.Name, "must be a-z, 0-9 and '-', begin with a letter, and end with a letter or digit"))
		case seen[d.Name]:
			errs = append(errs, field.Duplicate(at, d.Name))
		}
		seen[d.Name] = true
		errs = append(errs, between(at.Child("sizeGiB"), d.SizeGiB, 1, MaxDiskGiB)...)
		errs = append(errs, tooLong(at, "datastore", d.Datastore, MaxInventoryPath)...)
		errs = append(errs, tooLong(at, "storagePolicy", d.StoragePolicy, MaxVimName)...)
		errs = append(errs, oneOf(at.Child("retention", "whenDeleted"), d.Retention.WhenDeleted, RetentionRetain, RetentionDelete)...)
		errs = append(errs, oneOf(at.Child("retention", "whenScaled"), d.Retention.WhenScaled, RetentionRetain, RetentionDelete)...)
		errs = append(errs, oneOf(at.Child("provisioning"), d.Provisioning, ProvisioningThin, ProvisioningThick, ProvisioningEagerZeroed)...)
	}
	if s.HasPersistentDisks() {
		if len(s.Adopt) > 0 {
			errs = append(errs, field.Invalid(spec.Child("adopt"), len(s.Adopt), persistentAdopt))
		}
		if s.Deletion.QuarantineSeconds > 0 {
			errs = append(errs, field.Invalid(spec.Child("deletion", "quarantineSeconds"), s.Deletion.QuarantineSeconds, persistentQuarantine))
		}
		if s.Standby > 0 {
			errs = append(errs, field.Invalid(spec.Child("standby"), s.Standby, persistentStandby))
		}
	}
	return errs[:min(len(errs), maxReported)]
}

const (
	persistentAdopt      = "a group with persistent disks cannot adopt VMs: remove adopt, or adopt the VMs into another group"
	persistentQuarantine = "a group with persistent disks cannot quarantine VMs, because the next VM of the ordinal needs the disks: set quarantineSeconds to 0"
	persistentStandby    = "a group with persistent disks cannot have standby members, because each disk belongs to one ordinal: set standby to 0"
)

var tooManyPersistent = fmt.Sprintf("replicas times the persistent disks of a member must be at most %d: use fewer replicas, or several groups", MaxPersistentDisks)

var linkedRootDisk = fmt.Sprintf("a disk of a linked clone cannot grow: set clone.mode to %s, or remove rootDisk", CloneFull)
