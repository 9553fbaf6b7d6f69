package plan

import "fmt"

// EndpointSliceFields are what an EndpointSlice has beside its metadata.
type EndpointSliceFields struct {
	AddressType string         `json:"addressType"`
	Endpoints   []Endpoint     `json:"endpoints"`
	Ports       []EndpointPort `json:"ports,omitempty"`
}

// Endpoint is a member's address of one family. Hostname is the member's name: in a headless Service DNS knows the member
// by it.
type Endpoint struct {
	Addresses  []string           `json:"addresses"`
	Conditions EndpointConditions `json:"conditions"`
	Hostname   string             `json:"hostname"`
}

// EndpointConditions say how an endpoint is; one that is left out would count as true.
type EndpointConditions struct {
	Ready       bool `json:"ready"`
	Serving     bool `json:"serving"`
	Terminating bool `json:"terminating"`
}

// EndpointPort is a port that members serve. Its name is that of the Service's port.
type EndpointPort struct {
	Name        string `json:"name,omitempty"`
	Port        int32  `json:"port"`
	Protocol    string `json:"protocol"`
	AppProtocol string `json:"appProtocol,omitempty"`
}

// slicePer is how many ordinals share an EndpointSlice: it never has more endpoints than that, and a member never moves
// to another one, whoever comes and goes.
const slicePer = 100

// Labels of EndpointSlices, by the Kubernetes API: whose endpoints they are, whose work (Kubernetes' own controllers leave
// alone what they do not manage), and that kube-proxy need not care.
const (
	labelServiceName = "kubernetes.io/service-name"
	labelManagedBy   = "endpointslice.kubernetes.io/managed-by"
	labelHeadless    = "service.kubernetes.io/headless"
	sliceManager     = "vmgroup.vm.codeconnect.vmworld.com"
)

// families are the address types of slices, and what stands for them in a slice's name.
var families = []struct{ addressType, name string }{{"IPv4", "ipv4"}, {"IPv6", "ipv6"}}

// endpointSlices are the slices "<group>-ipv4-<k>" and "<group>-ipv6-<k>" with the endpoints of ordinals 100k to 100k+99.
// One without endpoints is left out: an empty list is stored as null.
func (v *view) endpointSlices(members []published) []Child {
	ports, labels := endpointPorts(v.servicePorts()), v.sliceLabels()
	var all []Child
	for _, family := range families {
		for _, some := range slicesOf(members) {
			key := v.sliceKey(family.name, some[0].ordinal)
			endpoints, since := endpointsOf(some, family.addressType, v.Group.Name), v.terminatingRecord(key, some)
			if len(endpoints) == 0 {
				continue
			}
			all = append(all, Child{Key: key, Labels: labels, Annotations: since,
				Fields: EndpointSliceFields{AddressType: family.addressType, Endpoints: endpoints, Ports: ports}})
		}
	}
	return all
}

// sliceKey names the slice of a family that a member's endpoint is in.
func (v *view) sliceKey(family string, ordinal int32) ChildKey {
	return ChildKey{Kind: KindEndpointSlice, Name: fmt.Sprintf("%s-%s-%d", v.Group.Name, family, ordinal/slicePer)}
}

func (v *view) sliceLabels() map[string]string {
	labels := v.childLabels()
	labels[labelServiceName], labels[labelManagedBy] = v.Group.Name, sliceManager
	if v.clusterIP() == headless {
		labels[labelHeadless] = ""
	}
	return labels
}

// slicesOf cuts members, which are in the order of their ordinals, where a slice ends.
func slicesOf(members []published) [][]published {
	var all [][]published
	for from := 0; from < len(members); {
		to := from + 1
		for to < len(members) && members[to].ordinal/slicePer == members[from].ordinal/slicePer {
			to++
		}
		all = append(all, members[from:to])
		from = to
	}
	return all
}

// endpointsOf are the endpoints of those members that have an address of that type.
func endpointsOf(members []published, addressType, group string) []Endpoint {
	all := make([]Endpoint, 0, len(members))
	for i := range members {
		m := &members[i]
		address := m.address(addressType == "IPv4")
		if address == "" || m.twin {
			continue
		}
		all = append(all, Endpoint{Addresses: []string{address}, Hostname: MemberName(group, m.ordinal),
			Conditions: EndpointConditions{Ready: m.serving && !m.terminating, Serving: m.serving, Terminating: m.terminating}})
	}
	return all
}

// address is the member's first usable one of a family; empty if it has none.
func (m *published) address(four bool) string {
	for _, ip := range m.ips {
		if a, ok := usable(ip); ok && a.Is4() == four {
			return a.String()
		}
	}
	return ""
}

// endpointPorts are the members' ports. Without any, DNS answers all the same.
func endpointPorts(ports []ServicePort) []EndpointPort {
	all := make([]EndpointPort, len(ports))
	for i := range ports {
		all[i] = EndpointPort{Name: ports[i].Name, Port: ports[i].TargetPort, Protocol: ports[i].Protocol, AppProtocol: ports[i].AppProtocol}
	}
	return all
}
