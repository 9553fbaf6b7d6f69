package vcsim

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
)

// VCenter is a running vCenter. All methods are safe for concurrent use.
type VCenter struct {
	*operator
	*inventory
	*fcds
	*rights
	*reads
	*network
	*services
	*libraries
	world   *world
	objects *simulator.Registry // of the world
	streams *streams
	rest    *restAPI
	main    *Wire
	admin   *govmomi.Client

	// The world lock guards the fields below. sessions has the sessions with their objects by key, and current is the call that holds the lock.
	login    login
	sessions map[string]*simulator.Session
	current  *exchange
	rewrite  func(request any)
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
	cert, err := newCertificate(host)
	if err != nil {
		return nil, err
	}
	w, err := seed(c)
	if err != nil {
		return nil, err
	}
	if c.Listener == nil {
		if c.Listener, err = net.Listen("tcp", c.Listen); err != nil {
			w.End()
			return nil, errors.Join(fmt.Errorf("listen: %w", err), w.Drain())
		}
	}
	v := &VCenter{world: w, objects: w.Objects, login: login{user: c.User, password: c.Password}, sessions: make(map[string]*simulator.Session)}
	v.network = &network{v: v, plain: c.Plain, cert: cert, gate: newGate(), turns: newTurns(c.Workers), calls: make(map[string]int)}
	policies := newPolicies(w)
	v.extend(hostOf(c.Listener), c.Guest, cert, policies)
	v.main = v.network.Open(c.Listener)
	if err := v.setUp(c); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	v.SetLatency(c.Latency)
	v.limits = c.Limits
	return v, nil
}

// extend installs this package's hooks in the simulator, before its first call.
func (v *VCenter) extend(address string, guest Guest, cert tls.Certificate, policies *storagePolicies) {
	service := v.world.Service
	service.Listen = &url.URL{Scheme: v.Scheme(), Host: address, User: url.User("vcsim")}
	sessions := v.objects.SessionManager()
	sessions.ServiceHostName = address
	sessions.ValidLogin = v.validLogin
	sessions.TLS = func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{cert}} }
	v.objects.Cookie = v.outliving(simulator.HTTPCookie)
	v.objects.Handler = v.dispatch
	v.objects.AddHandler(v.world.changes)
	v.rights = newRights(v.world, policies)
	v.streams = newStreams(v.world, v.rights)
	v.reads = v.streams.reads
	v.fcds = newFCDs(v.world)
	v.inventory = newInventory(v.world, policies, v.fcds, guest)
	v.fcds.vms = v.inventory
	v.services = newServices(v.runsAt)

	service.RegisterSDK(v.objects, vim25.Path+"/vimService")
	v.servePBM(policies.service())
	v.rest = newREST(v)
	v.libraries = v.rest.libraries
	service.ServeMux.HandleFunc(vim25.Path+"/vimServiceVersions.xml", func(w http.ResponseWriter, r *http.Request) {
		if v.current.fault != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		service.ServiceVersions(w, r)
	})
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
	return errors.Join(v.network.Close(), v.world.Drain())
}

// Config configures a new vCenter. The zero value is a sensible default.
type Config struct {
	// Listen is the host:port of the SDK endpoint. Default: 127.0.0.1 and a free port.
	Listen string
	// Listener, if set, replaces Listen, for example with an in-memory network. Close closes it.
	Listener net.Listener
	// Plain serves http:// instead of https:// on all wires, for in-memory networks, where TLS handshakes take a tenth of the processor
	// time without a benefit. Clients must allow it.
	Plain bool
	// Templates are the names of the VM templates in DC0/vm. Default: "vm-operator-template".
	Templates []string
	// Latency is the duration of tasks. Default: zero.
	Latency Latency
	// Limits bound how many clones run at once. Default: none.
	Limits Limits
	// Workers bound how many calls are served at once, and how fast. Default: all, at once.
	Workers Workers
	// Guest configures the guest of a powered-on VM. Default: one without VMware Tools.
	Guest Guest
	// User and Password are the credentials for Login. Default: any that are not empty.
	User, Password string
	// InstanceUUID is about.instanceUuid. Default: random.
	InstanceUUID string
	// APIVersion is about.apiVersion. Default: that of 8.0.3. Older versions lack some properties and reject calls that name them.
	APIVersion string
	// Datacenters, Clusters (per datacenter), Hosts (per cluster) and Datastores (per datacenter) count the inventory objects. Default: one
	// of each, so that nothing is ambiguous.
	Datacenters, Clusters, Hosts, Datastores int
	// Pools counts the resource pools below each cluster's root pool. Default: none.
	Pools int
	// Portgroups (DC0_DVPG0, ... of the switch DVS0) and OpaqueNetworks (DC0_NSX0, ...) count the networks per datacenter, in addition to
	// the standard network "VM Network". Default: none.
	Portgroups, OpaqueNetworks int
	// Pods counts the datastore clusters per datacenter: DC0_POD0, ... with two datastores each, DC0_POD0_DS0 and DC0_POD0_DS1. Default:
	// none.
	Pods int
	// Furnished adds what the samples of manifests/samples name, and two pools to each cluster, unless Pools is set.
	Furnished bool
}

func (c Config) withDefaults() Config {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.InstanceUUID = cmp.Or(c.InstanceUUID, uuid.NewString())
	c.APIVersion = cmp.Or(c.APIVersion, "8.0.3.0")
	c.Datacenters = cmp.Or(c.Datacenters, 1)
	c.Clusters = cmp.Or(c.Clusters, 1)
	c.Hosts = cmp.Or(c.Hosts, 1)
	c.Datastores = cmp.Or(c.Datastores, 1)
	if c.Furnished {
		c.Pools = cmp.Or(c.Pools, 2)
	}
	if c.Templates == nil {
		c.Templates = []string{"vm-operator-template"}
	}
	return c
}

// Restart cuts all connections and drops all sessions and tasks: old sessions get NotAuthenticated, old tasks ManagedObjectNotFound.
// Running work completes without its task, so a clone appears after the restart. Admin keeps its session.
func (v *VCenter) Restart() {
	v.Down()
	v.DropSessions()
	v.ForgetTasks()
	v.Up()
}

// Heal withdraws all FailCall, LoseReply, FailTask and Deny.
func (v *VCenter) Heal() {
	v.HealCalls()
	v.HealTasks()
}

// Restore restores vCenter from a backup: newer VMs leave the inventory but keep running, newer events are lost, and their keys and moRefs
// are reused, without the tags that were on them. Sessions and tasks end. (Other changes are not undone: destroyed VMs do not return.)
func (v *VCenter) Restore(b *Backup) error {
	v.Down()
	defer v.Up()
	v.DropSessions()
	v.ForgetTasks()
	return v.Untag(v.ForgetSince(b)...)
}
