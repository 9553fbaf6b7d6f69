// Package vsphere acts on one vCenter. Each action is one step, with no task of vCenter, one or several; Do waits for them and reads the VM
// afterwards, so that the inventory shows the effect when Do returns.
//
// It combines the packages below it: vsphere/session logs in once for the whole process, vsphere/inventory holds the observed state of
// vCenter, vsphere/tasks waits for all running tasks with one call, vsphere/stamp records the owner of a VM, vsphere/tagging and
// vsphere/attributes find tags and custom attributes by name, and vsphere/vcfault has the typed faults. What a clone consists of is below it, too:
// vsphere/source, vsphere/hardware, vsphere/disks, vsphere/places and vsphere/hosts.
//
// Its files are of three ideas, each of which uses the ones before it:
//
//	step    one action for one group: step.go, calls.go (leased calls and tasks), freshreads.go and recheck.go (reads right before a change),
//	        stampwrites.go, privileges.go and causes.go (why vCenter refused), undoers.go (who undid a change)
//	clone   clone.go (the steps of a clone), clonebuilder.go, clonerefusal.go, clonedisks.go, networks.go, owner.go and lookups.go; draft.go (a clone
//	        that is built but not made); deploy.go (templates from content libraries)
//	member  power.go, leavehost.go, optionalrule.go, mark.go, destroy.go, prepare.go, tags.go, resize.go, memberdisks.go, persistentdisks.go, rules.go, folders.go, adopt.go,
//	        release.go, groupremoval.go
//
// These three are no packages of their own, because they share almost all of a VCenter's state (parts): a package for each would only pass that on.
//
// do.go dispatches an action to its step; vcenter.go, preview.go and checkreads.go are what the loop and the check call.
//
// It promises that it acts only on the group's own members, folder, persistent disks and DRS rules, on VMs that spec.adopt names, and on the
// templates that it deploys (deploy.go); that every step can be retried, whatever the last try did; that it makes no call for a step whose
// lease has ended, except to write the stamp of what the step has done (withoutLease); and that errors are *vcfault.Error.
//
// Locks: troubles and deployments each have a mutex that guards their fields; it is taken alone and never held across a call. A goroutine
// that fills a session.Cache or the tag cache holds that cache while it asks vCenter, and takes no other lock until it has the answer.
package vsphere

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metrics"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/arrival"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inflight"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/removalcause"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tagging"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// VCenter observes one vCenter and acts on it. Its methods can be called from any goroutine. Calls outside a step need no lease.
type VCenter struct {
	*powerAudit
	calls
}

// New checks the configuration and returns a VCenter. The VCenter makes no call before Run.
func New(cfg Config) (*VCenter, error) {
	if err := errors.Join(cfg.Config.Validate(), cfg.Selection.Validate(), cfg.ExtraKeys.Validate(), cfg.PCIDevices.Validate()); err != nil {
		return nil, err
	}
	c, err := session.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	v := &parts{cfg: cfg, log: cfg.Log, client: c, tagCache: tagging.NewCache(), tasks: tasks.New(c, cfg.Log), clones: tasks.NewOlderClones(), undoersTurn: make(chan struct{}, 1)}
	own := calls{parts: v}
	v.fresh.Read = own.readFresh
	v.persistent = disks.NewPersistent(own, cfg.Log)
	v.inventory = inventory.Of(cfg.Selection, v.changed)
	v.libraries = library.New(own.rest, &deployments{calls: own, left: map[string]time.Time{}}, func() { v.changed("") }, cfg.Log)
	v.inFlight = inflight.New(v.inventory, v.tasks, v.changed)
	v.reader = inventory.NewReader(c, v.inventory, cfg.Log)
	v.removals = removalcause.New(own, &v.inventory.MissingVMs, cfg.Log)
	v.inventory.MissingVMs.OnMissing(v.removals.Wake)
	v.arrivals = arrival.New(own, &v.inventory.Evidence, cfg.Log)
	v.inventory.Evidence.OnSought(v.arrivals.Wake)
	v.tagWatch = &tagging.Watcher{Call: own.Call, Watched: v.inventory.HasTags, Tell: v.inventory.Untagged, Log: cfg.Log}
	v.stream = inventory.NewStream(c, cfg.Selection, v.inventory, v.reader, cfg.Log)
	took := metrics.VCenterReadDuration.Histogram(cfg.Metrics)
	v.stream.Timed = func(read string, d time.Duration) { took.WithLabelValues(read).Observe(d.Seconds()) }
	metrics.StampsUnknown.Gauge(cfg.Metrics, func(set func(float64, ...string)) { set(float64(v.inventory.Count().StampsUnknown)) })
	metrics.VCenterUp.Gauge(cfg.Metrics, func(set func(float64, ...string)) { set(map[bool]float64{true: 1}[v.inventory.IsKnown()]) })
	metrics.VCenterUnknown.Gauge(cfg.Metrics, func(set func(float64, ...string)) {
		if h := v.inventory.Health(); !h.Known {
			set(1, cmp.Or(h.Fault, &plan.Fault{Reason: plan.ReasonInventoryNotRead}).Reason)
		}
	})
	metrics.GroupsInVCenter.Gauge(cfg.Metrics, func(set func(float64, ...string)) {
		groups, _ := v.inventory.ListGroups(cfg.ClusterID)
		set(float64(len(groups)))
	})
	metrics.UnreachableMembers.Gauge(cfg.Metrics, func(set func(float64, ...string)) {
		groups, _ := v.inventory.ListGroups(cfg.ClusterID)
		for _, h := range plan.HostTroubles(groups) {
			set(float64(h.Members), h.Host, h.State)
		}
	})
	return &VCenter{newPowerAudit(own), own}, nil
}

// logoutTimeout bounds the logout at the end.
const logoutTimeout = 2 * time.Second

// Run keeps the session, the stream and the inventory up to date until ctx ends; then it logs out within logoutTimeout. Before Run, the
// inventory is unknown and steps fail.
func (v *VCenter) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { v.tasks.Run(ctx) })
	wg.Go(func() { v.reader.Run(ctx) })
	wg.Go(func() { v.removals.Run(ctx) })
	wg.Go(func() { v.arrivals.Run(ctx) })
	wg.Go(func() { v.libraries.Run(ctx) })
	wg.Go(func() { v.tagWatch.Run(ctx) })
	v.stream.Run(ctx)
	wg.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	v.client.Logout(end)
	return nil
}

// State returns the known state of a group from memory; see Inventory.State.
func (v *VCenter) State(ref plan.Ref, ask plan.Query) plan.VCenterState {
	s := v.inventory.State(ref, ask)
	found := len(s.Template.Paths) > 0
	if !ask.Preview && (found || ask.Finalizing) {
		v.libraries.Leave(ref.UID)
	}
	if s.Template.Datacenter != "" && !found {
		var means []v1alpha1.NamedObject
		if ask.Preview || ask.Finalizing { // a group that is being deleted needs no template
			means = v.libraries.Peek(&s.Template, ask.Template, v.inventory.Complete)
		} else {
			means = v.libraries.Fill(ref.UID, &s.Template, ask.Template, v.inventory.Complete)
		}
		if len(means) > 0 {
			s.Names = slices.Concat(s.Names, means)
		}
	}
	s.Stalled = v.inFlight.Stalled(ref.UID)
	return s
}

// Identify returns the UIDs of the groups with that name whose members' stamps name this cluster.
func (v *VCenter) Identify(namespace, name string) []types.UID {
	return v.inventory.Identify(v.cfg.ClusterID, namespace, name)
}

// WasRead reports whether the inventory was read completely at least once.
func (v *VCenter) WasRead() bool { return v.stream.WasRead() }

// Health returns the health of the inventory from memory; see Inventory.Health.
func (v *VCenter) Health() plan.Health { return v.inventory.Health() }

// ListGroups lists, from memory, all groups of this cluster that have VMs according to their stamps, sorted by namespace, name and UID. All
// replicas list the same groups. known is false while the inventory is unknown: then groups are the last known ones, or none.
func (v *VCenter) ListGroups() (groups []plan.Listed, known bool) {
	return v.inventory.ListGroups(v.cfg.ClusterID)
}

// Parts exposes the parts of a VCenter to the check (vsphere/check), which uses them without Run.
type Parts struct {
	Config    Config
	Client    *session.Client
	Inventory *inventory.Inventory
	Libraries *library.Cache
	Reader    *inventory.Reader
	Stream    *inventory.Stream
	Tasks     *tasks.Tasks
}

// Parts returns the parts.
func (v *VCenter) Parts() Parts {
	return Parts{v.cfg, v.client, v.inventory, v.libraries, v.reader, v.stream, v.tasks}
}
