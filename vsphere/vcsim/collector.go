package vcsim

import (
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// collector wraps a PropertyCollector for one call: it reads under the world lock and without hidden objects.
type collector struct {
	*simulator.PropertyCollector
	*guard // protects no object: the collector takes its own locks
	v      *streams
	gone   <-chan struct{} // closed when the client has gone
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

func (pc *collector) hiddenFrom(ctx *simulator.Context) *hiddenObjects {
	if ctx.Session == nil || isAdmin(ctx.Session) {
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
	*guard
	v *streams
}

// DestroyPropertyFilter removes the filter from its stream.
func (f *propertyFilter) DestroyPropertyFilter(ctx *simulator.Context, req *types.DestroyPropertyFilter) soap.HasFault {
	f.v.removeFilter(f.Self)
	f.v.collectors.Lock()
	defer f.v.collectors.Unlock()
	return f.PropertyFilter.DestroyPropertyFilter(ctx, req)
}

// Reads makes reads of all users but Admin fail or take long.
type reads struct {
	mu       sync.Mutex // guards what follows
	failing  map[types.ManagedObjectReference]types.BaseMethodFault
	pageSize int32
	first    time.Duration
	change   func(*types.ObjectContent)
}

// FailReadsOf makes every read whose result includes an object fail as a whole with a fault; nil ends this.
//
// https://github.com/vmware/govmomi/issues/1087 shows it for an object that vanishes during a read: a list fails with ManagedObjectNotFound
// for a resource pool.
func (r *reads) FailReadsOf(ref types.ManagedObjectReference, fault types.BaseMethodFault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	failing := maps.Clone(r.failing)
	if failing == nil {
		failing = map[types.ManagedObjectReference]types.BaseMethodFault{}
	}
	if failing[ref] = fault; fault == nil {
		delete(failing, ref)
	}
	r.failing = failing
}

// SetPageSize limits the objects in one answer of RetrievePropertiesEx; 0: no limit.
//
// vCenter 8.0 returns one hundred: https://github.com/vmware/vsphere-automation-sdk-java/issues/217
func (r *reads) SetPageSize(objects int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pageSize = int32(objects)
}

// DelayFirstUpdates sets how long each page of a stream's first answer takes, regardless of maxWaitSeconds.
//
// [doc] WaitOptions.maxWaitSeconds: "Returning updates may take longer if the actual calculation time exceeds maxWaitSeconds."
func (r *reads) DelayFirstUpdates(page time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = page
}

// ChangeReads sets a callback that changes each object in the answers of reads, but not of streams; nil: none. It is called with locks held
// and must not call this vCenter.
func (r *reads) ChangeReads(change func(*types.ObjectContent)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change = change
}

// changed returns an answer after the callback of ChangeReads.
func (pc *collector) changed(ctx *simulator.Context, body *methods.RetrievePropertiesExBody) *methods.RetrievePropertiesExBody {
	pc.v.Reads.mu.Lock()
	change := pc.v.Reads.change
	pc.v.Reads.mu.Unlock()
	if change == nil || body.Res == nil || body.Res.Returnval == nil || pc.isAdmins(ctx) {
		return body
	}
	for i := range body.Res.Returnval.Objects {
		o := &body.Res.Returnval.Objects[i]
		*o = copyOf(reflect.ValueOf(*o)).Interface().(types.ObjectContent)
		change(o)
	}
	return body
}

// failed replaces the answer of a read that FailReadsOf affects.
func (pc *collector) failed(ctx *simulator.Context, body *methods.RetrievePropertiesExBody) *methods.RetrievePropertiesExBody {
	pc.v.Reads.mu.Lock()
	failing := pc.v.Reads.failing
	pc.v.Reads.mu.Unlock()
	if len(failing) == 0 || body.Res == nil || body.Res.Returnval == nil || pc.isAdmins(ctx) {
		return body
	}
	for _, o := range body.Res.Returnval.Objects {
		if fault, is := failing[o.Obj]; is {
			return &methods.RetrievePropertiesExBody{Fault_: simulator.Fault("", fault)}
		}
	}
	return body
}

// paged returns a request with the page size of SetPageSize.
func (pc *collector) paged(ctx *simulator.Context, req *types.RetrievePropertiesEx) *types.RetrievePropertiesEx {
	pc.v.Reads.mu.Lock()
	size := pc.v.Reads.pageSize
	pc.v.Reads.mu.Unlock()
	if size == 0 || req.Options.MaxObjects > 0 && req.Options.MaxObjects < size || pc.isAdmins(ctx) {
		return req
	}
	paged := *req
	paged.Options.MaxObjects = size
	return &paged
}

func (pc *collector) isAdmins(ctx *simulator.Context) bool {
	return ctx.Session == nil || isAdmin(ctx.Session)
}

// delayFirst waits for the delay of a page of a stream's first answer; false if the client goes first.
func (v *streams) delayFirst(gone <-chan struct{}) bool {
	v.Reads.mu.Lock()
	takes := v.Reads.first
	v.Reads.mu.Unlock()
	if takes == 0 {
		return true
	}
	select {
	case <-time.After(takes):
		return true
	case <-gone:
	case <-v.world.Ctx.Done():
	}
	return false
}

// since is the API version that introduced a property.
var since = map[string]string{"config.hardware.autoCoresPerSocket": "8.0.0.1", "guest.customizationInfo": "7.0.2"}

// checkVersion rejects properties that are newer than this vCenter's API version.
//
// [doc] RetrievePropertiesEx, CreateFilter: InvalidProperty "if ... a property path does not exist".
func (v *streams) checkVersion(specs ...types.PropertyFilterSpec) types.BaseMethodFault {
	version := v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.About.ApiVersion
	for _, spec := range specs {
		for _, p := range spec.PropSet {
			for _, path := range p.PathSet {
				if with, is := since[path]; is && version < with {
					return &types.InvalidProperty{Name: path}
				}
			}
		}
	}
	return nil
}
