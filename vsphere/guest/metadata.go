package guest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// The extraConfig keys in which cloud-init's DataSourceVMware finds a guest's data ([doc] cloud-init, "VMware"). Each has
// a second key with ".encoding". A clone inherits the template's values ([doc] VirtualMachineCloneSpec.config) unless it sets its own. The values
// are as secret as user data, and never printed.
const (
	MetadataKey = "guestinfo.metadata"
	UserDataKey = "guestinfo.userdata"
	// IgnitionKey is where Ignition (Flatcar, Fedora CoreOS) finds its config ([doc] Ignition, "Supported Platforms", vmware), before it
	// reads an OVF environment.
	IgnitionKey = "guestinfo.ignition.config.data"
	// OwnMetadataKey is for scripts; cloud-init does not read it.
	OwnMetadataKey = "guestinfo.vmgroup.metadata"
)

// Keys are all keys above, without those of the encodings.
func Keys() []string { return []string{MetadataKey, UserDataKey, IgnitionKey, OwnMetadataKey} }

// metadata describes a member to its guest. It is encoded as JSON, which cloud-init tries before YAML. User data with
// "## template: jinja" can use the keys as {{ ds.meta_data.ordinal }} and so on, with '_' in place of '-'. All keys but disks and network are
// always present, because a missing key is an error in jinja.
type metadata struct {
	// InstanceID is the VM's instanceUuid. cloud-init repeats its first-boot work when the id changes.
	InstanceID    string `json:"instance-id"`
	LocalHostname string `json:"local-hostname"`
	Hostname      string `json:"hostname"`
	Group         string `json:"group"`
	Namespace     string `json:"namespace"`
	GroupUID      string `json:"group_uid"`
	Ordinal       int32  `json:"ordinal"`
	Zone          string `json:"zone"`
	// Disks are the device files of spec.disks, by name.
	Disks map[string]string `json:"disks,omitempty"`
	// Network is cloud-init's network configuration, version 2.
	Network *networkConfig `json:"network,omitempty"`
}

type networkConfig struct {
	Version   int                       `json:"version"`
	Ethernets map[string]ethernetConfig `json:"ethernets"`
}

type ethernetConfig struct {
	Match struct {
		MAC string `json:"macaddress"`
	} `json:"match"`
	DHCP4     bool     `json:"dhcp4"`
	AcceptRA  *bool    `json:"accept-ra,omitempty"`
	Optional  bool     `json:"optional,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Gateway4 and Gateway6 are the only form of a default route that all renderers of all versions read. They are deprecated. But instead of
	// the route ::/0, cloud-init 22.4 makes ::/64 (canonical/cloud-init#4600), and for the route 0.0.0.0/0 on ifupdown, cloud-init up to 25.1
	// calls the command route, which Debian does not install. test/judges runs each version.
	Gateway4    string       `json:"gateway4,omitempty"`
	Gateway6    string       `json:"gateway6,omitempty"`
	Nameservers *nameservers `json:"nameservers,omitempty"`
}

type nameservers struct {
	Addresses []string `json:"addresses,omitempty"`
	Search    []string `json:"search,omitempty"`
}

// Metadata returns the extraConfig entries at key with a member's identity, the device files of its disks, by name, and, if macs are given,
// its network configuration. macs are the MAC addresses of its adapters, one for each of spec.networks.
func Metadata(key string, ref plan.Ref, a plan.Action, instanceUUID string, macs []string, disks map[string]string) ([]types.BaseOptionValue, error) {
	m := metadata{
		InstanceID: instanceUUID, LocalHostname: a.Key, Hostname: a.Key,
		Group: ref.Name, Namespace: ref.Namespace, GroupUID: string(ref.UID), Ordinal: a.Ordinal, Disks: disks,
	}
	if a.Details() != nil {
		m.Zone = a.Details().Zone
	}
	if len(macs) > 0 {
		network, err := networkOf(a, macs)
		if err != nil {
			return nil, err
		}
		m.Network = network
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return Encoded(key, plan.Sensitive(text)), nil
}

// Encoded returns an extraConfig entry with a text, and one with its encoding.
func Encoded(key string, text plan.Sensitive) []types.BaseOptionValue {
	value, encoding := plan.EncodeUserData(text)
	return []types.BaseOptionValue{&types.OptionValue{Key: key, Value: value}, &types.OptionValue{Key: key + ".encoding", Value: encoding}}
}

// Unset returns the entries that remove an extraConfig entry and its encoding from a clone, which would inherit them from its template
// ([doc] extraConfig: an empty value removes a key).
func Unset(key string) []types.BaseOptionValue {
	return []types.BaseOptionValue{&types.OptionValue{Key: key, Value: ""}, &types.OptionValue{Key: key + ".encoding", Value: ""}}
}

// networkOf returns the network configuration of a member. It identifies adapters by MAC address, because each guest names them
// differently; set-name would rename them.
func networkOf(a plan.Action, macs []string) (*networkConfig, error) {
	if a.Details() == nil || a.Details().Spec == nil || len(macs) != len(a.Details().Spec.Networks) {
		return nil, vcfault.ForOperator(vcfault.ReasonInternal, "%s has %d MAC addresses, which is not the number of its networks.", a.Key, len(macs))
	}
	c := &networkConfig{Version: 2, Ethernets: map[string]ethernetConfig{}}
	for i, mac := range macs {
		n := &a.Details().Spec.Networks[i]
		e := ethernetConfig{DHCP4: n.WantsDHCP()}
		e.Match.MAC = strings.ToLower(mac) // as the guest's kernel writes it
		static := addressesAt(a.Details(), i)
		if !n.WantsAddress() { // not even an address that a router announces; the boot must not wait for one (systemd-networkd-wait-online)
			e.AcceptRA, e.Optional = new(false), true
		}
		e.Gateway4 = e.add(n.IPv4, static.IPv4)
		e.Gateway6 = e.add(n.IPv6, static.IPv6)
		if len(n.Nameservers)+len(n.SearchDomains) > 0 {
			e.Nameservers = &nameservers{n.Nameservers, n.SearchDomains}
		}
		c.Ethernets[fmt.Sprintf("nic%d", i)] = e
	}
	return c, nil
}

// add gives an adapter static addresses of one family, and returns the gateway of its default route.
func (e *ethernetConfig) add(from *v1alpha1.Addresses, addresses []string) (gateway string) {
	if from == nil || len(addresses) == 0 {
		return ""
	}
	for _, address := range addresses {
		e.Addresses = append(e.Addresses, fmt.Sprintf("%s/%d", address, from.PrefixLength))
	}
	return from.Gateway
}

// addressesAt returns the static addresses of an adapter, if any.
func addressesAt(d *plan.Details, i int) plan.StaticAddresses {
	if i < len(d.Addresses) {
		return d.Addresses[i]
	}
	return plan.StaticAddresses{}
}
