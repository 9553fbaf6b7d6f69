// Package ledger decides what follows from the answers and failures of members: who answers, who is silent, and when failures are
// not believed, because the path from the server to the members may be broken.
//
// A failure says as much about the path as about the member. So a member is silent only if somebody else answered between two of its
// failures in a row: its witness. That makes no difference between members that fail at one moment and those that fail one after the
// other, as their turns come.
//
//	the member's failures reached the threshold, and            | concluded
//	------------------------------------------------------------+------------------------------------------------
//	it never answered, and its status did not say it was ready  | silent, unless its group is doubted
//	another of its group answered between two of them           | silent
//	all of its group that answered before fail                  | nothing; the group is doubted
//	some others of its group were not asked again yet           | nothing yet
//	it is the only one of its group that answered before, and   |
//	  another group answered between two of them                | silent
//	  three groups or more, or all, fail since the same minute  | nothing; the group is doubted
//	  no other group has members that answered before           | silent: there is nothing to compare it with
//
// As a group becomes doubted, whom of its members a witness spoke against before needs a new one. So when the path is mended, nobody is silent
// who was not asked again, and who never answered is asked as often as if it had just come. A doubt ends with an answer, not because members leave with whom the others were compared: with one of the group; and if it
// was doubted beside other groups, with one of theirs.
//
// It is pure: times are arguments, and a Ledger has no lock.
package ledger

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Many groups that fail at once are at least so many, and begin to fail within that time of each other.
const (
	many   = 3
	atOnce = time.Minute
)

// Thresholds are how many tries in a row decide.
type Thresholds struct{ Success, Failure int }

// Ledger has the members of all groups that are asked. Groups and members are known by their UIDs and moRefs.
type Ledger struct {
	groups  map[string]*group
	answers int // of all members, ever
	voices  int // groups that have members who answered before
	failing map[string]outage
}

// outage is a group of which all who answered before fail now: since when the last of them does, and whether each failed often enough.
type outage struct {
	since time.Time
	sure  bool
}

// New returns an empty ledger.
func New() *Ledger { return &Ledger{groups: map[string]*group{}, failing: map[string]outage{}} }

type group struct {
	members map[string]*member
	answers int // of its members, ever
	voice   bool
	doubted bool
	since   time.Time
	beside  bool  // it was doubted because other groups failed, too
	heard   tally // what had been answered when it became doubted
	mended  int   // how many doubts have ended
}

type member struct {
	Thresholds
	settled   bool // it answered before, or its status says that it is ready
	oks, fail int  // in a row
	concluded plan.Conclusion
	since     time.Time // when concluded changed
	failure   string
	failing   time.Time // when the first failure in this row ended
	// When the newest try began, and when the newest one did that failed; the latter is zero if the newest succeeded.
	began, asked time.Time
	// How many others had answered, of its group and of all others, when its first failure in this row ended (or the group became doubted),
	// and when its newest try began.
	atFirst, atBegin tally
	mended           int // how many of its group's doubts had ended when its newest try began
	witnessed        bool
}

type tally struct{ group, elsewhere int }

func (l *Ledger) tally(g *group) tally { return tally{g.answers, l.answers - g.answers} }

// Enter adds a member. ready reports whether its status says that it is ready.
func (l *Ledger) Enter(uid, moRef string, ready bool, t Thresholds) {
	g := l.groups[uid]
	if g == nil {
		g = &group{members: map[string]*member{}}
		l.groups[uid] = g
	}
	g.members[moRef] = &member{Thresholds: t, settled: ready}
	l.count(uid, g)
}

// Doubt makes a group doubted that was so before the ledger knew it.
func (l *Ledger) Doubt(uid string, now time.Time) {
	if g := l.groups[uid]; g != nil && !g.doubted {
		g.doubted, g.since, g.beside, g.heard = true, now, false, l.tally(g)
	}
}

// Forget removes a member.
func (l *Ledger) Forget(uid, moRef string, now time.Time) (changed bool) {
	g := l.groups[uid]
	if g == nil {
		return false
	}
	delete(g.members, moRef)
	changed = l.settle(uid, g, now)
	if len(g.members) == 0 {
		delete(l.groups, uid)
	}
	return changed
}

// Begin notes that a member is asked now.
func (l *Ledger) Begin(uid, moRef string, now time.Time) {
	if g, m := l.find(uid, moRef); m != nil {
		m.began = now
		m.atBegin, m.mended = l.tally(g), g.mended
	}
}

// Answered notes that a try succeeded. It reports whether that changed what is concluded of the group.
func (l *Ledger) Answered(uid, moRef string, now time.Time) (changed bool) {
	g, m := l.find(uid, moRef)
	if m == nil {
		return false
	}
	g.answers++
	l.answers++
	m.oks, m.fail, m.witnessed, m.failing, m.asked = m.oks+1, 0, false, time.Time{}, time.Time{}
	if m.oks >= m.Success {
		m.settled, m.failure = true, ""
		changed = m.conclude(plan.Answering, now)
	}
	return l.settle(uid, g, now) || changed
}

// Failed notes that a try failed, and why. It reports whether that changed what is concluded of the group.
func (l *Ledger) Failed(uid, moRef, why string, now time.Time) (changed bool) {
	g, m := l.find(uid, moRef)
	if m == nil || !m.settled && m.mended < g.mended { // the path was broken when that try began
		return false
	}
	if m.fail++; m.fail == 1 {
		m.failing, m.atFirst = now, l.tally(g)
	}
	m.oks, m.asked = 0, m.began
	if m.fail == m.Failure {
		m.failure = why
	}
	if m.fail >= m.Failure && m.atBegin.group > m.atFirst.group {
		m.witnessed = true
	}
	l.count(uid, g)
	if m.fail >= m.Failure && !m.witnessed && g.alone(m) {
		together, _ := l.together(uid)
		m.witnessed = l.voices <= 1 && !g.doubted || m.atBegin.elsewhere > m.atFirst.elsewhere && together < many
	}
	return l.settle(uid, g, now)
}

func (l *Ledger) find(uid, moRef string) (*group, *member) {
	if g := l.groups[uid]; g != nil {
		return g, g.members[moRef]
	}
	return nil, nil
}

func (m *member) conclude(c plan.Conclusion, now time.Time) (changed bool) {
	if changed = m.concluded != c; changed {
		m.concluded, m.since = c, now
	}
	return changed
}

// speaks reports whether the member counts when all of a group fail: it answered before, and no witness speaks against it.
func (m *member) speaks() bool { return m.settled && !m.witnessed }

// alone reports whether no other member of the group speaks.
func (g *group) alone(m *member) bool {
	if !m.speaks() {
		return false
	}
	for _, other := range g.members {
		if other != m && other.speaks() {
			return false
		}
	}
	return true
}

// settle concludes what follows from the newest try of a group.
func (l *Ledger) settle(uid string, g *group, now time.Time) (changed bool) {
	l.count(uid, g)
	if doubted, beside := l.doubts(uid, g); doubted != g.doubted {
		g.doubted, g.since, g.beside, g.heard, changed = doubted, now, beside, l.tally(g), true
		if !doubted {
			g.mended++
		}
		for _, m := range g.members {
			switch {
			case !doubted && !m.settled:
				m.fail = 0
			case doubted && m.fail > 0:
				m.witnessed, m.atFirst = false, l.tally(g)
				if m.concluded == plan.Silent {
					m.conclude("", now)
				}
			}
		}
		l.count(uid, g)
	}
	for _, m := range g.members {
		if m.fail >= m.Failure && !g.doubted && (m.witnessed || !m.settled) {
			changed = m.conclude(plan.Silent, now) || changed
		}
	}
	return changed
}

// doubts reports whether the failures of a group are not believed, and whether that is because other groups fail, too.
func (l *Ledger) doubts(uid string, g *group) (doubts, beside bool) {
	if is := l.tally(g); g.doubted && is.group == g.heard.group && !(g.beside && is.elsewhere > g.heard.elsewhere) {
		return true, g.beside
	}
	speak, fail := 0, 0
	for _, m := range g.members {
		if m.speaks() {
			speak++
			if m.fail >= m.Failure {
				fail++
			}
		}
	}
	if speak == 0 || fail < speak {
		return false, false
	}
	if speak > 1 {
		return true, false
	}
	_, sure := l.together(uid)
	return sure >= many || l.voices > 1 && sure > 0 && sure == l.voices, true
}

// together returns how many groups began to fail when this one did, itself included, and how many of these have failed often enough.
func (l *Ledger) together(uid string) (groups, sure int) {
	this, fails := l.failing[uid]
	if !fails {
		return 0, 0
	}
	for _, other := range l.failing {
		if other.since.Sub(this.since).Abs() <= atOnce {
			if groups++; other.sure {
				sure++
			}
		}
	}
	return groups, sure
}

// count notes whether a group has a voice, and whether all of its members that speak fail.
func (l *Ledger) count(uid string, g *group) {
	voice, all, now := false, true, outage{sure: true}
	for _, m := range g.members {
		if !m.speaks() {
			continue
		}
		voice = true
		all, now.sure = all && m.fail > 0, now.sure && m.fail >= m.Failure
		if m.failing.After(now.since) {
			now.since = m.failing
		}
	}
	if voice != g.voice {
		g.voice = voice
		if voice {
			l.voices++
		} else {
			l.voices--
		}
	}
	delete(l.failing, uid)
	if voice && all {
		l.failing[uid] = now
	}
}

// Look returns what is concluded of a group's members.
func (l *Ledger) Look(uid string) plan.Answers {
	g := l.groups[uid]
	if g == nil {
		return plan.Answers{}
	}
	all := plan.Answers{Of: make(map[string]plan.Answer, len(g.members)), Doubted: g.doubted, Since: g.since}
	for moRef, m := range g.members {
		all.Of[moRef] = plan.Answer{Concluded: m.concluded, Since: m.since, Failure: m.failure, Asked: m.asked}
	}
	return all
}

// Doubted is how many groups are doubted.
func (l *Ledger) Doubted() (n int) {
	for _, g := range l.groups {
		if g.doubted {
			n++
		}
	}
	return n
}
