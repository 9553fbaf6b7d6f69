package judges

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

//go:embed judge.py
var judge string

// verdict is what judge.py prints.
type verdict struct {
	Version, Source, Hostname, InstanceID, CloudConfig string
	Rendered                                           map[string]map[string]string // the contents of files, by renderer and path
	NetplanStatus                                      int
	NetplanSaid                                        string
}

// guestData is a guest's metadata, and the configuration that cloud-init should make from it.
type guestData struct {
	env                              []string
	hostname, instanceID, runCommand string
	network                          network
}

// guest creates a group, and returns the metadata of its member's guest, with the configuration that the spec asks for.
func (s *site) guest(t *testing.T, name string, change func(*v1alpha1.VmGroupSpec)) guestData {
	t.Helper()
	g := s.up(t, name, 1, change)
	d, err := s.Details(member(g, 0))
	must.Succeed(t, err)
	x := guestData{env: s.guestinfo(t, member(g, 0)), hostname: name + "-0", instanceID: d.InstanceUUID, network: network{},
		runCommand: fmt.Sprintf("0 %s-0 %s/%s %s %[1]s-0", name, namespace, name, d.InstanceUUID)}
	if len(g.Spec.Networks) == 0 {
		x.network.at(d.NICs[0].MAC).DHCP4 = true // cloud-init's default
	}
	for i := range g.Spec.Networks {
		n, a := &g.Spec.Networks[i], x.network.at(d.NICs[i].MAC)
		a.DHCP4, a.Servers, a.Domains = n.WantsDHCP(), slices.Clone(n.Nameservers), slices.Clone(n.SearchDomains)
		for _, from := range []*v1alpha1.Addresses{n.IPv4, n.IPv6} {
			if from != nil {
				all, _ := from.At(0)
				for _, address := range all {
					a.Addresses = append(a.Addresses, fmt.Sprintf("%s/%d", address, from.PrefixLength))
				}
				a.Gateways = append(a.Gateways, from.Gateway)
			}
		}
	}
	return x
}

// wrong returns how the configuration that a release's cloud-init makes from the metadata differs from the expected one.
func (d debian) wrong(t *testing.T, x guestData) (all []string) {
	t.Helper()
	macs := d.plug(t, x.network)
	out, said, err := d.run(t, x.env, judge, "/usr/bin/python3", "-")
	var v verdict
	if err != nil || json.Unmarshal([]byte(out), &v) != nil {
		return []string{fmt.Sprintf("cloud-init fails: %v: %s", err, said[max(0, len(said)-600):])}
	}
	expect := func(what, got, want string) {
		if got != want {
			all = append(all, fmt.Sprintf("%s is %s\nwant %s", what, got, want))
		}
	}
	expect("the host name", v.Hostname, x.hostname)
	expect("the instance ID", v.InstanceID, x.instanceID)
	if !strings.Contains(strings.Join(strings.Fields(v.CloudConfig), " "), x.runCommand) { // YAML breaks long lines
		all = append(all, "the user data is "+v.CloudConfig)
	}
	expect("netplan's status", fmt.Sprint(v.NetplanStatus), "0")
	expect("the network's source", v.Source, "ds")
	if renderers := slices.Sorted(maps.Keys(v.Rendered)); !slices.Equal(renderers, []string{"eni", "netplan", "network-manager", "networkd", "sysconfig"}) {
		all = append(all, fmt.Sprintf("rendered only by %v", renderers))
	}
	for renderer, files := range v.Rendered {
		expect(renderer+"'s network", read(renderer, files, macs).String(), x.network.String())
	}
	return all
}

// plug writes the adapters into the release's directory as a kernel shows them in /sys, and returns their MAC addresses by name.
func (d debian) plug(t *testing.T, n network) map[string]string {
	t.Helper()
	class, macs := filepath.Join(d.root, "sys/class/net"), map[string]string{}
	must.Succeed(t, os.RemoveAll(class))
	for i, mac := range slices.Sorted(maps.Keys(n)) {
		name := fmt.Sprintf("ens%d", 192+32*i)
		macs[name] = mac
		must.Succeed(t, os.MkdirAll(filepath.Join(class, name), 0o755))
		for file, text := range map[string]string{"address": mac, "addr_assign_type": "0", "operstate": "up", "carrier": "1", "type": "1", "flags": "0x1003"} {
			must.Succeed(t, os.WriteFile(filepath.Join(class, name, file), []byte(text+"\n"), 0o644))
		}
	}
	return macs
}

func both(s *v1alpha1.VmGroupSpec) {
	s.Networks = []v1alpha1.Network{
		{Network: "DC0_DVPG0", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.19"}, PrefixLength: 24, Gateway: "10.0.0.1"},
			IPv6:        &v1alpha1.Addresses{Ranges: []string{"fd00::10-fd00::19"}, PrefixLength: 64, Gateway: "fd00::1"},
			Nameservers: []string{"10.0.0.53", "fd00::53"}, SearchDomains: []string{"shop.example.com", "example.com"}},
		{Network: "DC0_DVPG1"},
	}
}

func TestCloudInitConfiguresGuestsAsTheSpecSays(t *testing.T) {
	all := debians(t)
	s := newSite(t, false)
	off, on := false, true
	six := func(gateway string) *v1alpha1.Addresses {
		return &v1alpha1.Addresses{Ranges: []string{"fd01::10-fd01::19"}, PrefixLength: 48, Gateway: gateway}
	}
	for name, change := range map[string]func(*v1alpha1.VmGroupSpec){
		"plain":           nil,
		"static-and-dhcp": both,
		"dhcp":            func(s *v1alpha1.VmGroupSpec) { s.Networks = []v1alpha1.Network{{Network: "DC0_DVPG0"}} },
		"ipv6-alone": func(s *v1alpha1.VmGroupSpec) {
			s.Networks = []v1alpha1.Network{{Network: "DC0_DVPG0", DHCP: &off, IPv6: six("fe80::1"), Nameservers: []string{"fd01::53"}}}
		},
		"dhcp-and-ipv6": func(s *v1alpha1.VmGroupSpec) {
			s.Networks = []v1alpha1.Network{{Network: "DC0_DVPG0", DHCP: &on, IPv6: six("fd01::1")}}
		},
		"several-addresses": func(s *v1alpha1.VmGroupSpec) {
			both(s)
			s.Networks[0].IPv4.AdditionalRanges, s.Networks[0].IPv6.AdditionalRanges = []string{"10.0.0.110", "10.0.0.210"}, []string{"fd00::110"}
		},
		"without-address": func(s *v1alpha1.VmGroupSpec) {
			web(s)
			s.Networks = append(s.Networks, v1alpha1.Network{Network: "DC0_DVPG1", DHCP: &off})
		},
		"without-gateways": func(s *v1alpha1.VmGroupSpec) { web(s); s.Networks[1].IPv6, s.Networks[1].DHCP = six(""), &off },
	} {
		x := s.guest(t, name, change)
		for _, d := range all {
			for _, wrong := range d.wrong(t, x) {
				t.Errorf("%s, Debian %s: %s", name, d.release, wrong)
			}
		}
	}
}

// Every release must find each planted error, except for the one that only the oldest release finds.
func TestCloudInitFindsPlantedErrorsInTheMetadata(t *testing.T) {
	all := debians(t)
	s := newSite(t, false)
	x := s.guest(t, "web", both)
	plant := func(key string, change func(text string) string) guestData {
		y := x
		y.env = slices.DeleteFunc(slices.Clone(x.env), func(e string) bool { return strings.HasPrefix(e, "VMX_GUESTINFO_"+key) })
		y.env = append(y.env, "VMX_GUESTINFO_"+key+"="+change(plainText(t, x.env, key)))
		return y
	}
	metadata := func(from, to string) guestData {
		return plant("METADATA", func(text string) string {
			if !strings.Contains(text, from) {
				t.Fatalf("can't plant the error: no %s in %s", from, text)
			}
			return strings.ReplaceAll(text, from, to)
		})
	}
	for what, c := range map[string]struct {
		planted  guestData
		releases []debian
	}{
		"no error":              {plant("METADATA", strings.Clone), nil},
		"another host name":     {metadata(`"local-hostname":"web-0"`, `"local-hostname":"web-1"`), all},
		"another instance ID":   {metadata(`"instance-id":"`, `"instance-id":"0`), all},
		"another prefix":        {metadata("10.0.0.10/24", "10.0.0.10/25"), all},
		"one DNS server less":   {metadata(`,"fd00::53"`, ""), all},
		"a misspelled key":      {metadata(`"gateway4"`, `"gateway"`), all},
		"another MAC address":   {metadata(`"macaddress":"00`, `"macaddress":"02`), all},
		"invalid YAML":          {plant("METADATA", func(text string) string { return text + "}" }), all},
		"an unknown name":       {plant("USERDATA", func(text string) string { return strings.ReplaceAll(text, "ordinal", "number") }), all},
		"a route to everywhere": {metadata(`"gateway6":"fd00::1"`, `"routes":[{"to":"::/0","via":"fd00::1"}]`), all[:1]},
	} {
		for _, d := range all {
			wrong := d.wrong(t, c.planted)
			if found := slices.ContainsFunc(c.releases, func(o debian) bool { return o.release == d.release }); found && len(wrong) == 0 {
				t.Errorf("planted: %s: Debian %s finds nothing", what, d.release)
			} else if c.releases == nil && len(wrong) > 0 {
				t.Errorf("planted: %s: Debian %s: %v", what, d.release, wrong)
			}
		}
	}
}
