package vcsim

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// The kinds of tasks for FailTask and Latency.
const (
	Clone                Kind = "VirtualMachine.clone"
	PowerOn              Kind = "VirtualMachine.powerOn"
	PowerOff             Kind = "VirtualMachine.powerOff"
	Reset                Kind = "VirtualMachine.reset"
	ShutdownGuest        Kind = "VirtualMachine.shutdownGuest"
	Reconfigure          Kind = "VirtualMachine.reconfigure"
	Rename               Kind = "VirtualMachine.rename"
	Destroy              Kind = "VirtualMachine.destroy"
	Relocate             Kind = "VirtualMachine.relocate"
	Upgrade              Kind = "VirtualMachine.upgradeVirtualHardware"
	CreateVM             Kind = "Folder.createVm"
	RegisterVM           Kind = "Folder.registerVm"
	MoveInto             Kind = "Folder.moveInto"
	RenameFolder         Kind = "Folder.rename"
	DestroyFolder        Kind = "Folder.destroy"
	UnregisterAndDestroy Kind = "Folder.unregisterAndDestroy"
	RemoveSnapshots      Kind = "VirtualMachine.removeAllSnapshots"
	ImportVApp           Kind = "ResourcePool.ImportVAppLRO"
	ReconfigureCluster   Kind = "ClusterComputeResource.reconfigureEx"
)

// work is what a task does.
type work struct {
	kind   Kind
	as     Kind   // the kind that clients see; default: kind
	parent string // the key of the task that began it; "" if none
	entity mo.Entity
	name   string // of the VM, folder or cluster
	claim  claim
	// check rejects the work at once, before the latency. It can be nil.
	check func(*simulator.Context) types.BaseMethodFault
	// pause waits after the latency, without a lock; a fault ends the task. It can be nil.
	pause func(*simulator.Context, *job) (fault types.BaseMethodFault, proceed bool)
	// do does the work. It is called with only the world lock held.
	do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)
	// end is called with the world lock held when the task ends in any way. It can be nil.
	end func()
}

// job is a task of this package, as opposed to the simulator's own.
type job struct {
	*simulator.Task
}

// call is a call of a client, with the facts that its tasks show.
type call struct {
	ctx    *simulator.Context
	method string
}

// begin creates a task and starts it. The caller holds the world lock.
func (v *inventory) begin(c *call, w work) types.ManagedObjectReference {
	latency, held := latencyOf(&v.latency, w.kind), v.Held(w.kind)
	if isAdmin(c.ctx.Session) {
		latency, held = 0, nil
	}
	j := v.newJob(c.method, cmp.Or(w.as, w.kind), w.entity, c.ctx.Session.UserName)
	j.Info.ParentTaskKey, j.Info.RootTaskKey = w.parent, w.parent
	ctx := fork(c.ctx)
	if !v.world.Enter() {
		return j.Self
	}
	go func() {
		defer v.world.Leave()
		v.run(ctx, j, w, latency, held)
	}()
	return j.Self
}

// newJob creates a running task. The caller holds the world lock.
func (v *inventory) newJob(method string, kind Kind, on mo.Entity, user string) *job {
	// The numbers must differ from those of the simulator's own tasks.
	ref := types.ManagedObjectReference{Type: "Task", Value: fmt.Sprintf("task-%d", 1_000_000+v.world.NextID())}
	entity, now := on.Reference(), time.Now()
	j := &job{Task: new(simulator.Task)}
	j.Self = ref
	j.Info = types.TaskInfo{
		Key: ref.Value, Task: ref, Name: method, DescriptionId: string(kind),
		Entity: &entity, EntityName: on.Entity().Name,
		State: types.TaskInfoStateRunning, QueueTime: now, StartTime: &now,
		// [doc] TaskInfo.reason: TaskReasonUser for a task started by a user, with the session's userName.
		Reason: &types.TaskReasonUser{UserName: user},
	}
	v.objects.Put(j)
	return j
}

func (v *inventory) run(ctx *simulator.Context, j *job, w work, latency time.Duration, held <-chan struct{}) {
	if w.end != nil {
		defer func() {
			v.world.Lock()
			defer v.world.Unlock()
			w.end()
		}()
	}
	if w.check != nil {
		v.world.Lock()
		fault := w.check(ctx)
		v.world.Unlock()
		if fault != nil {
			v.finish(ctx, j, nil, fault)
			return
		}
	}
	if !isAdmin(ctx.Session) {
		leave := v.awaitTurn(ctx, j, w.claim)
		if leave == nil {
			return
		}
		defer leave()
	}
	if !v.waitOut(latency, held) {
		return
	}
	if w.pause != nil {
		fault, proceed := w.pause(ctx, j)
		if !proceed {
			return
		}
		if fault != nil {
			v.finish(ctx, j, nil, fault)
			return
		}
	}
	res, fault := v.perform(ctx, j, w)
	v.finish(ctx, j, res, fault)
}

// waitOut waits for the latency, and then for Release if held is not nil; false if this vCenter is closed.
func (v *inventory) waitOut(latency time.Duration, held <-chan struct{}) bool {
	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-v.world.Ctx.Done():
			return false
		}
	}
	if held != nil {
		select {
		case <-held:
		case <-v.world.Ctx.Done():
			return false
		}
	}
	return true
}

// perform does the work. A panic of the simulator becomes the task's fault.
func (v *inventory) perform(ctx *simulator.Context, j *job, w work) (res types.AnyType, fault types.BaseMethodFault) {
	if !isAdmin(ctx.Session) {
		if fault = v.Failure(w.kind, w.name); fault != nil {
			return nil, fault
		}
	}
	v.world.Lock()
	defer v.world.Unlock()
	defer func() {
		if p := recover(); p != nil {
			res, fault = nil, &types.SystemError{Reason: fmt.Sprintf("the simulator panicked: %v\n%s", p, debug.Stack())}
		}
	}()
	entity := w.entity.Reference()
	if v.objects.Get(entity) == nil {
		return nil, &types.ManagedObjectNotFound{Obj: entity}
	}
	if fault = v.checkBusy(w); fault != nil {
		return nil, fault
	}
	v.chain(ctx, w.kind, w.entity, func() { res, fault = w.do(ctx) })
	v.world.Mark(entity)
	return res, fault
}

func (v *inventory) finish(ctx *simulator.Context, j *job, res types.AnyType, fault types.BaseMethodFault) {
	changes := []types.PropertyChange{
		{Name: "info.completeTime", Val: time.Now()},
		{Name: "info.state", Val: types.TaskInfoStateSuccess},
		{Name: "info.result", Val: res},
	}
	if fault != nil {
		changes[1].Val = types.TaskInfoStateError
		changes[2] = types.PropertyChange{Name: "info.error", Val: types.LocalizedMethodFault{
			Fault: fault, LocalizedMessage: fmt.Sprintf("%T", fault),
		}}
	}
	v.show(ctx, j, changes...)
}

// show changes a task's properties.
func (v *inventory) show(ctx *simulator.Context, j *job, changes ...types.PropertyChange) {
	v.world.Lock()
	defer v.world.Unlock()
	v.objects.AtomicUpdate(ctx, j, changes)
}

// capture takes the work from a task that the simulator is about to run.
type capture struct {
	task *simulator.Task
	run  func(*simulator.Task) (types.AnyType, types.BaseMethodFault)
}

// inner makes the simulator do its own work synchronously, without a visible task. call begins the simulator's task on entity. ctx holds
// the world lock for writing.
func (v *inventory) inner(ctx *simulator.Context, entity types.ManagedObjectReference, call func() soap.HasFault) (types.AnyType, types.BaseMethodFault) {
	defer v.objects.AcquireLock(ctx, entity)()
	caught := new(capture)
	v.mu.Lock()
	v.captures[entity] = caught
	v.mu.Unlock()
	body := call()
	v.mu.Lock()
	delete(v.captures, entity)
	v.mu.Unlock()
	if f := body.Fault(); f != nil {
		if fault, ok := f.VimFault().(types.BaseMethodFault); ok {
			return nil, fault
		}
		return nil, &types.SystemError{Reason: f.String}
	}
	if caught.task == nil {
		return nil, &types.SystemError{Reason: "the simulator began no task"}
	}
	defer v.objects.Remove(ctx, caught.task.Self)
	return caught.run(caught.task)
}

// listener receives the simulator's new tasks before they run, and the objects that leave the inventory.
type listener struct {
	*simulator.TaskManager
	v *inventory
}

// PutObject implements simulator.RegisterObject.
func (b *listener) PutObject(ctx *simulator.Context, obj mo.Reference) {
	switch t := obj.(type) {
	case *job:
		b.TaskManager.PutObject(ctx, t.Task)
	case *simulator.Task:
		b.v.mu.Lock()
		caught := b.v.captures[*t.Info.Entity]
		delete(b.v.captures, *t.Info.Entity)
		b.v.mu.Unlock()
		if caught != nil {
			caught.task, caught.run = t, t.Execute
			t.Execute = func(*simulator.Task) (types.AnyType, types.BaseMethodFault) { return nil, nil }
			return
		}
		switch t.Info.DescriptionId {
		case "FileManager.deleteDatastoreFile", "VirtualDiskManager.deleteVirtualDisk":
			// The simulator destroys a VM's files in these tasks. vCenter shows no such tasks, and the work must end while the world is locked.
			res, fault := t.Execute(t)
			t.Execute = func(*simulator.Task) (types.AnyType, types.BaseMethodFault) { return res, fault }
			return
		}
		b.TaskManager.PutObject(ctx, t)
	}
}

// Result waits for a task of Admin's, without the four calls that a client's PropertyCollector needs.
func (v *inventory) Result(begun *object.Task) (info types.TaskInfo, err error) {
	for {
		_, next := v.world.Read()
		j, known := v.objects.Get(begun.Reference()).(*job)
		if !known {
			return info, soap.WrapVimFault(&types.ManagedObjectNotFound{Obj: begun.Reference()}) // a restart has removed the task
		}
		v.world.Lock()
		info = j.Info
		v.world.Unlock()
		switch info.State {
		case types.TaskInfoStateSuccess:
			return info, nil
		case types.TaskInfoStateError:
			return info, task.Error{LocalizedMethodFault: info.Error, Description: info.Description}
		}
		select {
		case <-next:
		case <-v.world.Ctx.Done():
			return info, v.world.Ctx.Err()
		}
	}
}

// latencyOf returns how long tasks of a kind take.
func latencyOf(l *Latency, k Kind) time.Duration {
	switch k {
	case Clone, ImportVApp:
		return l.Clone
	case PowerOn, PowerOff, Reset, ShutdownGuest:
		return l.Power
	case Reconfigure:
		return l.Reconfigure
	}
	return l.Other
}

// SetLatency changes the duration of tasks, from the next one on.
func (v *inventory) SetLatency(l Latency) {
	v.world.Lock()
	defer v.world.Unlock()
	v.latency = l
}

// awaitTurn waits, without a lock, until a task can run. Until then, the task is queued. The caller must call leave when the task ends; leave is
// nil if this vCenter is closed.
func (v *inventory) awaitTurn(ctx *simulator.Context, j *job, c claim) (leave func()) {
	turn, leave := v.Enter(c)
	show := func(state types.TaskInfoState, start types.AnyType) {
		if !v.limits.Unseen {
			v.show(ctx, j, types.PropertyChange{Name: "info.state", Val: state}, types.PropertyChange{Name: "info.startTime", Val: start})
		}
	}
	select {
	case <-turn:
		return leave
	default:
	}
	show(types.TaskInfoStateQueued, nil)
	select {
	case <-turn:
	case <-v.world.Ctx.Done():
		return nil
	}
	show(types.TaskInfoStateRunning, time.Now())
	return leave
}

// SetProgress sets the progress in percent and the state of a task of BeginTask.
func (v *inventory) SetProgress(task types.ManagedObjectReference, percent int32, state types.TaskInfoState) {
	if j, ok := v.objects.Get(task).(*job); ok {
		v.show(v.world.Context(), j, types.PropertyChange{Name: "info.progress", Val: percent}, types.PropertyChange{Name: "info.state", Val: state})
	}
}
