package v1alpha1

// Defaults and bounds of the probes: those of a Pod's probe (core/v1 Probe), where it has one.
const (
	// DefaultProbePeriod and DefaultProbeTimeout are in seconds.
	DefaultProbePeriod  = 10
	DefaultProbeTimeout = 1
	// DefaultSuccessThreshold and DefaultFailureThreshold count tries in a row.
	DefaultSuccessThreshold = 1
	DefaultFailureThreshold = 3
	// MaxProbePeriod and MaxProbeTimeout are in seconds; MaxThreshold counts tries.
	MaxProbePeriod  = 3600
	MaxProbeTimeout = 60
	MaxThreshold    = 100
	// MaxProbeHeaders bounds the headers of a request, and MaxHeaderName, MaxHeaderValue and MaxProbePath their text, in characters.
	MaxProbeHeaders = 20
	MaxHeaderName   = 100
	MaxHeaderValue  = 1000
	MaxProbePath    = 1000
)

// TCPSocket probes whether a port of a member accepts connections.
type TCPSocket struct {
	// port of the member: 1 to 65535.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`
}

// ProbeScheme is the protocol of an HTTP request.
// +kubebuilder:validation:Enum=HTTP;HTTPS
type ProbeScheme string

// The protocols of an HTTP request. HTTPS verifies no certificate, as for a Pod.
const (
	ProbeHTTP  ProbeScheme = "HTTP"
	ProbeHTTPS ProbeScheme = "HTTPS"
)

// HTTPGet is an HTTP request to a member's own address. Redirects are not followed: a 3xx is success.
type HTTPGet struct {
	// port of the member: 1 to 65535.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`
	// path of the request, and its query: printable ASCII without spaces that begins with "/", at most 1000 characters; default "/".
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^/[!-~]*$')",message="must begin with / and be printable ASCII without spaces"
	// +optional
	Path string `json:"path,omitempty"`
	// scheme is HTTP (the default) or HTTPS, which verifies no certificate, as for a Pod.
	// +optional
	Scheme ProbeScheme `json:"scheme,omitempty"`
	// httpHeaders of the request: at most 20. They are no secrets: anyone who can read the VmGroup can read them.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	HTTPHeaders []HTTPHeader `json:"httpHeaders,omitempty"`
}

// HTTPHeader is a header of a request.
type HTTPHeader struct {
	// name of the header: letters, digits and '-', at most 100.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9]+$`
	// +required
	Name string `json:"name"`
	// value of the header: printable ASCII, at most 1000 characters.
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	// +optional
	Value string `json:"value,omitempty"`
}

// Probes reports whether the server probes members by TCP or HTTP.
func (r *Readiness) Probes() bool { return r.TCPSocket != nil || r.HTTPGet != nil }

// ProbePort is the port that probes ask, of a Readiness with a probe.
func (r *Readiness) ProbePort() int32 {
	if r.HTTPGet != nil {
		return r.HTTPGet.Port
	}
	return r.TCPSocket.Port
}

// ProbeField names the field that says how members are probed.
func (r *Readiness) ProbeField() string {
	if r.HTTPGet != nil {
		return "httpGet"
	}
	return "tcpSocket"
}
