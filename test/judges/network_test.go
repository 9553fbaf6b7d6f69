package judges

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// adapter is the wanted or actual configuration of a network adapter. The lists are sorted and have no duplicates.
type adapter struct {
	DHCP4     bool
	Addresses []string `json:",omitempty"`
	Gateways  []string `json:",omitempty"`
	Servers   []string `json:",omitempty"`
	Domains   []string `json:",omitempty"`
	// Else lists the settings that a renderer wrote and no member needs, such as a route.
	Else []string `json:",omitempty"`
}

// network is a guest's network configuration: its adapters, by MAC address.
type network map[string]*adapter

func (n network) at(mac string) *adapter {
	mac = strings.ToLower(mac)
	if n[mac] == nil {
		n[mac] = &adapter{}
	}
	return n[mac]
}

func (n network) String() string {
	for _, a := range n {
		for _, list := range []*[]string{&a.Addresses, &a.Gateways, &a.Servers, &a.Domains, &a.Else} {
			*list = slices.DeleteFunc(*list, func(text string) bool { return text == "" })
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
	}
	text, _ := json.MarshalIndent(n, "", " ") // cannot fail: strings and bools
	return string(text)
}

// lines calls each with the section, key and value of every setting in an INI file or a shell file.
func lines(text string, each func(section, key, value string)) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			each(section, "", "") // a section begins
		} else if key, value, is := strings.Cut(line, "="); is && !strings.HasPrefix(line, "#") {
			each(section, key, strings.Trim(value, `"`))
		}
	}
}

// networkdFile reads a .network file, of cloud-init's renderer or of netplan.
func networkdFile(n network, text string) {
	a, destination := &adapter{}, ""
	lines(text, func(section, key, value string) {
		switch section + "." + key {
		case "Match.MACAddress", "Match.PermanentMACAddress":
			n[strings.ToLower(value)] = a
		case "Network.DHCP":
			a.DHCP4 = value == "ipv4" || value == "yes"
		case "Network.Address", "Address.Address":
			a.Addresses = append(a.Addresses, value)
		case "Network.Gateway":
			a.Gateways = append(a.Gateways, value)
		case "Network.DNS":
			a.Servers = append(a.Servers, strings.Fields(value)...)
		case "Network.Domains":
			a.Domains = append(a.Domains, strings.Fields(value)...)
		case "Route.":
			destination = ""
		case "Route.Destination":
			destination = value
		case "Route.Gateway":
			if destination == "" || destination == "0.0.0.0/0" || destination == "::/0" {
				a.Gateways = append(a.Gateways, value)
			} else {
				a.Else = append(a.Else, destination+" by "+value)
			}
		}
	})
}

// networkManagerFile reads a keyfile.
func networkManagerFile(n network, text string) {
	a := &adapter{}
	lines(text, func(section, key, value string) {
		list := strings.FieldsFunc(value, func(r rune) bool { return r == ';' })
		switch {
		case section == "ethernet" && key == "mac-address":
			n[strings.ToLower(value)] = a
		case section == "ipv4" && key == "method":
			a.DHCP4 = value == "auto"
		case !strings.HasPrefix(section, "ipv"):
		case strings.HasPrefix(key, "address") && key != "addr-gen-mode":
			a.Addresses = append(a.Addresses, value)
		case key == "gateway":
			a.Gateways = append(a.Gateways, value)
		case key == "dns":
			a.Servers = append(a.Servers, list...)
		case key == "dns-search":
			a.Domains = append(a.Domains, list...)
		case strings.HasPrefix(key, "route"):
			a.Else = append(a.Else, section+" "+value)
		}
		if section == "ipv6" && key == "dns" || section == "ipv4" && key == "dns" {
			for _, server := range list {
				if ip, err := netip.ParseAddr(server); err != nil || ip.Is4() != (section == "ipv4") {
					a.Else = append(a.Else, server+" in "+section)
				}
			}
		}
	})
}

// sysconfigFile reads an ifcfg file. A file of routes is noted in Else, because no member needs one.
func sysconfigFile(n network, name, text string) {
	if strings.HasPrefix(name, "route") {
		n.at(name).Else = append(n.at(name).Else, text)
	}
	if !strings.HasPrefix(name, "ifcfg-") {
		return
	}
	a, addresses, masks := &adapter{}, map[string]string{}, map[string]string{} // by the number of the address
	lines(text, func(_, key, value string) {
		if number, is := strings.CutPrefix(key, "IPADDR"); is {
			addresses[number] = value
		} else if number, is := strings.CutPrefix(key, "NETMASK"); is {
			masks[number] = value
		}
		switch key {
		case "HWADDR":
			n[strings.ToLower(value)] = a
		case "BOOTPROTO":
			a.DHCP4 = value == "dhcp"
		case "IPV6ADDR", "IPV6ADDR_SECONDARIES":
			a.Addresses = append(a.Addresses, strings.Fields(value)...)
		case "GATEWAY", "IPV6_DEFAULTGW":
			a.Gateways = append(a.Gateways, value)
		case "DNS1", "DNS2", "DNS3":
			a.Servers = append(a.Servers, value)
		case "DOMAIN":
			a.Domains = append(a.Domains, strings.Fields(value)...)
		}
	})
	for number, address := range addresses {
		ones, _ := net.IPMask(net.ParseIP(masks[number]).To4()).Size()
		a.Addresses = append(a.Addresses, fmt.Sprintf("%s/%d", address, ones))
	}
}

// eniFile reads /etc/network/interfaces, which identifies adapters by name. Commands (post-up, pre-down) are noted in Else, because the guest
// may lack the program.
func eniFile(n network, text string, macs map[string]string) {
	var a *adapter
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch values := fields[1:]; fields[0] {
		case "iface":
			a = n.at(macs[values[0]])
			a.DHCP4 = a.DHCP4 || values[1] == "inet" && values[2] == "dhcp"
			if values[0] == "lo" {
				a = &adapter{}
			}
		case "address":
			a.Addresses = append(a.Addresses, values...)
		case "gateway":
			a.Gateways = append(a.Gateways, values...)
		case "dns-nameservers":
			a.Servers = append(a.Servers, values...)
		case "dns-search":
			a.Domains = append(a.Domains, values...)
		case "post-up", "pre-down":
			a.Else = append(a.Else, strings.TrimSpace(line))
		}
	}
}

// read returns the network that a renderer's files configure; macs are the MAC addresses of the adapters, by name.
func read(renderer string, files, macs map[string]string) network {
	n := network{}
	for name, text := range files {
		switch {
		case renderer == "eni" && strings.Contains(name, "/network/"):
			eniFile(n, text, macs)
		case renderer == "sysconfig":
			sysconfigFile(n, path.Base(name), text)
		case strings.HasSuffix(name, ".nmconnection"):
			networkManagerFile(n, text)
		case strings.HasSuffix(name, ".network"):
			networkdFile(n, text)
		}
	}
	delete(n, "") // lo
	return n
}
