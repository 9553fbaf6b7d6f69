package property

import (
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Reads are how reads go wrong, or take long, for everybody but Admin.
type Reads struct {
	mu       sync.Mutex // guards what follows
	spoilt   map[types.ManagedObjectReference]types.BaseMethodFault
	pageSize int32
	first    time.Duration
	twist    func(*types.ObjectContent)
}

// Spoil makes every read fail as a whole, with a fault, that comes upon an object: one that it names, or that a traversal leads to.
// nil mends that.
//
// An object that vanishes in the middle of a read does so: https://github.com/vmware/govmomi/issues/1087 has a
// ManagedObjectNotFound of a resource pool for a list of all.
func (r *Reads) Spoil(ref types.ManagedObjectReference, fault types.BaseMethodFault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	spoilt := maps.Clone(r.spoilt)
	if spoilt == nil {
		spoilt = map[types.ManagedObjectReference]types.BaseMethodFault{}
	}
	if spoilt[ref] = fault; fault == nil {
		delete(spoilt, ref)
	}
	r.spoilt = spoilt
}

// Page bounds the objects in one answer of RetrievePropertiesEx; 0: all of them.
//
// vCenter 8.0 answers a hundred at once: https://github.com/vmware/vsphere-automation-sdk-java/issues/217
func (r *Reads) Page(objects int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pageSize = int32(objects)
}

// FirstUpdates is how long each page of a stream's first answer takes, whatever maxWaitSeconds say.
//
// [doc] WaitOptions.maxWaitSeconds: "Returning updates may take longer if the actual calculation time exceeds maxWaitSeconds."
func (r *Reads) FirstUpdates(page time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = page
}

// Twist changes what reads tell of each object, but not what streams do; nil: nothing. It is called with locks held, and must not call
// this vCenter.
func (r *Reads) Twist(change func(*types.ObjectContent)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.twist = change
}

// twisted is an answer as Twist has it.
func (pc *collector) twisted(ctx *simulator.Context, body *methods.RetrievePropertiesExBody) *methods.RetrievePropertiesExBody {
	pc.v.Reads.mu.Lock()
	twist := pc.v.Reads.twist
	pc.v.Reads.mu.Unlock()
	if twist == nil || body.Res == nil || body.Res.Returnval == nil || pc.isAdmins(ctx) {
		return body
	}
	for i := range body.Res.Returnval.Objects {
		o := &body.Res.Returnval.Objects[i]
		*o = world.CopyOf(reflect.ValueOf(*o)).Interface().(types.ObjectContent)
		twist(o)
	}
	return body
}

// spoil replaces the answer of a read that came upon a spoilt object.
func (pc *collector) spoil(ctx *simulator.Context, body *methods.RetrievePropertiesExBody) *methods.RetrievePropertiesExBody {
	pc.v.Reads.mu.Lock()
	spoilt := pc.v.Reads.spoilt
	pc.v.Reads.mu.Unlock()
	if len(spoilt) == 0 || body.Res == nil || body.Res.Returnval == nil || pc.isAdmins(ctx) {
		return body
	}
	for _, o := range body.Res.Returnval.Objects {
		if fault, is := spoilt[o.Obj]; is {
			return &methods.RetrievePropertiesExBody{Fault_: simulator.Fault("", fault)}
		}
	}
	return body
}

// paged is a request as it is answered in pages.
func (pc *collector) paged(ctx *simulator.Context, req *types.RetrievePropertiesEx) *types.RetrievePropertiesEx {
	pc.v.Reads.mu.Lock()
	size := pc.v.Reads.pageSize
	pc.v.Reads.mu.Unlock()
	if size == 0 || req.Options.MaxObjects > 0 || pc.isAdmins(ctx) {
		return req
	}
	paged := *req
	paged.Options.MaxObjects = size
	return &paged
}

func (pc *collector) isAdmins(ctx *simulator.Context) bool {
	return ctx.Session == nil || world.IsAdmin(ctx.Session)
}

// ponder takes the time that a page of a stream's first answer takes, unless the client goes first.
func (v *Streams) ponder(gone <-chan struct{}) bool {
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
