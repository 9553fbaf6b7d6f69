package test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	campaignFor      = flag.Duration("campaign.for", 0, "how long the campaign may take; 0: a handful of breaks, or all with -campaign.whole")
	campaignWhole    = flag.Bool("campaign.whole", false, "fail if -campaign.for is over before every break was tried")
	campaignSeed     = flag.Uint64("campaign.seed", 1, "seed for the order of the breaks")
	campaignOnly     = flag.String("campaign.only", "", `run one life with only this break, as a violation prints it: "CloneVM_Task#2/ReplyLost", "rich, updated:MoveIntoFolder_Task#1/Refused"`)
	campaignTimes    = flag.Int("campaign.times", 1, "how often to run the life of -campaign.only")
	campaignPacked   = flag.Int("campaign.packed", 1, "breaks per life")
	campaignParallel = flag.Int("campaign.parallel", runtime.GOMAXPROCS(0), "how many lives run at once")
)

// handful is what make test runs: breaks of each kind except stalls, at calls that matter.
const handful = "plain, updated:CloneVM_Task#2/ReplyLost + WaitForUpdatesEx#20/SessionGone + Destroy_Task#2/Refused + " +
	"CloneVM_Task#5/KilledAfter + ReconfigVM_Task#9/KilledBefore + ShutdownGuest#4/Faulted:ToolsUnavailable"

// TestCampaign runs whole lives of a group (campaignlife_test.go) and breaks one vCenter call in each: every call in turn,
// identified by method and by its number among the calls of that method, and in every way (campaignstrike_test.go). At the end of
// each phase the members are exactly as the spec says; no unmanaged VM has changed, nothing is left after the delete, availability
// never falls below its promise, no session leaks, and the number of additional calls is bounded (campaignbound_test.go). Unbroken
// lives show which calls there are. Of a life that fails, the fewest breaks that still do are found, as far as the time allows.
func TestCampaign(t *testing.T) {
	t.Parallel()
	switch {
	case *campaignOnly != "":
		j := namedJob(t, *campaignOnly)
		c := newCampaign(t, j.course)
		for i := range *campaignTimes {
			t.Run(fmt.Sprint("life ", i), func(t *testing.T) { c.run(t, j) })
		}
	case *campaignFor <= 0 && !*campaignWhole:
		c := newCampaign(t)
		c.run(t, namedJob(t, handful))
		if len(c.tally.missed) > 0 {
			t.Error("not all of these breaks happened")
		}
		c.summarize(t)
	default:
		c := newCampaign(t, courses()...)
		c.all(t)
		c.summarize(t)
		c.complete(t)
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
	whole           bool                      // it must run everything
	learnt          map[course]map[string]int // how often an unbroken life calls each method, at most
	common          map[course]map[string]int // and how often before its chapter begins, at least
	tally           campaignTally
	violations      atomic.Int32
}

// newCampaign runs two unbroken lives of each course, to learn their calls.
func newCampaign(t *testing.T, of ...course) *campaign {
	c := &campaign{began: time.Now(), whole: *campaignWhole}
	c.tally = newTally()
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

// all runs as many lives as the time allows. A break may not happen in a life with many others, because one takes the life another way:
// then it is tried once more, with few others.
func (c *campaign) all(t *testing.T) {
	jobs := c.jobs()
	c.tally.plan(jobs)
	defer progress(t, c.sums)()
	run := func(t *testing.T, j job) { c.run(t, j) }
	c.each(t, jobs, run)
	c.each(t, pack(c.tally.missing(), few), run)
}

// each runs each life in a subtest of its own, several at once, until the time is over.
func (c *campaign) each(t *testing.T, jobs []job, do func(*testing.T, job)) {
	var next, ran atomic.Int64
	var all sync.WaitGroup
	for range *campaignParallel {
		all.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(jobs) || !c.deadline.IsZero() && time.Now().After(c.deadline) {
					return
				}
				t.Run(strings.ReplaceAll(jobs[n].name(), "/", "·"), func(t *testing.T) { do(t, jobs[n]) })
				ran.Add(1)
			}
		})
	}
	all.Wait()
	c.tally.notRun(len(jobs) - int(ran.Load()))
}

// mostTriedAgain is how many violations of a campaign are repeated and shrunk: a defect that makes hundreds of lives fail is known by then.
const mostTriedAgain = 5

// run runs one life, and reports it if it fails. It returns how often its replicas called each method: until the group was made, and
// in all.
func (c *campaign) run(t *testing.T, j job) (created, calls map[string]int) {
	o, w := c.live(t, j)
	c.tally.note(w, len(o.wrong) > 0)
	if len(o.wrong) > 0 {
		fmt.Printf("violation: go test ./test -run TestCampaign -campaign.only '%s'\n", j.name()) // all breaks at once
		a := again[strike]{
			live: func(some []strike) outcome { o, _ := c.live(t, job{j.course, some}); return o },
			flags: func(some []strike) string {
				return fmt.Sprintf("-run 'TestCampaign$' -campaign.only '%s'", job{j.course, some}.name())
			}}
		if c.violations.Add(1) <= mostTriedAgain {
			a.repeat, a.shrink = *chaosRepeat, shrinkTime(*campaignOnly == "")
		}
		c.tally.violated(a.report(t, j.strikes, o))
	}
	return w.created, w.calls()
}

// live runs one life, with a vCenter and replicas of its own, which end with it.
func (c *campaign) live(t *testing.T, j job) (o outcome, w *whole) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		tr := &trial{TB: t, report: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			o.wrong = append(o.wrong, text)
		}}
		w = &whole{job: j}
		tr.run(func() {
			w = newWhole(tr, j)
			w.run()
			w.close()
			w.bound(c.learnt[j.course])
		})
		if len(o.wrong) > 0 {
			o.diary = w.story()
		}
	})
	return o, w
}
