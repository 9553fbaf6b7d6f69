package planner_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

var update = flag.Bool("update", false, "rewrite the golden stories")

// story is a group's life in a model of vCenter. Its diary, in testdata/stories, says what happened, and then for each round which steps were
// planned and what the user sees.
type story struct {
	o     plan.Observed
	diary strings.Builder
	said  map[string]bool // conditions are written once
	// patience is the longest wait that the diary has; before a longer one, happens returns.
	patience time.Duration
	// boot changes how guests react to an action; if it is nil, they boot and halt.
	boot func(*plan.Observed, plan.Action)
	// heard gets each plan that is made; can be nil.
	heard func(*plan.Result)
}

func newStory() *story {
	return &story{o: observed(3), said: map[string]bool{}, patience: 15 * time.Minute}
}

// allStories are the stories of all files, by name.
func allStories() map[string]func(*story) {
	all := maps.Clone(lifeStories)
	for _, more := range []map[string]func(*story){changeStories, placeStories, vanishStories, refreshStories, standbyStories} {
		maps.Copy(all, more)
	}
	return all
}

// everyResult runs all stories, and passes on each plan with its story's name.
func everyResult(heard func(story string, r *plan.Result)) {
	for name, tell := range allStories() {
		s := newStory()
		s.heard = func(r *plan.Result) { heard(name, r) }
		tell(s)
	}
}

// happens writes a headline, changes the observation, and carries out plans until nothing is left to do. If a plan waits for a time, that time
// passes.
func (s *story) happens(what string, change func(o *plan.Observed)) {
	fmt.Fprintf(&s.diary, "\n== %s\n", what)
	s.o.Group = s.o.Group.DeepCopy()
	change(&s.o)
	for round := 0; round < 60; round++ {
		s.o.Now = s.o.Now.Add(time.Second)
		s.o.Called = s.o.Now
		s.o.State.Vanished = slices.DeleteFunc(slices.Clone(s.o.State.Vanished), func(x plan.Vanished) bool { // as the inventory does
			records := plan.RecordsOf(s.o.Group.Status.Members, s.o.State.VMs)
			return records.Supersede(&x)
		})
		r := planner.Make(s.o)
		s.o.Group = s.o.Group.DeepCopy()
		s.o.Group.Status = r.Status
		if s.o.Group.Spec.Service != nil {
			plan.Show(&s.o, r.Children)
		}
		s.tell(&r)
		if s.heard != nil {
			s.heard(&r)
		}
		for i := range r.Events {
			if n := &r.Events[i]; !s.said[n.Key] { // as one Event
				s.said[n.Key] = true
				fields := plan.EventOf(plan.Ref{Name: "web"}, r.Events[i:i+1]).Fields.(plan.EventFields)
				fmt.Fprintf(&s.diary, "        %s %s: %s\n", fields.Type, fields.Reason, fields.Message)
			}
		}
		for _, a := range r.Actions {
			fmt.Fprintf(&s.diary, "    %-12s %-8s %s\n", a.Op, a.Key, a.Reason)
			if n, worth := a.Event(s.o.Now); worth {
				s.said[n.Key] = true
			}
			plan.Apply(&s.o, a)
			if s.boot != nil {
				s.boot(&s.o, a)
			}
		}
		switch {
		case len(r.Actions) > 0:
		case r.Wake > 0 && r.Wake <= s.patience:
			fmt.Fprintf(&s.diary, "    ... %s\n", r.Wake)
			s.o.Now = s.o.Now.Add(r.Wake - time.Second)
		default:
			return
		}
	}
	fmt.Fprintln(&s.diary, "no end in sight")
}

// sumsUp are the conditions that sum up the group.
var sumsUp = []string{v1alpha1.ConditionReady, v1alpha1.ConditionProgressing, v1alpha1.ConditionVCenterReachable, v1alpha1.ConditionReconciling,
	v1alpha1.ConditionStalled}

// tell writes what the user sees.
func (s *story) tell(r *plan.Result) {
	fmt.Fprintf(&s.diary, "%-7s %d/%d ready %d  %s\n", r.Status.Phase, r.Status.CurrentReplicas, r.Status.DesiredReplicas,
		r.Status.ReadyReplicas, r.Status.LastMessage)
	for _, c := range r.Status.Conditions {
		switch {
		case c.Status != metav1.ConditionTrue:
			continue
		case slices.Contains(sumsUp, c.Type): // what is already shown
			continue
		}
		if said := c.Type + c.Message; !s.said[said] { // once
			s.said[said] = true
			fmt.Fprintf(&s.diary, "        %s=%s: %s\n", c.Type, c.Status, c.Message)
		}
	}
	if r.Finalized {
		fmt.Fprintln(&s.diary, "        finalized")
	}
	if r.SlowStart {
		fmt.Fprintln(&s.diary, "        slow start: one first")
	}
}

// edit changes the spec, as kubectl apply does.
func edit(f func(spec *v1alpha1.VmGroupSpec)) func(*plan.Observed) {
	return func(o *plan.Observed) {
		f(&o.Group.Spec)
		o.Group.Generation++
	}
}

func (s *story) scale(replicas int32) func(*plan.Observed) {
	return func(o *plan.Observed) {
		o.Group.Spec.Replicas = &replicas
		o.Group.Generation++
	}
}

func drop(ordinal int32) func(*plan.Observed) {
	return func(o *plan.Observed) {
		o.State.VMs = slices.DeleteFunc(o.State.VMs, func(m plan.VM) bool {
			if m.Ordinal == ordinal {
				o.State.Gone = append(o.State.Gone, plan.Gone{MoRef: m.MoRef})
			}
			return m.Ordinal == ordinal
		})
	}
}

func change(ordinal int32, f func(*plan.VM)) func(*plan.Observed) {
	return func(o *plan.Observed) {
		for i := range o.State.VMs {
			if o.State.VMs[i].Ordinal == ordinal {
				f(&o.State.VMs[i])
			}
		}
	}
}

func TestStories(t *testing.T) {
	for name, tell := range allStories() {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			tell(s)
			file := filepath.Join("testdata", "stories", strings.ReplaceAll(name, " ", "-")+".txt")
			if *update {
				must.Succeed(t, os.WriteFile(file, []byte(s.diary.String()), 0o644))
			}
			want, err := os.ReadFile(file)
			must.Succeed(t, err)
			if got := s.diary.String(); got != string(want) {
				t.Errorf("the story of %s differs (go test ./sync/planner -update rewrites it):\n%s", name, got)
			}
		})
	}
}
