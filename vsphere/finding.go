package vsphere

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

const (
	// knownFor is how long answers of vCenter are used again: many members are cloned alike.
	knownFor = time.Minute
	// lookAgain is how old an answer must be before it is asked for again because it does not have what was looked for.
	lookAgain = 3 * time.Second
	// memoMost bounds how many answers of a kind are kept.
	memoMost = 1000
)

// lookups keep what clones look up, so that fifty of them cost one answer. They hold for one session: with the next,
// and once an object turned out to be gone, everything is asked for again.
type lookups struct {
	sources    memo[sourceKey, *source]
	computes   memo[string, *computes]
	reach      memo[string, *reach]
	storage    memo[string, *storage]
	networks   memo[string, *networks]
	policies   memo[string, *policyBook]
	compatible memo[compatibleKey, map[string]bool]
	customs    memo[string, *types.CustomizationSpec]
	extensions memo[string, *types.Extension]
}

// forget drops all answers.
func (l *lookups) forget() {
	l.sources.forget()
	l.computes.forget()
	l.reach.forget()
	l.storage.forget()
	l.networks.forget()
	l.policies.forget()
	l.compatible.forget()
	l.customs.forget()
	l.extensions.forget()
}

// memo keeps answers of one kind. Its zero value is empty.
type memo[K comparable, V any] struct {
	mu    sync.Mutex
	epoch int64 // of the session that the answers are from
	kept  map[K]*kept[V]
}

// kept is one answer. Who holds turn reads and writes it.
type kept[V any] struct {
	turn  chan struct{}
	value V
	at    time.Time
}

// get gives an answer that is no older than age, and asks for it if there is none: one asks, the others of a burst wait
// for the answer. Failures are not kept.
func (f *memo[K, V]) get(ctx context.Context, s *session, key K, age time.Duration, ask func() (V, error)) (value V, err error) {
	k := f.place(s, key)
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return value, ctx.Err()
	}
	if !k.at.IsZero() && time.Since(k.at) < age {
		return k.value, nil
	}
	began := time.Now()
	if value, err = ask(); err != nil {
		return value, err
	}
	k.value, k.at = value, began
	return value, nil
}

// place finds or makes the place of an answer.
func (f *memo[K, V]) place(s *session, key K) *kept[V] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil || f.epoch != s.epoch || len(f.kept) > memoMost {
		f.epoch, f.kept = s.epoch, map[K]*kept[V]{}
	}
	k := f.kept[key]
	if k == nil {
		k = &kept[V]{turn: make(chan struct{}, 1)}
		f.kept[key] = k
	}
	return k
}

func (f *memo[K, V]) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = nil
}

// namedObject is an object of a datacenter that a spec may name.
type namedObject struct {
	candidate
	parent types.ManagedObjectReference
	props  map[string]types.AnyType
}

// datacenter is the datacenter in which a clone's names are looked for.
type datacenter struct {
	ref  types.ManagedObjectReference
	path string // "/DC0"
	// ofSettings reports whether it is the datacenter of the server's settings.
	ofSettings bool
}

// tree reads all objects below one of a datacenter's folders, with one call. below are the steps from an object to those
// in it, besides those from folders (datastore clusters are folders) to their children.
func (d datacenter) tree(ctx context.Context, s *session, folder string, below []types.TraversalSpec, props ...types.PropertySpec) ([]namedObject, error) {
	again := []types.BaseSelectionSpec{&types.SelectionSpec{Name: "children"}}
	for _, t := range below {
		again = append(again, &types.SelectionSpec{Name: t.Name})
	}
	selections := []types.BaseSelectionSpec{&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "folder"}, Type: "Datacenter", Path: folder,
		SelectSet: again}, &types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "children"}, Type: "Folder", Path: "childEntity", SelectSet: again}}
	for _, t := range below {
		t.SelectSet = again
		selections = append(selections, &t)
	}
	for i := range props {
		props[i].PathSet = append([]string{"name", "parent"}, props[i].PathSet...)
	}
	objects, err := retrieve(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: d.ref, Skip: types.NewBool(true), SelectSet: selections}},
		PropSet:   append([]types.PropertySpec{{Type: "Folder", PathSet: []string{"name", "parent"}}}, props...),
	})
	if err != nil {
		return nil, err
	}
	return d.namedObjects(objects), nil
}

// namedObjects gives objects their inventory paths, in the order of these. What vCenter tells no name of is left out.
func (d datacenter) namedObjects(objects []types.ObjectContent) []namedObject {
	known := map[types.ManagedObjectReference]*namedObject{}
	for _, o := range objects {
		t := known[o.Obj]
		if t == nil {
			t = &namedObject{candidate: candidate{ref: o.Obj}, props: map[string]types.AnyType{}}
			known[o.Obj] = t
		}
		for _, p := range o.PropSet {
			t.props[p.Name] = p.Val
		}
		t.parent, _ = t.props["parent"].(types.ManagedObjectReference)
	}
	var all []namedObject
	for _, t := range known {
		if t.path = d.pathOf(known, t); t.path != "" {
			all = append(all, *t)
		}
	}
	slices.SortFunc(all, func(a, b namedObject) int {
		return strings.Compare(a.path+"\x00"+a.ref.Value, b.path+"\x00"+b.ref.Value)
	})
	return all
}

// pathOf is an object's inventory path; empty if it does not lead to the datacenter.
func (d datacenter) pathOf(known map[types.ManagedObjectReference]*namedObject, t *namedObject) string {
	path := ""
	for range 100 { // no inventory is that deep
		name, _ := t.props["name"].(string)
		if name == "" {
			return ""
		}
		path = "/" + name + path
		if t.parent == d.ref {
			return d.path + path
		}
		if t = known[t.parent]; t == nil {
			return ""
		}
	}
	return ""
}

// candidatesAmong are the things of some types.
func candidatesAmong(things []namedObject, kinds ...string) (some []candidate) {
	for _, t := range things {
		if slices.Contains(kinds, t.ref.Type) {
			some = append(some, t.candidate)
		}
	}
	return some
}

// datacenterOf is the datacenter that a clone's folder is in. Everything that the clone is connected with must be in it.
func (v *VCenter) datacenterOf(folder types.ManagedObjectReference) (datacenter, error) {
	at, err := v.settings()
	if err != nil {
		return datacenter{}, err
	}
	n := v.inventory
	n.mu.RLock()
	defer n.mu.RUnlock()
	for p := range n.places.above(folder.Value) {
		if p.Kind == "Datacenter" {
			ref := types.ManagedObjectReference{Type: p.Kind, Value: p.MoRef}
			return datacenter{ref: ref, path: n.places.path(p.Parent, p.Name), ofSettings: ref == at.datacenter}, nil
		}
	}
	return datacenter{}, faultf(ReasonGone, false, "The group's folder is not there any more; what there is now is read anew.")
}

// looking gives the answer of a memo, and, if that does not have what is looked for, a newer one's.
func looking[K comparable, V, R any](ctx context.Context, s *session, f *memo[K, V], key K, ask func() (V, error), look func(V) (R, error)) (found R, err error) {
	for _, age := range []time.Duration{knownFor, lookAgain} {
		value, err := f.get(ctx, s, key, age, ask)
		if err != nil {
			return found, err
		}
		if found, err = look(value); err == nil || age == lookAgain {
			return found, err
		}
	}
	return found, err
}

// computes are the clusters, hosts and resource pools of a datacenter.
type computes struct {
	all []namedObject
	// owner is the cluster or host of each pool; root is the root pool of each cluster or host.
	owner, root map[types.ManagedObjectReference]types.ManagedObjectReference
}

var computeKinds = []string{"ClusterComputeResource", "ComputeResource"}

func readComputes(ctx context.Context, s *session, d datacenter) (*computes, error) {
	all, err := d.tree(ctx, s, "hostFolder", []types.TraversalSpec{
		{SelectionSpec: types.SelectionSpec{Name: "root"}, Type: "ComputeResource", Path: "resourcePool"},
		{SelectionSpec: types.SelectionSpec{Name: "pools"}, Type: "ResourcePool", Path: "resourcePool"},
	}, types.PropertySpec{Type: "ComputeResource", PathSet: []string{"resourcePool"}}, types.PropertySpec{Type: "ResourcePool"})
	if err != nil {
		return nil, err
	}
	c := &computes{all: all, owner: map[types.ManagedObjectReference]types.ManagedObjectReference{}, root: map[types.ManagedObjectReference]types.ManagedObjectReference{}}
	for _, t := range all { // what is above comes first
		if pool, is := t.props["resourcePool"].(types.ManagedObjectReference); is && slices.Contains(computeKinds, t.ref.Type) {
			c.root[t.ref], c.owner[pool] = pool, t.ref
		} else if above, found := c.owner[t.parent]; found {
			c.owner[t.ref] = above
		}
	}
	return c, nil
}

// pool is the one that a name means: the root pool of a cluster or host, or a pool; by default the only cluster or host.
func (c *computes) pool(name string, field naming) (types.ManagedObjectReference, error) {
	hosts := candidatesAmong(c.all, computeKinds...)
	i, err := field.choose(name, hosts)
	if err == nil {
		if pool, found := c.root[hosts[i].ref]; found {
			return pool, nil
		}
		return hosts[i].ref, faultf(field.missing, true, "The resource pool of %s cannot be seen: grant vCenter's user the right to see it.", hosts[i].path)
	}
	if name == "" || classify("", err).Reason != field.missing {
		return types.ManagedObjectReference{}, err
	}
	all := append(hosts, candidatesAmong(c.all, "ResourcePool")...)
	if i, err = field.choose(name, all); err != nil {
		return types.ManagedObjectReference{}, err
	}
	return all[i].ref, nil
}

// reach is what the hosts of a cluster, or a host, are connected with.
type reach struct {
	datastores, networks []types.ManagedObjectReference
}

func readReach(ctx context.Context, s *session, compute types.ManagedObjectReference) (*reach, error) {
	objects, err := retrieve(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: compute}},
		PropSet:   []types.PropertySpec{{Type: compute.Type, PathSet: []string{"datastore", "network"}}},
	})
	if err != nil {
		return nil, err
	}
	r := &reach{}
	for _, o := range objects {
		for _, p := range o.PropSet {
			if refs, is := p.Val.(types.ArrayOfManagedObjectReference); is && p.Name == "datastore" {
				r.datastores = refs.ManagedObjectReference
			} else if is {
				r.networks = refs.ManagedObjectReference
			}
		}
	}
	return r, nil
}

// reachOf is what the hosts of a pool are connected with; nil if that cannot be told.
func (v *VCenter) reachOf(ctx context.Context, s *session, d datacenter, pool types.ManagedObjectReference) (*reach, error) {
	c, err := v.lookups.computes.get(ctx, s, d.ref.Value, knownFor, func() (*computes, error) { return readComputes(ctx, s, d) })
	if err != nil {
		return nil, err
	}
	owner, found := c.owner[pool]
	if !found {
		return nil, nil
	}
	return v.lookups.reach.get(ctx, s, owner.Value, knownFor, func() (*reach, error) { return readReach(ctx, s, owner) })
}

// fillPool says where the clone runs: in its zone, in spec.placement.pool, or where the server's settings say. In another
// datacenter than theirs these do not apply.
func (v *VCenter) fillPool(ctx context.Context, b *cloneBuilder) error {
	name, field := b.details.Spec.Placement.Pool, poolField
	if b.details.Zone != "" {
		name, field = b.details.Zone, zonesField
	}
	if name == "" && b.datacenter.ofSettings {
		b.spec.Location.Pool = &b.settings.pool
		return nil
	}
	return v.call(ctx, func(ctx context.Context, s *session) error {
		pool, err := looking(ctx, s, &v.lookups.computes, b.datacenter.ref.Value,
			func() (*computes, error) { return readComputes(ctx, s, b.datacenter) },
			func(c *computes) (types.ManagedObjectReference, error) { return c.pool(name, field) })
		b.spec.Location.Pool = &pool
		return err
	})
}
