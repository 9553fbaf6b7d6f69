package loop

import (
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Found by the model in test/world, seed 210809: a replica lost vCenter's stream while it created the group's folder, and never saw the folder.
// Another replica finalized the group and removed the folder. The first replica recreated the folder, and cloned into it.
func TestAReplicaRecreatesItsOwnFolderOnlyForALaterCall(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		m.setFault(func(_ plan.Ref, a plan.Action) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.unknown = m.unknown || a.Op == plan.CreateFolder
			return nil
		})
		c := call("web", 1)
		l.Sync(c)
		time.Sleep(time.Second)
		m.setFault(nil)
		m.change(c.Ref(), func(s *plan.VCenterState) { m.unknown, s.Folder = false, "" })
		time.Sleep(5 * time.Second)
		if n := m.count(plan.CreateFolder); n != 1 {
			t.Errorf("the folder is created %d times for one call", n)
		}
		l.Sync(c)
		time.Sleep(time.Second)
		if n := m.count(plan.CreateFolder); n != 2 {
			t.Errorf("the folder is created %d times for two calls", n)
		}
	})
}

// Found by the model in test/world, seed 41739: an operator moved a member out of the group's folder, the server was restarted, and the group was
// deleted before a hook call with vCenter's state known. The server took the folder that the member was in for the group's. It left the group's
// folder, with a clone that no replica had seen.
func TestTheFolderOfADeletedGroupGoesAlthoughItsMembersWereMovedOutOfIt(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 1)
		m.change(c.Ref(), func(s *plan.VCenterState) {
			m.unknown, s.Folder = true, "group-web"
			s.VMs = []plan.VM{{Name: "web-0", MoRef: "vm-7", InstanceUUID: "i7", Folder: "group-elsewhere", Power: plan.PoweredOn, Reachable: true}}
		})
		l.Sync(c)
		m.change(c.Ref(), func(*plan.VCenterState) { m.unknown = false })
		l.Changed(c.Group.UID)
		time.Sleep(100 * time.Millisecond)
		c = deletion(c)
		until(t, 10*time.Minute, "the group is gone", func() bool { return l.Sync(c).Finalized })
		if n := m.count(plan.RemoveFolder); n != 1 {
			t.Errorf("the group's folder is removed %d times, want once: %q", n, m.begun())
		}
	})
}

// Found by the model in test/world, seed 6009804: a replica began to create the group's folder, was suspended for 3 s, and created the folder after
// another replica had finalized the group.
func TestAStepThatCreatesTheFolderStopsWhenItWouldNoLongerBegin(t *testing.T) {
	for name, later := range map[string]func(*model, plan.Ref){
		"its call is long ago": func(*model, plan.Ref) { time.Sleep(11 * time.Second) },
		"the folder existed for a while": func(m *model, ref plan.Ref) {
			m.change(ref, func(s *plan.VCenterState) { s.Folder = "group-web" })
			time.Sleep(time.Second)
			m.change(ref, func(s *plan.VCenterState) { s.Folder = "" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(time.Second)
			m.took[plan.CreateFolder] = time.Minute
			bubble(t, m, Config{}, func(t *testing.T, l hooks) {
				c := call("web", 1)
				l.Sync(c)
				time.Sleep(time.Second)
				if m.count(plan.CreateFolder) != 1 || !l.Leased(c.Group.UID, plan.FolderKey) {
					t.Fatalf("the folder is not being created: %q", m.begun())
				}
				later(m, c.Ref())
				if l.Leased(c.Group.UID, plan.FolderKey) {
					t.Error("the step continues")
				}
				if l.Sync(c); !l.Leased(c.Group.UID, plan.FolderKey) {
					t.Error("the step doesn't continue for a later call")
				}
			})
		})
	}
}

// count is how many steps of a kind were begun.
func (m *model) count(op plan.Op) (n int) {
	for _, line := range m.begun() {
		if strings.HasPrefix(line, string(op)+" ") {
			n++
		}
	}
	return n
}

// Found by randomized tests (test, seed 100137; test/world, seed 2258576): while a replica couldn't reach vCenter, another one finalized the group
// and created a new group with the same name. The first replica reached vCenter within its lease, and cloned into the new group's folder.
func TestAReplicaThatOutlivesItsGroupLeavesTheFolderOfTheNextOneAlone(t *testing.T) {
	for name, unknown := range map[string]bool{"it missed nothing": false, "it was cut off": true} {
		t.Run(name, func(t *testing.T) {
			m := newModel(time.Second)
			bubble(t, m, Config{}, func(t *testing.T, l hooks) {
				c := call("web", 2)
				m.bringUp(t, c)
				time.Sleep(time.Second)
				m.change(c.Ref(), func(*plan.VCenterState) { m.unknown = unknown })
				l.Sync(c)
				time.Sleep(time.Second)
				before := len(m.begun())
				m.change(c.Ref(), func(s *plan.VCenterState) {
					for _, vm := range s.VMs {
						s.Gone = append(s.Gone, plan.Gone{MoRef: vm.MoRef})
					}
					m.unknown, s.VMs, s.Folder = false, nil, "group-of-the-next"
				})
				time.Sleep(time.Minute)
				if begun := m.begun()[before:]; len(begun) > 0 {
					t.Errorf("the group begins %q in another group's folder, want nothing", begun)
				}
				l.Sync(c) // so it is the group's after all: another replica made it
				until(t, time.Minute, "2 members on", func() bool { _, on := m.members(c.Ref()); return on == 2 })
			})
		})
	}
}

// Found by the model in test/world, seed 2244048: a replica that couldn't see vCenter got a hook call, and another replica finalized the group.
// When the first replica saw vCenter again, it recreated the folder.
func TestAFolderIsCreatedOnlyForACallThatCameWhileVCenterWasKnown(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		m.unknown = true
		c := call("web", 1)
		l.Sync(c)
		m.change(c.Ref(), func(*plan.VCenterState) { m.unknown = false })
		time.Sleep(9 * time.Second)
		if n := m.count(plan.CreateFolder); n != 0 {
			t.Errorf("the folder is created %d times", n)
		}
		m.bringUp(t, c)
	})
}
