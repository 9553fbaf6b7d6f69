package property

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/rights"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

const (
	settle        = 5 * time.Millisecond // for which updates gather
	sessionCheck  = time.Second          // how soon a wait notices at most that its session has ended
	defaultUpdate = 100                  // objects in one answer, as vCenter
)

// Streams are what the PropertyCollectors of all sessions have told.
type Streams struct {
	// Reads say how reads go wrong.
	Reads   *Reads
	world   *world.World
	objects *simulator.Registry // of the world
	rights  *rights.Rights

	// collectors guards the filters of the simulator's PropertyCollectors, which it does not.
	collectors sync.Mutex

	mu  sync.Mutex // guards all
	all map[*simulator.PropertyCollector]*stream
}

// NewStreams has none yet.
func NewStreams(w *world.World, r *rights.Rights) *Streams {
	return &Streams{Reads: new(Reads), world: w, objects: w.Objects, rights: r, all: make(map[*simulator.PropertyCollector]*stream)}
}

// Collector is a PropertyCollector during one call, for whose answer nobody waits any more once gone is closed.
func (v *Streams) Collector(o *simulator.PropertyCollector, gone <-chan struct{}) mo.Reference {
	return &collector{PropertyCollector: o, Guard: new(world.Guard), v: v, gone: gone}
}

// Filter is a PropertyFilter during one call.
func (v *Streams) Filter(o *simulator.PropertyFilter) mo.Reference {
	return &propertyFilter{PropertyFilter: o, Guard: new(world.Guard), v: v}
}

// Lookup finds the object a call is for. A session's first call of its PropertyCollector makes one:
// not twice, when two calls come at once.
func (v *Streams) Lookup(ctx *simulator.Context, ref types.ManagedObjectReference) mo.Reference {
	v.collectors.Lock()
	defer v.collectors.Unlock()
	return ctx.Session.Get(ref)
}

// stream is what a PropertyCollector has told its client. The simulator's own walks its filters once
// for each internal update, reads without locks, and outlives its client; this one tells what differs
// between the last read and this.
type stream struct {
	wait world.Lock // one wait at a time

	mu      sync.Mutex // guards these two
	filters []*filter
	cancel  chan struct{}

	session, user string

	version int
	seen    uint64                       // the changes' time at the last read
	last    *types.UpdateSet             // the last answer: told again if it was lost
	pending []types.PropertyFilterUpdate // the pages to come
	first   bool                         // they are of the first answer
}

type filter struct {
	ref  types.ManagedObjectReference
	spec types.PropertyFilterSpec
	told map[types.ManagedObjectReference]told // nil: nothing yet
}

// told is what the client knows of an object.
type told map[string]types.AnyType

// stream returns the collector's stream. The streams of sessions that have ended go by the way.
func (v *Streams) stream(ctx *simulator.Context, pc *simulator.PropertyCollector) *stream {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.all[pc]
	if !ok {
		maps.DeleteFunc(v.all, func(_ *simulator.PropertyCollector, s *stream) bool {
			return !v.world.SessionLives(ctx, s.session, s.user)
		})
		s = &stream{session: ctx.Session.Key, user: ctx.Session.UserName, wait: world.NewLock(), cancel: make(chan struct{})}
		v.all[pc] = s
	}
	return s
}

func (v *Streams) endStream(pc *simulator.PropertyCollector) {
	v.mu.Lock()
	s := v.all[pc]
	delete(v.all, pc)
	v.mu.Unlock()
	if s != nil {
		s.cancelWait()
	}
}

func (v *Streams) removeFilter(ref types.ManagedObjectReference) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.all {
		s.mu.Lock()
		s.filters = slices.DeleteFunc(s.filters, func(f *filter) bool { return f.ref == ref })
		s.mu.Unlock()
	}
}

func (s *stream) add(ref types.ManagedObjectReference, spec types.PropertyFilterSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filters = append(s.filters, &filter{ref: ref, spec: spec})
}

func (s *stream) cancelWait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cancel)
	s.cancel = make(chan struct{})
}

// WaitForUpdatesEx answers what changed since the given version, as soon as something did.
//
// [doc] PropertyCollector.WaitForUpdatesEx: an empty version asks for all; an answer that was lost is
// told again when its predecessor's version is given again; null when maxWaitSeconds are over.
func (pc *collector) WaitForUpdatesEx(ctx *simulator.Context, req *types.WaitForUpdatesEx) soap.HasFault {
	set, fault := pc.waitForUpdates(ctx, req)
	if fault != nil {
		return &methods.WaitForUpdatesExBody{Fault_: simulator.Fault("", fault)}
	}
	return &methods.WaitForUpdatesExBody{Res: &types.WaitForUpdatesExResponse{Returnval: set}}
}

// WaitForUpdates is the old form of WaitForUpdatesEx.
func (pc *collector) WaitForUpdates(ctx *simulator.Context, req *types.WaitForUpdates) soap.HasFault {
	set, fault := pc.waitForUpdates(ctx, &types.WaitForUpdatesEx{This: req.This, Version: req.Version})
	if fault != nil {
		return &methods.WaitForUpdatesBody{Fault_: simulator.Fault("", fault)}
	}
	return &methods.WaitForUpdatesBody{Res: &types.WaitForUpdatesResponse{Returnval: *set}}
}

func (pc *collector) waitForUpdates(ctx *simulator.Context, req *types.WaitForUpdatesEx) (*types.UpdateSet, types.BaseMethodFault) {
	s := pc.v.stream(ctx, pc.PropertyCollector)
	s.mu.Lock()
	cancel := s.cancel
	s.mu.Unlock()
	s.wait.Lock()
	defer s.wait.Unlock()

	limit, deadline, once := limits(req)
	if again, fault := s.resume(req.Version); again != nil || fault != nil {
		return again, fault
	}
	if s.first && !pc.v.ponder(pc.gone) {
		return nil, new(types.RequestCanceled)
	}
	check := time.NewTicker(sessionCheck)
	defer check.Stop()
	for {
		now, next := pc.v.world.Read()
		if len(s.pending) == 0 {
			updates, fault := pc.updates(ctx, s)
			if fault != nil {
				return nil, fault
			}
			s.seen, s.pending = now, updates
		}
		if len(s.pending) > 0 || req.Version == "" {
			return s.answer(limit), nil
		}
		if once {
			return nil, nil
		}
		if late, fault := pc.await(ctx, s, waited{next, check.C, deadline, cancel}); late || fault != nil {
			return nil, fault
		}
	}
}

// limits are how many objects an answer may have, when its client wants one in any case, and whether it wants it at once.
func limits(req *types.WaitForUpdatesEx) (objects int, deadline <-chan time.Time, once bool) {
	objects, once = defaultUpdate, req.Version == ""
	if o := req.Options; o != nil {
		if o.MaxObjectUpdates > 0 {
			objects = min(objects, int(o.MaxObjectUpdates))
		}
		if o.MaxWaitSeconds != nil {
			once = once || *o.MaxWaitSeconds == 0
			deadline = time.After(time.Duration(*o.MaxWaitSeconds) * time.Second)
		}
	}
	return objects, deadline, once
}

// resume goes on after a version; again is the last answer, if that was lost.
func (s *stream) resume(version string) (again *types.UpdateSet, fault types.BaseMethodFault) {
	switch version {
	case "":
		s.begin()
		return nil, nil
	case strconv.Itoa(s.version):
		return nil, nil
	case strconv.Itoa(s.version - 1):
		if s.last != nil {
			return s.last, nil
		}
	}
	return nil, new(types.InvalidCollectorVersion)
}

// waited is what a wait may end with.
type waited struct {
	change   <-chan struct{}
	check    <-chan time.Time
	deadline <-chan time.Time
	cancel   <-chan struct{}
}

// await waits for a change, and for a moment more; late: the client's time was over before.
func (pc *collector) await(ctx *simulator.Context, s *stream, w waited) (late bool, _ types.BaseMethodFault) {
	for waiting := true; waiting; {
		select {
		case <-w.change:
			time.Sleep(settle)
			waiting = false
		case <-w.check:
		case <-w.deadline:
			return true, nil
		case <-w.cancel:
			return false, new(types.RequestCanceled)
		case <-pc.gone:
			return false, new(types.RequestCanceled)
		case <-pc.v.world.Ctx.Done():
			return false, new(types.RequestCanceled)
		}
		if !pc.v.world.SessionLives(ctx, s.session, s.user) {
			return false, &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &pc.Self, PrivilegeId: "System.View"}}
		}
	}
	return false, nil
}

// begin forgets what was told.
func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.filters {
		f.told = nil
	}
	s.seen, s.pending, s.last, s.first = 0, nil, nil, true
}

// answer takes the next page.
func (s *stream) answer(limit int) *types.UpdateSet {
	s.version++
	set := &types.UpdateSet{Version: strconv.Itoa(s.version)}
	for len(s.pending) > 0 && limit > 0 {
		f := &s.pending[0]
		n := min(limit, len(f.ObjectSet))
		set.FilterSet = append(set.FilterSet, types.PropertyFilterUpdate{Filter: f.Filter, ObjectSet: f.ObjectSet[:n]})
		limit -= n
		if f.ObjectSet = f.ObjectSet[n:]; len(f.ObjectSet) == 0 {
			s.pending = s.pending[1:]
		}
	}
	if len(s.pending) > 0 {
		set.Truncated = types.NewBool(true)
	}
	s.first = s.first && len(s.pending) > 0
	s.last = set
	return set
}

// updates reads what the filters select and compares it with what was told.
func (pc *collector) updates(ctx *simulator.Context, s *stream) ([]types.PropertyFilterUpdate, types.BaseMethodFault) {
	s.mu.Lock()
	filters := slices.Clone(s.filters)
	s.mu.Unlock()
	pc.v.world.RLock()
	defer pc.v.world.RUnlock()
	var updates []types.PropertyFilterUpdate
	for _, f := range filters {
		objects, fault := pc.compare(ctx, f, s.seen)
		if fault != nil {
			return nil, fault
		}
		if len(objects) > 0 {
			updates = append(updates, types.PropertyFilterUpdate{Filter: f.ref, ObjectSet: objects})
		}
	}
	return updates, nil
}
