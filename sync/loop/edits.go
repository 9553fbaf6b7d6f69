package loop

import (
	"time"

	"golang.org/x/time/rate"
)

// A group has a budget of edits. The server asks vCenter for what an edit names, tries at once what failed before, and begins what the edit asks for, so
// each edit costs calls that no back-off bounds. Once the budget is used up, an edit waits until there is more: no step begins, and nothing is
// read for the group. Of several edits that wait, only the newest counts, so the wait is at most editEvery. Deletions don't wait.
const (
	// editsAtOnce is how many edits have their effect at once. From then on, one in editEvery does.
	editsAtOnce = 20
	editEvery   = 3 * time.Second
)

// edits are the group's budget, and whether the newest edit waits for it.
type edits struct {
	budget *rate.Limiter
	waits  bool
	since  time.Time // since when the budget is used up; zero if half of it is left
	// created is whether the group waits for the budget of its namespace to begin.
	created bool
}

func newEdits() edits { return edits{budget: rate.NewLimiter(rate.Every(editEvery), editsAtOnce)} }

// edited notes an edit, or that an operator asks for another try.
func (x *edits) edited(now time.Time) {
	if x.created {
		return
	}
	x.waits = true
	if x.admit(now); x.waits && x.since.IsZero() {
		x.since = now
	}
}

// admit lets the newest edit have its effect, if it waits and there is a budget for it.
func (x *edits) admit(now time.Time) {
	if x.created {
		return
	}
	if x.budget.TokensAt(now) >= editsAtOnce/2 {
		x.since = time.Time{}
	}
	if x.waits && x.budget.AllowN(now, 1) {
		x.waits = false
	}
}

// due is in what time there is a budget for the edit that waits; zero if none does, or if the group has yet to begin.
func (x *edits) due(now time.Time) time.Duration {
	if !x.waits || x.created {
		return 0
	}
	return max(time.Duration((1-x.budget.TokensAt(now))*float64(editEvery)), 0) + time.Millisecond
}
