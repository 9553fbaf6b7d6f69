package test

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

var chaosPlant = flag.String("chaos.plant", "", "plant a defect in the replicas, to see that random lives find it: "+strings.Join(defectNames(), ", "))

// defect is a defect that is planted in all replicas of a life.
type defect struct {
	name  string
	found string // the beginning of the violation that the defect causes
	first uint64 // the first seed to try
	every uint64 // the step from one seed to the next; 3: only peaceful lives, as other lives don't report such violations
	sure  bool   // the defect doesn't depend on timing, so some life must find it, and must fail again when repeated
	// call changes a hook call on its way to a replica, state changes what a replica sees of vCenter, and step changes a step that a replica takes; nil:
	// no change.
	call  func(r *rig, c plan.Call) plan.Call
	state func(plan.VCenterState) plan.VCenterState
	step  func(plan.Action) plan.Action
}

var defects = []defect{
	{name: "unbounded", found: "fewer working members than promised", first: 14, every: 3, sure: true, // an update may take down all members at the same time
		call: func(_ *rig, c plan.Call) plan.Call {
			g, all := *c.Group, intstr.FromString("100%")
			g.Spec.Update.MaxUnavailable, c.Group = &all, &g
			return c
		}},
	{name: "unselected", found: unselectedWrong, first: 10, every: 1, sure: true, // a group that isn't selected counts as deleted
		call: func(_ *rig, c plan.Call) plan.Call {
			if c.Unselected() {
				g, now := *c.Group, metav1.Now()
				g.DeletionTimestamp, c.Group = &now, &g
			}
			return c
		}},
	{name: "unconfirmed", found: "fewer working members than promised", first: 14, every: 3, sure: true, // the server counts members that the status lists but vCenter doesn't have as present (S1)
		call: func(r *rig, c plan.Call) plan.Call {
			here, g := refsOf(r.VMs()), c.Group.DeepCopy()
			for _, m := range c.Group.Status.Members {
				if !slices.Contains(here, m.MoRef) {
					*g.Spec.Replicas = max(0, *g.Spec.Replicas-1)
				}
			}
			c.Group = g
			return c
		}},
	{name: "hopeful", found: "vm-", first: 305, every: 3, sure: true, // the server replaces members although it can't create their successors (S2)
		state: func(s plan.VCenterState) plan.VCenterState {
			if s.Template.MoRef == "" {
				s.Template.MoRef, s.Template.Paths = "vm-1", []string{"/DC0/vm/" + noTemplate}
			}
			return s
		},
		step: func(a plan.Action) plan.Action {
			if mark, is := a.Args.(plan.MarkArgs); is {
				mark.Successor = nil
				a.Args = mark
			}
			return a
		}},
}

func defectNames() (names []string) {
	for _, d := range defects {
		names = append(names, d.name)
	}
	return names
}

// plantedDefect returns the defect that -chaos.plant names; nil if there is none.
func plantedDefect(t *testing.T) *defect {
	t.Helper()
	if *chaosPlant == "" {
		return nil
	}
	i := slices.Index(defectNames(), *chaosPlant)
	if i < 0 {
		t.Fatalf("-chaos.plant: %q is not one of %v", *chaosPlant, defectNames())
	}
	return &defects[i]
}

// in wraps vCenter for a replica that has the defect.
func (d *defect) in(vc loop.VCenter) loop.VCenter {
	if d == nil {
		return vc
	}
	return defective{vc, d}
}

type defective struct {
	loop.VCenter
	defect *defect
}

// Do carries out the step as the defect altered it.
func (d defective) Do(ctx context.Context, ref plan.Ref, a plan.Action) (plan.StepResult, error) {
	if d.defect.step != nil {
		a = d.defect.step(a)
	}
	return d.VCenter.Do(ctx, ref, a)
}

// State returns the state as a replica with the defect sees it.
func (d defective) State(ref plan.Ref, ask plan.Query) plan.VCenterState {
	s := d.VCenter.State(ref, ask)
	if d.defect.state != nil {
		s = d.defect.state(s)
	}
	return s
}

// before wraps the loop of a replica that has the defect, so that the defect can change hook calls.
func (d *defect) before(r *rig, l *loop.Loop) hook.Controller {
	if d == nil || d.call == nil {
		return l
	}
	return alteredCalls{l, r, d}
}

type alteredCalls struct {
	*loop.Loop
	rig    *rig
	defect *defect
}

// Sync passes the altered call on.
func (h alteredCalls) Sync(c plan.Call) plan.Result { return h.Loop.Sync(h.defect.call(h.rig, c)) }

// For each planted defect, the test runs lives until one finds the defect, and repeats that life to see how often it fails again.
//
//	go test ./test -run PlantedDefects -v -chaos.repeat 20
//
// This command reports the result for each defect. A run without -chaos.repeat tries only the first defect.
func TestLivesFindPlantedDefectsAndFailAgain(t *testing.T) {
	thin.NotThin(t, "it looks for planted defects, not for races")
	t.Parallel()
	all, times := defects, *chaosRepeat
	if times == 0 {
		all, times = defects[:1], 2
	}
	const most = 50
	for _, d := range all {
		report := t.Logf // the parent test's log, which .ci/run shows
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(most) {
				seed := d.first + n*d.every
				steps := script(seed)
				o := runLife(t, seed, steps, &d, newCounts())
				if !slices.ContainsFunc(o.wrong, func(text string) bool { return strings.HasPrefix(text, d.found) }) {
					continue
				}
				again := againOf(t, seed, &d).fails(steps, times)
				report("%s: seed %d is life %d: %s; it fails again %d times of %d", d.name, seed, n+1, first(o.wrong[0]), again, times)
				if d.sure && again == 0 { // this life failed only by a rare timing; the next lives may fail each time
					continue
				}
				return
			}
			if report("%s: no life of %d finds it", d.name, most); d.sure {
				t.Fail()
			}
		})
	}
}
