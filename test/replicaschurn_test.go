//go:build unix

package test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// TestRandomlyKilledAndStoppedProcessesKeepOneVMPerOrdinal runs lives under three processes that are killed, stopped and resumed at any moment, with
// hook calls to any that runs; calls to a stopped one time out and wait in its socket.
func TestRandomlyKilledAndStoppedProcessesKeepOneVMPerOrdinal(t *testing.T) {
	if *replicasFor == 0 {
		t.Skip("-replicas.for says how long")
	}
	t.Parallel()
	for began, seed := time.Now(), *replicasSeed; ; seed++ {
		runProcesses(t, seed)
		if time.Since(began) >= *replicasFor || t.Failed() {
			t.Logf("%d lives of processes", seed-*replicasSeed+1)
			return
		}
	}
}

func runProcesses(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 5))
	life := &replicasLife{rig: newRealRig(t, vcsim.Config{Latency: briskly})}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; what happened:\n%s", seed, strings.Join(life.diary, "\n"))
		}
	})
	servers := []*processReplica{life.serveProcess(), life.serveProcess(), life.serveProcess()}
	stopped := map[int]bool{}
	g := servers[0].group("web", 3)
	life.group = g
	twins := life.sample(life.twinsOn)
	// call makes a hook call to any replica, which may be stopped, and reports whether it was answered.
	call := func(finalizing bool) (finalized bool) {
		i := random.IntN(len(servers))
		patient := realPatience
		if stopped[i] {
			patient = 30 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		g.URL = servers[i].url
		if finalizing {
			a, err := g.Finalize(ctx)
			return err == nil && a.Finalized
		}
		_, _ = g.Sync(ctx)
		return false
	}
	disturb := func() {
		i := random.IntN(len(servers))
		switch random.IntN(4) {
		case 0:
			servers[i].kill()
			servers[i], stopped[i] = life.serveProcess(), false
		case 1:
			if !stopped[i] && tallyTrue(stopped) < len(servers)-1 {
				servers[i].stop()
				stopped[i] = true
			}
		case 2:
			servers[i].resume()
			stopped[i] = false
		}
	}
	resume := func() {
		for i, s := range servers {
			s.resume()
			stopped[i] = false
		}
	}
	const rounds = 15
	unselected := random.IntN(rounds)
	for round := range rounds {
		for range 3 {
			call(false)
		}
		if round == unselected {
			resume()
			for _, s := range servers {
				s.done() // with what it was about to do when it stopped
			}
			life.unselectOnce(servers[random.IntN(len(servers))].url)
		}
		if random.IntN(3) == 0 {
			g.Scale(int32(random.IntN(5)))
		}
		disturb()
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
	}
	g.Generation++
	began := time.Now()
	for !call(true) {
		if time.Since(began) > realPatience {
			t.Fatalf("seed %d: not finalized: %s", seed, g.Status.LastMessage)
		}
		if random.IntN(10) == 0 {
			disturb()
		}
		time.Sleep(20 * time.Millisecond)
	}
	resume()
	time.Sleep(200 * time.Millisecond) // calls that waited in the sockets are handled; nothing shows that
	for _, s := range servers {
		s.done()
	}
	if seen := twins(); seen.most > 0 {
		t.Errorf("seed %d: two VMs of one ordinal were on at once", seed)
	}
	life.empty(1)
	if t.Failed() {
		for i, s := range servers {
			t.Logf("replica %d:\n%s", i, strings.TrimSpace(s.logged()))
		}
	}
}

// unselectOnce has a replica asked, once all is as the spec says, to finalize the group as one that is not selected: nothing may change.
func (c *replicasLife) unselectOnce(url string) {
	c.group.URL = url
	eventually(c.t, realPatience, "the members are as the spec says", func() bool {
		_, err := c.group.Sync(within(c.t))
		return err == nil && c.wrong() == ""
	})
	members := c.looks()
	finalized, said, err := c.group.Unselect(within(c.t))
	c.say("not selected: finalized %t, %s", finalized, said)
	c.judgeUnselected(c.group, finalized, err)
	if now := c.looks(); now != members {
		c.t.Errorf("%s has changed from\n%s\nto\n%s", unselectedWrong, members, now)
	}
}

func tallyTrue(set map[int]bool) (n int) {
	for _, is := range set {
		if is {
			n++
		}
	}
	return n
}
