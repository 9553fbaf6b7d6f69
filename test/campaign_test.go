package test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	campaignFor      = flag.Duration("campaign.for", 0, "how long the campaign may take; 0: a handful of breaks")
	campaignSeed     = flag.Uint64("campaign.seed", 1, "the order in which the campaign takes the breaks")
	campaignOnly     = flag.String("campaign.only", "", `the one break to lead a life with, as a violation names it: "CloneVM_Task#2/ReplyLost", "rich:Rename_Task#1/Refused"`)
	campaignTimes    = flag.Int("campaign.times", 1, "how often the one break of -campaign.only is led")
	campaignPacked   = flag.Int("campaign.packed", 1, "how many breaks a life suffers; those of the first round suffer six in any case")
	campaignParallel = flag.Int("campaign.parallel", runtime.GOMAXPROCS(0), "how many lives are led at once")
)

// handful is the life of make test: breaks of each kind but the stalls, at calls that matter.
const handful = "CloneVM_Task#2/ReplyLost + WaitForUpdatesEx#20/SessionGone + Destroy_Task#2/Refused + " +
	"CloneVM_Task#8/KilledAfter + ReconfigVM_Task#12/KilledBefore + ShutdownGuest#8/Faulted:ToolsUnavailable"

// TestCampaign leads whole lives of a group (campaignlife_test.go), in each of which one vCenter call is broken: every
// call in turn, by method and its number among the calls of that method, and in every way (campaignstrike_test.go). At the
// end of each phase the members are exactly as the spec says; no unmanaged VM is touched, nothing is left after the delete,
// availability keeps its promise at any moment, sessions are not leaked, and the calls beyond those of an unbroken life are
// bounded (campaigntally_test.go). What the calls are is learned from unbroken lives.
func TestCampaign(t *testing.T) {
	t.Parallel()
	switch {
	case *campaignOnly != "":
		j := namedJob(t, *campaignOnly)
		c := newCampaign(t, j.shape)
		for i := range *campaignTimes {
			t.Run(fmt.Sprint("life ", i), func(t *testing.T) { c.lead(t, j) })
		}
	case *campaignFor <= 0:
		c := newCampaign(t)
		c.lead(t, namedJob(t, handful))
		c.tell(t)
	default:
		c := newCampaign(t, slices.Sorted(maps.Keys(shapes))...)
		c.all(t)
		c.tell(t)
	}
}

func namedJob(t *testing.T, text string) job {
	t.Helper()
	j, err := parseJob(text)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// campaign is what is known of the lives so far.
type campaign struct {
	began, deadline time.Time
	learnt          map[string]map[string]int // by shape: how often each method is called in an unbroken life, at most
	tally           campaignTally
}

// newCampaign leads an unbroken life or two of each shape, and learns its calls.
func newCampaign(t *testing.T, of ...string) *campaign {
	c := &campaign{learnt: map[string]map[string]int{}, began: time.Now()}
	c.tally.lives, c.tally.plan, c.tally.met = map[string]int{}, map[string]int{}, map[string]int{}
	if *campaignFor > 0 {
		c.deadline = time.Now().Add(*campaignFor)
	}
	for _, shape := range of {
		c.learnt[shape] = map[string]int{}
		for i := range 2 {
			t.Run(fmt.Sprintf("%s, unbroken %d", shape, i), func(t *testing.T) {
				for method, n := range c.lead(t, job{shape: shape}) {
					c.learnt[shape][method] = max(c.learnt[shape][method], n)
				}
			})
		}
	}
	return c
}

// packed is how many breaks the lives of the first round suffer: so that each kind of each method is met early. All later
// rounds break one call of a life, or -campaign.packed.
const packed = 6

// jobs are all the breaks of all the calls, in an order that takes each kind of each method early: first one of each,
// then another of each, and so on.
func (c *campaign) jobs() (all []job) {
	r := rand.New(rand.NewPCG(*campaignSeed, 2))
	rounds := map[int][]job{}
	for _, shape := range slices.Sorted(maps.Keys(c.learnt)) {
		for _, method := range slices.Sorted(maps.Keys(c.learnt[shape])) {
			if shape != "plain" && c.learnt["plain"][method] > 0 && !isChange(method) {
				continue // the reads are the same
			}
			for _, s := range kindsFor(method) {
				for round, nth := range r.Perm(c.learnt[shape][method]) {
					s.nth = nth + 1
					rounds[round] = append(rounds[round], job{shape, []strike{s}})
				}
			}
		}
	}
	for _, round := range slices.Sorted(maps.Keys(rounds)) {
		jobs := rounds[round]
		r.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		if round == 0 {
			jobs = pack(jobs, packed)
		} else {
			jobs = pack(jobs, *campaignPacked)
		}
		all = append(all, jobs...)
	}
	return all
}

// pack makes one life of up to n. In one life a call can be broken but once.
func pack(jobs []job, n int) (packs []job) {
	open := map[string]*job{}
	for _, j := range jobs {
		o := open[j.shape]
		switch {
		case n < 2:
			packs = append(packs, j)
		case o == nil:
			open[j.shape] = &j
		case slices.ContainsFunc(o.strikes, func(s strike) bool { return s.method == j.strikes[0].method && s.nth == j.strikes[0].nth }):
			packs = append(packs, j)
		default:
			if o.strikes = append(o.strikes, j.strikes...); len(o.strikes) == n {
				packs = append(packs, *o)
				delete(open, j.shape)
			}
		}
	}
	for _, shape := range slices.Sorted(maps.Keys(open)) {
		packs = append(packs, *open[shape])
	}
	return packs
}

// all leads the lives that there is time for.
func (c *campaign) all(t *testing.T) {
	jobs := c.jobs()
	c.tally.planned(jobs)
	defer progress(t, c.sums)()
	next := make(chan job)
	var crew sync.WaitGroup
	for range *campaignParallel {
		crew.Go(func() {
			for j := range next {
				t.Run(strings.ReplaceAll(j.name(), "/", "·"), func(t *testing.T) { c.lead(t, j) })
			}
		})
	}
	for _, j := range jobs {
		if time.Now().After(c.deadline) {
			break
		}
		next <- j
	}
	close(next)
	crew.Wait()
}

// lead leads one life, and gives the calls of its replicas, by method.
func (c *campaign) lead(t *testing.T, j job) (calls map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWhole(t, j)
		defer func() {
			c.tally.note(w)
			if t.Failed() {
				fmt.Printf("violation: go test ./test -run TestCampaign -campaign.only '%s'\n", j.name()) // at once
				t.Logf("go test ./test -run TestCampaign -campaign.only '%s'\n%s", j.name(), w.story())
			}
		}()
		w.lead()
		w.close()
		w.bound(c.learnt[j.shape])
		calls = w.calls()
	})
	return calls
}
