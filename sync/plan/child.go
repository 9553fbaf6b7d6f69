package plan

import (
	"encoding/json"
	"strings"
	"time"
)

// ChildKey names a child object within its group: Kind as Metacontroller keys it ("ConfigMap.v1"), and name.
// Children live in the group's namespace.
type ChildKey struct{ Kind, Name string }

// The kinds of children as Metacontroller keys them: Kind.group/version, or Kind.version in the core group.
const (
	KindConfigMap     = "ConfigMap.v1"
	KindService       = "Service.v1"
	KindEndpointSlice = "EndpointSlice.discovery.k8s.io/v1"
)

// ObservedChild is a child as Metacontroller saw it.
type ObservedChild struct {
	// LastApplied is the JSON that was last applied, as Metacontroller records it; empty if it doesn't.
	LastApplied string
	// Endpoints are what an EndpointSlice shows, by host name (EndpointsSeen). Only a group that drains its members needs them.
	Endpoints map[string]EndpointSeen
}

// Child is a desired child object.
type Child struct {
	Key ChildKey
	// LastApplied, if not empty, is the child's whole JSON, as last applied: the child doesn't change.
	LastApplied         string
	Labels, Annotations map[string]string
	// Fields are the object's fields beside apiVersion, kind and metadata: ConfigMapFields, ServiceFields or EndpointSliceFields, or nil. No
	// field must be encoded as null, [] or {}: the API server doesn't store these as sent, so Metacontroller would write the child at every
	// sync.
	Fields any
}

// String returns the child's kind and name, for messages.
func (k ChildKey) String() string {
	kind, _, _ := strings.Cut(k.Kind, ".")
	return kind + " " + k.Name
}

// ConfigMapFields are what a ConfigMap has beside its metadata.
type ConfigMapFields struct {
	Data map[string]string `json:"data"`
}

// DrainTime returns how long a member's endpoints are terminating before the member is taken down; zero if members aren't drained.
func (o *Observed) DrainTime() time.Duration {
	if o.Group.Spec.Service == nil {
		return 0
	}
	return Seconds(&o.Group.Spec.Service.DrainSeconds, 0)
}

// EndpointSeen is what an observed EndpointSlice says about an endpoint.
type EndpointSeen struct {
	Terminating bool
	// Since is when the endpoint was first seen as terminating; zero if that is not recorded yet.
	Since time.Time
}

// EndpointsSeen reads the state of an EndpointSlice's endpoints from the endpoints and the annotation AnnotationTerminatingSince.
func EndpointsSeen(endpoints []Endpoint, annotation string) map[string]EndpointSeen {
	var record map[string]string
	if json.Unmarshal([]byte(annotation), &record) != nil {
		record = nil // the annotation was edited: the time starts again
	}
	all := make(map[string]EndpointSeen, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		seen := EndpointSeen{Terminating: e.Conditions.Terminating}
		if before, twice := all[e.Hostname]; twice {
			seen.Terminating = seen.Terminating && before.Terminating
		}
		if since, err := time.Parse(time.RFC3339, record[e.Hostname]); err == nil && seen.Terminating {
			seen.Since = since
		}
		all[e.Hostname] = seen
	}
	return all
}

// ServiceFields are what a Service has beside its metadata.
type ServiceFields struct {
	Spec ServiceSpec `json:"spec"`
}

// ServiceSpec is the part of a Service's spec that the server sets. It has no selector, because the server makes the EndpointSlices,
// and no publishNotReadyAddresses: DNS names only ready members, as for a StatefulSet's pods.
type ServiceSpec struct {
	Type      string `json:"type"`
	ClusterIP string `json:"clusterIP,omitempty"`
	// IPFamilyPolicy is unset for a headless Service: a headless Service without a selector gets both families on any cluster.
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

// EndpointSliceFields are what an EndpointSlice has beside its metadata.
type EndpointSliceFields struct {
	AddressType string         `json:"addressType"`
	Endpoints   []Endpoint     `json:"endpoints"`
	Ports       []EndpointPort `json:"ports,omitempty"`
}

// Endpoint is a member's address of one family. Hostname is the member's name: DNS has it for the members of a headless
// Service.
type Endpoint struct {
	Addresses  []string           `json:"addresses"`
	Conditions EndpointConditions `json:"conditions"`
	Hostname   string             `json:"hostname"`
}

// EndpointConditions are the state of an endpoint; an omitted one would count as true.
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
