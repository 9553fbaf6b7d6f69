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
	http    *v1alpha1.HTTPGet // nil: a TCP probe
	timeout time.Duration
}

// questionOf returns the probe of a spec at an address.
func questionOf(r *v1alpha1.Readiness, address netip.Addr) question {
	q := question{http: r.HTTPGet, timeout: plan.Seconds(r.ProbeTimeoutSeconds, v1alpha1.DefaultProbeTimeout)}
	if q.http != nil {
		q.address = netip.AddrPortFrom(address, uint16(q.http.Port))
	} else {
		q.address = netip.AddrPortFrom(address, uint16(r.TCPSocket.Port))
	}
	return q
}

// outcome is how a try ended: one of a few words for metrics, and a text for the status, empty if the try succeeded.
type outcome struct{ result, failure string }

var answered = outcome{result: "answered"}

// ask asks once, within the question's time-out. It makes one connection, to a literal address within the allowed networks: it looks up no
// name, and uses no proxy. A closed connection lingers for a second at most, instead of a minute in TIME-WAIT
// (kubernetes/kubernetes#115143).
func (p *Prober) ask(ctx context.Context, q question) outcome {
	if !p.cfg.Networks.Allow(q.address.Addr()) {
		return outcome{"forbidden", "--probe-networks doesn't allow this address"}
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

// get makes one request on a connection, and returns the status. It reads no body, and follows no redirect: a 3xx counts as success, as for
// the kubelet. Like the kubelet, it verifies no certificate (kubernetes/kubernetes, pkg/probe/http).
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
	for { // another response follows a 1xx, except for 101
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
	if err != nil || target.Host != "" || target.Scheme != "" { // a path such as "//host/" isn't a URL with a host
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
		if !named[name] { // the first one replaces the server's own header
			named[name] = true
			request.Header.Del(name)
		}
		request.Header.Add(name, h.Value)
	}
	return request, nil
}

// failed says why a try failed, in the server's own words, because a guest's could contain anything.
func failed(ctx context.Context, q question, err error) outcome {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return outcome{"timeout", fmt.Sprintf("no answer within %d s", int(q.timeout.Seconds()))}
	case errors.Is(err, syscall.ECONNREFUSED):
		return outcome{"refused", "connection refused"}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return outcome{"unreachable", "no route to the member"}
	case q.http == nil:
		return outcome{"broken", "the connection broke"}
	case q.http.Scheme == v1alpha1.ProbeHTTPS:
		return outcome{"broken", "no answer by HTTPS"}
	}
	return outcome{"broken", "no answer by HTTP"}
}
