package vcsim

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/seed"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// dispatch is the registry's hook before each call: it checks permissions and returns the object that answers. Objects are wrapped for one
// call; the registry keeps the simulator's own.
func (v *VCenter) dispatch(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	e := exchangeOf(ctx)
	if e.lock != nil {
		e.lock.RUnlock()
	}
	if e.call == nil {
		return v.choose(ctx, m)
	}
	e.call.restore(ctx, m)
	h, fault := v.choose(ctx, m)
	return e.call.chosen(ctx, m, h, fault)
}

// choose returns the object for a call with a known session.
func (v *VCenter) choose(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if !world.IsAdmin(ctx.Session) {
		v.rewritten(m)
		if fault := v.Rights.Admit(ctx, m); fault != nil {
			return nil, fault
		}
	}
	if ctx.Session == nil {
		// Without a session, properties are reported as missing, but they are still read.
		switch o := v.objects.Get(m.This).(type) {
		case *simulator.PropertyCollector:
			return v.streams.Collector(o, exchangeOf(ctx).gone), nil
		case *simulator.SessionManager:
			return &sessionManager{SessionManager: o, v: v}, nil
		}
		return nil, nil
	}
	if !world.IsAdmin(ctx.Session) {
		v.remember(ctx.Session)
	}
	h, fault := v.wrap(ctx, m, v.streams.Lookup(ctx, m.This))
	if h != nil && fault == nil {
		// The simulator would prefer the session's object with this reference to ours. It reads the reference only for that: methods use
		// the one in the body.
		m.This.Value += "#"
	}
	return h, fault
}

func (v *VCenter) wrap(ctx *simulator.Context, m *simulator.Method, obj mo.Reference) (mo.Reference, types.BaseMethodFault) {
	g := v.world.Guard(ctx, m.Name)
	switch o := obj.(type) {
	case nil: // the simulator would also write to the standard log
		return nil, &types.ManagedObjectNotFound{Obj: m.This}
	case *simulator.PropertyCollector:
		if read, ok := m.Body.(*types.RetrievePropertiesEx); ok {
			v.SetLatestEvent(ctx, read.SpecSet)
		}
		return v.streams.Collector(o, exchangeOf(ctx).gone), nil
	case *simulator.PropertyFilter:
		return v.streams.Filter(o), nil
	case *simulator.SearchIndex:
		g.Protect(o.Self, false)
		return &searchIndex{SearchIndex: o, Guard: g, v: v}, nil
	case *simulator.ViewManager:
		g.Protect(o.Self, false)
		return &viewManager{ViewManager: o, Guard: g}, nil
	case *simulator.VcenterVStorageObjectManager:
		return v.Disks.Wrap(o, g), v.world.MissingArgument(ctx, m)
	case *simulator.ResourcePool:
		if m.Name == "CreateResourcePool" {
			return &resourcePool{o}, nil
		}
	case *simulator.AuthorizationManager:
		return v.Rights.Authorization(o, g), v.world.MissingArgument(ctx, m)
	}
	if h := v.Objects.Wrap(m, obj, g); h != nil {
		return h, v.world.MissingArgument(ctx, m)
	}
	return nil, nil
}

// resourcePool wraps a pool for one call.
type resourcePool struct{ *simulator.ResourcePool }

// CreateResourcePool keeps the simulator from sharing the new pool's summary with other vCenters.
func (p *resourcePool) CreateResourcePool(ctx *simulator.Context, req *types.CreateResourcePool) soap.HasFault {
	return seed.CreatePool(ctx, p.ResourcePool, req)
}

// Rewrite changes the requests of all SOAP calls but Admin's before they are executed, so that this vCenter misbehaves, for example by
// ignoring changeVersion; nil: none. change gets a pointer, such as *types.CloneVM_Task.
func (v *VCenter) Rewrite(change func(request any)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rewrite = change
}

func (v *VCenter) rewritten(m *simulator.Method) {
	v.mu.Lock()
	change := v.rewrite
	v.mu.Unlock()
	if change != nil {
		change(m.Body)
	}
}
