package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate checks everything that the Service contains, because Metacontroller doesn't report it when an API server refuses a child.
func (s *Service) validate(spec *field.Path, group string) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	path := spec.Child("service")
	// Some API servers accept Service names that begin with a digit, since Kubernetes 1.34, but not all.
	if group != "" && (group[0] < 'a' || group[0] > 'z') {
		errs = append(errs, field.Invalid(path, group,
			"the Service has the group's name, which must then begin with a letter: rename the group, or remove service"))
	}
	errs = append(errs, oneOf(path.Child("type"), s.Type, ServiceHeadless, ServiceClusterIP, ServiceLoadBalancer)...)
	errs = append(errs, s.validatePorts(path.Child("ports"))...)
	errs = append(errs, s.validateAnnotations(path)...)
	return append(errs, between(path.Child("drainSeconds"), s.DrainSeconds, 0, MaxSeconds)...)
}

// target returns the members' port.
func (p *ServicePort) target() int32 {
	if p.TargetPort == nil {
		return p.Port
	}
	return *p.TargetPort
}

// Metacontroller merges a list whose items have a "port" as a map with that key, in a Service as in an EndpointSlice. It merges two
// ports with one number into one, and an API server then refuses, or loses, the other.
func (s *Service) validatePorts(path *field.Path) (errs field.ErrorList) {
	if len(s.Ports) > MaxServicePorts {
		return field.ErrorList{field.TooMany(path, len(s.Ports), MaxServicePorts)}
	}
	if len(s.Ports) == 0 && s.Type.HasAddress() {
		return field.ErrorList{field.Required(path, "a ClusterIP or LoadBalancer Service needs a port: add one, or set type to Headless")}
	}
	const byNumber = "Metacontroller tells ports apart by their numbers alone"
	names, ports, targets := map[string]bool{}, map[int32]bool{}, map[int32]bool{}
	for i := range s.Ports {
		p, at := &s.Ports[i], path.Index(i)
		errs = append(errs, p.validate(at)...)
		switch {
		case p.Name == "" && len(s.Ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), "each port needs a name if there are several"))
		case p.Name != "" && names[p.Name]:
			errs = append(errs, field.Invalid(at.Child("name"), p.Name, "must not give two ports the same name"))
		}
		switch {
		case ports[p.Port]:
			errs = append(errs, field.Invalid(at.Child("port"), p.Port, "must not name a port twice, not even with another protocol: "+byNumber))
		case targets[p.target()]:
			errs = append(errs, field.Invalid(at.Child("targetPort"), p.target(), "must not lead to one port of the members twice: "+byNumber))
		}
		names[p.Name], ports[p.Port], targets[p.target()] = true, true, true
	}
	return errs[:min(len(errs), maxReported)]
}

func (p *ServicePort) validate(path *field.Path) (errs field.ErrorList) {
	if fault := tooLong(path, "name", p.Name, MaxPortName); fault != nil {
		errs = append(errs, fault...)
	} else if p.Name != "" && len(validation.IsDNS1123Label(p.Name)) > 0 {
		errs = append(errs, field.Invalid(path.Child("name"), p.Name,
			"must be a DNS label: a-z, 0-9 and '-', with a letter or digit at both ends"))
	}
	errs = append(errs, between(path.Child("port"), p.Port, 1, MaxPort)...)
	if p.TargetPort != nil {
		errs = append(errs, between(path.Child("targetPort"), *p.TargetPort, 1, MaxPort)...)
	}
	errs = append(errs, oneOf(path.Child("protocol"), p.Protocol, "TCP", "UDP", "SCTP")...)
	if fault := tooLong(path, "appProtocol", p.AppProtocol, MaxDomain); fault != nil {
		return append(errs, fault...)
	}
	if p.AppProtocol != "" && len(validation.IsQualifiedName(p.AppProtocol)) > 0 {
		errs = append(errs, field.Invalid(path.Child("appProtocol"), p.AppProtocol,
			"must be the name of a protocol, such as http, or a prefixed one, such as kubernetes.io/h2c"))
	}
	return errs
}

// reservedAnnotation reports whether an annotation controls how the Service itself is applied. All others are for the controllers
// of Services (service.beta.kubernetes.io/..., external-dns.alpha.kubernetes.io/..., metallb.io/...), and allowed.
func reservedAnnotation(key string) bool {
	return strings.HasPrefix(key, "metacontroller.k8s.io/") || strings.HasPrefix(key, "metacontroller.io/") ||
		key == "kubectl.kubernetes.io/last-applied-configuration"
}

// validateAnnotations goes through the keys in order, so that equal specs have equal errors.
func (s *Service) validateAnnotations(service *field.Path) (errs field.ErrorList) {
	if len(s.Annotations) == 0 {
		return nil
	}
	path, size := service.Child("annotations"), 0
	if len(s.Annotations) > MaxServiceAnnotations {
		return field.ErrorList{field.TooMany(path, len(s.Annotations), MaxServiceAnnotations)}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		size += utf8.RuneCountInString(key) + utf8.RuneCountInString(s.Annotations[key])
		switch {
		case len(validation.IsQualifiedName(strings.ToLower(key))) > 0: // API servers check the keys of annotations like this
			errs = append(errs, field.Invalid(path, bounded(key), "must have names of annotations, such as example.com/owner"))
		case reservedAnnotation(key):
			errs = append(errs, field.Invalid(path, key, "must not be those of Metacontroller or kubectl, metacontroller.k8s.io/..., metacontroller.io/..., kubectl.kubernetes.io/last-applied-configuration"))
		}
	}
	if size > MaxAnnotationsSize {
		errs = append(errs, field.Invalid(path, size,
			fmt.Sprintf("can have %d characters together, names and values; these have %d", MaxAnnotationsSize, size)))
	}
	return errs[:min(len(errs), maxReported)]
}
