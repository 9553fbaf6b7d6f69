package loop

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// interrupted is a model in which something happens while a round reads vCenter.
type interrupted struct {
	*model
	looks int
	at    int // which read is interrupted; 0: none
	by    func()
}

func (i *interrupted) State(ref plan.Ref, ask plan.Query) plan.VCenterState {
	s := i.model.State(ref, ask)
	if i.looks++; i.looks == i.at {
		i.by()
	}
	return s
}

// Found by the model in test/world, seed 4136: a replica's process was suspended for a moment while it planned, and then got a call with a newer
// generation. It took a member down because of the older one.
func TestAPlanStartsNothingIfACallComesWhileItIsMade(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 3)
		m.bringUp(t, c)
		time.Sleep(time.Second)
		synctest.Wait()

		scaled := func(replicas int32, generation int64) plan.Call {
			g := *c.Group
			g.Spec.Replicas, g.Generation = &replicas, generation
			return plan.Call{Group: &g}
		}
		i := &interrupted{model: m, at: 2} // the call itself reads first, then its round
		i.by = func() { l.Sync(scaled(3, 3)) }
		l.vcenter = i
		l.Sync(scaled(1, 2))
		time.Sleep(time.Minute)
		for _, line := range m.begun() {
			if strings.HasPrefix(line, string(plan.Mark)) {
				t.Errorf("%s, for a generation that was superseded", line)
			}
		}
	})
}
