package probe

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The kubelet's thresholds decide: successThreshold answers in a row make a member one that answers, failureThreshold failures one that is
// silent. There is one brake. The kubelet asks from the node that the container runs on; the server asks through the network, so a failure
// says as much about the path as about the member. When those that answered before fail together, the path is suspected, and no failure
// is believed until one of them answers:
//
//	of a group that several members of answered before | all of them have failed often enough, and none answered meanwhile
//	of a group that only one did                       | that one has, and so have those of all other groups that can be compared, or of
//	                                                   | two or more since the same minute
//
// A group that never answered is compared with nobody, nor is a member: it is silent.

// Groups that fail at once are at least so many, and begin to fail within that time of each other.
const (
	manyGroups = 3
	atOnce     = time.Minute
)

// streak is how the newest tries of a member ended.
type streak struct {
	settled   bool // it answered before, or its status says that it is ready
	oks, fail int  // in a row
	failing   time.Time
	beside    bool // it is asked again since another one answered that was asked since it began to fail
	concluded plan.Conclusion
	failure   string
}

// path is what is known of the way to a group's members.
type path struct {
	suspected bool
	since     time.Time
	beside    bool      // it is suspected because other groups fail, too
	answered  time.Time // when the newest try began that succeeded
}

// compared reports whether a member counts when all fail: it answered before, and is not known to be silent.
func (t *target) compared() bool { return t.settled && t.concluded != plan.Silent }

func (g *group) successes() int {
	return threshold(g.readiness.SuccessThreshold, v1alpha1.DefaultSuccessThreshold)
}

func (g *group) failures() int {
	return threshold(g.readiness.FailureThreshold, v1alpha1.DefaultFailureThreshold)
}

func threshold(n *int32, otherwise int) int {
	if n != nil {
		return int(*n)
	}
	return otherwise
}

// asks notes that a member is about to be asked. Answers that come while it is asked say nothing: the path may have been mended meanwhile.
func (p *Prober) asks(g *group, t *target) {
	if t.beside = false; t.fail == 0 {
		return
	}
	answered := g.answered
	if g.alone(t) {
		answered = p.elsewhere(g)
	}
	t.beside = answered.After(t.failing)
}

// answer notes that a try succeeded, and reports whether that changed what is concluded of the group.
func (g *group) answer(t *target, began time.Time) (changed bool) {
	t.oks, t.fail, t.failing = t.oks+1, 0, time.Time{}
	if began.After(g.answered) {
		g.answered = began
	}
	changed = g.trust()
	if t.oks >= g.successes() && t.concluded != plan.Answering {
		t.settled, t.failure, t.concluded, changed = true, "", plan.Answering, true
	}
	return changed
}

// fail notes that a try failed, and why, and reports whether that changed what is concluded of the group. The caller holds mu.
func (p *Prober) fail(g *group, t *target, why string, now time.Time) (changed bool) {
	if t.oks, t.fail = 0, t.fail+1; t.fail == 1 {
		t.failing = now
	}
	if t.fail == g.failures() {
		t.failure = why
	}
	if g.suspected {
		return g.beside && p.elsewhere(g).After(g.since) && g.trust()
	}
	if t.fail < g.failures() || t.concluded == plan.Silent {
		return false
	}
	silent, suspect := p.compare(g, t)
	switch {
	case silent:
		t.concluded = plan.Silent
	case suspect:
		g.suspect(now, g.alone(t))
	}
	return silent || suspect
}

// compare decides about a member that failed often enough, by those that answered before. Neither: some of those that it is compared with were not asked again yet.
func (p *Prober) compare(g *group, t *target) (silent, suspect bool) {
	switch {
	case !t.settled:
		return true, false
	case !g.alone(t):
		if t.beside {
			return true, false
		}
		_, sure, _ := g.fails()
		return false, sure
	}
	comparable, together, sure := 1, 1, 1
	for _, other := range p.groups {
		if other == g {
			continue
		}
		since, often, any := other.fails()
		if !any {
			continue
		}
		comparable++
		if !since.IsZero() && since.Sub(t.failing).Abs() <= atOnce {
			together++
			if often {
				sure++
			}
		}
	}
	if comparable == 1 || together < manyGroups && t.beside {
		return true, false
	}
	return false, sure >= manyGroups || sure == comparable
}

// alone reports whether no other member of the group can be compared with this one.
func (g *group) alone(t *target) bool {
	for _, other := range g.targets {
		if other != t && other.compared() {
			return false
		}
	}
	return true
}

// fails reports since when all members that can be compared fail, and whether each has failed often enough; the zero time if one does not
// fail. any reports whether there are any.
func (g *group) fails() (since time.Time, often, any bool) {
	often = true
	for _, t := range g.targets {
		if !t.compared() {
			continue
		}
		if any = true; t.fail == 0 {
			return time.Time{}, false, true
		}
		often = often && t.fail >= g.failures()
		if t.failing.After(since) {
			since = t.failing
		}
	}
	return since, often && any, any
}

// elsewhere returns when the newest try began that succeeded in another group.
func (p *Prober) elsewhere(g *group) (newest time.Time) {
	for _, other := range p.groups {
		if other != g && other.answered.After(newest) {
			newest = other.answered
		}
	}
	return newest
}

// suspect stops believing failures.
func (g *group) suspect(now time.Time, beside bool) {
	g.suspected, g.since, g.beside = true, now, beside
}

// trust believes failures again, of tries from now on: those before say nothing.
func (g *group) trust() (changed bool) {
	if !g.suspected {
		return false
	}
	g.suspected = false
	for _, t := range g.targets {
		t.fail, t.failing = 0, time.Time{}
	}
	return true
}

// suspected is how many groups' paths are.
func (p *Prober) suspected() (n int) {
	for _, g := range p.groups {
		if g.suspected {
			n++
		}
	}
	return n
}
