package hook

import (
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// targetGroup is an entry of Prometheus' HTTP service discovery: a member, and its labels.
type targetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// Bounds of the parameters of GET /sd, after repeated values are removed: each port adds a target for every member.
const (
	portsMost = 16
	namesMost = 64
)

// discovery has the parameters of GET /sd. Each can be given several times; repeated values are ignored.
type discovery struct {
	namespaces, groups []string // only these, sorted; all if empty
	ports              []string // one target for each port; if empty, one target without a port
}

// sd serves Prometheus' HTTP service discovery from vCenter's stamps: every replica of the server answers for all groups of
// its cluster. While the inventory is unknown, sd answers with an error, so that Prometheus keeps its targets; an empty list would remove
// them.
func (s *server) sd(w http.ResponseWriter, r *http.Request) {
	want, err := parseDiscovery(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	var listed []plan.Listed
	known := false
	if s.ListGroups != nil {
		listed, known = s.ListGroups()
		plan.Recall(listed, s.Controller.Groups)
	}
	if !known {
		refuse(w, http.StatusServiceUnavailable, "vCenter's inventory is unknown: keep the targets that you have")
		return
	}
	writeList(w, want.targets(listed))
}

func parseDiscovery(query string) (d discovery, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return d, fmt.Errorf("invalid query: write it as /sd?namespace=shop&group=web&port=9100")
	}
	for name, given := range values {
		switch name {
		case "namespace":
			d.namespaces = given
		case "group":
			d.groups = given
		case "port":
			d.ports = given
		default: // a misspelled parameter would silently change what is scraped
			return d, fmt.Errorf("unknown parameter %q: use namespace, group and port, each several times if needed", name)
		}
		if name != "port" && slices.Contains(given, "") {
			return d, fmt.Errorf("%s is empty: set it, or omit it", name)
		}
	}
	given := d.ports
	d.ports = nil
	for _, text := range given {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return d, fmt.Errorf("port %q: must be 1 to 65535", text)
		}
		if text = strconv.FormatUint(port, 10); !slices.Contains(d.ports, text) {
			d.ports = append(d.ports, text)
		}
		if len(d.ports) > portsMost {
			return d, fmt.Errorf("there can be at most %d ports: ask for the others in another request", portsMost)
		}
	}
	for _, names := range []*[]string{&d.namespaces, &d.groups} {
		slices.Sort(*names)
		if *names = slices.Compact(*names); len(*names) > namesMost {
			return d, fmt.Errorf("there can be at most %d namespaces and as many groups: ask for the others in another request, or for all", namesMost)
		}
	}
	return d, nil
}

// targets returns the members that run and have an address. A member that is off is no target: another machine may have its last address by
// now, and would be scraped under the member's name.
func (d *discovery) targets(listed []plan.Listed) iter.Seq[targetGroup] {
	return func(yield func(targetGroup) bool) {
		for i := range listed {
			g := &listed[i]
			if !among(d.namespaces, g.Namespace) || !among(d.groups, g.Name) {
				continue
			}
			for j := range g.VMs {
				vm := &g.VMs[j]
				if ips := plan.UsableIPs(vm.ServiceAddresses()); len(ips) > 0 && vm.Power == plan.PoweredOn && !yield(d.target(g, vm, ips)) {
					return
				}
			}
		}
	}
}

func among(wanted []string, name string) bool {
	if len(wanted) == 0 {
		return true
	}
	_, found := slices.BinarySearch(wanted, name)
	return found
}

// target returns a member with its first IPv4 address, else its first IPv6 address: one target for each port, so that nothing is
// scraped twice.
func (d *discovery) target(g *plan.Listed, vm *plan.VM, ips []netip.Addr) targetGroup {
	v4, v6 := firstOf(ips, netip.Addr.Is4), firstOf(ips, netip.Addr.Is6)
	address := v4
	if address == "" {
		address = "[" + v6 + "]" // also without a port, so that Prometheus can append one
	}
	texts := make([]string, len(ips))
	for i := range ips {
		texts[i] = ips[i].String()
	}
	t := targetGroup{Labels: map[string]string{}}
	for name, value := range map[string]string{
		"namespace": g.Namespace, "group": g.Name, "group_uid": string(g.UID),
		"member": plan.MemberName(g.Name, vm.Ordinal), "ordinal": strconv.Itoa(int(vm.Ordinal)),
		"vm": vm.Name, "moref": vm.MoRef, "host": vm.Host, "power_state": string(vm.Power),
		"reachable": strconv.FormatBool(vm.Reachable), "terminating": strconv.FormatBool(vm.Marked && vm.MarkReason != plan.MarkReasonPowerCycle),
		"ipv4": v4, "ipv6": v6, "ips": "," + strings.Join(texts, ",") + ",",
	} {
		if value != "" {
			t.Labels["__meta_vmgroup_"+name] = value
		}
	}
	for _, port := range d.ports {
		t.Targets = append(t.Targets, address+":"+port)
	}
	if len(d.ports) == 0 {
		t.Targets = []string{address}
	}
	return t
}

func firstOf(ips []netip.Addr, is func(netip.Addr) bool) string {
	if at := slices.IndexFunc(ips, is); at >= 0 {
		return ips[at].String()
	}
	return ""
}
