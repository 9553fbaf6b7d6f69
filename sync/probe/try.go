package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// maxHead bounds the status line and headers of an answer, in bytes. Its body isn't read.
const maxHead = 16 << 10

// question is how a member is asked.
type question struct {
	address netip.AddrPort
	http    *v1alpha1.HTTPGet // nil: its port has to accept a connection
	timeout time.Duration
}

// questionOf is how a spec asks at an address.
func questionOf(r *v1alpha1.Readiness, address netip.Addr) question {
	q := question{http: r.HTTPGet, timeout: plan.Seconds(r.ProbeTimeoutSeconds, v1alpha1.DefaultProbeTimeout)}
	if q.http != nil {
		q.address = netip.AddrPortFrom(address, uint16(q.http.Port))
	} else {
		q.address = netip.AddrPortFrom(address, uint16(r.TCPSocket.Port))
	}
	return q
}

// outcome is how a try ended: one of a few words for metrics, and a text for the status, which is empty if it succeeded.
type outcome struct{ result, failure string }

var answered = outcome{result: "answered"}

// ask asks once, and takes no longer than the question's time-out. One connection, to a literal address within the allowed networks: no name
// is looked up, and no proxy is used. A closed connection lingers for a second at most, instead of a minute in TIME-WAIT
// (kubernetes/kubernetes#115143).
func (p *Prober) ask(ctx context.Context, q question) outcome {
	if !p.cfg.Networks.Allow(q.address.Addr()) {
		return outcome{"forbidden", "the server is not allowed to ask it"}
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	c, err := p.cfg.Dial(ctx, "tcp", q.address.String())
	if err != nil {
		return failed(ctx, q, err)
	}
	defer func() { _ = c.Close() }()
	if tcp, is := c.(interface{ SetLinger(seconds int) error }); is {
		_ = tcp.SetLinger(1)
	}
	if q.http == nil {
		return answered
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	code, err := get(ctx, c, q)
	switch {
	case err != nil:
		return failed(ctx, q, err)
	case code < 200 || code > 399:
		return outcome{"http_status", "HTTP status " + strconv.Itoa(code)}
	}
	return answered
}

// get makes one request on a connection, and returns the status. It reads no body, and follows no redirect: a 3xx is success, as the
// kubelet has it, and what it leads to isn't asked. Nor does it verify a certificate, like the kubelet (kubernetes/kubernetes,
// pkg/probe/http).
func get(ctx context.Context, c net.Conn, q question) (code int, err error) {
	request, err := requestOf(ctx, q)
	if err != nil {
		return 0, err
	}
	if q.http.Scheme == v1alpha1.ProbeHTTPS {
		secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		if err := secure.HandshakeContext(ctx); err != nil {
			return 0, err
		}
		c = secure
	}
	if err := request.Write(c); err != nil {
		return 0, err
	}
	head := bufio.NewReader(io.LimitReader(c, maxHead))
	for { // a 1xx announces another, except for 101
		response, err := http.ReadResponse(head, request)
		if err != nil {
			return 0, err
		}
		if code = response.StatusCode; code < 100 || code > 199 || code == http.StatusSwitchingProtocols {
			return code, nil
		}
	}
}

func requestOf(ctx context.Context, q question) (*http.Request, error) {
	target, err := url.Parse(q.http.Path)
	if err != nil || target.Host != "" || target.Scheme != "" { // "//host/" is a path here
		target = &url.URL{Path: q.http.Path}
	}
	target.Scheme, target.Host, target.User, target.Fragment = "http", q.address.String(), nil, ""
	if q.http.Scheme == v1alpha1.ProbeHTTPS {
		target.Scheme = "https"
	}
	if target.Path == "" {
		target.Path = "/"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	request.Header.Set("User-Agent", "vmgroup-probe")
	request.Header.Set("Accept", "*/*")
	named := map[string]bool{}
	for _, h := range q.http.HTTPHeaders {
		name := http.CanonicalHeaderKey(h.Name)
		if name == "Host" {
			request.Host = h.Value
			continue
		}
		if !named[name] { // it replaces ours
			named[name] = true
			request.Header.Del(name)
		}
		request.Header.Add(name, h.Value)
	}
	return request, nil
}

// failed says why a try failed, in words of its own.
func failed(ctx context.Context, q question, err error) outcome {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return outcome{"timeout", fmt.Sprintf("no answer within %d s", int(q.timeout.Seconds()))}
	case errors.Is(err, syscall.ECONNREFUSED):
		return outcome{"refused", "connection refused"}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return outcome{"unreachable", "no route to it"}
	case q.http == nil:
		return outcome{"broken", "the connection broke"}
	case q.http.Scheme == v1alpha1.ProbeHTTPS:
		return outcome{"broken", "no answer by HTTPS"}
	}
	return outcome{"broken", "no answer by HTTP"}
}
