package property

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/rights"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// collector wraps a PropertyCollector for one call: it reads under the world lock and without hidden objects.
type collector struct {
	*simulator.PropertyCollector
	*world.Guard // protects no object: the collector takes its own locks
	v            *Streams
	gone         <-chan struct{} // closed when the client has gone
}

// RetrievePropertiesEx reads under the world lock.
func (pc *collector) RetrievePropertiesEx(ctx *simulator.Context, req *types.RetrievePropertiesEx) soap.HasFault {
	pc.v.world.RLock()
	defer pc.v.world.RUnlock()
	return pc.changed(ctx, pc.failed(ctx, pc.read(ctx, pc.paged(ctx, req))))
}

// RetrieveProperties is the old form of RetrievePropertiesEx, without pages.
func (pc *collector) RetrieveProperties(ctx *simulator.Context, req *types.RetrieveProperties) soap.HasFault {
	pc.v.world.RLock()
	defer pc.v.world.RUnlock()
	body := pc.failed(ctx, pc.read(ctx, &types.RetrievePropertiesEx{This: req.This, SpecSet: req.SpecSet}))
	if body.Fault_ != nil {
		return &methods.RetrievePropertiesBody{Fault_: body.Fault_}
	}
	return &methods.RetrievePropertiesBody{Res: &types.RetrievePropertiesResponse{Returnval: body.Res.Returnval.Objects}}
}

// ContinueRetrievePropertiesEx omits objects hidden since the first page.
func (pc *collector) ContinueRetrievePropertiesEx(ctx *simulator.Context, req *types.ContinueRetrievePropertiesEx) soap.HasFault {
	body := pc.PropertyCollector.ContinueRetrievePropertiesEx(ctx, req).(*methods.ContinueRetrievePropertiesExBody)
	if hidden := pc.hiddenFrom(ctx); hidden != nil && body.Res != nil {
		pc.v.world.RLock()
		defer pc.v.world.RUnlock()
		body.Res.Returnval.Objects = hidden.WithoutHidden(body.Res.Returnval.Objects)
	}
	return body
}

// read answers a read. The caller holds the world lock.
func (pc *collector) read(ctx *simulator.Context, req *types.RetrievePropertiesEx) *methods.RetrievePropertiesExBody {
	if fault := pc.v.checkVersion(req.SpecSet...); fault != nil {
		return &methods.RetrievePropertiesExBody{Fault_: simulator.Fault("", fault)}
	}
	hidden := pc.hiddenFrom(ctx)
	if hidden == nil {
		return pc.readAll(ctx, req)
	}
	specs, refused := hidden.SplitNamed(req.SpecSet)
	body := pc.readAll(ctx, &types.RetrievePropertiesEx{This: req.This, SpecSet: specs, Options: req.Options})
	if body.Res != nil {
		body.Res.Returnval.Objects = append(hidden.WithoutHidden(body.Res.Returnval.Objects), refused...)
	}
	return body
}

// readAll also reads hidden objects. The simulator answers clients without a session, and reads of several pages.
func (pc *collector) readAll(ctx *simulator.Context, req *types.RetrievePropertiesEx) *methods.RetrievePropertiesExBody {
	if ctx.Session != nil {
		body := retrieve(ctx, pc.v.objects, req.SpecSet)
		if most := int(req.Options.MaxObjects); most == 0 || body.Res == nil || len(body.Res.Returnval.Objects) <= most {
			return body
		}
	}
	return pc.PropertyCollector.RetrievePropertiesEx(ctx, req).(*methods.RetrievePropertiesExBody)
}

func (pc *collector) hiddenFrom(ctx *simulator.Context) *rights.HiddenObjects {
	if ctx.Session == nil || world.IsAdmin(ctx.Session) {
		return nil
	}
	return pc.v.rights.HiddenObjects()
}

// CreateFilter also adds the filter to the stream, which replaces the simulator's listener per filter.
func (pc *collector) CreateFilter(ctx *simulator.Context, req *types.CreateFilter) soap.HasFault {
	if fault := pc.v.checkVersion(req.Spec); fault != nil {
		return &methods.CreateFilterBody{Fault_: simulator.Fault("", fault)}
	}
	pc.v.collectors.Lock()
	body := pc.PropertyCollector.CreateFilter(ctx, req).(*methods.CreateFilterBody)
	if body.Res != nil {
		if f, ok := ctx.Session.Registry.Get(body.Res.Returnval).(*simulator.PropertyFilter); ok {
			pc.v.objects.RemoveHandler(f)
		}
	}
	pc.v.collectors.Unlock()
	if body.Res != nil {
		pc.v.stream(ctx, pc.PropertyCollector).add(body.Res.Returnval, req.Spec)
	}
	return body
}

// DestroyPropertyCollector also ends its waits.
func (pc *collector) DestroyPropertyCollector(ctx *simulator.Context, req *types.DestroyPropertyCollector) soap.HasFault {
	pc.v.endStream(pc.PropertyCollector)
	pc.v.collectors.Lock()
	defer pc.v.collectors.Unlock()
	return pc.PropertyCollector.DestroyPropertyCollector(ctx, req)
}

// CancelWaitForUpdates ends a wait in progress.
func (pc *collector) CancelWaitForUpdates(ctx *simulator.Context, _ *types.CancelWaitForUpdates) soap.HasFault {
	pc.v.stream(ctx, pc.PropertyCollector).cancelWait()
	return &methods.CancelWaitForUpdatesBody{Res: new(types.CancelWaitForUpdatesResponse)}
}

// propertyFilter wraps a PropertyFilter for one call.
type propertyFilter struct {
	*simulator.PropertyFilter
	*world.Guard
	v *Streams
}

// DestroyPropertyFilter removes the filter from its stream.
func (f *propertyFilter) DestroyPropertyFilter(ctx *simulator.Context, req *types.DestroyPropertyFilter) soap.HasFault {
	f.v.removeFilter(f.Self)
	f.v.collectors.Lock()
	defer f.v.collectors.Unlock()
	return f.PropertyFilter.DestroyPropertyFilter(ctx, req)
}
