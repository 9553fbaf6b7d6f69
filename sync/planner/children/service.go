package children

import (
	"cmp"
	"encoding/json"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// headless is the clusterIP of a headless Service.
const headless = "None"

func (pub Publisher) serviceKey() plan.ChildKey {
	return plan.ChildKey{Kind: plan.KindService, Name: pub.Group.Name}
}

// service returns the Service that spec.service asks for.
func (pub Publisher) service() plan.Child {
	spec := plan.ServiceSpec{Type: "ClusterIP", ClusterIP: pub.clusterIP(), Ports: pub.servicePorts()}
	if pub.Group.Spec.Service.Type == v1alpha1.ServiceLoadBalancer {
		spec.Type = "LoadBalancer"
	}
	if spec.ClusterIP != headless {
		spec.IPFamilyPolicy = "PreferDualStack"
	}
	return plan.Child{Key: pub.serviceKey(), Labels: pub.childLabels(), Annotations: pub.Group.Spec.Service.Annotations, Fields: plan.ServiceFields{Spec: spec}}
}

// clusterIP returns the Service's clusterIP: None, or empty for one that Kubernetes chooses.
func (pub Publisher) clusterIP() string {
	if pub.Group.Spec.Service.Type.HasAddress() {
		return ""
	}
	return headless
}

// servicePorts returns the Service's ports. Numbers and targets are unique, because Validate refuses other specs: Metacontroller
// merges these lists by number, and would send the last one twice, which the API server refuses at every sync.
func (pub Publisher) servicePorts() []plan.ServicePort {
	wanted := pub.Group.Spec.Service.Ports
	ports := make([]plan.ServicePort, 0, len(wanted))
	for i := range wanted {
		p := &wanted[i]
		port := plan.ServicePort{Name: p.Name, Port: p.Port, TargetPort: p.Port, Protocol: cmp.Or(p.Protocol, "TCP"), AppProtocol: p.AppProtocol}
		if p.TargetPort != nil {
			port.TargetPort = *p.TargetPort
		}
		ports = append(ports, port)
	}
	return ports
}

// remakesService reports whether the Service has a clusterIP and the spec wants it headless, or the reverse. That cannot be changed
// in a Service. So the answer leaves it out until Metacontroller has deleted it, and then it is recreated.
func (pub Publisher) remakesService() bool {
	record := pub.Children[pub.serviceKey()].LastApplied
	if record == "" {
		return false
	}
	var was plan.ServiceFields
	if json.Unmarshal([]byte(record), &was) != nil || was.Spec.Type == "" {
		return false // the record was edited
	}
	return was.Spec.ClusterIP != pub.clusterIP()
}
