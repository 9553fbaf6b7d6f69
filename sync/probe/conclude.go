package probe

import (
	"maps"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The kubelet's thresholds decide: successThreshold consecutive answers mean that a member answers, failureThreshold consecutive failures
// that it is silent. There is one exception. The kubelet probes from the container's own node; the server probes through the network, so a
// failure may be due to the path instead of the member. If the members that answered before fail together, the server suspects the path,
// and ignores failures until one of them answers:
//
//	in a group of which several members answered before | all of them have reached failureThreshold, and none answered since
//	in a group of which only one did                    | that one has, and so have two or more witnesses since the same minute, or all there
//	                                                    | are, if they are the tenant's own
//
// Witnesses are the other groups with members that answered before, counted so that no tenant can be more than one for another: each group of the same
// namespace is one, and all groups of another namespace together are one, which confirms only what all of them show. If all that may confirm the failure
// is one other tenant, the member is silent later (lateTimes), because one tenant's groups can fail as they like.
//
// A group or member that never answered isn't compared with others: it is silent.

const (
	// A failure is the path's if manyFail witnesses, the group itself among them, begin to fail within atOnce of each other.
	manyFail = 3
	atOnce   = time.Minute
	// lateTimes is how many times failureThreshold a member fails that is silent although another tenant's groups fail, too.
	lateTimes = 3
)

// streak records how the newest tries of a member ended.
type streak struct {
	settled   bool // the member answered before, or its status says that it is ready
	oks, fail int  // in a row
	failing   time.Time
	beside    bool // the member was asked again after another one answered that was asked since this one began to fail
	concluded plan.Conclusion
	failure   string
}

// path is what is known about the network path to a group's members.
type path struct {
	suspected bool
	since     time.Time
	beside    bool      // the path is suspected because of witnesses
	answered  time.Time // when the newest successful try began
}

// compared reports whether a member counts when the server checks whether all fail: it answered before, and isn't known to be silent.
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

// asks records that a member is about to be asked. Answers of others that arrive during this try don't count, because the path may have
// recovered during the try.
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

// answer records that a try succeeded, and reports whether that changed a conclusion about the group.
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

// fail records that a try failed, and why, and reports whether that changed a conclusion about the group. The caller holds mu.
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

// compare decides about a member that failed failureThreshold times, by comparing it with the members that answered before. Neither result:
// some of those were not asked again yet.
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
	own, strangers := p.witnesses(g, t.failing)
	all := slices.Concat(own, strangers)
	together, sure := 1+all.least(fails), 1+all.least(confirms)
	switch {
	case len(all) == 0, together < manyFail && t.beside:
		return true, false
	case sure >= manyFail, len(strangers) == 0 && sure == 1+len(all):
		return false, true
	}
	return len(strangers) > 0 && 1+all.least(unasked) < manyFail && t.fail >= lateTimes*g.failures(), false
}

// testimony is what a witness shows of a failure, from the least to the most.
type testimony int

const (
	denies   testimony = iota // it answered since, or began to fail at another time
	unasked                   // it was not asked since
	fails                     // it began to fail at once
	confirms                  // and has failed failureThreshold times
)

type testimonies []testimony

// least counts those that show at least that much.
func (x testimonies) least(of testimony) (n int) {
	for _, is := range x {
		if is >= of {
			n++
		}
	}
	return n
}

// witnesses returns what the groups of the same namespace show of a failure that began at failing, and what each other namespace does.
func (p *Prober) witnesses(g *group, failing time.Time) (own, strangers testimonies) {
	byNamespace := map[string]testimony{}
	for _, other := range p.groups {
		shows, any := other.shows(failing)
		switch {
		case other == g || !any:
		case other.namespace == g.namespace:
			own = append(own, shows)
		default:
			if least, has := byNamespace[other.namespace]; has {
				shows = min(shows, least)
			}
			byNamespace[other.namespace] = shows
		}
	}
	return own, slices.Collect(maps.Values(byNamespace))
}

// shows is what the group shows of another's failure that began at failing; any reports whether it has members that can be compared.
func (g *group) shows(failing time.Time) (is testimony, any bool) {
	since, often, any := g.fails()
	switch {
	case since.IsZero() && !g.answered.After(failing):
		return unasked, any
	case since.IsZero() || since.Sub(failing).Abs() > atOnce:
		return denies, any
	case often:
		return confirms, any
	}
	return fails, any
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

// fails returns since when all members that can be compared fail, and whether each has failed failureThreshold times; the zero time if one
// does not fail. any reports whether there are such members.
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

// elsewhere returns when the newest successful try in another group began.
func (p *Prober) elsewhere(g *group) (newest time.Time) {
	for _, other := range p.groups {
		if other != g && other.answered.After(newest) {
			newest = other.answered
		}
	}
	return newest
}

// suspect makes the server ignore the group's failures.
func (g *group) suspect(now time.Time, beside bool) {
	g.suspected, g.since, g.beside = true, now, beside
}

// trust makes the server accept failures again, of tries from now on; earlier failures don't count.
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

// suspected returns the number of groups whose paths are suspected.
func (p *Prober) suspected() (n int) {
	for _, g := range p.groups {
		if g.suspected {
			n++
		}
	}
	return n
}
