package limiter

import (
	"testing"
	"time"
)

// A template's host, or a datastore, that is busy holds up its own clones alone. With one limit for all clones, its clones would fill the slots while
// vCenter queues them, and the clones from and to other places would get only the slots in between.
func TestABusySourceOrTargetLeavesTheClonesOfOthersTheirPace(t *testing.T) {
	bothQueues(t, func(t *testing.T, unseen bool) {
		for place, work := range map[string]func(string) Work{
			"source": func(at string) Work { return Work{Kind: Clones, Source: at, LatencyClass: at} },
			"target": func(at string) Work {
				return Work{Kind: Clones, Source: "host-1", Target: at, LatencyClass: "template"}
			},
		} {
			perHour := func(busy bool) int {
				l := New(64, 0)
				f := &far{now: noon, unseen: unseen, takes: about(40*time.Second, 2), room: func(w Work) int {
					if w.Source+w.Target == work("busy").Source+work("busy").Target {
						return 1
					}
					return 16
				}}
				f.users = []*user{{limiter: l, left: 1 << 40, work: func(int) Work { return work("other") }}}
				if busy {
					f.users = append(f.users, &user{limiter: l, left: 1 << 40, work: func(int) Work { return work("busy") }})
				}
				f.run(noon.Add(time.Hour))
				f.run(noon.Add(3 * time.Hour))
				return f.users[0].since(noon.Add(time.Hour)) / 2
			}
			alone, beside := perHour(false), perHour(true)
			t.Logf("%s: %d clones an hour alone, %d beside a busy one", place, alone, beside)
			if beside < alone/2 {
				t.Errorf("%s: %d clones an hour alone, %d beside a busy one; want at least half", place, alone, beside)
			}
		}
	})
}
