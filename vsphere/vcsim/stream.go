package vcsim

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	batch         = 5 * time.Millisecond // time to batch updates
	sessionCheck  = time.Second          // maximum delay until a wait notices the end of its session
	defaultUpdate = 100                  // objects in one answer, as in vCenter
)

// streams are the update streams of all sessions' PropertyCollectors.
type streams struct {
	*reads
	world   *world
	objects *simulator.Registry // of the world
	rights  *rights

	// The world lock guards these streams, and those of their fields that no wait guards.
	all map[*simulator.PropertyCollector]*stream
}

// newStreams returns an empty set of streams.
func newStreams(w *world, r *rights) *streams {
	return &streams{reads: &reads{world: w, failing: make(map[types.ManagedObjectReference]types.BaseMethodFault), left: make(map[string]pages)}, world: w, objects: w.Objects, rights: r, all: make(map[*simulator.PropertyCollector]*stream)}
}

// Collector wraps a PropertyCollector for one call. gone is closed when the call's client disconnects.
func (v *streams) Collector(o *simulator.PropertyCollector, gone <-chan struct{}) mo.Reference {
	return &collector{PropertyCollector: o, v: v, gone: gone}
}

// stream is the update stream of a PropertyCollector. The simulator's own walks its filters once for each internal update, reads without
// locks and outlives its client; this one sends the differences between two reads.
type stream struct {
	wait lock // one wait at a time

	filters []*filter
	cancel  chan struct{}

	session, user string

	version int
	seen    uint64                       // time of the last read (changes)
	last    *types.UpdateSet             // the last answer, repeated if it was lost
	pending []types.PropertyFilterUpdate // the pages left
	first   bool                         // pending belongs to the first answer
}

type filter struct {
	ref  types.ManagedObjectReference
	spec types.PropertyFilterSpec
	sent map[types.ManagedObjectReference]values // nil: nothing yet
}

// values are the properties that the client has of an object.
type values map[string]types.AnyType

// stream returns the collector's stream. Creating one removes the streams of ended sessions.
func (v *streams) stream(ctx *simulator.Context, pc *simulator.PropertyCollector) *stream {
	s, ok := v.all[pc]
	if !ok {
		maps.DeleteFunc(v.all, func(_ *simulator.PropertyCollector, s *stream) bool {
			return !v.world.SessionLives(ctx, s.session, s.user)
		})
		s = &stream{session: ctx.Session.Key, user: ctx.Session.UserName, wait: newLock(), cancel: make(chan struct{})}
		v.all[pc] = s
	}
	return s
}

func (v *streams) endStream(pc *simulator.PropertyCollector) {
	s := v.all[pc]
	delete(v.all, pc)
	if s != nil {
		s.cancelWait()
	}
}

func (v *streams) removeFilter(ref types.ManagedObjectReference) {
	for _, s := range v.all {
		s.filters = slices.DeleteFunc(s.filters, func(f *filter) bool { return f.ref == ref })
	}
}

func (s *stream) add(ref types.ManagedObjectReference, spec types.PropertyFilterSpec) {
	s.filters = append(s.filters, &filter{ref: ref, spec: spec})
}

func (s *stream) cancelWait() {
	close(s.cancel)
	s.cancel = make(chan struct{})
}

// WaitForUpdatesEx returns the changes since a version as soon as there are any.
//
// [doc] PropertyCollector.WaitForUpdatesEx: an empty version requests everything; a lost answer is repeated when the client sends the
// version before it again; the result is null after maxWaitSeconds.
func (pc *collector) WaitForUpdatesEx(ctx *simulator.Context, req *types.WaitForUpdatesEx) soap.HasFault {
	set, fault := pc.waitForUpdates(ctx, req)
	if fault != nil {
		return &methods.WaitForUpdatesExBody{Fault_: simulator.Fault("", fault)}
	}
	return &methods.WaitForUpdatesExBody{Res: &types.WaitForUpdatesExResponse{Returnval: set}}
}

func (pc *collector) waitForUpdates(ctx *simulator.Context, req *types.WaitForUpdatesEx) (*types.UpdateSet, types.BaseMethodFault) {
	pc.v.world.Lock()
	s := pc.v.stream(ctx, pc.PropertyCollector)
	cancel := s.cancel
	pc.v.world.Unlock()
	s.wait.Lock()
	defer s.wait.Unlock()

	limit, deadline, once := limits(req)
	if again, fault := s.resume(req.Version); again != nil || fault != nil {
		return again, fault
	}
	if s.first && !pc.v.delayFirst(pc.gone) {
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

// limits returns the maximum number of objects in an answer, the deadline, and whether to answer at once.
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

// resume continues after a version; again is the last answer, if that was lost.
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

// waited are the events that end a wait.
type waited struct {
	change   <-chan struct{}
	check    <-chan time.Time
	deadline <-chan time.Time
	cancel   <-chan struct{}
}

// await waits for a change and a moment more to batch updates; late is true if the deadline comes first.
func (pc *collector) await(ctx *simulator.Context, s *stream, w waited) (late bool, _ types.BaseMethodFault) {
	for waiting := true; waiting; {
		select {
		case <-w.change:
			time.Sleep(batch)
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

// begin resets the stream.
func (s *stream) begin() {
	s.seen, s.pending, s.last, s.first = 0, nil, nil, true
}

// answer returns the next page.
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

// updates reads what the filters select and compares it with what was sent.
func (pc *collector) updates(ctx *simulator.Context, s *stream) ([]types.PropertyFilterUpdate, types.BaseMethodFault) {
	pc.v.world.Lock()
	defer pc.v.world.Unlock()
	var updates []types.PropertyFilterUpdate
	for _, f := range s.filters {
		if s.seen == 0 {
			f.sent = nil
		}
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

// compare returns the objects that entered or left a filter's selection and the changes of the others. It selects first, unless no change
// can change the selection, and then reads only new and changed objects. The caller holds the world lock.
func (pc *collector) compare(ctx *simulator.Context, f *filter, since uint64) (updates []types.ObjectUpdate, _ types.BaseMethodFault) {
	unsent := types.PropertyFilterSpec{PropSet: f.spec.PropSet, ReportMissingObjectsInResults: types.NewBool(true)}
	changed := pc.v.world.Since(since)
	if f.sent == nil || slices.ContainsFunc(changed, func(ref types.ManagedObjectReference) bool { return f.reselects(ctx.Session.Get(ref)) }) {
		var fault types.BaseMethodFault
		if changed, updates, fault = pc.selected(ctx, f, since); fault != nil {
			return nil, fault
		}
	} else {
		changed = slices.DeleteFunc(changed, func(ref types.ManagedObjectReference) bool { return !f.has(ref) })
	}
	if len(changed) == 0 {
		return updates, nil
	}
	for _, ref := range changed {
		unsent.ObjectSet = append(unsent.ObjectSet, types.ObjectSpec{Obj: ref})
	}
	read, fault := pc.contents(ctx, unsent)
	if fault != nil {
		return nil, fault
	}
	for _, o := range read {
		if update, changed := f.update(o); changed {
			updates = append(updates, update)
		}
	}
	return updates, nil
}

// selected selects again, and returns the objects that entered or changed, and the updates of those that left.
func (pc *collector) selected(ctx *simulator.Context, f *filter, since uint64) (read []types.ManagedObjectReference, left []types.ObjectUpdate, _ types.BaseMethodFault) {
	selection := f.selection()
	if f.sent == nil {
		f.sent = make(map[types.ManagedObjectReference]values)
	} else {
		// [doc] An object that a filter names leaves when it is deleted.
		selection.ReportMissingObjectsInResults = types.NewBool(true)
	}
	all, fault := pc.contents(ctx, selection)
	if fault != nil {
		return nil, nil, fault
	}
	present := make(map[types.ManagedObjectReference]bool, len(all))
	for _, o := range all {
		present[o.Obj] = true
		if !f.has(o.Obj) || pc.v.world.ChangedSince(o.Obj, since) {
			read = append(read, o.Obj)
		}
	}
	for ref := range f.sent {
		if !present[ref] {
			delete(f.sent, ref)
			left = append(left, types.ObjectUpdate{Kind: types.ObjectUpdateKindLeave, Obj: ref})
		}
	}
	return read, left, nil
}

// has reports whether the client has the object.
func (f *filter) has(ref types.ManagedObjectReference) bool {
	_, sent := f.sent[ref]
	return sent
}

// reselects reports whether the change of an object can change the filter's selection: whether the filter traverses the object, such as the
// folder of a new, moved or removed object. An object that the filter only names may have been removed at any time, and the simulator does not
// announce objects that enter a view. A datacenter is left out: it always has the same folders, and each of its tasks changes it.
func (f *filter) reselects(o mo.Reference) bool {
	_, fixed := o.(*simulator.Datacenter)
	return slices.ContainsFunc(f.spec.ObjectSet, func(named types.ObjectSpec) bool {
		return len(named.SelectSet) == 0 || strings.HasSuffix(named.Obj.Type, "View") ||
			o != nil && !fixed && traverses(named.SelectSet, propertiesOf(o).Type())
	})
}

// traverses reports whether a traversal leads from objects of a type to others.
func traverses(set []types.BaseSelectionSpec, of reflect.Type) bool {
	return slices.ContainsFunc(set, func(s types.BaseSelectionSpec) bool {
		t, is := s.(*types.TraversalSpec)
		return is && (isA(of, t.Type) || traverses(t.SelectSet, of))
	})
}

// selection returns the filter's selection without properties.
func (f *filter) selection() types.PropertyFilterSpec {
	selection := types.PropertyFilterSpec{ObjectSet: f.spec.ObjectSet}
	for _, p := range f.spec.PropSet {
		selection.PropSet = append(selection.PropSet, types.PropertySpec{Type: p.Type})
	}
	return selection
}

// update returns the update of an object for the client. changed is false if the object has not changed since the last one.
func (f *filter) update(o types.ObjectContent) (u types.ObjectUpdate, changed bool) {
	before, known := f.sent[o.Obj]
	now := make(values, len(o.PropSet))
	for _, p := range o.PropSet {
		now[p.Name] = p.Val
	}
	f.sent[o.Obj] = now
	u = types.ObjectUpdate{Kind: types.ObjectUpdateKindEnter, Obj: o.Obj, MissingSet: o.MissingSet}
	if known {
		u.Kind = types.ObjectUpdateKindModify
	}
	for _, p := range o.PropSet {
		if old, ok := before[p.Name]; !ok || !reflect.DeepEqual(old, p.Val) {
			u.ChangeSet = append(u.ChangeSet, assign(p.Name, p.Val))
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			u.ChangeSet = append(u.ChangeSet, assign(name, nil)) // unset
		}
	}
	return u, !known || len(u.ChangeSet) > 0
}

func assign(name string, value types.AnyType) types.PropertyChange {
	return types.PropertyChange{Name: name, Op: types.PropertyChangeOpAssign, Val: value}
}

func (pc *collector) contents(ctx *simulator.Context, spec types.PropertyFilterSpec) ([]types.ObjectContent, types.BaseMethodFault) {
	body := pc.read(ctx, &types.RetrievePropertiesEx{This: pc.Self, SpecSet: []types.PropertyFilterSpec{spec}})
	if f := body.Fault(); f != nil {
		return nil, f.VimFault().(types.BaseMethodFault)
	}
	return body.Res.Returnval.Objects, nil
}
