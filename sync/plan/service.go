package plan

import (
	"cmp"
	"encoding/json"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// ServiceFields are what a Service has beside its metadata.
type ServiceFields struct {
	Spec ServiceSpec `json:"spec"`
}

// ServiceSpec is the part of a Service's spec that is ours. It has no selector: the EndpointSlices are ours as well. Nor
// publishNotReadyAddresses: DNS names those members that are ready, as it does for a StatefulSet's pods.
type ServiceSpec struct {
	Type      string `json:"type"`
	ClusterIP string `json:"clusterIP,omitempty"`
	// IPFamilyPolicy is unset for a headless Service: without a selector it gets both families, on any cluster.
	IPFamilyPolicy string        `json:"ipFamilyPolicy,omitempty"`
	Ports          []ServicePort `json:"ports,omitempty"`
}

// ServicePort is a port of a Service.
type ServicePort struct {
	Name        string `json:"name,omitempty"`
	Port        int32  `json:"port"`
	TargetPort  int32  `json:"targetPort"` // never 0, which would be written at every sync
	Protocol    string `json:"protocol"`
	AppProtocol string `json:"appProtocol,omitempty"`
}

// headless is the clusterIP of a headless Service.
const headless = "None"

func (v *view) serviceKey() ChildKey { return ChildKey{Kind: KindService, Name: v.Group.Name} }

// service is the Service that spec.service asks for.
func (v *view) service() Child {
	spec := ServiceSpec{Type: "ClusterIP", ClusterIP: v.clusterIP(), Ports: v.servicePorts()}
	if spec.ClusterIP != headless {
		spec.IPFamilyPolicy = "PreferDualStack"
	}
	return Child{Key: v.serviceKey(), Labels: v.childLabels(), Annotations: v.Group.Spec.Service.Annotations, Fields: ServiceFields{Spec: spec}}
}

// clusterIP is what the spec says of it: None, or empty for one that Kubernetes chooses.
func (v *view) clusterIP() string {
	if v.Group.Spec.Service.Type == v1alpha1.ServiceClusterIP {
		return ""
	}
	return headless
}

// servicePorts are the Service's ports. No two have one number or one target, for Validate refuses such a spec: Metacontroller
// merges such lists by number, and would send the last one twice, which the API server refuses at every sync.
func (v *view) servicePorts() []ServicePort {
	wanted := v.Group.Spec.Service.Ports
	ports := make([]ServicePort, 0, len(wanted))
	for i := range wanted {
		p := &wanted[i]
		port := ServicePort{Name: p.Name, Port: p.Port, TargetPort: p.Port, Protocol: cmp.Or(p.Protocol, "TCP"), AppProtocol: p.AppProtocol}
		if p.TargetPort != nil {
			port.TargetPort = *p.TargetPort
		}
		ports = append(ports, port)
	}
	return ports
}

// remakesService reports whether the Service has a clusterIP (or none) and the spec wants the contrary. That cannot be changed
// in a Service. So it is left out until it is not observed any more, for Metacontroller to delete it, and is recreated then.
func (v *view) remakesService() bool {
	record := v.Children[v.serviceKey()].LastApplied
	if record == "" {
		return false
	}
	var was ServiceFields
	if json.Unmarshal([]byte(record), &was) != nil || was.Spec.Type == "" {
		return false // somebody edited the record
	}
	return was.Spec.ClusterIP != v.clusterIP()
}
