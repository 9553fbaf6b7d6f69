package loop

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// metrics are what the loop tells Prometheus. promauto with a nil registerer registers nowhere.
type metrics struct {
	actions *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, l *Loop) metrics {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "vmgroup_actions_running", Help: "vCenter actions under way now."}, func() float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return float64(l.running)
	})
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "vmgroup_groups_waiting", Help: "Groups that wait for a free slot."}, func() float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return float64(len(l.waiting))
	})
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhasePending, v1alpha1.PhaseRunning, v1alpha1.PhaseError} {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "vmgroup_groups", Help: "Groups under lease, by phase.",
			ConstLabels: prometheus.Labels{"phase": string(phase)}}, func() float64 { return float64(l.phases()[phase]) })
	}
	return metrics{
		actions: f.NewCounterVec(prometheus.CounterOpts{Name: "vmgroup_actions_total", Help: "vCenter actions that ended, by kind and result (ok, or the fault's reason)."}, []string{"op", "result"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{Name: "vmgroup_action_seconds", Help: "How long vCenter actions took, until they were visible.",
			Buckets: prometheus.ExponentialBuckets(0.1, 2, 14)}, []string{"op"}),
	}
}

func (m metrics) ended(a *plan.ActionReport) {
	m.actions.WithLabelValues(string(a.Op), a.Result).Inc()
	m.seconds.WithLabelValues(string(a.Op)).Observe(a.DurationSeconds)
}
