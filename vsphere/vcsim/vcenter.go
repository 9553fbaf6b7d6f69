package vcsim

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/fcd"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/managed"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/operator"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/policy"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/property"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/rest"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/rights"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/seed"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/services"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/wire"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// VCenter is a running vCenter. All methods are safe for concurrent use.
type VCenter struct {
	*operator.Operator
	*managed.Objects
	*fcd.Disks
	*rights.Rights
	*property.Reads
	*wire.Network
	*services.Services
	*rest.Libraries
	world   *world.World
	objects *simulator.Registry // of the world
	streams *property.Streams
	rest    *rest.API
	main    *wire.Wire
	admin   *govmomi.Client

	// sessionLock is held for writing while sessions are dropped.
	sessionLock sync.RWMutex

	sessions sync.Map // the sessions with their objects, as *simulator.Session by key (counts.go)

	mu        sync.Mutex // guards what follows
	login     login
	exchanges map[string]*exchange
	rewrite   func(request any)
}

// Start creates a vCenter and serves it until Close.
func Start(c Config) (*VCenter, error) {
	c = c.withDefaults()
	if c.Listener != nil {
		c.Listen = c.Listener.Addr().String()
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", c.Listen, err)
	}
	cert, err := wire.NewCertificate(host)
	if err != nil {
		return nil, err
	}
	w, err := seed.New(c.shape(), c.InstanceUUID)
	if err != nil {
		return nil, err
	}
	if c.Listener == nil {
		if c.Listener, err = net.Listen("tcp", c.Listen); err != nil {
			w.End()
			return nil, errors.Join(fmt.Errorf("listen: %w", err), w.Drain())
		}
	}
	v := &VCenter{world: w, objects: w.Objects, login: newLogin(c.User, c.Password), exchanges: make(map[string]*exchange)}
	v.Network = wire.NewNetwork(wire.Settings{Context: w.Ctx, Endpoint: endpoint{v}, Plain: c.Plain, Cert: cert, User: v.userinfo, Direct: func(session string, req soap.HasFault) wire.DirectCall {
		return newDirectCall(v, session, req)
	}})
	policies := policy.New(w)
	v.extend(wire.HostOf(c.Listener), c.Guest, cert, policies)
	v.main = v.Network.Open(c.Listener)
	if err := v.setUp(c, policies); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	v.SetLatency(c.Latency)
	v.SetLimits(c.Limits)
	return v, nil
}

// extend installs our hooks in the simulator, before its first call.
func (v *VCenter) extend(address string, guest managed.Guest, cert tls.Certificate, policies *policy.Policies) {
	service := v.world.Service
	service.Listen = &url.URL{Scheme: v.Scheme(), Host: address, User: url.User("vcsim")}
	sessions := v.objects.SessionManager()
	sessions.ServiceHostName = address
	sessions.ValidLogin = v.validLogin
	sessions.TLS = func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{cert}} }
	v.objects.Cookie = v.sessionCookie
	v.objects.Handler = v.dispatch
	v.objects.AddHandler(v.world.Changes)
	v.Rights = rights.New(v.world)
	v.streams = property.NewStreams(v.world, v.Rights)
	v.Reads = v.streams.Reads
	v.Disks = fcd.New(v.world)
	v.Objects = managed.New(v.world, policies, v.Disks, guest)
	v.Disks.Serve(v.Objects)
	v.Services = services.New(v.runsAt)

	service.RegisterSDK(v.objects, vim25.Path+"/vimService")
	v.servePBM(policies.Service(v.Objects))
	v.rest = rest.New(v.world, v.Rights, v.validLogin)
	v.Libraries = v.rest.Libraries
	service.ServeMux.HandleFunc(vim25.Path+"/vimServiceVersions.xml", service.ServiceVersions)
}

// URL returns the URL for logins with the current credentials: https://user:password@host:port/sdk (http:// with Config.Plain).
func (v *VCenter) URL() *url.URL {
	return v.main.URL()
}

// InstanceUUID returns about.instanceUuid.
func (v *VCenter) InstanceUUID() string {
	return v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.About.InstanceUuid
}

// Changed returns a channel that the next change of the inventory or of a task closes, as an alternative to polling.
func (v *VCenter) Changed() <-chan struct{} {
	_, next := v.world.Read()
	return next
}

// Close cuts all connections and stops. It drops tasks that still wait for their latency and ends the clients' waits.
func (v *VCenter) Close() error {
	if !v.world.End() {
		return nil
	}
	return errors.Join(v.Network.Close(), v.world.Drain())
}
