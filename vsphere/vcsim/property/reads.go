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

// Reads makes reads of all users but Admin fail or take long.
type Reads struct {
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
func (r *Reads) FailReadsOf(ref types.ManagedObjectReference, fault types.BaseMethodFault) {
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
func (r *Reads) SetPageSize(objects int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pageSize = int32(objects)
}

// DelayFirstUpdates sets how long each page of a stream's first answer takes, regardless of maxWaitSeconds.
//
// [doc] WaitOptions.maxWaitSeconds: "Returning updates may take longer if the actual calculation time exceeds maxWaitSeconds."
func (r *Reads) DelayFirstUpdates(page time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = page
}

// ChangeReads sets a callback that changes each object in the answers of reads, but not of streams; nil: none. It is called with locks held
// and must not call this vCenter.
func (r *Reads) ChangeReads(change func(*types.ObjectContent)) {
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
		*o = world.CopyOf(reflect.ValueOf(*o)).Interface().(types.ObjectContent)
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
	return ctx.Session == nil || world.IsAdmin(ctx.Session)
}

// delayFirst waits for the delay of a page of a stream's first answer; false if the client goes first.
func (v *Streams) delayFirst(gone <-chan struct{}) bool {
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
