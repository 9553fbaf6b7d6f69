package vcsim

import (
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// collector wraps a PropertyCollector for one call. Its reads leave out hidden objects.
type collector struct {
	*simulator.PropertyCollector
	unlocked // a wait holds no lock
	v        *streams
	gone     <-chan struct{} // closed when the client has disconnected
}

// RetrievePropertiesEx applies the faults of reads, and returns the first page.
func (pc *collector) RetrievePropertiesEx(ctx *simulator.Context, req *types.RetrievePropertiesEx) soap.HasFault {
	if pc.v.reads.silent && ctx.Session == nil {
		return &methods.RetrievePropertiesExBody{Res: new(types.RetrievePropertiesExResponse)}
	}
	body := pc.changed(ctx, pc.failed(ctx, pc.read(ctx, req)))
	if body.Res != nil && body.Res.Returnval != nil {
		pc.v.reads.page(body.Res.Returnval, int(req.Options.MaxObjects))
	}
	return body
}

// RetrieveProperties returns everything in one page.
func (pc *collector) RetrieveProperties(ctx *simulator.Context, req *types.RetrieveProperties) soap.HasFault {
	body := pc.changed(ctx, pc.failed(ctx, pc.read(ctx, &types.RetrievePropertiesEx{This: req.This, SpecSet: req.SpecSet})))
	if body.Fault_ != nil {
		return &methods.RetrievePropertiesBody{Fault_: body.Fault_}
	}
	return &methods.RetrievePropertiesBody{Res: &types.RetrievePropertiesResponse{Returnval: body.Res.Returnval.Objects}}
}

// ContinueRetrievePropertiesEx returns the next page, without the objects hidden since the first one.
func (pc *collector) ContinueRetrievePropertiesEx(ctx *simulator.Context, req *types.ContinueRetrievePropertiesEx) soap.HasFault {
	if fault := pc.v.rights.refusesPages(); fault != nil && pc.hides(ctx) {
		return &methods.ContinueRetrievePropertiesExBody{Fault_: simulator.Fault("", fault)}
	}
	left, known := pc.v.reads.left[req.Token]
	if !known {
		return &methods.ContinueRetrievePropertiesExBody{Fault_: simulator.Fault("", &types.InvalidPropertyFault{Name: "token"})}
	}
	delete(pc.v.reads.left, req.Token)
	next := types.RetrieveResult{Objects: left.objects}
	pc.v.reads.page(&next, left.most)
	if pc.hides(ctx) {
		next.Objects = pc.v.rights.withoutHidden(next.Objects)
	}
	return &methods.ContinueRetrievePropertiesExBody{Res: &types.ContinueRetrievePropertiesExResponse{Returnval: next}}
}

// page cuts a result to one page, and keeps the rest. A page has at most 100 objects, as in vCenter 8.0
// (vmware/vsphere-automation-sdk-java#217), or the client's maximum if that is less.
func (r *reads) page(result *types.RetrieveResult, most int) {
	size := defaultUpdate
	if most > 0 {
		size = min(size, most)
	}
	if all := result.Objects; len(all) > size {
		result.Objects, result.Token = all[:size:size], uuid.NewString()
		r.left[result.Token] = pages{all[size:], most}
	}
}

// pages are the pages of a read that the client has not asked for yet.
type pages struct {
	objects []types.ObjectContent
	most    int
}

// read answers a read. The caller holds the world lock.
func (pc *collector) read(ctx *simulator.Context, req *types.RetrievePropertiesEx) *methods.RetrievePropertiesExBody {
	if fault := pc.v.checkPaths(req.SpecSet...); fault != nil {
		return &methods.RetrievePropertiesExBody{Fault_: simulator.Fault("", fault)}
	}
	if !pc.hides(ctx) {
		return pc.readAll(ctx, req)
	}
	specs, refused := pc.v.rights.splitNamed(req.SpecSet)
	body := pc.readAll(ctx, &types.RetrievePropertiesEx{This: req.This, SpecSet: specs})
	if body.Res != nil {
		body.Res.Returnval.Objects = append(pc.v.rights.withoutHidden(body.Res.Returnval.Objects), refused...)
	}
	return body
}

// readAll also reads hidden objects. The simulator itself answers clients without a session, and reads of all properties.
func (pc *collector) readAll(ctx *simulator.Context, req *types.RetrievePropertiesEx) *methods.RetrievePropertiesExBody {
	if ctx.Session != nil && !slices.ContainsFunc(req.SpecSet, ofAll) {
		return retrieve(ctx, pc.v.objects, req.SpecSet)
	}
	whole := &types.RetrievePropertiesEx{This: req.This, SpecSet: req.SpecSet}
	return pc.PropertyCollector.RetrievePropertiesEx(ctx, whole).(*methods.RetrievePropertiesExBody)
}

// ofAll reports whether a read asks for all properties of a type.
func ofAll(spec types.PropertyFilterSpec) bool {
	return slices.ContainsFunc(spec.PropSet, func(p types.PropertySpec) bool { return is(p.All) })
}

// hides reports whether any object is hidden from the client.
func (pc *collector) hides(ctx *simulator.Context) bool {
	return ctx.Session != nil && !isAdmin(ctx.Session) && pc.v.rights.hidesAny()
}

// CreateFilter also adds the filter to the stream, which replaces the simulator's listener per filter.
func (pc *collector) CreateFilter(ctx *simulator.Context, req *types.CreateFilter) soap.HasFault {
	if fault := pc.v.checkPaths(req.Spec); fault != nil {
		return &methods.CreateFilterBody{Fault_: simulator.Fault("", fault)}
	}
	body := pc.PropertyCollector.CreateFilter(ctx, req).(*methods.CreateFilterBody)
	if body.Res != nil {
		if f, ok := ctx.Session.Registry.Get(body.Res.Returnval).(*simulator.PropertyFilter); ok {
			pc.v.objects.RemoveHandler(f)
		}
	}
	if body.Res != nil {
		pc.v.stream(ctx, pc.PropertyCollector).add(body.Res.Returnval, req.Spec)
	}
	return body
}

// DestroyPropertyCollector also ends its waits.
func (pc *collector) DestroyPropertyCollector(ctx *simulator.Context, req *types.DestroyPropertyCollector) soap.HasFault {
	pc.v.endStream(pc.PropertyCollector)
	return pc.PropertyCollector.DestroyPropertyCollector(ctx, req)
}

// unlocked keeps the simulator from locking an object during a call.
type unlocked struct{}

// Lock implements sync.Locker.
func (unlocked) Lock() {}

// Unlock implements sync.Locker.
func (unlocked) Unlock() {}

// propertyFilter wraps a PropertyFilter for one call.
type propertyFilter struct {
	*simulator.PropertyFilter
	v *streams
}

// DestroyPropertyFilter removes the filter from its stream.
func (f *propertyFilter) DestroyPropertyFilter(ctx *simulator.Context, req *types.DestroyPropertyFilter) soap.HasFault {
	f.v.removeFilter(f.Self)
	return f.PropertyFilter.DestroyPropertyFilter(ctx, req)
}

// reads makes reads of all users but Admin fail or take long.
type reads struct {
	world   *world
	failing map[types.ManagedObjectReference]types.BaseMethodFault
	first   time.Duration
	change  func(*types.ObjectContent)
	left    map[string]pages // by token
	silent  bool
}

// EmptyReadsWithoutSession makes RetrievePropertiesEx answer without objects, instead of NotAuthenticated, when a session has ended: "ESX SOAP
// server sends an empty RetrievePropertiesExResponse" when it has timed out (OpenStack's oslo.vmware, vim.py).
func (r *reads) EmptyReadsWithoutSession() {
	r.world.Lock()
	defer r.world.Unlock()
	r.silent = true
}

// FailReadsOf makes every read whose result includes an object fail as a whole with a fault; nil ends this.
//
// https://github.com/vmware/govmomi/issues/1087 shows it for an object that vanishes during a read: a list fails with ManagedObjectNotFound
// for a resource pool.
func (r *reads) FailReadsOf(ref types.ManagedObjectReference, fault types.BaseMethodFault) {
	r.world.Lock()
	defer r.world.Unlock()
	if r.failing[ref] = fault; fault == nil {
		delete(r.failing, ref)
	}
}

// DelayFirstUpdates sets how long each page of a stream's first answer takes, regardless of maxWaitSeconds.
//
// [doc] WaitOptions.maxWaitSeconds: "Returning updates may take longer if the actual calculation time exceeds maxWaitSeconds."
func (r *reads) DelayFirstUpdates(page time.Duration) {
	r.world.Lock()
	defer r.world.Unlock()
	r.first = page
}

// ChangeReads sets a callback that changes each object in the answers of reads, but not of streams; nil: none. It is called with locks held
// and must not call this vCenter.
func (r *reads) ChangeReads(change func(*types.ObjectContent)) {
	r.world.Lock()
	defer r.world.Unlock()
	r.change = change
}

// changed returns an answer after the callback of ChangeReads.
func (pc *collector) changed(ctx *simulator.Context, body *methods.RetrievePropertiesExBody) *methods.RetrievePropertiesExBody {
	change := pc.v.reads.change
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
	failing := pc.v.reads.failing
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

func (pc *collector) isAdmins(ctx *simulator.Context) bool {
	return ctx.Session == nil || isAdmin(ctx.Session)
}

// delayFirst waits for the delay of a page of a stream's first answer. It returns false if the client disconnects during the delay.
func (v *streams) delayFirst(gone <-chan struct{}) bool {
	v.world.Lock()
	takes := v.reads.first
	v.world.Unlock()
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

// checkPaths rejects properties that don't exist, or that are newer than this vCenter's API version.
//
// [doc] RetrievePropertiesEx, CreateFilter: InvalidProperty "if ... a property path does not exist".
func (v *streams) checkPaths(specs ...types.PropertyFilterSpec) types.BaseMethodFault {
	version := v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.About.ApiVersion
	for _, spec := range specs {
		for _, p := range spec.PropSet {
			for _, path := range p.PathSet {
				with, is := since[path]
				if _, exists := PropertyType(p.Type, path); !exists || is && version < with {
					return &types.InvalidProperty{Name: path}
				}
			}
		}
	}
	return nil
}
