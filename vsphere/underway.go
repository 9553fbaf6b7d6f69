package vsphere

import (
	"context"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// questionPatience is how long a step may stand still because its VM asks before it takes no slot any more. Nobody is at the
	// console at night; whoever is there, and saw the condition, answers within a minute.
	questionPatience = time.Minute
	// progressPatience is the same for a task whose progress does not change: longer than vCenter takes for one per cent of the
	// largest clone that is waited for (1 TB at 20 MB/s: 9 minutes).
	progressPatience = 10 * time.Minute
	// standstillEvery is how often a step is looked at for that.
	standstillEvery = time.Minute
)

// underWay are the steps that are carried out now, and their tasks. Its mu is taken before those of the inventory and of the tasks.
type underWay struct {
	mu    sync.Mutex
	steps map[apitypes.UID]map[string]*stepUnderWay // by group and Action.VM
}

// stepUnderWay is one of them. Its group's other steps are for other VMs.
type stepUnderWay struct {
	moRef string
	began time.Time
	task  types.ManagedObjectReference // the newest
}

// begins takes a step in until ends is called. While it stands still, its group is planned again now and then: its slot is free.
func (v *VCenter) begins(ref plan.Ref, a plan.Action) (ends func()) {
	u, s := &v.underWay, &stepUnderWay{moRef: a.MoRef, began: time.Now()}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.steps[ref.UID] == nil {
		u.steps[ref.UID] = map[string]*stepUnderWay{}
	}
	u.steps[ref.UID][a.VM] = s
	var look *time.Timer
	look = time.AfterFunc(standstillEvery, func() {
		u.mu.Lock()
		on := u.steps[ref.UID][a.VM] == s
		stands := on && v.standstill(s) != nil
		if on {
			look.Reset(standstillEvery)
		}
		u.mu.Unlock()
		if stands {
			v.changed(ref.UID)
		}
	})
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		look.Stop()
		if u.steps[ref.UID][a.VM] == s {
			delete(u.steps[ref.UID], a.VM)
		}
		if len(u.steps[ref.UID]) == 0 {
			delete(u.steps, ref.UID)
		}
	}
}

// standstill is why a step stands still; nil if it does not. The caller holds underWay.mu.
func (v *VCenter) standstill(s *stepUnderWay) *plan.Fault {
	if m := v.inventory.Member(s.moRef); m != nil && m.Question != "" && time.Since(s.began) >= questionPatience {
		return &vcfault.New(vcfault.ReasonQuestionPending, true, "The VM waits for an answer in vCenter: %s", m.Question).Fault
	}
	if s.task.Value != "" && v.tasks.Still(s.task) >= progressPatience {
		return &vcfault.New(vcfault.ReasonTaskStalled, true,
			"vCenter's task for it has made no progress for %d minutes: see in vCenter's list of tasks what it waits for, or cancel it there.", int(progressPatience.Minutes())).Fault
	}
	return nil
}

// awaits notes the task that the step of a context waits for.
func (u *underWay) awaits(ctx context.Context, task types.ManagedObjectReference) {
	who, is := ctx.Value(acting{}).(actor)
	if !is {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.steps[who.uid][who.vm]; s != nil {
		s.task = task
	}
}

// stalled are a group's steps that stand still, by Action.VM; nil if there are none.
func (v *VCenter) stalled(uid apitypes.UID) (all map[string]plan.Fault) {
	u := &v.underWay
	u.mu.Lock()
	defer u.mu.Unlock()
	for vm, s := range u.steps[uid] {
		fault := v.standstill(s)
		if fault == nil {
			continue
		}
		if all == nil {
			all = map[string]plan.Fault{}
		}
		all[vm] = *fault
	}
	return all
}
