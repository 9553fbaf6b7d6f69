package test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

var chaosPlant = flag.String("chaos.plant", "", "plant a defect in the replicas, to see that random lives find it: "+strings.Join(defectNames(), ", "))

// defect is a defect that is planted in all replicas of a life.
type defect struct {
	name string
	// call replaces a hook call on its way to a replica, and step the step that a replica takes. The number tells replicas apart.
	call  func(plan.Call) plan.Call
	step  func(replica int, a plan.Action) plan.Action
	found string // how a violation that it causes begins
	first uint64 // the first seed to try
	sure  bool   // it doesn't depend on timing, so lives must find it, and fail again
}

var defects = []defect{
	{name: "unbounded", found: "fewer working members than promised", first: 14, sure: true, // an update takes down as many as it likes
		call: func(c plan.Call) plan.Call {
			g, all := *c.Group, intstr.FromString("100%")
			g.Spec.Update.MaxUnavailable, c.Group = &all, &g
			return c
		},
		step: func(_ int, a plan.Action) plan.Action { return a }},
	{name: "unlocked", found: "two VMs of one ordinal", first: 30, // each replica gives a new member another name, so that the name is no lock
		call: func(c plan.Call) plan.Call { return c },
		step: func(replica int, a plan.Action) plan.Action {
			if a.Op == plan.Clone {
				a.VM = fmt.Sprintf("%s-of-%d", a.VM, replica)
			}
			return a
		}},
	{name: "unselected", found: unselectedWrong, first: 1, sure: true, // a group that isn't selected counts as deleted
		call: func(c plan.Call) plan.Call {
			if c.Unselected() {
				g, now := *c.Group, metav1.Now()
				g.DeletionTimestamp, c.Group = &now, &g
			}
			return c
		},
		step: func(_ int, a plan.Action) plan.Action { return a }},
}

func defectNames() (names []string) {
	for _, d := range defects {
		names = append(names, d.name)
	}
	return names
}

// plantedDefect is the one of -chaos.plant; nil for none.
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

// in returns the vCenter that a replica with the defect uses.
func (d *defect) in(vc loop.VCenter, replica int) loop.VCenter {
	if d == nil {
		return vc
	}
	return defective{vc, d, replica}
}

type defective struct {
	loop.VCenter
	defect  *defect
	replica int
}

// Do carries out the altered action.
func (d defective) Do(ctx context.Context, ref plan.Ref, a plan.Action) (plan.Took, error) {
	return d.VCenter.Do(ctx, ref, d.defect.step(d.replica, a))
}

// before returns the loop as a replica with the defect sees it.
func (d *defect) before(l *loop.Loop) hook.Keeper {
	if d == nil {
		return l
	}
	return alteredCalls{l, d}
}

type alteredCalls struct {
	*loop.Loop
	defect *defect
}

// Renew takes the altered call.
func (h alteredCalls) Renew(c plan.Call) plan.Result { return h.Loop.Renew(h.defect.call(c)) }

// Some life finds a planted defect, and is repeated to see how often it fails again.
//
//	go test ./test -run PlantedDefects -v -chaos.repeat 20
//
// reports that for each defect; a plain run tries only the first one.
func TestLivesFindPlantedDefectsAndFailAgain(t *testing.T) {
	if raced {
		t.Skip("it looks for planted defects, not for races: make campaign runs it")
	}
	t.Parallel()
	all, times := defects, *chaosRepeat
	if times == 0 {
		all, times = defects[:1], 2
	}
	const most = 50
	for _, d := range all {
		report := t.Logf // where .ci/run shows it
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for seed := d.first; seed < d.first+most; seed++ {
				steps := script(seed)
				o := runLife(t, seed, steps, &d, newCounts())
				if !slices.ContainsFunc(o.wrong, func(text string) bool { return strings.HasPrefix(text, d.found) }) {
					continue
				}
				again := againOf(t, seed, &d).fails(steps, times)
				report("%s: seed %d is life %d: %s; it fails again %d times of %d", d.name, seed, seed-d.first+1, first(o.wrong[0]), again, times)
				if d.sure && again == 0 {
					t.Error("it doesn't fail again")
				}
				return
			}
			if report("%s: no life of %d finds it", d.name, most); d.sure {
				t.Fail()
			}
		})
	}
}
