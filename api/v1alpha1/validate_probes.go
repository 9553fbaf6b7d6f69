package v1alpha1

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (r *Readiness) validateProbes(path *field.Path) (errs field.ErrorList) {
	if r.TCPSocket != nil {
		errs = append(errs, between(path.Child("tcpSocket", "port"), r.TCPSocket.Port, 1, MaxPort)...)
	}
	if r.HTTPGet != nil {
		errs = append(errs, r.HTTPGet.validate(path.Child("httpGet"))...)
	}
	if r.TCPSocket != nil && r.HTTPGet != nil {
		errs = append(errs, field.Invalid(path.Child("httpGet"), r.HTTPGet.Port, "tcpSocket and httpGet exclude each other: remove one"))
	}
	for _, n := range []struct {
		name  string
		value *int32
		most  int32
	}{
		{"periodSeconds", r.PeriodSeconds, MaxProbePeriod}, {"probeTimeoutSeconds", r.ProbeTimeoutSeconds, MaxProbeTimeout},
		{"successThreshold", r.SuccessThreshold, MaxThreshold}, {"failureThreshold", r.FailureThreshold, MaxThreshold},
	} {
		if n.value != nil {
			errs = append(errs, between(path.Child(n.name), *n.value, 1, n.most)...)
		}
	}
	return errs
}

var (
	probePath   = regexp.MustCompile(`^/[!-~]*$`)
	headerName  = regexp.MustCompile(`^[-A-Za-z0-9]+$`)
	headerValue = regexp.MustCompile(`^[ -~]*$`)
)

func (h *HTTPGet) validate(path *field.Path) (errs field.ErrorList) {
	errs = append(errs, between(path.Child("port"), h.Port, 1, MaxPort)...)
	errs = append(errs, oneOf(path.Child("scheme"), h.Scheme, ProbeHTTP, ProbeHTTPS)...)
	if fault := tooLong(path, "path", h.Path, MaxProbePath); fault != nil {
		errs = append(errs, fault...)
	} else if h.Path != "" && !probePath.MatchString(h.Path) {
		errs = append(errs, field.Invalid(path.Child("path"), h.Path, "must begin with / and be printable ASCII without spaces"))
	}
	if len(h.HTTPHeaders) > MaxProbeHeaders {
		return append(errs, field.TooMany(path.Child("httpHeaders"), len(h.HTTPHeaders), MaxProbeHeaders))
	}
	for i := range h.HTTPHeaders {
		one, at := &h.HTTPHeaders[i], path.Child("httpHeaders").Index(i)
		if fault := tooLong(at, "name", one.Name, MaxHeaderName); fault != nil {
			errs = append(errs, fault...)
		} else if !headerName.MatchString(one.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), one.Name, "must be letters, digits and '-'"))
		}
		if fault := tooLong(at, "value", one.Value, MaxHeaderValue); fault != nil {
			errs = append(errs, fault...)
		} else if !headerValue.MatchString(one.Value) {
			errs = append(errs, field.Invalid(at.Child("value"), one.Value, "must be printable ASCII"))
		}
	}
	return errs
}
