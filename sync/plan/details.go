package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Details is what Clone, Adopt, Prepare, SetDisks and SetRules need beyond the Action's own fields. It is immutable.
type Details struct {
	// Spec is the group's spec: clone, placement, networks, customizationSpec, tags, and so on. It is immutable.
	Spec *v1alpha1.VmGroupSpec
	// UserData is the text for cloud-init or Ignition; empty if there is none.
	UserData Sensitive
	// Zone is the one of spec.placement.zones that the member belongs to; empty if there are none.
	Zone string
	// Addresses are the member's static addresses, for each of spec.networks.
	Addresses []StaticAddresses
	// Home, AddressText and Prepared are recorded in the member's stamp: see the fields of VM.
	Home, AddressText, Prepared string
	// Asked is TryAgainOf the group, as recorded in the member's stamp (Tagged).
	Asked string
	// KnownDisks are the persistent disks of the ordinal that were attached before.
	KnownDisks []v1alpha1.PersistentDisk
	// DisksOf is the UID of the former group whose disks the ordinal gets if it never had disks of its own; empty for none.
	DisksOf string
}

// StaticAddresses are the static addresses of one network adapter. Each list can be empty.
type StaticAddresses struct{ IPv4, IPv6 []string }

// Sensitive is a text that must not appear in any log line, error, Event, status or forecast. It prints as "[redacted]".
type Sensitive string

const redacted = "[redacted]"

// MarshalText and Format (userdata.go) print a constant instead of the text.
func (Sensitive) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Reveal returns the text itself.
func (s Sensitive) Reveal() string { return string(s) }

// Home says where a group's folder is: the datacenter, and the folder that contains <namespace>/<group>. An empty field stands for the
// server's settings.
type Home struct{ Datacenter, Folder string }

// HomeOf returns where a group with that spec has its folder.
func HomeOf(spec *v1alpha1.VmGroupSpec) Home {
	return Home{Datacenter: spec.Placement.Datacenter, Folder: spec.Placement.Folder}
}

// String returns the home as a stamp records it; empty if it is the home of the server's settings.
func (h Home) String() string {
	if h == (Home{}) {
		return ""
	}
	return h.Datacenter + ":" + h.Folder
}

// Preparation is what Prepare gave a VM, or may have given it, as the stamp records it, so that Prepare can later remove what the spec no
// longer wants.
type Preparation struct {
	// Tags are "category/name"; a '/' within either is written %2f, and '%' %25.
	Tags []string `json:"tags,omitempty"`
	// Attributes are the names of custom attributes.
	Attributes []string `json:"attributes,omitempty"`
	// Networks reports whether the guest got a network configuration that identifies adapters by their MAC addresses.
	Networks bool `json:"networks,omitempty"`
	// Disks reports whether the guest's metadata lists the disks of spec.disks.
	Disks bool `json:"disks,omitempty"`
	// Version is the minimum hardware version that the spec asked for.
	Version int32 `json:"version,omitempty"`
	// TPM reports whether the spec asked for a virtual TPM.
	TPM bool `json:"tpm,omitempty"`
	// PCIDevices are the PCI devices that the spec asked for (spec.hardware.pciDevices).
	PCIDevices []string `json:"pciDevices,omitempty"`
	// BootFirst is the device that the firmware tries first (spec.hardware.bootFirst).
	BootFirst v1alpha1.BootDevice `json:"bootFirst,omitempty"`
	// Encrypt are the ids of the storage policies that encrypt a clone: under "", the policy of its files and its template's disks; under a
	// disk's name, the policy of that disk of the spec. Only the Clone step finds out which policies encrypt, so PreparationOf never sets
	// them.
	Encrypt map[string]string `json:"encrypt,omitempty"`
	// Digest is a hash of the wanted values; empty for a preparation that was begun and not finished.
	Digest string `json:"digest"`
}

// Unprepared is the prefix of VM.Prepared for a clone that must be prepared before its first power-on. The rest of the text says what to
// prepare.
const Unprepared = "-"

// PreparationIn parses the text of PreparationOf or PreparationBegun. It returns the zero Preparation for an invalid text.
func PreparationIn(text string) (p Preparation) {
	if json.Unmarshal([]byte(strings.TrimPrefix(text, Unprepared)), &p) != nil {
		return Preparation{}
	}
	return p
}

// PreparationBegun returns the stamp's record while Prepare changes a member's tags and attributes from former to wanted: all that the
// member may have until Prepare is done. So the server knows which tags and attributes it gave, even if the spec changes before that. The
// record equals no spec's preparation, so a replica that sees it prepares the member again.
func PreparationBegun(former, wanted string) string {
	have, want := PreparationIn(former), PreparationIn(wanted)
	begun := have
	begun.Tags, begun.Attributes, begun.Digest = union(have.Tags, want.Tags), union(have.Attributes, want.Attributes), ""
	if strings.HasPrefix(former, Unprepared) {
		return Unprepared + begun.text()
	}
	return begun.text()
}

// PreparationDue returns the stamp's record for a clone whose preparation (the text of PreparationOf) and encryption (the ids of storage
// policies) are pending; "" if the clone needs neither.
func PreparationDue(prepared string, encrypt map[string]string) string {
	if len(encrypt) > 0 {
		p := PreparationIn(prepared)
		p.Encrypt = encrypt
		prepared = p.text()
	}
	if prepared == "" {
		return ""
	}
	return Unprepared + prepared
}

func (p Preparation) text() string {
	text, _ := json.Marshal(p) // cannot fail: strings, numbers and bools
	return string(text)
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// PreparationOf returns the preparation that members of that spec need, as a text; "" if they need none and can be powered on right after
// the clone. Equal specs give equal texts.
func PreparationOf(spec *v1alpha1.VmGroupSpec) string {
	byMAC := len(spec.Networks) > 0 && spec.CustomizationSpec == ""
	if len(spec.Tags)+len(spec.CustomAttributes)+len(spec.Disks) == 0 && !byMAC && spec.Hardware.Version == 0 && !spec.Hardware.VTPM && len(spec.Hardware.PCIDevices) == 0 && spec.Hardware.BootFirst == "" {
		return ""
	}
	p := Preparation{Attributes: slices.Sorted(maps.Keys(spec.CustomAttributes)), Networks: byMAC, Disks: len(spec.Disks) > 0, Version: spec.Hardware.Version, TPM: spec.Hardware.VTPM,
		PCIDevices: spec.Hardware.PCIDevices, BootFirst: spec.Hardware.BootFirst}
	for _, t := range spec.Tags {
		p.Tags = append(p.Tags, tagText(t.Category, t.Name))
	}
	slices.Sort(p.Tags)
	sum := sha256.New()
	for _, name := range p.Attributes {
		text, _ := json.Marshal([2]string{name, spec.CustomAttributes[name]}) // cannot fail: strings
		sum.Write(text)
	}
	p.Digest = hex.EncodeToString(sum.Sum(nil)[:5])
	return p.text()
}

// HomeText describes a home (the datacenter and folder of a group) for messages.
func HomeText(home string) string {
	datacenter, folder, _ := strings.Cut(home, ":")
	if folder == "" {
		folder = "the server's folder"
	} else {
		folder = "the folder " + folder
	}
	if datacenter == "" {
		return folder
	}
	return folder + " of datacenter " + datacenter
}
