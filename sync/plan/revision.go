package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// RevisionAlgorithm is the version of Revision's algorithm. Every stamp has it beside the revision, so that a later version of the server
// can distinguish an older algorithm's hash from a changed spec.
const RevisionAlgorithm = 1

// Revision returns a short hash of the part of the spec that only a new clone can change: what members are cloned from and where to, and
// what they get at their first boot. Only fields that are set enter the hash, as name, length and value. So a field that a later version
// adds doesn't change the revision of groups that don't use it, and an upgrade of the server replaces no VMs (a golden test checks this).
// The hash excludes cpu, memory and their allocation, because they can be changed on an existing VM, and address ranges, because a member's
// own addresses are in its stamp, so more addresses replace no member.
//
// Revision is for a group without user data; see RevisionWith.
func Revision(spec *v1alpha1.VmGroupSpec) string { return RevisionWith(spec, "") }

// RevisionWith returns the revision of a group whose user data has that hash (Related.Digest). A changed text makes a new revision; the
// name of its Secret or ConfigMap doesn't matter.
func RevisionWith(spec *v1alpha1.VmGroupSpec, userData string) string {
	var text []byte
	set := func(name, value string) {
		if value != "" {
			text = append(text, name...)
			text = append(text, ' ')
			text = strconv.AppendInt(text, int64(len(value)), 10)
			text = append(text, ' ')
			text = append(text, value...)
			text = append(text, '\n')
		}
	}
	set("template", spec.Template)
	if spec.Clone.Mode == v1alpha1.CloneLinked {
		set("clone.mode", string(spec.Clone.Mode))
	}
	set("clone.snapshot", spec.Clone.Snapshot)
	set("placement.pool", spec.Placement.Pool)
	set("placement.datastore", spec.Placement.Datastore)
	set("placement.storagePolicy", spec.Placement.StoragePolicy)
	for _, zone := range spec.Placement.Zones {
		set("placement.zones", zone)
	}
	for i := range spec.Networks {
		reviseNetwork(&spec.Networks[i], set)
	}
	if len(spec.Disks) > 0 { // a member's stamp says which disks it has
		set("disks", "some")
	}
	if hardware := jsonOf(spec.Hardware.WithoutAllocation()); hardware != "{}" {
		set("hardware", hardware)
	}
	if len(spec.ExtraConfig) > 0 {
		set("extraConfig", jsonOf(spec.ExtraConfig)) // in the order of the keys
	}
	set("userData", userData)
	set("customizationSpec", spec.CustomizationSpec)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:5])
}

// ClonedFor returns a short hash of all that decides what a clone is like: the spec without what autoscalers write, the revision, which has the user
// data, and the version of the template. A VM that was cloned for the present hash is as a clone would be that was made now.
func ClonedFor(spec *v1alpha1.VmGroupSpec, revision, fingerprint string) string {
	of := *spec
	of.Replicas, of.ScaleIn = nil, v1alpha1.ScaleIn{}
	sum := sha256.Sum256([]byte(revision + " " + fingerprint + " " + jsonOf(of)))
	return hex.EncodeToString(sum[:5])
}

// AllocationOf returns the reservations, limits and shares of spec.hardware, as the stamp records them; "" if none is set.
func AllocationOf(spec *v1alpha1.VmGroupSpec) string {
	if text := jsonOf(spec.Hardware.Allocation()); text != "{}" {
		return text
	}
	return ""
}

// jsonOf returns a part of the spec as JSON, with only the fields that are set.
func jsonOf(part any) string {
	text, _ := json.Marshal(part) // cannot fail: texts, numbers and flags
	return string(text)
}

// reviseNetwork adds a network to the hash. The network's name comes first, so that the fields after it belong to that network.
func reviseNetwork(n *v1alpha1.Network, set func(name, value string)) {
	set("networks.network", n.Network)
	set("networks.dhcp", strconv.FormatBool(n.WantsDHCP()))
	static := func(name string, from *v1alpha1.Addresses) {
		if from != nil {
			set(name+".prefixLength", strconv.Itoa(int(from.PrefixLength)))
			set(name+".gateway", from.Gateway)
		}
	}
	static("networks.ipv4", n.IPv4)
	static("networks.ipv6", n.IPv6)
	for _, server := range n.Nameservers {
		set("networks.nameservers", server)
	}
	for _, domain := range n.SearchDomains {
		set("networks.searchDomains", domain)
	}
}
