package vcsim

import (
	"reflect"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// dispatch is the registry's hook before each call: it counts, it refuses, and it picks the object
// that answers. Objects are wrapped for this one call; the registry keeps the simulator's own.
func (v *VCenter) dispatch(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	e := exchangeOf(ctx)
	if e.door != nil {
		e.door.RUnlock()
	}
	if e.call == nil {
		return v.choose(ctx, m)
	}
	e.call.appear(ctx, m)
	h, fault := v.choose(ctx, m)
	return e.call.chosen(ctx, m, h, fault)
}

// choose picks the object, for a call whose session is known.
func (v *VCenter) choose(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if !isAdmin(ctx.Session) {
		if fault := v.admit(ctx, m); fault != nil {
			return nil, fault
		}
	}
	if ctx.Session == nil {
		// Without a session, properties are answered as missing, but they are read all the same.
		switch o := v.objects.Get(m.This).(type) {
		case *simulator.PropertyCollector:
			return &collector{PropertyCollector: o, guard: &guard{v: v}}, nil
		case *simulator.SessionManager:
			return &sessionManager{SessionManager: o, v: v}, nil
		}
		return nil, nil
	}
	if !isAdmin(ctx.Session) {
		v.note(ctx.Session)
	}
	h, fault := v.wrap(ctx, m, v.lookup(ctx, m.This))
	if h != nil && fault == nil {
		// The simulator would prefer what the session knows under this reference to what we return.
		// It reads it for nothing else: methods see that of the body.
		m.This.Value += "#"
	}
	return h, fault
}

// admit says why a client's call may not pass.
func (v *VCenter) admit(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	if ctx.Session == nil {
		return nil // who has not logged in learns nothing about rights
	}
	if hidden, ok := v.hiddenArgument(m); ok {
		return &types.NoPermission{Object: &hidden, PrivilegeId: "System.View"}
	}
	v.mu.Lock()
	privilege, denied := v.faults.denied[m.Name]
	v.mu.Unlock()
	if denied {
		this := m.This
		return &types.NoPermission{Object: &this, PrivilegeId: privilege}
	}
	return v.forbidden(m)
}

// lookup finds the object a call is for. A session's first call of its PropertyCollector makes one:
// not twice, when two calls come at once.
func (v *VCenter) lookup(ctx *simulator.Context, ref types.ManagedObjectReference) mo.Reference {
	v.collectors.Lock()
	defer v.collectors.Unlock()
	return ctx.Session.Get(ref)
}

func (v *VCenter) wrap(ctx *simulator.Context, m *simulator.Method, obj mo.Reference) (mo.Reference, types.BaseMethodFault) {
	g := &guard{v: v, ctx: ctx, method: m.Name}
	switch o := obj.(type) {
	case nil: // the simulator would say so, too, but also write to the standard log
		return nil, &types.ManagedObjectNotFound{Obj: m.This}
	case *simulator.VirtualMachine:
		g.object, g.write = &o.Self, !strings.HasSuffix(m.Name, "_Task")
		return &machine{VirtualMachine: o, guard: g}, v.missingArgument(ctx, m)
	case *simulator.Folder:
		g.object, g.write = &o.Self, !strings.HasSuffix(m.Name, "_Task")
		return &folder{Folder: o, guard: g}, v.missingArgument(ctx, m)
	case *simulator.PropertyCollector:
		return &collector{PropertyCollector: o, guard: g}, nil
	case *simulator.PropertyFilter:
		return &propertyFilter{PropertyFilter: o, guard: g}, nil
	case *simulator.SearchIndex:
		g.object = &o.Self
		return &searchIndex{SearchIndex: o, guard: g}, nil
	case *simulator.ViewManager:
		g.object = &o.Self
		return &viewManager{ViewManager: o, guard: g}, nil
	case *simulator.ClusterComputeResource:
		g.object = &o.Self
		return &cluster{ClusterComputeResource: o, guard: g}, v.missingArgument(ctx, m)
	case *simulator.StorageResourceManager:
		g.object = &o.Self
		return &storageManager{StorageResourceManager: o, guard: g}, v.missingArgument(ctx, m)
	case *simulator.AuthorizationManager:
		return &authorization{AuthorizationManager: o, v: v}, v.missingArgument(ctx, m)
	case *simulator.CustomFieldsManager:
		g.object, g.write = &o.Self, true
		return &fieldsManager{CustomFieldsManager: o, guard: g}, v.missingArgument(ctx, m)
	}
	return nil, nil
}

// guard is what the simulator locks around a call of a wrapped object: the world, and then the object itself. A call that
// only begins a task holds the world for reading, too: who holds it for writing may sleep (the simulator's Task.Wait does),
// with locks of objects held, and those do not block durably (lock.go).
type guard struct {
	v       *VCenter
	ctx     *simulator.Context
	method  string
	object  *types.ManagedObjectReference // nil: the call looks after its locks itself
	write   bool                          // the call itself changes the inventory
	release func()
}

// Lock implements sync.Locker, which the simulator looks for.
func (g *guard) Lock() {
	if g.object == nil {
		return
	}
	if g.write {
		g.v.world.Lock()
	} else {
		g.v.world.RLock()
	}
	g.release = g.v.objects.AcquireLock(g.ctx, *g.object)
}

// Unlock implements sync.Locker.
func (g *guard) Unlock() {
	if g.object == nil {
		return
	}
	if g.write {
		g.v.world.mark(*g.object) // the simulator announces not everything it changes
	}
	g.release()
	if g.write {
		g.v.world.Unlock()
	} else {
		g.v.world.RUnlock()
	}
}

// missingArgument answers ManagedObjectNotFound for a reference to what is not there, as vCenter does
// for any. The simulator panics on many.
func (v *VCenter) missingArgument(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	for _, ref := range references(reflect.ValueOf(m.Body), nil) {
		if ref.Value != "" && v.objects.Get(ref) == nil && ctx.Session.Get(ref) == nil {
			return &types.ManagedObjectNotFound{Obj: ref}
		}
	}
	return nil
}

// references collects all references in a request, however deep.
func references(value reflect.Value, refs []types.ManagedObjectReference) []types.ManagedObjectReference {
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			refs = references(value.Elem(), refs)
		}
	case reflect.Slice:
		for i := range value.Len() {
			refs = references(value.Index(i), refs)
		}
	case reflect.Struct:
		if ref, ok := value.Interface().(types.ManagedObjectReference); ok {
			return append(refs, ref)
		}
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				refs = references(value.Field(i), refs)
			}
		}
	}
	return refs
}
