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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	campaignFor      = flag.Duration("campaign.for", 0, "how long the campaign may take; 0: a handful of breaks")
	campaignSeed     = flag.Uint64("campaign.seed", 1, "seed for the order of the breaks")
	campaignOnly     = flag.String("campaign.only", "", `run one life with only this break, as a violation prints it: "CloneVM_Task#2/ReplyLost", "rich, updated:Rename_Task#1/Refused"`)
	campaignTimes    = flag.Int("campaign.times", 1, "how often to run the life of -campaign.only")
	campaignPacked   = flag.Int("campaign.packed", 1, "breaks per life; a life of the first round has at least six")
	campaignParallel = flag.Int("campaign.parallel", runtime.GOMAXPROCS(0), "how many lives run at once")
)

// handful is what make test runs: breaks of each kind except stalls, at calls that matter.
const handful = "plain, updated:CloneVM_Task#2/ReplyLost + WaitForUpdatesEx#20/SessionGone + Destroy_Task#2/Refused + " +
	"CloneVM_Task#5/KilledAfter + ReconfigVM_Task#9/KilledBefore + ShutdownGuest#4/Faulted:ToolsUnavailable"

// TestCampaign runs whole lives of a group (campaignlife_test.go) and breaks one vCenter call in each: every call in turn,
// identified by method and by its number among the calls of that method, and in every way (campaignstrike_test.go). At the end of
// each phase the members are exactly as the spec says; no unmanaged VM has changed, nothing is left after the delete, availability
// never falls below its promise, no session leaks, and the number of additional calls is bounded (campaigntally_test.go). Unbroken
// lives show which calls there are.
func TestCampaign(t *testing.T) {
	t.Parallel()
	switch {
	case *campaignOnly != "":
		j := namedJob(t, *campaignOnly)
		c := newCampaign(t, j.course)
		for i := range *campaignTimes {
			t.Run(fmt.Sprint("life ", i), func(t *testing.T) { c.run(t, j) })
		}
	case *campaignFor <= 0:
		c := newCampaign(t)
		c.run(t, namedJob(t, handful))
		if c.tally.lives["not reached"] > 0 {
			t.Error("not all of these breaks happened")
		}
		c.summarize(t)
	default:
		c := newCampaign(t, courses()...)
		c.all(t)
		c.summarize(t)
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
	learnt          map[course]map[string]int // how often an unbroken life calls each method, at most
	common          map[course]map[string]int // and how often before its chapter begins, at least
	tally           campaignTally
}

// newCampaign runs two unbroken lives of each course, to learn their calls.
func newCampaign(t *testing.T, of ...course) *campaign {
	c := &campaign{began: time.Now()}
	c.tally.lives, c.tally.plan, c.tally.met = map[string]int{}, map[string]int{}, map[string]int{}
	if *campaignFor > 0 {
		c.deadline = time.Now().Add(*campaignFor)
	}
	var unbroken []job
	for _, course := range of {
		unbroken = append(unbroken, job{course: course}, job{course: course})
	}
	var mu sync.Mutex
	learnt, common := map[course]map[string]int{}, map[course]map[string]int{}
	c.each(t, unbroken, func(t *testing.T, j job) {
		created, calls := c.run(t, j)
		mu.Lock()
		defer mu.Unlock()
		if learnt[j.course] == nil {
			learnt[j.course], common[j.course] = map[string]int{}, created
		}
		for method, n := range calls {
			learnt[j.course][method] = max(learnt[j.course][method], n)
			common[j.course][method] = min(common[j.course][method], created[method])
		}
	})
	c.learnt, c.common = learnt, common
	return c
}

// packed is how many breaks a life of the first round has at least, so that each kind of break of each method comes early. All later
// rounds break one call per life, or -campaign.packed.
const packed = 6

// jobs lists all breaks of all calls; those that make the group are broken in the first chapter's lives. Each kind of break of each
// method comes early: first one of each, then another of each, and so on.
func (c *campaign) jobs() []job {
	r := rand.New(rand.NewPCG(*campaignSeed, 2))
	rounds := map[int][]job{}
	for _, of := range courses() {
		for _, method := range slices.Sorted(maps.Keys(c.learnt[of])) {
			if of.shape != plain.shape && c.learnt[plain][method] > 0 && !isChange(method) {
				continue // all reads of objects are alike
			}
			known := 0
			if of.chapter != plain.chapter {
				known = c.common[of][method]
			}
			for _, s := range kindsFor(method) {
				for round, nth := range r.Perm(c.learnt[of][method] - known) {
					s.nth = known + nth + 1
					rounds[round] = append(rounds[round], job{of, []strike{s}})
				}
			}
		}
	}
	var later []job
	for _, round := range slices.Sorted(maps.Keys(rounds)) {
		jobs := rounds[round]
		r.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		if round > 0 {
			later = append(later, jobs...)
		}
	}
	return slices.Concat(pack(rounds[0], max(packed, *campaignPacked)), pack(later, *campaignPacked))
}

// pack makes lives of up to n breaks each. A life can break each call only once, so a break goes to the first life of its course that
// has room and leaves that call alone.
func pack(jobs []job, n int) (packs []job) {
	open := map[course][]*job{}
	var all []*job
	for _, j := range jobs {
		s := j.strikes[0]
		i := slices.IndexFunc(open[j.course], func(o *job) bool {
			return !slices.ContainsFunc(o.strikes, func(other strike) bool { return other.method == s.method && other.nth == s.nth })
		})
		if i < 0 {
			open[j.course] = append(open[j.course], &job{course: j.course})
			i = len(open[j.course]) - 1
			all = append(all, open[j.course][i])
		}
		o := open[j.course][i]
		if o.strikes = append(o.strikes, s); len(o.strikes) >= n {
			open[j.course] = slices.Delete(open[j.course], i, i+1)
		}
	}
	for _, o := range all {
		packs = append(packs, *o)
	}
	return packs
}

// all runs as many lives as the time allows.
func (c *campaign) all(t *testing.T) {
	jobs := c.jobs()
	c.tally.planned(jobs)
	defer progress(t, c.sums)()
	c.each(t, jobs, func(t *testing.T, j job) { c.run(t, j) })
}

// each runs each life in a subtest of its own, several at once.
func (c *campaign) each(t *testing.T, jobs []job, do func(*testing.T, job)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range *campaignParallel {
		all.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(jobs) || !c.deadline.IsZero() && time.Now().After(c.deadline) {
					return
				}
				t.Run(strings.ReplaceAll(jobs[n].name(), "/", "·"), func(t *testing.T) { do(t, jobs[n]) })
			}
		})
	}
	all.Wait()
}

// run runs one life, and returns how often its replicas called each method: until the group was made, and in all.
func (c *campaign) run(t *testing.T, j job) (created, calls map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWhole(t, j)
		defer func() {
			c.tally.note(w)
			if t.Failed() {
				fmt.Printf("violation: go test ./test -run TestCampaign -campaign.only '%s'\n", j.name()) // all breaks at once
				t.Logf("go test ./test -run TestCampaign -campaign.only '%s'\n%s", j.name(), w.story())
			}
		}()
		w.run()
		w.close()
		w.bound(c.learnt[j.course])
		created, calls = w.created, w.calls()
	})
	return created, calls
}
