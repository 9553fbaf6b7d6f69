package property

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/rights"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// collector is a PropertyCollector during one call: it reads while the inventory stands still, and
// without what is hidden.
type collector struct {
	*simulator.PropertyCollector
	*world.Guard // of nothing: the collector looks after its locks itself
	v            *Streams
	gone         <-chan struct{} // closed when nobody waits for the answer any more
}

// RetrievePropertiesEx reads under the world's lock.
func (pc *collector) RetrievePropertiesEx(ctx *simulator.Context, req *types.RetrievePropertiesEx) soap.HasFault {
	pc.v.world.RLock()
	defer pc.v.world.RUnlock()
	return pc.twisted(ctx, pc.spoil(ctx, pc.read(ctx, pc.paged(ctx, req))))
}

// RetrieveProperties is the old form of RetrievePropertiesEx. It knows no pages.
func (pc *collector) RetrieveProperties(ctx *simulator.Context, req *types.RetrieveProperties) soap.HasFault {
	pc.v.world.RLock()
	defer pc.v.world.RUnlock()
	body := pc.spoil(ctx, pc.read(ctx, &types.RetrievePropertiesEx{This: req.This, SpecSet: req.SpecSet}))
	if body.Fault_ != nil {
		return &methods.RetrievePropertiesBody{Fault_: body.Fault_}
	}
	return &methods.RetrievePropertiesBody{Res: &types.RetrievePropertiesResponse{Returnval: body.Res.Returnval.Objects}}
}

// ContinueRetrievePropertiesEx leaves out what was hidden since the first page.
func (pc *collector) ContinueRetrievePropertiesEx(ctx *simulator.Context, req *types.ContinueRetrievePropertiesEx) soap.HasFault {
	body := pc.PropertyCollector.ContinueRetrievePropertiesEx(ctx, req).(*methods.ContinueRetrievePropertiesExBody)
	if hidden := pc.hiddenFrom(ctx); hidden != nil && body.Res != nil {
		body.Res.Returnval.Objects = hidden.WithoutHidden(body.Res.Returnval.Objects)
	}
	return body
}

// read reads. The caller holds the world.
func (pc *collector) read(ctx *simulator.Context, req *types.RetrievePropertiesEx) *methods.RetrievePropertiesExBody {
	if fault := pc.v.newer(req.SpecSet...); fault != nil {
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

// readAll reads what is hidden, too. The simulator answers whoever has not logged in, and pages.
func (pc *collector) readAll(ctx *simulator.Context, req *types.RetrievePropertiesEx) *methods.RetrievePropertiesExBody {
	if ctx.Session == nil || req.Options.MaxObjects > 0 {
		return pc.PropertyCollector.RetrievePropertiesEx(ctx, req).(*methods.RetrievePropertiesExBody)
	}
	return retrieve(ctx, pc.v.objects, req.SpecSet)
}

func (pc *collector) hiddenFrom(ctx *simulator.Context) *rights.HiddenObjects {
	if ctx.Session == nil || world.IsAdmin(ctx.Session) {
		return nil
	}
	return pc.v.rights.HiddenObjects()
}

// CreateFilter also notes the filter for the stream, which does not listen to the registry by filter.
func (pc *collector) CreateFilter(ctx *simulator.Context, req *types.CreateFilter) soap.HasFault {
	if fault := pc.v.newer(req.Spec); fault != nil {
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

// DestroyPropertyCollector ends its waits, too.
func (pc *collector) DestroyPropertyCollector(ctx *simulator.Context, req *types.DestroyPropertyCollector) soap.HasFault {
	pc.v.endStream(pc.PropertyCollector)
	pc.v.collectors.Lock()
	defer pc.v.collectors.Unlock()
	return pc.PropertyCollector.DestroyPropertyCollector(ctx, req)
}

// CancelWaitForUpdates ends a wait that is under way.
func (pc *collector) CancelWaitForUpdates(ctx *simulator.Context, _ *types.CancelWaitForUpdates) soap.HasFault {
	pc.v.stream(ctx, pc.PropertyCollector).cancelWait()
	return &methods.CancelWaitForUpdatesBody{Res: new(types.CancelWaitForUpdatesResponse)}
}

// propertyFilter is a PropertyFilter during one call.
type propertyFilter struct {
	*simulator.PropertyFilter
	*world.Guard
	v *Streams
}

// DestroyPropertyFilter takes the filter out of its stream.
func (f *propertyFilter) DestroyPropertyFilter(ctx *simulator.Context, req *types.DestroyPropertyFilter) soap.HasFault {
	f.v.removeFilter(f.Self)
	f.v.collectors.Lock()
	defer f.v.collectors.Unlock()
	return f.PropertyFilter.DestroyPropertyFilter(ctx, req)
}
