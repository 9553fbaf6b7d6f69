package inventory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// While a refusal lasts, vCenter is asked for changes of the datastores, hosts, pools and networks: when one may have ended the refusal, the server
// tries again, instead of once a minute only. That is a stream of its own ("Create additional PropertyCollector objects, using one per thread, to
// perform concurrent collection operations": vSphere Web Services SDK Programming Guide 8.0), because the server reads values from its answers, and
// is open only while a refusal lasts, because the datastores of a large vCenter change all the time.

const (
	// reliefAsked is how long after the last group asked for it the stream stays open.
	reliefAsked = 2 * time.Minute
	// reliefPause is the time until the stream is opened again after an error.
	reliefPause = time.Minute
	// spaceStep is how much more free space than ever before counts (bytes): clones need some GiB, and a datastore's free space varies.
	spaceStep = 1 << 30
)

// reliefs are the changes that may have ended a refusal.
type reliefs struct {
	wanted chan struct{} // a group has asked; its capacity is 1

	mu     sync.Mutex
	asked  time.Time // when a group asked last
	counts plan.Relief
	stores map[string]int // changes of the datastores with a name
}

func newReliefs() *reliefs {
	return &reliefs{wanted: make(chan struct{}, 1), stores: map[string]int{}}
}

// of returns the changes so far, and notes that a group asks for them, unless lasting is empty. Of datastores, it counts the one that the group
// uses, if target, the path of a datastore or datastore cluster, names one.
func (r *reliefs) of(lasting plan.Depends, target string) plan.Relief {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lasting&plan.Relievable != 0 {
		r.asked = time.Now()
		notify(r.wanted)
	}
	counts := r.counts
	if own, is := r.stores[naming.Last(target)]; is && target != "" {
		counts.Storage = own
	}
	return counts
}

// isAsked reports whether groups still ask.
func (r *reliefs) isAsked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.asked) < reliefAsked
}

// take counts the changes in an answer, and reports whether there were any. first reports whether the answer has the state in which the stream
// begins.
func (r *reliefs) take(set *types.UpdateSet, seen map[types.ManagedObjectReference]*relieving, first bool) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, filter := range set.FilterSet {
		for _, o := range filter.ObjectSet {
			if o.Kind == types.ObjectUpdateKindLeave {
				delete(seen, o.Obj)
				continue
			}
			x := seen[o.Obj]
			if x == nil {
				x = &relieving{}
				seen[o.Obj] = x
			}
			better := 0
			if x.take(o.ChangeSet) && !first {
				better, changed = 1, true
			}
			switch o.Obj.Type {
			case "Datastore":
				r.counts.Storage += better
				r.stores[x.name] += better // from now on, those of this name count apart
			case "HostSystem", "ResourcePool", "VirtualApp", "ComputeResource", "ClusterComputeResource":
				r.counts.Pool += better
			default:
				r.counts.Networks += better
			}
		}
	}
	return changed
}

// relieving is an object that refusals depend on.
type relieving struct {
	name string
	// free is the most free space that counted, of a datastore (bytes). It doesn't decrease, so what a failed clone takes and gives back is no change.
	free int64
}

// take takes an object's changes, and reports whether one of them may end a refusal, such as a new name: the object may have been looked for.
func (x *relieving) take(changes []types.PropertyChange) (better bool) {
	for _, c := range changes {
		switch v := c.Val.(type) {
		case string:
			if c.Name == "name" {
				x.name, better = v, true
			} else { // summary.maintenanceMode
				better = better || v == string(types.DatastoreSummaryMaintenanceModeStateNormal)
			}
		case int64: // summary.freeSpace
			if v >= x.free+spaceStep {
				x.free, better = v, true
			}
		case bool:
			usable := v
			if c.Name == "runtime.inMaintenanceMode" {
				usable = !v
			}
			better = better || usable
		case types.HostSystemConnectionState:
			better = better || v == types.HostSystemConnectionStateConnected
		case types.ResourceAllocationInfo:
			better = true
		}
	}
	return better
}

// reliefSpec lists the properties whose changes may end a refusal.
func reliefSpec(root types.ManagedObjectReference) types.PropertyFilterSpec {
	step := func(name, of, path string, to ...string) *types.TraversalSpec {
		t := &types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: name}, Type: of, Path: path}
		for _, next := range to {
			t.SelectSet = append(t.SelectSet, &types.SelectionSpec{Name: next})
		}
		return t
	}
	tops := []string{"children", "hosts", "datastores", "networks", "host", "pool"}
	return types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: root, SelectSet: []types.BaseSelectionSpec{
			step("children", "Folder", "childEntity", tops...),
			step("hosts", "Datacenter", "hostFolder", tops...), step("datastores", "Datacenter", "datastoreFolder", tops...),
			step("networks", "Datacenter", "networkFolder", tops...),
			step("host", "ComputeResource", "host"), step("pool", "ComputeResource", "resourcePool", "pools"),
			step("pools", "ResourcePool", "resourcePool", "pools"),
		}}},
		PropSet: []types.PropertySpec{
			{Type: "Datastore", PathSet: []string{"name", "summary.freeSpace", "summary.accessible", "summary.maintenanceMode"}},
			{Type: "HostSystem", PathSet: []string{"name", "runtime.connectionState", "runtime.inMaintenanceMode"}},
			{Type: "ComputeResource", PathSet: []string{"name"}},
			{Type: "ResourcePool", PathSet: []string{"name", "config.cpuAllocation", "config.memoryAllocation"}},
			{Type: "Network", PathSet: []string{"name"}},
		},
	}
}

// watchRelief follows the changes that may end refusals, while groups ask for them, until ctx ends.
func (st *Stream) watchRelief(ctx context.Context, s *session.Session) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-st.inventory.reliefs.wanted:
			if !st.inventory.reliefs.isAsked() { // a group asked while the last stream was open
				continue
			}
		}
		if err := st.followRelief(ctx, s); err != nil && ctx.Err() == nil {
			st.log.Debug().Err(err).Msg("vCenter's changes that may end a refusal are not known for a minute")
			session.Sleep(ctx, reliefPause)
		}
	}
}

// followRelief runs one such stream.
func (st *Stream) followRelief(ctx context.Context, s *session.Session) error {
	pc, err := collect(ctx, s, reliefSpec(s.Vim.ServiceContent.RootFolder))
	if err != nil {
		return err
	}
	defer CloseCollector(ctx, s, pc)
	seen := map[types.ManagedObjectReference]*relieving{}
	answer, version, first := paging{}, "", true
	for st.inventory.reliefs.isAsked() {
		set, err := st.wait(ctx, s.Vim, pc, version, st.maxWait, st.maxWait+overdueMost)
		if err != nil {
			return err
		}
		if set == nil {
			continue
		}
		more, err := answer.hasMore(set)
		if err != nil {
			return err
		}
		version = set.Version
		if st.inventory.reliefs.take(set, seen, first) {
			st.inventory.changed("")
		}
		if first = first && more; !more && !session.Sleep(ctx, streamPause) {
			return ctx.Err()
		}
	}
	return nil
}

// collect creates a property collector with a filter.
func collect(ctx context.Context, s *session.Session, spec types.PropertyFilterSpec) (pc types.ManagedObjectReference, err error) {
	made, err := methods.CreatePropertyCollector(ctx, s.Vim, &types.CreatePropertyCollector{This: s.Vim.ServiceContent.PropertyCollector})
	if err != nil {
		return pc, fmt.Errorf("create a property collector: %w", err)
	}
	pc = made.Returnval
	if _, err = methods.CreateFilter(ctx, s.Vim, &types.CreateFilter{This: pc, PartialUpdates: true, Spec: s.Supported(spec)}); err != nil {
		CloseCollector(ctx, s, pc)
		return pc, fmt.Errorf("create the filter: %w", err)
	}
	return pc, nil
}
