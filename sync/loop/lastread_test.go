package loop

import (
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Found by the model in test/world, seed 2542: another replica had just created the group's folder, and was about to clone into it, and the stream
// was late. This replica finalized the group, and the clone was left behind.
func TestAFolderThatOnlyTheLastReadShowsIsRemovedBeforeTheEnd(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := deletion(call("web", 1))
		m.setFault(func(ref plan.Ref, a plan.Action) error {
			if a.Op == plan.ConfirmGone {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.world(ref).State.Folder = "group-v9"
			}
			return nil
		})
		l.Sync(c)
		time.Sleep(time.Second)
		m.setFault(nil)
		if r := l.Sync(c); r.Finalized {
			t.Error("the group is finalized, and its folder is still there")
		}
		time.Sleep(time.Second)
		r := l.Sync(c)
		begun := m.begun()
		if last := begun[len(begun)-1]; !r.Finalized || !strings.HasPrefix(last, string(plan.RemoveFolder)) {
			t.Errorf("finalized: %v, after %q", r.Finalized, begun)
		}
	})
}
