package vcsim

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

// VCenter is a running vCenter. All methods may be called at any time from any goroutine.
type VCenter struct {
	world   *world
	objects *simulator.Registry // of the world

	plain bool // no TLS
	cert  tls.Certificate
	gate  *gate
	main  *Wire
	admin *govmomi.Client

	guest Guest // as configured

	// The world guards these: the guests of VMs, when the last VM booted, and what persons have said of
	// guests (nil: nothing).
	lives           map[types.ManagedObjectReference]*life
	lastBoot        time.Time
	broken, hanging func(VM) bool

	// The world guards these, too: what was asked for in a VM's making and is not in its configuration.
	customized map[types.ManagedObjectReference]*types.CustomizationSpec
	policies   map[types.ManagedObjectReference]policies

	// door is shut while sessions are dropped.
	door sync.RWMutex

	storage *storagePolicies
	rest    *restAPI

	// collectors guards the filters of the simulator's PropertyCollectors, which it does not.
	collectors sync.Mutex

	books sync.Map // the sessions with their own objects, as *simulator.Session by key (counts.go)

	mu        sync.Mutex // guards what follows
	latency   Latency
	held      map[Kind]chan struct{}
	login     login
	calls     map[string]int
	faults    faults
	role      *role // what the clients may do; nil: everything
	hidden    map[types.ManagedObjectReference]bool
	reserved  map[place]types.ManagedObjectReference
	captures  map[types.ManagedObjectReference]*capture
	streams   map[*simulator.PropertyCollector]*stream
	exchanges map[string]*exchange
	kept      []Kept
	lastRule  int32
	lastMAC   int
}

// Start makes a vCenter and serves it until Close.
func Start(c Config) (*VCenter, error) {
	c = c.withDefaults()
	if c.Listener != nil {
		c.Listen = c.Listener.Addr().String()
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", c.Listen, err)
	}
	v := &VCenter{
		gate:  newGate(),
		login: newLogin(c.User, c.Password),
		plain: c.Plain,
		guest: c.Guest,
		lives: make(map[types.ManagedObjectReference]*life),

		customized: make(map[types.ManagedObjectReference]*types.CustomizationSpec),
		policies:   make(map[types.ManagedObjectReference]policies),

		held:      make(map[Kind]chan struct{}),
		calls:     make(map[string]int),
		hidden:    make(map[types.ManagedObjectReference]bool),
		reserved:  make(map[place]types.ManagedObjectReference),
		captures:  make(map[types.ManagedObjectReference]*capture),
		streams:   make(map[*simulator.PropertyCollector]*stream),
		exchanges: make(map[string]*exchange),
	}
	if v.cert, err = newCertificate(host); err != nil {
		return nil, err
	}
	if err := v.createModel(c); err != nil {
		return nil, err
	}
	if c.Listener == nil {
		if c.Listener, err = net.Listen("tcp", c.Listen); err != nil {
			v.world.end()
			return nil, errors.Join(fmt.Errorf("listen: %w", err), v.world.drain())
		}
	}
	v.extend(hostOf(c.Listener))
	v.main = v.newWire(c.Listener)
	v.gate.add(v.main)
	if err := v.furnish(c); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latency = c.Latency
	clear(v.calls) // of the admin, before it was known as such
	return v, nil
}

// extend hooks our behaviour into the simulator's, before the first call reaches it.
func (v *VCenter) extend(address string) {
	v.world.service.Listen = &url.URL{Scheme: v.scheme(), Host: address, User: url.User("vcsim")}
	sessions := v.objects.SessionManager()
	sessions.ServiceHostName = address
	sessions.ValidLogin = v.validLogin
	sessions.TLS = func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{v.cert}} }
	v.objects.Cookie = v.sessionCookie
	v.objects.Handler = v.dispatch
	v.objects.AddHandler(v.world.changes)
	v.objects.AddHandler(&taskBook{TaskManager: v.taskManager(), v: v})
	v.objects.AddHandler(ruleBook{v})

	v.world.service.RegisterSDK(v.objects, vim25.Path+"/vimService")
	v.storage = newStoragePolicies(v)
	v.rest = newREST(v)
	v.world.service.ServeMux.HandleFunc(vim25.Path+"/vimServiceVersions.xml", v.world.service.ServiceVersions)
}

// URL is where clients log in: https://user:password@host:port/sdk (http:// with Config.Plain), with the password of now.
func (v *VCenter) URL() *url.URL {
	return v.main.URL()
}

func (v *VCenter) scheme() string {
	if v.plain {
		return "http"
	}
	return "https"
}

// InstanceUUID is this vCenter's about.instanceUuid.
func (v *VCenter) InstanceUUID() string {
	return v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.About.InstanceUuid
}

// SetLatency changes how long tasks take, from the next one on.
func (v *VCenter) SetLatency(l Latency) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latency = l
}

// Close cuts all connections and stops. Tasks that are still waiting out their latency are dropped.
// It does not wait for a client's patience: abandoned waits end, too.
func (v *VCenter) Close() error {
	if !v.world.end() {
		return nil
	}
	v.gate.set(down)
	var err error
	for _, w := range v.gate.all() {
		err = errors.Join(err, w.Close())
	}
	return errors.Join(err, v.world.drain())
}
