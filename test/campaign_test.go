package test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

var (
	campaignFor      = flag.Duration("campaign.for", 0, "how long every fault in turn can take; 0: a handful of faults")
	campaignSeed     = flag.Uint64("campaign.seed", 1, "seed for which calls break")
	campaignOnly     = flag.String("campaign.only", "", `run one life with only these breaks, as a violation prints them: "rich, updated:MoveIntoFolder_Task#1/Refused + CloneVM_Task#2/ReplyLost"`)
	campaignPacked   = flag.Int("campaign.packed", 20, "breaks per life")
	campaignReplicas = flag.Int("campaign.replicas", 1, "replicas of the server in each life")
)

// handful are the breaks that make test runs: one of each kind except stalls, at important calls.
const handful = "plain, updated:CloneVM_Task#2/ReplyLost + WaitForUpdatesEx#20/SessionGone + Destroy_Task#2/Refused + " +
	"CloneVM_Task#5/KilledAfter + ReconfigVM_Task#9/KilledBefore + ShutdownGuest#4/Faulted:ToolsUnavailable"

// TestCampaign runs lives like those of TestChaos, but with fixed steps (variants), and with every fault in turn. For each method of vCenter
// that the server calls and each way of failing, some life breaks a call of the method in this way (brokenCalls); -campaign.seed chooses the
// call. After each step, the group must become as its spec says. Lives without breaks show which calls the server makes.
func TestCampaign(t *testing.T) {
	t.Parallel()
	c := &campaign{learnt: map[variant]map[string]int{}, made: map[variant]map[string]int{}, missed: map[string]string{}}
	named := cmp.Or(*campaignOnly, handful)
	if *campaignOnly != "" || *campaignFor == 0 {
		j, err := parseJob(named)
		must.Succeed(t, err)
		if c.run(t, j); len(c.missed) > 0 && *campaignOnly == "" {
			t.Errorf("some breaks never happened: %v", c.missed)
		}
		return
	}
	c.began = time.Now()
	var unbroken []job
	for _, of := range variants() {
		unbroken = append(unbroken, job{variant: of}, job{variant: of})
	}
	c.each(t, unbroken)
	jobs := c.jobs()
	c.each(t, pack(jobs, *campaignPacked))
	c.each(t, pack(c.missing(), 3)) // in a life with many breaks, one break can prevent another by changing which calls the life makes
	c.summarize(t, len(jobs))
}

// campaign records what is known about the lives so far.
type campaign struct {
	began time.Time
	mu    sync.Mutex // guards the fields below
	// learnt is how often a life without breaks calls each method, and made how often it calls the method until the group exists.
	learnt, made map[variant]map[string]int
	missed       map[string]string // why breaks have not happened, by the name of a life with only this one
	violations   int
	notRun       int
}

// each runs every life in its own subtest.
func (c *campaign) each(t *testing.T, jobs []job) {
	workers{abreast: *chaosParallel, lives: len(jobs)}.run(t, func(t *testing.T, n uint64) {
		if time.Since(c.began) > *campaignFor {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.notRun++
			return
		}
		c.run(t, jobs[n])
	})
}

// mostTriedAgain is how many violations of a campaign are repeated and shrunk. More failing lives wouldn't tell more about a defect.
const mostTriedAgain = 5

// run runs one life, and reports it if it fails.
func (c *campaign) run(t *testing.T, j job) {
	c.mu.Lock()
	learnt := c.learnt[j.variant]
	c.mu.Unlock()
	planted, counts := plantedDefect(t), newCounts()
	o, f := runVariant(t, j, learnt, planted, counts)
	c.note(j, f)
	if len(o.wrong) == 0 {
		return
	}
	fmt.Printf("violation: go test ./test -run 'TestCampaign$' -campaign.only '%s'\n", j.name()) // reruns the life with all of its breaks
	a := again[brokenCall]{
		live: func(some []brokenCall) outcome {
			o, _ := runVariant(t, job{variant: j.variant, brokenCalls: some}, learnt, planted, counts)
			return o
		},
		flags: func(some []brokenCall) string {
			return fmt.Sprintf("-run 'TestCampaign$' -campaign.only '%s'", job{variant: j.variant, brokenCalls: some}.name())
		}}
	c.mu.Lock()
	if c.violations++; c.violations <= mostTriedAgain {
		a.repeat, a.shrink = *chaosRepeat, shrinkTime(*campaignOnly == "" && *campaignFor > 0)
	}
	c.mu.Unlock()
	a.report(t, j.brokenCalls, o)
}

// note records which breaks of a life happened and, for a life without breaks, its calls.
func (c *campaign) note(j job, f *faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(j.brokenCalls) == 0 {
		if c.learnt[j.variant] == nil {
			c.learnt[j.variant], c.made[j.variant] = map[string]int{}, f.made
		}
		for method, n := range f.nth {
			c.learnt[j.variant][method] = max(c.learnt[j.variant][method], n)
			c.made[j.variant][method] = min(c.made[j.variant][method], f.made[method])
		}
	}
	for _, s := range j.brokenCalls {
		if why := f.whyNot(s); why != "" {
			c.missed[only(j.variant, s).name()] = why
		} else {
			delete(c.missed, only(j.variant, s).name())
		}
	}
}

// jobs lists the lives to run, one for each break: for each method, every way of failing, at a call and in a variant that the seed chooses. Methods
// that change something break in every variant. Calls that create the group break only in lives of the first scenario.
func (c *campaign) jobs() (all []job) {
	r := rand.New(rand.NewPCG(*campaignSeed, 2))
	from := func(of variant, method string) int {
		if of.scenario == plain.scenario {
			return 0
		}
		return c.made[of][method]
	}
	in := map[string][]variant{}
	for _, of := range variants() {
		for method, n := range c.learnt[of] {
			if n > from(of, method) {
				in[method] = append(in[method], of)
			}
		}
	}
	for _, method := range slices.Sorted(maps.Keys(in)) {
		for _, s := range kindsFor(method) {
			where := in[method]
			if !isChange(method) {
				where = []variant{pick(r, where)}
			}
			for _, of := range where {
				s.nth = from(of, method) + 1 + r.IntN(c.learnt[of][method]-from(of, method))
				all = append(all, only(of, s))
			}
		}
	}
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// missing returns the breaks that did not happen, each as a life with only this break.
func (c *campaign) missing() (jobs []job) {
	for _, name := range slices.Sorted(maps.Keys(c.missed)) {
		if j, err := parseJob(name); err == nil {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// neverAtMost is the accepted percentage of breaks that never happen. It isn't 0 because the calls of a life vary a little from run to run.
const neverAtMost = 2

// summarize checks that every life was run, and that nearly all of the tried breaks happened.
func (c *campaign) summarize(t *testing.T, tried int) {
	if c.notRun > 0 {
		t.Errorf("the time (-campaign.for) was over with %d lives left to run; want none", c.notRun)
	}
	var never []string
	for _, name := range slices.Sorted(maps.Keys(c.missed)) {
		never = append(never, fmt.Sprintf("%s (%s)", name, c.missed[name]))
	}
	t.Logf("%d breaks, %d violations; %d never happened:\n%s", tried, c.violations, len(never), strings.Join(never, "\n"))
	if len(never) > neverAtMost*tried/100 {
		t.Errorf("%d of %d breaks never happened; want at most %d", len(never), tried, neverAtMost*tried/100)
	}
}

// pack combines the breaks into lives of up to n breaks each. A life can break each call only once, so pack adds a break to the first life of its
// variant that has fewer than n breaks and doesn't break the same call.
func pack(jobs []job, n int) (packs []job) {
	open := map[variant][]*job{}
	var all []*job
	for _, j := range jobs {
		s := j.brokenCalls[0]
		i := slices.IndexFunc(open[j.variant], func(o *job) bool {
			return !slices.ContainsFunc(o.brokenCalls, func(other brokenCall) bool { return other.method == s.method && other.nth == s.nth })
		})
		if i < 0 {
			open[j.variant] = append(open[j.variant], &job{variant: j.variant})
			i = len(open[j.variant]) - 1
			all = append(all, open[j.variant][i])
		}
		o := open[j.variant][i]
		if o.brokenCalls = append(o.brokenCalls, s); len(o.brokenCalls) >= n {
			open[j.variant] = slices.Delete(open[j.variant], i, i+1)
		}
	}
	for _, o := range all {
		packs = append(packs, *o)
	}
	return packs
}
