package loop

import (
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// What vCenter shows to have changed makes a try due: the template of a clone was published again, or is on another host. A member's host doesn't
// count, because DRS may choose another one at each try to power the member on. The inventory does not watch free space, hosts, datastores, pools
// and networks: a change of these shows with the next try, 72 s later at most (docs/design.md).

// hurryEvery bounds how often a change makes a cause's try due.
const hurryEvery = 10 * time.Second

// shownOf is what vCenter shows of the objects that a step depends on, except what the step itself changes; empty if they aren't shown.
func shownOf(a *plan.Action, s *plan.VCenterState) string {
	t := &s.Template
	if a.Op != plan.Clone || t.MoRef == "" {
		return ""
	}
	return strings.Join([]string{t.MoRef, t.Fingerprint, t.Host}, " ")
}

// look compares what vCenter shows with what it showed after the last try, and reports whether a try has become due.
func (x *failures) look(s *plan.VCenterState, now time.Time) (due bool) {
	if !s.Known {
		return false
	}
	for vm, f := range x.byVM {
		shown := shownOf(&f.action, s)
		if shown == "" || shown == f.shown {
			continue
		}
		if f.shown != "" && f.cause.hurriedFor != shown { // else another group has seen the same
			if now.Sub(f.cause.hurried) < hurryEvery {
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
