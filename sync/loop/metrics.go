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
	if l.cfg.GroupMetrics {
		metrics.GroupPhase.Gauge(r, func(set func(float64, ...string)) {
			l.eachGroup(func(g *group) { set(1, g.ref.Namespace, g.ref.Name, string(g.answers.status.Phase)) })
		})
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

// eachGroup visits each group under lease. Of two with one name (one that is gone, and one applied again) it visits the one that was
// called for last.
func (l *Loop) eachGroup(visit func(*group)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	type name struct{ namespace, group string }
	newest := map[name]*group{}
	for _, g := range l.groups {
		n := name{g.ref.Namespace, g.ref.Name}
		if was := newest[n]; g.shown(l.cfg.Lease) && (was == nil || was.lease.renewed.Before(g.lease.renewed)) {
			newest[n] = g
		}
	}
	for _, g := range newest {
		visit(g)
	}
}

// phases counts the groups under lease by phase.
func (l *Loop) phases() map[v1alpha1.Phase]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[v1alpha1.Phase]int{v1alpha1.PhasePending: 0, v1alpha1.PhaseRunning: 0, v1alpha1.PhaseError: 0}
	for _, g := range l.groups {
		if g.shown(l.cfg.Lease) {
			n[g.answers.status.Phase]++
		}
	}
	return n
}

// shown reports whether metrics include the group: it is under lease, was answered, and is not gone.
func (g *group) shown(lease time.Duration) bool {
	return time.Since(g.lease.renewed) <= lease && g.answers.status.Phase != "" && !g.answers.finalized
}

// isAnotherShown reports whether another group than this one is under lease and not gone. The caller holds l.mu.
func (l *Loop) isAnotherShown(than *group) bool {
	for _, g := range l.groups {
		if g != than && g.shown(l.cfg.Lease) {
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
