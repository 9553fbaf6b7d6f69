// This file has windows that recur by the local time of a place: whether one is open, and when that changes.

package planner

import (
	"cmp"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// window opens on some days of the week, at a time of day in a zone, and stays open for a while.
//
// Clocks that are set forward may skip its time of day: it opens at that moment. When they are set back, its time of day may come
// twice: it opens the first time only. How long it is open is measured by no clock on the wall, so four hours from 22:00 last four
// hours in such a night as well.
type window struct {
	// Days are the days of the week on which it opens (time.Sunday is 0); none means every day.
	Days []time.Weekday
	// Hour and Minute are the time of day at which it opens.
	Hour, Minute int
	// Length is for how long it is open: at most a day.
	Length time.Duration
	// Zone is whose local time that is.
	Zone *time.Location
}

// horizon is how many days ahead openings are looked for: a week, and a day for zones that skip one.
const horizon = 8

// openAt reports whether one of the windows is open at a time, and when that changes: when the last of those that overlap or follow each
// other at once closes, or when the next one opens. until is zero if it doesn't change within a week; then they are open always, or there are
// none. Zone is that of the window that opens or closes then.
func openAt(now time.Time, windows []window) (open bool, until time.Time) {
	type span struct{ from, to time.Time }
	var spans []span
	for i := range windows {
		w := &windows[i]
		local := now.In(w.Zone)
		for n := -2; n <= horizon; n++ {
			day := time.Date(local.Year(), local.Month(), local.Day()+n, 0, 0, 0, 0, time.UTC)
			if len(w.Days) > 0 && !slices.Contains(w.Days, day.Weekday()) {
				continue
			}
			from := firstShown(day.Add(time.Duration(w.Hour)*time.Hour+time.Duration(w.Minute)*time.Minute), w.Zone)
			spans = append(spans, span{from, from.Add(w.Length)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	for _, s := range spans {
		switch {
		case !s.to.After(now):
		case !open && s.from.After(now):
			return false, s.from
		case !open:
			open, until = true, s.to
		case s.from.After(until):
			return true, until
		case s.to.After(until):
			until = s.to
		}
	}
	if open && until.Sub(now) > (horizon-1)*24*time.Hour {
		return true, time.Time{}
	}
	return open, until
}

// firstShown returns the first moment at which clocks in the zone show a time, given as if it were in UTC; if they skip it, the moment at
// which they are set forward. (time.Date may return either of two moments for both.)
func firstShown(wall time.Time, zone *time.Location) time.Time {
	shows := func(t time.Time) bool {
		_, offset := t.Zone()
		return t.Add(time.Duration(offset) * time.Second).Equal(wall)
	}
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, zone)
	begin, end := t.ZoneBounds()
	if !shows(t) { // skipped: t is by the offset before or after
		_, offset := t.Zone()
		if t.Add(time.Duration(offset) * time.Second).After(wall) {
			return begin
		}
		return end
	}
	if !begin.IsZero() {
		_, before := begin.Add(-1).Zone()
		if earlier := wall.Add(-time.Duration(before) * time.Second).In(zone); earlier.Before(begin) && shows(earlier) {
			return earlier
		}
	}
	return t
}

// windowsOf are the windows of a spec. (What Validate refuses is left out.)
func windowsOf(spec []v1alpha1.Window) (all []window) {
	for i := range spec {
		w := window{Length: time.Duration(spec[i].DurationSeconds) * time.Second, Zone: spec[i].Location()}
		start, err := time.Parse("15:04", spec[i].Start)
		if err != nil || w.Zone == nil {
			continue
		}
		w.Hour, w.Minute = start.Hour(), start.Minute()
		for _, day := range spec[i].Days {
			w.Days = append(w.Days, time.Weekday(slices.Index(v1alpha1.Weekdays, day)))
		}
		all = append(all, w)
	}
	return all
}
