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
	// Home, AddressText and Prepared are what the member's stamp records: see the fields of VM.
	Home, AddressText, Prepared string
	// KnownDisks are the persistent disks of its ordinal that were attached before.
	KnownDisks []v1alpha1.PersistentDisk
	// DisksOf is the UID of the former group whose disks the ordinal gets if it never had its own; empty for none.
	DisksOf string
}

// StaticAddresses are those of one network adapter; empty where it has none.
type StaticAddresses struct{ IPv4, IPv6 []string }

// Sensitive is a text that nobody must see: no log line, error, Event, status or forecast. It prints as "[redacted]".
type Sensitive string

const redacted = "[redacted]"

// MarshalText, and Format in userdata.go, keep the text out of whatever it is printed in.
func (Sensitive) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Reveal returns the text itself.
func (s Sensitive) Reveal() string { return string(s) }

// Home says where a group's folder is: the datacenter, and the folder that contains <namespace>/<group>. An empty field means
// that of the server's settings.
type Home struct{ Datacenter, Folder string }

// HomeOf returns where a group with that spec has its folder.
func HomeOf(spec *v1alpha1.VmGroupSpec) Home {
	return Home{Datacenter: spec.Placement.Datacenter, Folder: spec.Placement.Folder}
}

// String returns the home as a stamp records it; empty for that of the server's settings.
func (h Home) String() string {
	if h == (Home{}) {
		return ""
	}
	return h.Datacenter + ":" + h.Folder
}

// Preparation is what Prepare put on a VM, or may have put on it, as the stamp records it, so that it can be removed when it is no
// longer wanted.
type Preparation struct {
	// Tags are "category/name"; a '/' within either is written %2f, and '%' %25.
	Tags []string `json:"tags,omitempty"`
	// Attributes are the names of custom attributes.
	Attributes []string `json:"attributes,omitempty"`
	// Networks reports whether the network configuration went to the guest by its MAC addresses.
	Networks bool `json:"networks,omitempty"`
	// Disks reports whether the guest got to know the disks that spec.disks gave it.
	Disks bool `json:"disks,omitempty"`
	// Version is the oldest hardware version that the VM was to have.
	Version int32 `json:"version,omitempty"`
	// TPM reports whether the member was to have a virtual TPM.
	TPM bool `json:"tpm,omitempty"`
	// PCIDevices are the PCI devices of the host that the member was to have (spec.hardware.pciDevices).
	PCIDevices []string `json:"pciDevices,omitempty"`
	// BootFirst is what the firmware tries first (spec.hardware.bootFirst).
	BootFirst v1alpha1.BootDevice `json:"bootFirst,omitempty"`
	// Encrypt are the ids of the storage policies by which a clone is to be encrypted: of its files and its template's disks, under "", and of
	// disks of the spec, by name. Only the clone finds out which policies encrypt, so no spec's preparation has them.
	Encrypt map[string]string `json:"encrypt,omitempty"`
	// Digest distinguishes values; empty for a preparation that was only begun.
	Digest string `json:"digest"`
}

// Unprepared is the prefix of the stamp's text for a clone that must be prepared before its first power-on. What to prepare it
// with follows.
const Unprepared = "-"

// PreparationIn parses the text of PreparationOf or PreparationBegun. An invalid text is the zero Preparation.
func PreparationIn(text string) (p Preparation) {
	if json.Unmarshal([]byte(strings.TrimPrefix(text, Unprepared)), &p) != nil {
		return Preparation{}
	}
	return p
}

// PreparationBegun is what the stamp of a member, which said former, says while its tags and attributes are changed: all that
// it may have by then, so that they are known to be the group's even if they are no longer wanted before that is done. It
// equals no spec's preparation, so a replica that sees it prepares the member again.
func PreparationBegun(former, wanted string) string {
	have, want := PreparationIn(former), PreparationIn(wanted)
	begun := have
	begun.Tags, begun.Attributes, begun.Digest = union(have.Tags, want.Tags), union(have.Attributes, want.Attributes), ""
	if strings.HasPrefix(former, Unprepared) {
		return Unprepared + begun.text()
	}
	return begun.text()
}

// PreparationDue is what the stamp of a clone says that is to be prepared as that text says (PreparationOf), and encrypted by those policies; ""
// if neither.
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

// PreparationOf returns what members of that spec are to be prepared with; "" if nothing, so that they can be powered on
// as cloned. Equal specs give equal texts.
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

// HomeText describes a home, the datacenter and folder of a group, for people.
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
