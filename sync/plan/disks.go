package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// MemberDisk is what a member's stamp records about one disk that the spec gave it.
type MemberDisk struct {
	// Name is the disk's name in spec.disks; empty for spec.rootDisk.
	Name string `json:"name,omitempty"`
	// At is where the disk was attached: the key of its controller, and the unit, "1000:1".
	At string `json:"at,omitempty"`
	// UUID is the disk's uuid in vCenter, which the guest also sees; NoUUID if vCenter reports none, empty until it is read.
	UUID string `json:"uuid,omitempty"`
	// SizeGiB is the size that the server gave the disk.
	SizeGiB int32 `json:"sizeGiB"`
	// Shape is the DiskShape with which the disk was created.
	Shape string `json:"shape,omitempty"`
	// ID is the id of a persistent disk, and Datastore the moRef of its datastore.
	ID        string `json:"id,omitempty"`
	Datastore string `json:"datastore,omitempty"`
	// Parted says that the server has detached a persistent disk, because its VM was to be removed, and whether the disk is kept or deleted.
	// If the member is kept after all, the server attaches the disk again before it powers the member on.
	Parted Parted `json:"parted,omitempty"`
}

// Parted says whether a disk that the server detached is kept or deleted.
type Parted string

// A disk that was detached is kept for the ordinal's next VM, or deleted (retention).
const (
	PartedKept    Parted = "kept"
	PartedDeleted Parted = "deleted"
)

// PartDisks returns the stamp's record of the disks once the disks with these ids (nil: all persistent ones) are detached.
func PartDisks(text string, as Parted, ids []string) string {
	all := DisksIn(text)
	for i := range all {
		if d := &all[i]; d.ID != "" && d.Parted != PartedDeleted && (ids == nil || slices.Contains(ids, d.ID)) {
			d.Parted = as
		}
	}
	return DiskText(all)
}

// KeptDisks returns the ids of the persistent disks in a stamp's text, except those that the server deleted.
func KeptDisks(text string) (ids []string) {
	for _, d := range Persistent(text) {
		if d.Parted != PartedDeleted {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// NoUUID is MemberDisk.UUID if vCenter reports none.
const NoUUID = "-"

// DisksIn parses a text that DiskText returned; nil for an empty or invalid text.
func DisksIn(text string) (all []MemberDisk) {
	if text == "" || json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}

// DiskText returns a stamp's record of a member's disks; empty for none.
func DiskText(all []MemberDisk) string {
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all) // cannot fail: strings and numbers
	return string(text)
}

// DiskShape returns a hash of what only a new disk can change: its datastore, its policy and its provisioning.
func DiskShape(d *v1alpha1.Disk) string {
	text, _ := json.Marshal([]string{d.Datastore, d.StoragePolicy, string(cmp.Or(d.Provisioning, v1alpha1.ProvisioningThin))})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// recorded returns the record of a disk; nil if there is none.
func recorded(all []MemberDisk, name string) *MemberDisk {
	if i := slices.IndexFunc(all, func(d MemberDisk) bool { return d.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// DisksToChange says which disk of a member, whose stamp has that text, is to be added or extended; empty if none. It completes a sentence
// that begins with "the member".
func DisksToChange(spec *v1alpha1.VmGroupSpec, text string) string {
	if spec.RootDisk == nil && len(spec.Disks) == 0 {
		return ""
	}
	all := DisksIn(text)
	if root := recorded(all, ""); spec.RootDisk != nil && (root == nil || root.SizeGiB < spec.RootDisk.SizeGiB) {
		return fmt.Sprintf("is to have a root disk of %d GiB", spec.RootDisk.SizeGiB)
	}
	for i := range spec.Disks {
		want := &spec.Disks[i]
		switch has := recorded(all, want.Name); {
		case has == nil || has.Parted != "":
			return "lacks its disk " + want.Name
		case has.SizeGiB < want.SizeGiB:
			return fmt.Sprintf("has %d GiB on its disk %s instead of %d", has.SizeGiB, want.Name, want.SizeGiB)
		case has.UUID == "":
			return "has a disk " + want.Name + " that is not identified yet"
		}
	}
	return ""
}

// LacksPersistent reports whether a member, whose stamp has that text, lacks a persistent disk of the spec.
func LacksPersistent(spec *v1alpha1.VmGroupSpec, text string) bool {
	all := DisksIn(text)
	return slices.ContainsFunc(spec.Disks, func(d v1alpha1.Disk) bool {
		has := recorded(all, d.Name)
		return d.Persistent && (has == nil || has.Parted != "")
	})
}

// Persistent returns the disks of a member that belong to its ordinal.
func Persistent(text string) []MemberDisk {
	return slices.DeleteFunc(DisksIn(text), func(d MemberDisk) bool { return d.ID == "" })
}

// DisksOtherwise returns the name of the first disk, but for persistent ones, whose datastore, storage policy or provisioning in the spec
// differs from the stamp's record of the disk; empty if there is none.
func DisksOtherwise(spec *v1alpha1.VmGroupSpec, text string) string {
	if len(spec.Disks) == 0 {
		return ""
	}
	all := DisksIn(text)
	for i := range spec.Disks {
		if has := recorded(all, spec.Disks[i].Name); has != nil && has.ID == "" && has.Shape != DiskShape(&spec.Disks[i]) {
			return has.Name
		}
	}
	return ""
}

// DisksLost says which disk of a member the spec would remove, shrink, or give to another owner; empty if none. A persistent disk never shrinks:
// the next member gets it with its present size.
func DisksLost(spec *v1alpha1.VmGroupSpec, text string) string {
	if text == "" {
		return ""
	}
	for _, has := range DisksIn(text) {
		want, persistent, what := int32(0), has.ID != "", "its disk "+has.Name
		if has.Name == "" {
			if what = "its root disk"; spec.RootDisk != nil {
				want = spec.RootDisk.SizeGiB
			}
		} else if i := slices.IndexFunc(spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == has.Name }); i >= 0 {
			want, persistent = spec.Disks[i].SizeGiB, spec.Disks[i].Persistent
		}
		switch {
		case want == 0:
			return fmt.Sprintf("%s, of %d GiB, is not in the spec", what, has.SizeGiB)
		case persistent != (has.ID != ""):
			return fmt.Sprintf("%s belongs to the %s, and the spec says otherwise (persistent)", what, map[bool]string{true: "ordinal", false: "VM"}[!persistent])
		case want < has.SizeGiB && !persistent:
			return fmt.Sprintf("%s has %d GiB, and the spec says %d", what, has.SizeGiB, want)
		}
	}
	return ""
}

// DiskStatuses lists the persistent disks of a group: those in the stamps of its VMs, and those in its stored status that are detached now and were
// neither deleted nor given up. A disk whose VM still exists, but whose VM's stamp no longer lists it, was deleted; a disk that is about to be
// deleted counts as deleted. If an admin destroys the VM before a status leaves such a disk out, the server reports DiskMissing: it can't tell a
// deleted disk from a lost one.
func DiskStatuses(g *v1alpha1.VmGroup, vms []VM) (all []v1alpha1.PersistentDisk) {
	leaving := g.GivenUp()
	if leaving == nil {
		leaving = map[string]bool{}
	}
	here, attached := map[string]bool{}, map[string]bool{}
	for i := range vms {
		here[vms[i].MoRef] = true
		for _, d := range Persistent(vms[i].Disks) {
			if vms[i].MarkReason == MarkReasonDuplicate && has(vms, d.ID) {
				continue // the disk belongs to the member
			}
			state := v1alpha1.DiskAttached
			switch d.Parted {
			case PartedDeleted:
				leaving[d.ID] = true
				continue
			case PartedKept:
				state = v1alpha1.DiskDetached
			}
			attached[d.ID] = true
			all = append(all, v1alpha1.PersistentDisk{Name: d.Name, Ordinal: vms[i].Ordinal, ID: d.ID, Datastore: d.Datastore, SizeGiB: d.SizeGiB,
				State: state, MoRef: vms[i].MoRef})
		}
	}
	for _, was := range g.Status.Disks {
		if unstamped := was.MoRef != "" && here[was.MoRef]; !attached[was.ID] && !unstamped && !leaving[was.ID] {
			was.State, was.MoRef = v1alpha1.DiskDetached, ""
			all = append(all, was)
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.PersistentDisk) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// has reports whether a VM other than a duplicate has the disk.
func has(vms []VM, id string) bool {
	return slices.ContainsFunc(vms, func(vm VM) bool {
		return vm.MarkReason != MarkReasonDuplicate && slices.ContainsFunc(Persistent(vm.Disks), func(d MemberDisk) bool { return d.ID == id })
	})
}
