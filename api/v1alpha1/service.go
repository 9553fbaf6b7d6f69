package v1alpha1

// Bounds of spec.service.
const (
	// MaxPort is the highest number of a port.
	MaxPort = 65535
	// MaxPortName bounds a port's name, in characters.
	MaxPortName = 15
	// MaxServiceAnnotations bounds the annotations, and MaxAnnotationsSize their keys and values together, in characters.
	MaxServiceAnnotations = 50
	MaxAnnotationsSize    = 16384
)

// ServiceType says how the group's Service is reached.
// +kubebuilder:validation:Enum=Headless;ClusterIP;LoadBalancer
type ServiceType string

// The types of Services.
const (
	// ServiceHeadless: DNS resolves to the members' addresses, "web-0.web.<namespace>.svc" to one member's.
	ServiceHeadless ServiceType = "Headless"
	// ServiceClusterIP: the Service has an address of its own, which leads to ready members.
	ServiceClusterIP ServiceType = "ClusterIP"
	// ServiceLoadBalancer: it also has an address outside of the cluster, which the cluster's load balancer gives it.
	ServiceLoadBalancer ServiceType = "LoadBalancer"
)

// HasAddress reports whether a Service of the type has an address of its own.
func (t ServiceType) HasAddress() bool { return t == ServiceClusterIP || t == ServiceLoadBalancer }

// Service is a Kubernetes Service with the group's name, and EndpointSlices with the addresses that members' guests report. The group's
// name must then begin with a letter.
//
// +kubebuilder:validation:XValidation:rule="!(self.?type.orValue(\"\") in ['ClusterIP', 'LoadBalancer']) || self.?ports.orValue([]).size() > 0",message="a ClusterIP or LoadBalancer Service needs a port: add one, or set type to Headless",fieldPath=".ports",reason=FieldValueRequired
type Service struct {
	// type is Headless (the default; DNS answers with members' addresses), ClusterIP, or LoadBalancer, which also has an address outside of the cluster.
	// +default="Headless"
	// +optional
	Type ServiceType `json:"type,omitempty"`
	// ports that members serve: at most 100. A ClusterIP or LoadBalancer Service needs one or more. Each port, and each target port, can occur once,
	// whatever its protocol.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.size() <= 1 || self.all(p, p.?name.orValue('') != '')",message="each port needs a name if there are several"
	// +kubebuilder:validation:XValidation:rule="self.all(p, p.?name.orValue('') == '' || self.exists_one(q, q.?name.orValue('') == p.name))",message="must not give two ports the same name"
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port))",message="must not name a port twice, not even with another protocol: Metacontroller tells ports apart by their numbers alone"
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.?targetPort.orValue(q.port) == p.?targetPort.orValue(p.port)))",message="must not lead to one port of the members twice: Metacontroller tells ports apart by their numbers alone"
	// +listType=atomic
	// +optional
	Ports []ServicePort `json:"ports,omitempty"`
	// annotations of the Service: at most 50, with at most 16384 characters in all keys and values together. Annotations of Metacontroller and
	// kubectl are refused.
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="must have names of annotations, such as example.com/owner",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.startsWith('metacontroller.k8s.io/') || k.startsWith('metacontroller.io/') || k == 'kubectl.kubernetes.io/last-applied-configuration')",message="must not be those of Metacontroller or kubectl, metacontroller.k8s.io/..., metacontroller.io/..., kubectl.kubernetes.io/last-applied-configuration",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.map(k, k.size() + self[k].size()).sum() <= 16384",message="can have 16384 characters together, names and values",reason=FieldValueInvalid
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// drainSeconds is the time for which a member keeps running after its endpoints became terminating, before the server takes it down, in
	// seconds: 0 (the default) to 2592000 (30 days).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	DrainSeconds int32 `json:"drainSeconds,omitempty"`
}

// ServicePort is a port that members serve.
type ServicePort struct {
	// name of the port, a DNS label of at most 15 characters; required if there is more than one.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label: a-z, 0-9 and '-', with a letter or digit at both ends"
	// +optional
	Name string `json:"name,omitempty"`
	// port of the Service: 1 to 65535.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`
	// targetPort is the members' port: 1 to 65535. Default: the Service's port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	TargetPort *int32 `json:"targetPort,omitempty"`
	// protocol is TCP (the default), UDP or SCTP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +default="TCP"
	// +optional
	Protocol string `json:"protocol,omitempty"`
	// appProtocol is the application protocol, such as "http" or "kubernetes.io/h2c".
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be the name of a protocol, such as http, or a prefixed one, such as kubernetes.io/h2c"
	// +optional
	AppProtocol string `json:"appProtocol,omitempty"`
}
