package loop

import (
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The exact world found it (test/world, seed 210809): a replica lost vCenter's stream while it made the group's folder, so it
// never saw it. Another replica finalized the group and removed the folder, and this one recreated it, and cloned into it.
func TestAFolderThatItMadeItselfIsMadeAnewOnlyForALaterCall(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l *Loop) {
		made := func() (n int) {
			for _, line := range m.begun() {
				if strings.HasPrefix(line, string(plan.CreateFolder)) {
					n++
				}
			}
			return n
		}
		m.setFault(func(_ plan.Ref, a plan.Action) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.unknown = m.unknown || a.Op == plan.CreateFolder
			return nil
		})
		c := call("web", 1)
		l.Renew(c)
		time.Sleep(time.Second)
		m.setFault(nil)
		m.change(c.Ref(), func(s *plan.VCenterState) { m.unknown, s.Folder = false, "" })
		time.Sleep(5 * time.Second)
		if n := made(); n != 1 {
			t.Errorf("the folder is made %d times for one call", n)
		}
		l.Renew(c)
		time.Sleep(time.Second)
		if n := made(); n != 2 {
			t.Errorf("the folder is made %d times for two calls", n)
		}
	})
}
