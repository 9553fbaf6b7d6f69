package vcsim

import (
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
		if fault := v.rights.admit(ctx, m); fault != nil {
			return nil, fault
		}
	}
	if ctx.Session == nil {
		// Without a session, properties are answered as missing, but they are read all the same.
		switch o := v.objects.Get(m.This).(type) {
		case *simulator.PropertyCollector:
			return v.streams.collector(o, exchangeOf(ctx).gone), nil
		case *simulator.SessionManager:
			return &sessionManager{SessionManager: o, v: v}, nil
		}
		return nil, nil
	}
	if !isAdmin(ctx.Session) {
		v.note(ctx.Session)
	}
	h, fault := v.wrap(ctx, m, v.streams.lookup(ctx, m.This))
	if h != nil && fault == nil {
		// The simulator would prefer what the session knows under this reference to what we return.
		// It reads it for nothing else: methods see that of the body.
		m.This.Value += "#"
	}
	return h, fault
}

func (v *VCenter) wrap(ctx *simulator.Context, m *simulator.Method, obj mo.Reference) (mo.Reference, types.BaseMethodFault) {
	g := v.world.guard(ctx, m.Name)
	switch o := obj.(type) {
	case nil: // the simulator would say so, too, but also write to the standard log
		return nil, &types.ManagedObjectNotFound{Obj: m.This}
	case *simulator.PropertyCollector:
		return v.streams.collector(o, exchangeOf(ctx).gone), nil
	case *simulator.PropertyFilter:
		return v.streams.filter(o), nil
	case *simulator.SearchIndex:
		g.protect(o.Self, false)
		return &searchIndex{SearchIndex: o, guard: g, v: v}, nil
	case *simulator.ViewManager:
		g.protect(o.Self, false)
		return &viewManager{ViewManager: o, guard: g}, nil
	case *simulator.AuthorizationManager:
		return v.rights.authorization(o), v.world.missingArgument(ctx, m)
	}
	if h := v.managedObjects.wrap(m, obj, g); h != nil {
		return h, v.world.missingArgument(ctx, m)
	}
	return nil, nil
}
