package managed

import (
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/course"
)

// latencyOf returns how long tasks of a kind take.
func latencyOf(l *course.Latency, k Kind) time.Duration {
	switch k {
	case Clone:
		return l.Clone
	case PowerOn, PowerOff, Suspend, Reset, ShutdownGuest, RebootGuest:
		return l.Power
	case Reconfigure:
		return l.Reconfigure
	}
	return l.Other
}

// SetLatency changes the duration of tasks, from the next one on.
func (v *Objects) SetLatency(l course.Latency) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latency = l
}

// awaitTurn waits, without a lock, until a task may run; nil if this vCenter is closed. Meanwhile the task is queued.
func (v *Objects) awaitTurn(ctx *simulator.Context, j *job, c course.Claim) *course.Ticket {
	t := v.Enter(c)
	show := func(state types.TaskInfoState, start types.AnyType) {
		if !v.Unseen() {
			v.objects.WithLock(ctx, j.Self, func() {
				v.objects.Update(ctx, j, []types.PropertyChange{{Name: "info.state", Val: state}, {Name: "info.startTime", Val: start}})
			})
		}
	}
	select {
	case <-t.Turn():
		if !t.At.After(time.Now()) {
			return t
		}
	default:
	}
	show(types.TaskInfoStateQueued, nil)
	select {
	case <-t.Turn():
	case <-v.world.Ctx.Done():
		return nil
	}
	if !v.waitOut(time.Until(t.At), nil) {
		return nil
	}
	show(types.TaskInfoStateRunning, time.Now())
	return t
}
