// Package vsphere acts on one vCenter. Each action is one task; Do waits for it and reads the VM afterwards, so that the inventory
// shows the effect when Do returns.
//
// It combines the packages below it: vsphere/session has one login for the whole process, vsphere/inventory the observed state of
// vCenter, vsphere/tasks one wait for all running tasks, vsphere/stamp the owner of a VM, vsphere/tagging tags by name, and
// vsphere/vcfault the typed faults. A clone is built in steps, which are one list (clone.go).
//
// Its files are of three ideas, each of which uses the ones before it:
//
//	step    one action for one group: step.go, calls.go (leased calls and tasks), freshreads.go and recheck.go (reads right before a change),
//	        stampwrites.go, inflight.go (stalls), privileges.go
//	clone   clone.go (the steps of a clone), clonebuilder.go, clonerefusal.go, lookups.go and a file for each noun of a clone; draft.go (a clone
//	        that is built and not made); deploy.go (templates from content libraries)
//	member  power.go, mark.go, destroy.go, prepare.go, tags.go, resize.go, memberdisks.go, persistentdisks.go, rules.go, folders.go, adopt.go,
//	        release.go, groupremoval.go
//
// do.go dispatches an action to its step; vcenter.go, preview.go and checkreads.go are what the loop and the check call.
//
// It promises that it acts only on the group's own members and folder, and on the templates that it deploys (deploy.go); that every step
// can be retried, whatever the last try did; that it makes no call for a step whose lease has ended; and that errors are *vcfault.Error.
//
// Locks: fieldCache and batchedRead have a mutex each that guards their fields; it is taken alone and never held across a call. A
// goroutine that has the turn at a kept answer, or the tag cache open, keeps it while it asks vCenter, and takes no other turn meanwhile.
package vsphere

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/metrics"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/removalcause"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tagging"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// VCenter observes one vCenter and acts on it. Its methods can be called from any goroutine. Its own calls belong to no step, so they
// need no lease.
type VCenter struct {
	*powerAudit
	calls
}

// New checks the configuration. It sends nothing before Run.
func New(cfg Config) (*VCenter, error) {
	if err := errors.Join(cfg.Config.Validate(), cfg.Selection.Validate(), cfg.ExtraKeys.Validate(), cfg.PCIDevices.Validate()); err != nil {
		return nil, err
	}
	c, err := session.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	v := &parts{cfg: cfg, log: cfg.Log, client: c, tagCache: tagging.NewCache(), tasks: tasks.New(c, cfg.Log), clones: tasks.NewOlderClones()}
	own := calls{parts: v}
	v.fresh.ask = own.readFresh
	v.persistent = disks.NewPersistent(own, cfg.Log)
	v.inventory = inventory.Of(cfg.Selection, v.changed)
	v.libraries = library.New(own.rest, &deployments{calls: own, left: map[string]time.Time{}}, func() { v.changed("") }, cfg.Log)
	v.inFlight = newInFlight(v.inventory, v.tasks, v.changed)
	v.reader = inventory.NewReader(c, v.inventory, cfg.Log)
	v.removals = removalcause.New(own, v.inventory, cfg.Log)
	v.inventory.OnMissing(v.removals.Wake)
	v.stream = inventory.NewStream(c, cfg.Selection, v.inventory, v.reader, cfg.Log)
	took := metrics.VCenterReadDuration.Histogram(cfg.Metrics)
	v.stream.Timed = func(read string, d time.Duration) { took.WithLabelValues(read).Observe(d.Seconds()) }
	metrics.StampsUnknown.Gauge(cfg.Metrics, func(set func(float64, ...string)) { set(float64(v.inventory.Count().StampsUnknown)) })
	metrics.VCenterUp.Gauge(cfg.Metrics, func(set func(float64, ...string)) { set(map[bool]float64{true: 1}[v.inventory.IsKnown()]) })
	return &VCenter{newPowerAudit(own), own}, nil
}

// logoutTimeout bounds the logout at the end.
const logoutTimeout = 2 * time.Second

// Run keeps the session, the stream and the inventory until ctx ends; then it logs out, which takes some seconds
// at most. Until it runs, nothing is known and nothing can be done.
func (v *VCenter) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { v.tasks.Run(ctx) })
	wg.Go(func() { v.reader.Run(ctx) })
	wg.Go(func() { v.removals.Run(ctx) })
	wg.Go(func() { v.libraries.Run(ctx) })
	v.stream.Run(ctx)
	wg.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	v.client.Logout(end)
	return nil
}

// State returns, from memory, what is known of a group; see Inventory.State.
func (v *VCenter) State(ref plan.Ref, ask plan.Query) plan.VCenterState {
	s := v.inventory.State(ref, ask)
	if s.Template.Datacenter != "" && len(s.Template.Paths) == 0 {
		fill := v.libraries.Fill
		if ask.Preview || ask.Finalizing { // a group that goes needs no template
			fill = v.libraries.Peek
		}
		fill(&s.Template, ask.Template, v.inventory.Complete)
	}
	s.Stalled = v.inFlight.Stalled(ref.UID)
	return s
}

// Identify returns the UIDs of the groups with that name whose members' stamps name our cluster.
func (v *VCenter) Identify(namespace, name string) []types.UID {
	return v.inventory.Identify(v.cfg.ClusterID, namespace, name)
}

// WasRead reports whether the inventory was read completely at least once.
func (v *VCenter) WasRead() bool { return v.stream.WasRead() }

// Health says from memory how vCenter is seen; see Inventory.Health.
func (v *VCenter) Health() plan.Health { return v.inventory.Health() }

// ListGroups lists all groups of our cluster that have VMs, according to their stamps, sorted by namespace, name and UID. It is the
// same for every replica, whichever is called for a group. known is false while the inventory is unknown: the groups
// are then the last known ones, or none. It answers from memory.
func (v *VCenter) ListGroups() (groups []plan.Listed, known bool) {
	return v.inventory.ListGroups(v.cfg.ClusterID)
}

// Parts are the parts of a VCenter, for the check, which uses them without Run.
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
