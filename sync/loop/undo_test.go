package loop

import (
	"strconv"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
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
