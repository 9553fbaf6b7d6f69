package managed

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
	"sigs.k8s.io/yaml"
)

// identity is what a guest was told of itself. An adapter without an address asks by DHCP.
type identity struct {
	host      string
	addresses []string // by adapter
}

// identityOf asks the customization first, and else cloud-init, as a guest does that has both. cloud-init prefers an OVF environment,
// which here says nothing. The caller holds the world and the VM's lock.
func (v *Objects) identityOf(vm *simulator.VirtualMachine) identity {
	if spec := v.customized[vm.Self]; spec != nil {
		id := identity{host: hostname(spec, vm.Name)}
		for _, nic := range spec.NicSettingMap {
			fixed, _ := nic.Adapter.Ip.(*types.CustomizationFixedIp)
			if fixed == nil {
				fixed = new(types.CustomizationFixedIp)
			}
			id.addresses = append(id.addresses, fixed.IpAddress)
		}
		return id
	}
	if readsOVF(vm) {
		return identity{}
	}
	values := make(map[string]string)
	for _, o := range vm.Config.ExtraConfig {
		values[o.GetOptionValue().Key] = fmt.Sprint(o.GetOptionValue().Value)
	}
	return metadataOf(values["guestinfo.metadata"], values["guestinfo.metadata.encoding"], macs(vm))
}

func macs(vm *simulator.VirtualMachine) (all []string) {
	for _, d := range vm.Config.Hardware.Device {
		if card, ok := d.(types.BaseVirtualEthernetCard); ok {
			all = append(all, card.GetVirtualEthernetCard().MacAddress)
		}
	}
	return all
}

// ethernet is an adapter in cloud-init's network configuration, version 2.
type ethernet struct {
	Match struct {
		MAC string `json:"macaddress"`
	} `json:"match"`
	Addresses []string `json:"addresses"`
}

// metadataOf reads the metadata as cloud-init's VMware datasource does: YAML or JSON, plain or base64, gzipped or not;
// `network` is a mapping, or text that is encoded in turn (network.encoding). An adapter without a MAC to match is the
// one of its place among the others. What cannot be read says nothing.
func metadataOf(text, encoding string, macs []string) identity {
	var data struct {
		LocalHostname   string          `json:"local-hostname"`
		Hostname        string          `json:"hostname"`
		Network         json.RawMessage `json:"network"`
		NetworkEncoding string          `json:"network.encoding"`
	}
	if yaml.Unmarshal(decode(text, encoding), &data) != nil {
		return identity{}
	}
	id := identity{host: cmp.Or(data.LocalHostname, data.Hostname), addresses: make([]string, len(macs))}
	network := []byte(data.Network)
	var encoded string
	if json.Unmarshal(network, &encoded) == nil {
		network = decode(encoded, data.NetworkEncoding)
	}
	var config struct {
		Ethernets map[string]ethernet `json:"ethernets"`
	}
	if yaml.Unmarshal(network, &config) != nil {
		return id
	}
	for place, name := range slices.Sorted(maps.Keys(config.Ethernets)) {
		nic := config.Ethernets[name]
		if nic.Match.MAC != "" {
			place = slices.IndexFunc(macs, func(mac string) bool { return strings.EqualFold(mac, nic.Match.MAC) })
		}
		if place < 0 || place >= len(macs) || len(nic.Addresses) == 0 {
			continue
		}
		if prefix, err := netip.ParsePrefix(nic.Addresses[0]); err == nil {
			id.addresses[place] = prefix.Addr().String()
		}
	}
	return id
}

// decodedMax bounds what a guest unpacks, in bytes.
const decodedMax = 1 << 20

func decode(text, encoding string) []byte {
	switch encoding {
	case "base64", "b64", "gzip+base64", "gz+b64":
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil
		}
		if strings.HasPrefix(encoding, "b") {
			return raw
		}
		unzip, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil
		}
		plain, err := io.ReadAll(io.LimitReader(unzip, decodedMax))
		if err != nil {
			return nil
		}
		return plain
	}
	return []byte(text)
}
