package children

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Recorded reports whether an endpoint was recorded as terminating after its member was marked. An earlier record, from a mark that was withdrawn,
// does not count.
func (pub Publisher) Recorded(since, chosen time.Time) bool {
	return !since.IsZero() && !since.Before(chosen) && !since.After(pub.Now.Add(plan.ClockSkew))
}

// terminatingRecord returns the annotation of a slice: since when it has shown each member's endpoint as terminating. If it is seen
// for the first time, that is now, rounded up to a whole second.
func (pub Publisher) terminatingRecord(slice plan.ChildKey, members []Member) map[string]string {
	if pub.DrainTime() == 0 {
		return nil
	}
	record := map[string]string{}
	for i := range members {
		m := &members[i]
		name := plan.MemberName(pub.Group.Name, m.Ordinal)
		e := pub.Children[slice].Endpoints[name]
		if !m.Terminating || !m.Serving || !e.Terminating {
			continue
		}
		since := e.Since
		if !pub.Recorded(since, m.Chosen) {
			since = pub.Now.Add(time.Second - 1).Truncate(time.Second)
			if m.Chosen.After(since) {
				since = m.Chosen.Add(time.Second - 1).Truncate(time.Second)
			}
		}
		record[name] = since.UTC().Format(time.RFC3339)
	}
	text, err := json.Marshal(record)
	if len(record) == 0 || err != nil {
		return nil
	}
	return map[string]string{v1alpha1.AnnotationTerminatingSince: string(text)}
}

// slicePer is how many ordinals share an EndpointSlice: it never has more endpoints than that, and a member never moves
// to another slice.
const slicePer = 100

// Labels of EndpointSlices in the Kubernetes API: the Service they belong to, what manages them (Kubernetes' own controllers leave
// slices of others alone), and that kube-proxy can ignore them.
const (
	labelServiceName = "kubernetes.io/service-name"
	labelManagedBy   = "endpointslice.kubernetes.io/managed-by"
	labelHeadless    = "service.kubernetes.io/headless"
	sliceManager     = "vmgroup.vm.codeconnect.vmworld.com"
)

// Families are the address types of slices, and their names within a slice's name.
var Families = []struct{ AddressType, Name string }{{"IPv4", "ipv4"}, {"IPv6", "ipv6"}}

// endpointSlices returns the slices "<group>-ipv4-<k>" and "<group>-ipv6-<k>" with the endpoints of ordinals 100k to 100k+99.
// One without endpoints is left out, because the API server stores an empty list as null.
func (pub Publisher) endpointSlices(members []Member) []plan.Child {
	ports, labels := endpointPorts(pub.servicePorts()), pub.sliceLabels()
	var all []plan.Child
	for _, family := range Families {
		for _, some := range slicesOf(members) {
			key := pub.SliceKey(family.Name, some[0].Ordinal)
			endpoints, since := endpointsOf(some, family.AddressType, pub.Group.Name), pub.terminatingRecord(key, some)
			if len(endpoints) == 0 {
				continue
			}
			all = append(all, plan.Child{Key: key, Labels: labels, Annotations: since,
				Fields: plan.EndpointSliceFields{AddressType: family.AddressType, Endpoints: endpoints, Ports: ports}})
		}
	}
	return all
}

// SliceKey names the slice of a family that a member's endpoint is in.
func (pub Publisher) SliceKey(family string, ordinal int32) plan.ChildKey {
	return plan.ChildKey{Kind: plan.KindEndpointSlice, Name: fmt.Sprintf("%s-%s-%d", pub.Group.Name, family, ordinal/slicePer)}
}

func (pub Publisher) sliceLabels() map[string]string {
	labels := pub.childLabels()
	labels[labelServiceName], labels[labelManagedBy] = pub.Group.Name, sliceManager
	if pub.clusterIP() == headless {
		labels[labelHeadless] = ""
	}
	return labels
}

// slicesOf splits members, which are sorted by ordinal, into slices.
func slicesOf(members []Member) [][]Member {
	var all [][]Member
	for from := 0; from < len(members); {
		to := from + 1
		for to < len(members) && members[to].Ordinal/slicePer == members[from].Ordinal/slicePer {
			to++
		}
		all = append(all, members[from:to])
		from = to
	}
	return all
}

// endpointsOf returns the endpoints of the members that have an address of that type.
func endpointsOf(members []Member, addressType, group string) []plan.Endpoint {
	all := make([]plan.Endpoint, 0, len(members))
	for i := range members {
		m := &members[i]
		address := m.Address(addressType == "IPv4")
		if address == "" {
			continue
		}
		all = append(all, plan.Endpoint{Addresses: []string{address}, Hostname: plan.MemberName(group, m.Ordinal),
			Conditions: plan.EndpointConditions{Ready: m.Serving && !m.Terminating, Serving: m.Serving, Terminating: m.Terminating}})
	}
	return all
}

// Address returns the member's first usable address of a family; empty if it has none.
func (m *Member) Address(four bool) string {
	if a := FirstAddress(m.IPs, four); a.IsValid() {
		return a.String()
	}
	return ""
}

// FirstAddress is the address of a family that is published, of those that a guest reports; the zero Addr if there is none.
func FirstAddress(ips []string, four bool) netip.Addr {
	for _, ip := range ips {
		if a, ok := plan.Usable(ip); ok && a.Is4() == four {
			return a
		}
	}
	return netip.Addr{}
}

// endpointPorts returns the members' ports. DNS also answers for a slice without ports.
func endpointPorts(ports []plan.ServicePort) []plan.EndpointPort {
	all := make([]plan.EndpointPort, len(ports))
	for i := range ports {
		all[i] = plan.EndpointPort{Name: ports[i].Name, Port: ports[i].TargetPort, Protocol: ports[i].Protocol, AppProtocol: ports[i].AppProtocol}
	}
	return all
}
