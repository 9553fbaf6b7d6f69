package loop

import (
	"fmt"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// What vCenter shows to have changed makes a try due: the template of a clone was published again, or is on another host; and, while the inventory
// watches for it because some cause has lasted for minutes, whatever may end the refusal (plan.Relief). A member's host doesn't count, because DRS may
// choose another one at each try to power the member on.

// shownOf is what vCenter shows of what a failed step depends on, except what the step itself changes; empty if it doesn't show the template of
// a clone.
func shownOf(f *failure, s *plan.VCenterState) string {
	relief, t := fmt.Sprint(s.Relief.Of(f.fault.Depends)), &s.Template
	switch {
	case f.action.Op != plan.Clone:
		return relief
	case t.MoRef == "":
		return ""
	}
	return strings.Join([]string{t.MoRef, t.Fingerprint, t.Host, relief}, " ")
}

// look compares what vCenter shows with what it showed before, and reports whether a try has become due. A change during a try counts after it.
func (x *failures) look(s *plan.VCenterState, now time.Time) (due bool) {
	if !s.Known {
		return false
	}
	for vm, f := range x.byVM {
		shown := shownOf(&f, s)
		if shown == "" || shown == f.shown {
			continue
		}
		if f.shown != "" && f.cause.hurriedFor != shown { // else this is the first look, or another group has seen the same
			if !f.cause.canHurry(now) {
				continue
			}
			f.cause.hurry(&f, shown, now)
			due = true
		}
		f.shown = shown
		x.byVM[vm] = f
	}
	return due
}
