package vcsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
)

// Admin returns a client that may do everything, at any time: it does not come over the network, so
// it works during outages, and none of the latencies, faults, lost rights and counts are for it. All
// share its one session, which Sessions does not count and Restart does not end. Do not log it out.
func (v *VCenter) Admin() *govmomi.Client { return v.admin }

func (v *VCenter) loginAdmin() error {
	ctx := context.Background()
	address := v.URL()
	address.User = nil
	sc := soap.NewClient(address, true)
	sc.Transport = inProcess{v}
	vc, err := vim25.NewClient(ctx, sc)
	if err != nil {
		return fmt.Errorf("connect the admin: %w", err)
	}
	v.admin = &govmomi.Client{Client: vc, SessionManager: session.NewManager(vc)}
	if err := v.admin.SessionManager.Login(ctx, url.UserPassword(adminUser, v.login.adminPassword)); err != nil {
		return fmt.Errorf("log the admin in: %w", err)
	}
	return nil
}

// inProcess calls the simulator without a network.
type inProcess struct{ v *VCenter }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	inner := r.Clone(r.Context())
	inner.Body = io.NopCloser(bytes.NewReader(body))
	inner.RemoteAddr = "127.0.0.1:0"
	a := &answer{header: make(http.Header), status: http.StatusOK}
	done := make(chan *exchange, 1)
	go func() { done <- p.v.carryOut(a, inner) }()
	select {
	case e := <-done:
		if e == nil {
			return nil, errors.New("this vCenter is closed")
		}
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}, nil
}
