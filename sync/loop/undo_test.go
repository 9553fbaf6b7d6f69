package loop

import (
	"strconv"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A caller with the token sent a generation that Kubernetes never had, and the server wrote it to the members' stamps.
func TestTheLoopForgetsAnUndoneGeneration(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		forged, real := call("web", 2), call("web", 3)
		forged.Group.Generation, real.Group.Generation = v1alpha1.MaxGeneration, 2
		l.Sync(forged)
		until(t, time.Second, "up", func() bool { _, on := m.members(real.Ref()); return on == 2 })
		if r := l.Sync(real); r.Status.DesiredReplicas != 2 {
			t.Fatalf("the real call counts without the annotation: %d desired", r.Status.DesiredReplicas)
		}
		real.Group.Annotations = map[string]string{v1alpha1.AnnotationUndoGeneration: strconv.Itoa(v1alpha1.MaxGeneration)}
		l.Sync(real)
		until(t, time.Minute, "three are up", func() bool { l.Sync(real); _, on := m.members(real.Ref()); return on == 3 })
	})
}

// Found by a randomized test (test/world, seed 750040589): an operator undid generation 3, whose VM went. This replica remembered 3, and another one saw only a
// stamp of generation 2: whichever the operator undid, one of the two waited.
func TestAnUndoneGenerationIsForgottenWhenItsVMsAreGone(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		newer, restored := call("web", 2), call("web", 1)
		newer.Group.Generation, restored.Group.Generation = 3, 1
		l.Sync(newer)
		until(t, time.Second, "up", func() bool { _, on := m.members(newer.Ref()); return on == 2 })
		m.change(newer.Ref(), func(s *plan.VCenterState) { s.VMs[0].Generation = 2 })
		restored.Group.Annotations = map[string]string{v1alpha1.AnnotationUndoGeneration: "3"}
		l.Sync(restored)
		until(t, time.Minute, "one is gone", func() bool { l.Sync(restored); n, _ := m.members(newer.Ref()); return n == 1 })
		m.change(newer.Ref(), func(s *plan.VCenterState) { s.VMs[0].Generation = 2 })
		restored.Group.Annotations[v1alpha1.AnnotationUndoGeneration] = "2"
		if r := l.Sync(restored); hasReason(&r.Status, plan.ReasonSuperseded) {
			t.Errorf("the status says %q; want that generation 2 is undone", r.Status.LastMessage)
		}
	})
}
