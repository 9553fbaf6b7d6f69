package loop

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// model is a vCenter for the loop's tests: it carries out actions as plan.Apply does, after the time that they take, and shows the outcome from
// then on.
type model struct {
	took  map[plan.Op]time.Duration
	fault func(group plan.Ref, a plan.Action) error // can be nil; changed by setFault once the loop runs
	loop  hooks
	limit *limit // of what is carried out at once; can be nil
	// limits are the limits of clones to each datastore; nil if limit is for all datastores. datastore is that of the settings; it can be empty.
	limits    map[string]*limit
	datastore string

	mu      sync.Mutex
	worlds  map[types.UID]*plan.Observed
	unknown bool
	log     []string // what was begun, in order: "op group vm"
	now     int      // actions running
	peak    int
}

func newModel(clone time.Duration) *model {
	return &model{worlds: map[types.UID]*plan.Observed{}, took: map[plan.Op]time.Duration{plan.Clone: clone}}
}

func (m *model) world(ref plan.Ref) *plan.Observed {
	w := m.worlds[ref.UID]
	if w == nil {
		w = &plan.Observed{Group: &v1alpha1.VmGroup{}, State: plan.VCenterState{Known: true, VCenter: "vc-1",
			Template: plan.Template{MoRef: "vm-1", Paths: []string{"/DC0/vm/t"}, Datacenter: "DC0"}}}
		m.worlds[ref.UID] = w
	}
	return w
}

func (m *model) State(ref plan.Ref, ask plan.Query) plan.VCenterState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unknown {
		return plan.VCenterState{}
	}
	s := m.world(ref).State
	s.VMs = append([]plan.VM(nil), s.VMs...)
	if to := cmp.Or(ask.Datastore, m.datastore); to != "" {
		s.Target = "DC0/" + to
	}
	return s
}

func (m *model) Identify(string, string) []types.UID { return nil }

func (m *model) Do(ctx context.Context, ref plan.Ref, a plan.Action) (plan.StepResult, error) {
	m.mu.Lock()
	m.log = append(m.log, fmt.Sprintf("%s %s %s", a.Op, ref.Name, a.Key))
	m.now++
	m.peak = max(m.peak, m.now)
	took, limit := m.took[a.Op], m.limit
	if a.Op == plan.Clone && m.limits != nil {
		limit = m.limits[cmp.Or(a.Details().Spec.Placement.Datastore, m.datastore)]
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.now--
		m.mu.Unlock()
	}()
	said := plan.StepResult{Ran: took}
	if limit != nil && took > 0 {
		said = limit.carryOut(ctx, took)
	} else {
		select {
		case <-time.After(took):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return plan.StepResult{}, ctx.Err()
	}
	m.mu.Lock()
	fault := m.fault
	m.mu.Unlock()
	if fault != nil {
		if err := fault(ref, a); err != nil {
			return said, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.world(ref)
	for _, vm := range w.State.VMs {
		if a.Op == plan.Clone && vm.Ordinal == a.Ordinal {
			panic("a second VM of one ordinal: " + a.Key)
		}
	}
	w.Now = time.Now()
	plan.Apply(w, a)
	return said, nil
}

// change changes a group's VMs as an operator would, and notifies the loop as the inventory would.
func (m *model) change(ref plan.Ref, f func(s *plan.VCenterState)) {
	m.set(ref, f)
	m.loop.Changed(ref.UID)
}

// set is change without notifying the loop.
func (m *model) set(ref plan.Ref, f func(s *plan.VCenterState)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.world(ref).State)
}

func (m *model) setFault(f func(plan.Ref, plan.Action) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

func (m *model) members(ref plan.Ref) (all, on int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, vm := range m.world(ref).State.VMs {
		if all++; vm.Power == plan.PoweredOn {
			on++
		}
	}
	return all, on
}

func (m *model) running() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *model) begun() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.log...)
}

func call(name string, replicas int32) plan.Call {
	g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{CPU: 1, Memory: 1, Template: "t", Replicas: &replicas}}
	g.Namespace, g.Name, g.UID, g.Generation = "default", name, types.UID("uid-"+name), 1
	return plan.Call{Group: g}
}

// deletion is the finalize call of a group.
func deletion(c plan.Call) plan.Call {
	g := *c.Group
	g.Generation++
	g.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return plan.Call{Group: &g, Finalizing: true}
}

// fault is a typed fault, as package vsphere returns them.
type fault plan.Fault

func (f fault) Error() string         { return f.Message }
func (f fault) PlanFault() plan.Fault { return plan.Fault(f) }
