// Package cloudinit parses metadata as cloud-init does in a guest.
//
// Metadata that cannot be parsed is ignored. The package has no locks.
package cloudinit

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Identity is the part of a guest's identity that the metadata sets. An adapter without an address uses DHCP.
type Identity struct {
	Host      string
	Addresses []string // by adapter
}

// ethernet is an adapter in cloud-init's network configuration, version 2.
type ethernet struct {
	Match struct {
		MAC string `json:"macaddress"`
	} `json:"match"`
	Addresses []string `json:"addresses"`
}

// Read parses the metadata as cloud-init's VMware datasource does: YAML or JSON, plain or base64, gzipped or not; `network` is a mapping,
// or text with an encoding of its own (network.encoding). An adapter without a MAC to match is matched by its position. What cannot be
// parsed is ignored.
func Read(text, encoding string, macs []string) Identity {
	var data struct {
		LocalHostname   string          `json:"local-hostname"`
		Hostname        string          `json:"hostname"`
		Network         json.RawMessage `json:"network"`
		NetworkEncoding string          `json:"network.encoding"`
	}
	if yaml.Unmarshal(decode(text, encoding), &data) != nil {
		return Identity{}
	}
	id := Identity{Host: cmp.Or(data.LocalHostname, data.Hostname), Addresses: make([]string, len(macs))}
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
			id.Addresses[place] = prefix.Addr().String()
		}
	}
	return id
}

// decodedMax limits decompressed metadata, in bytes.
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
