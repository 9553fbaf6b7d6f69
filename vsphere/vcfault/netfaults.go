package vcfault

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// PinError means that vCenter's certificate has another thumbprint than the one that the server is configured with.
type PinError struct{ Actual, Pinned string }

// Error names both thumbprints.
func (e *PinError) Error() string {
	return fmt.Sprintf("certificate has thumbprint %s, not %s", e.Actual, e.Pinned)
}

// Thumbprint returns a certificate's SHA-256 thumbprint as vCenter shows it: "AA:BB:…".
func Thumbprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	hex := make([]string, len(sum))
	for i, b := range sum {
		hex[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(hex, ":")
}

// OfCertificate returns the fault for an untrusted certificate of vCenter.
func OfCertificate(err error) (plan.Fault, bool) {
	bad := func(format string, args ...any) (plan.Fault, bool) {
		return plan.Fault{Reason: ReasonCertificateNotTrusted, NeedsOperator: true, Message: fmt.Sprintf(format, args...)}, true
	}
	var pin *PinError
	if errors.As(err, &pin) {
		return bad("vCenter's certificate has the SHA-256 thumbprint %s, not the one configured: if it was renewed, set --thumbprint to this one.", pin.Actual)
	}
	var verify *tls.CertificateVerificationError
	if !errors.As(err, &verify) {
		return plan.Fault{}, false
	}
	why := "it is not valid"
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &host):
		why = "it is for another host name"
	case errors.As(err, &unknown):
		why = "its authority is unknown"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		why = "it has expired or is not valid yet"
	}
	if len(verify.UnverifiedCertificates) == 0 {
		return bad("vCenter's certificate is not trusted (%s): set --ca-file to its authority.", why)
	}
	return bad("vCenter's certificate is not trusted (%s): set --ca-file to its authority, or, if the SHA-256 thumbprint %s is vCenter's, set --thumbprint to it.",
		why, Thumbprint(verify.UnverifiedCertificates[0]))
}

// OfNetwork returns the fault for a network error. The message leaves out local addresses, because their ports differ from try to try.
//
// A vCenter without sessions to give answers 503, also to its first call: "Out of HTTP sessions: Limited to 2000" (kubernetes/kops#2747).
func OfNetwork(err error) (plan.Fault, bool) {
	var (
		op     *net.OpError
		dns    *net.DNSError
		record tls.RecordHeaderError
		link   *url.Error
		timed  net.Error
	)
	how, check := "", "check that it runs, and that VC_HOST and the network are right"
	switch {
	case errors.Is(err, context.Canceled):
		return plan.Fault{Reason: ReasonCancelled, Message: "The server stopped during this step; the step is tried again."}, true
	case errors.As(err, &dns):
		how = fmt.Sprintf("the name %q cannot be resolved", dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		how = "the connection is refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		how = "there is no route to it"
	case errors.As(err, &record):
		how = "it does not speak TLS on this port"
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		how = "it does not answer"
	case errors.Is(err, context.DeadlineExceeded):
		return plan.Fault{Reason: ReasonTimeout, Message: "vCenter did not answer in time; the server tries again."}, true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		how = "the connection was closed"
	case errors.As(err, &timed) && timed.Timeout():
		how = "it does not answer"
	case op != nil || errors.As(err, &op):
		how = "the connection failed"
	case errors.As(err, &link):
		how = Steady(link.Err.Error()) // such as "503 Service Unavailable"
		if strings.HasPrefix(how, "503 ") {
			check = "check that all its services run, and that other programs have not used up its sessions"
		}
	default:
		return plan.Fault{}, false
	}
	return plan.Fault{
		Reason:  ReasonVCenterUnreachable,
		Message: "vCenter cannot be reached (" + how + "): " + check + ".",
	}, true
}
