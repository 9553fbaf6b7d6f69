package loop

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/metrics"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// meters are the loop's metrics.
type meters struct {
	actions  *prometheus.CounterVec
	reduced  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMeters registers the metrics; r can be nil.
func newMeters(r prometheus.Registerer, l *Loop) meters {
	gauge := func(m *metrics.Metric, read func() int) {
		m.Gauge(r, func(set func(float64, ...string)) {
			l.mu.Lock()
			defer l.mu.Unlock()
			set(float64(read()))
		})
	}
	gauge(metrics.ActionsRunning, func() int { return l.limiter.Used() })
	gauge(metrics.GroupsWaiting, func() int { return len(l.waiting) })
	metrics.LastCall.Gauge(r, func(set func(float64, ...string)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.emptied {
			set(0)
		} else if !l.called.IsZero() {
			set(float64(l.called.UnixMilli()) / 1000)
		}
	})
	metrics.Slots.Gauge(r, func(set func(float64, ...string)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, n := range l.limiter.Limits() {
			if n.Source == "" && n.Target == "" {
				set(float64(n.Size), string(n.Kind))
			}
		}
	})
	metrics.SlotsNarrowest.Gauge(r, func(set func(float64, ...string)) {
		for place, n := range l.narrowest() {
			set(float64(n), place)
		}
	})
	metrics.Groups.Gauge(r, func(set func(float64, ...string)) {
		for phase, n := range l.phases() {
			set(float64(n), string(phase))
		}
	})
	metrics.GroupsTroubled.Gauge(r, func(set func(float64, ...string)) {
		for t, n := range l.troubles() {
			set(float64(n), string(t.phase), t.Reason, string(t.Scope), string(t.Harm))
		}
	})
	if l.cfg.GroupMetrics {
		metrics.GroupPhase.Gauge(r, func(set func(float64, ...string)) {
			l.eachGroup(func(g *group) {
				set(1, g.ref.Namespace, g.ref.Name, string(g.answers.status.Phase), g.answers.trouble.Reason, string(g.answers.trouble.Scope))
			})
		})
		metrics.UnreadyMembers.Gauge(r, func(set func(float64, ...string)) {
			l.eachGroup(func(g *group) {
				for reason, n := range g.answers.unready() {
					set(float64(n), g.ref.Namespace, g.ref.Name, reason, string(plan.ScopeOf(reason)))
				}
			})
		})
		some := func(m *metrics.Metric, count func(*group) int) {
			m.Gauge(r, func(set func(float64, ...string)) {
				l.eachGroup(func(g *group) {
					if n := count(g); n > 0 {
						set(float64(n), g.ref.Namespace, g.ref.Name)
					}
				})
			})
		}
		some(metrics.SilentMembers, func(g *group) int {
			return int(tally(g.answers.status.Members, func(m v1alpha1.Member) bool { return m.Ready && m.Reason == plan.ReasonToolsSilent }))
		})
		some(metrics.MemberHeals, func(g *group) int { return g.healed.most(time.Now()) })
		metrics.DesiredReplicas.Gauge(r, func(set func(float64, ...string)) {
			l.eachGroup(func(g *group) {
				n := g.answers.status.DesiredReplicas
				if g.lease.finalizing { // no member is missing
					n = 0
				}
				set(float64(n), g.ref.Namespace, g.ref.Name)
			})
		})
		for m, count := range map[*metrics.Metric]func(*v1alpha1.VmGroupStatus) int32{
			metrics.ReadyReplicas: func(s *v1alpha1.VmGroupStatus) int32 { return s.ReadyReplicas },
			metrics.HeldMembers: func(s *v1alpha1.VmGroupStatus) int32 {
				return tally(s.Members, func(m v1alpha1.Member) bool { return !m.HeldUntil.IsZero() })
			},
			metrics.DetachedDisks: func(s *v1alpha1.VmGroupStatus) int32 {
				return tally(s.Disks, func(d v1alpha1.PersistentDisk) bool { return d.State == v1alpha1.DiskDetached })
			},
			metrics.AvailReplicas:   func(s *v1alpha1.VmGroupStatus) int32 { return s.AvailableReplicas },
			metrics.UpdatedReplicas: func(s *v1alpha1.VmGroupStatus) int32 { return s.UpdatedReplicas },
			metrics.StandbyReplicas: func(s *v1alpha1.VmGroupStatus) int32 { return s.StandbyReplicas },
		} {
			m.Gauge(r, func(set func(float64, ...string)) {
				l.eachGroup(func(g *group) { set(float64(count(&g.answers.status)), g.ref.Namespace, g.ref.Name) })
			})
		}
	}
	reduced := metrics.SlotsReduced.Counter(r)
	for _, kind := range limiter.Kinds {
		for _, congestion := range limiter.Congestions {
			reduced.WithLabelValues(string(kind), string(congestion)) // a first one is an increase, too
		}
	}
	return meters{actions: metrics.Actions.Counter(r), reduced: reduced, duration: metrics.ActionDuration.Histogram(r)}
}

// narrowest is how many clones can run at once from the source, and to the target, where these are fewest; none while there is none.
func (l *Loop) narrowest() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	least := map[string]int{}
	for _, n := range l.limiter.Limits() {
		place := "source"
		switch {
		case n.Target != "":
			place = "target"
		case n.Source == "":
			continue
		}
		if now, has := least[place]; !has || n.Size < now {
			least[place] = n.Size
		}
	}
	return least
}

func (m meters) ended(a *plan.ActionReport) {
	m.actions.WithLabelValues(string(a.Op), a.Result).Inc()
	m.duration.WithLabelValues(string(a.Op)).Observe(a.DurationSeconds)
}

// eachGroup visits each group that is shown. Of two with one name (one that is gone, and one applied again) it visits the one that was
// called for last.
func (l *Loop) eachGroup(visit func(*group)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	type name struct{ namespace, group string }
	now, newest := time.Now(), map[name]*group{}
	for _, g := range l.groups {
		n := name{g.ref.Namespace, g.ref.Name}
		if was := newest[n]; l.shown(g, now) && (was == nil || was.lease.renewed.Before(g.lease.renewed)) {
			newest[n] = g
		}
	}
	for _, g := range newest {
		visit(g)
	}
}

// phases counts the groups that are shown by phase.
func (l *Loop) phases() map[v1alpha1.Phase]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[v1alpha1.Phase]int{v1alpha1.PhasePending: 0, v1alpha1.PhaseRunning: 0, v1alpha1.PhaseError: 0}
	for _, g := range l.groups {
		if l.shown(g, time.Now()) {
			n[g.answers.status.Phase]++
		}
	}
	return n
}

// troubled is a group's trouble, and its phase.
type troubled struct {
	phase v1alpha1.Phase
	plan.Trouble
}

// troubles counts the groups that are shown and not RUNNING by their trouble.
func (l *Loop) troubles() map[troubled]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[troubled]int{}
	for _, g := range l.groups {
		if t := g.answers.trouble; t != (plan.Trouble{}) && l.shown(g, time.Now()) {
			n[troubled{g.answers.status.Phase, t}]++
		}
	}
	return n
}

// shown reports whether metrics include a group: it was answered, is not gone, and is under lease, or as last known. As long as no call comes for any
// group, the server doesn't know better, so an alert about a group stays; and when calls come again, each group has a lease's time for its own. A group
// that isn't called while others are may be another replica's. The caller holds l.mu.
func (l *Loop) shown(g *group, now time.Time) bool {
	last := now
	switch {
	case l.silent(now):
		last = l.called
	case now.Sub(l.resumed) <= l.cfg.Lease:
		last = l.silentSince
	}
	return g.answers.status.Phase != "" && !g.answers.finalized && (now.Sub(g.lease.renewed) <= l.cfg.Lease || last.Sub(g.lease.renewed) <= l.cfg.Lease && g.unselected.since.IsZero())
}

// isAnotherShown reports whether another group than this one is shown. The caller holds l.mu.
func (l *Loop) isAnotherShown(than *group) bool {
	for _, g := range l.groups {
		if g != than && l.shown(g, time.Now()) {
			return true
		}
	}
	return false
}

// tally counts those of which something is true.
func tally[T any](all []T, is func(T) bool) (n int32) {
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}
