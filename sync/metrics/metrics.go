// Package metrics is the list of the server's metrics, and the one way to register them. To add a metric, add it to the list below and to
// the table of metrics in docs; a test compares the two. Names follow https://prometheus.io/docs/practices/naming/: the unit is the last
// word, counters end in _total, and times in _duration_seconds or _timestamp_seconds.
package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is one metric: its name, help, labels, and the buckets of a histogram.
type Metric struct {
	Name, Help string
	Labels     []string
	Buckets    []float64
}

// The metrics.
var (
	BuildInfo = add("vmgroup_build_info", "Always 1; the labels identify the build.", "version", "goversion")

	Groups          = add("vmgroup_groups", "Groups under lease, or last known, by phase.", "phase")
	GroupsTroubled  = add("vmgroup_groups_troubled", "Groups under lease, or last known, that are not RUNNING, by the reason, by who can end it (vcenter: vCenter's state is unknown; site: who runs the server, vCenter or its hosts; group: the group's owner, or time), and by the harm (down: members exist, and none is available; degraded; none).", "phase", "reason", "scope", "harm")
	GroupsInVCenter = add("vmgroup_groups_in_vcenter", "Groups of this cluster that have members in vCenter, according to the members' stamps.")
	LastCall        = add("vmgroup_last_call_timestamp_seconds", "When Metacontroller last called a hook, in seconds since 1970; 0 once the last group that it called for is gone.")
	GroupsWaiting   = add("vmgroup_groups_waiting", "Groups that wait for a free slot.")
	GroupPhase      = add("vmgroup_group_phase", "1 for the phase of a group under lease, or last known, which has no series for its other phases; with the reason if it is not RUNNING, and who can end it (scope).", "namespace", "group", "phase", "reason", "scope")
	UnreadyMembers  = add("vmgroup_group_members_unready", "Members of a group under lease, or last known, that exist and are not ready, by the reason in the status and who can end it; no series while there are none.", "namespace", "group", "reason", "scope")
	SilentMembers   = add("vmgroup_group_members_silent", "Ready members of a group under lease, or last known, whose VMware Tools have fallen silent; no series while there are none.", "namespace", "group")
	MemberHeals     = add("vmgroup_group_member_heals", "How often this process healed the member of a group that it healed most, within the last two hours; no series if none.", "namespace", "group")
	DesiredReplicas = add("vmgroup_group_replicas_desired", "spec.replicas of a group under lease, or last known; 0 while the group is deleted.", "namespace", "group")
	ReadyReplicas   = add("vmgroup_group_replicas_ready", "Members of a group under lease, or last known, that are ready.", "namespace", "group")
	HeldMembers     = add("vmgroup_group_members_held", "Members of a group under lease, or last known, that are not taken down yet, because annotations hold them.", "namespace", "group")
	AvailReplicas   = add("vmgroup_group_replicas_available", "Members of a group under lease, or last known, that are available.", "namespace", "group")
	UpdatedReplicas = add("vmgroup_group_replicas_updated", "Members of a group under lease, or last known, that match the spec.", "namespace", "group")
	DetachedDisks   = add("vmgroup_group_disks_detached", "Persistent disks of a group under lease, or last known, that no VM has.", "namespace", "group")
	StandbyReplicas = add("vmgroup_group_replicas_standby", "Standby members of a group under lease, or last known.", "namespace", "group")

	Slots          = add("vmgroup_slots", "How many vCenter actions of a kind can run at once now.", "kind")
	SlotsNarrowest = add("vmgroup_slots_narrowest", "The lowest limit of clones from a source (a host), or to a target (a datastore).", "place")
	SlotsReduced   = add("vmgroup_slots_reduced_total", "How often the limit of actions of a kind was lowered, by the sign that vCenter was overloaded.", "kind", "reason")

	ActionsRunning = add("vmgroup_actions_running", "Running vCenter actions that take a slot.")
	Actions        = add("vmgroup_actions_total", "vCenter actions that ended, by kind and result (ok, or the fault's reason).", "op", "result")
	ActionDuration = add("vmgroup_action_duration_seconds", "How long vCenter actions took until their result was visible, by kind.", "op").
			in(prometheus.ExponentialBuckets(0.1, 2, 14))

	Probes        = add("vmgroup_probes_total", "Probes of members' services (spec.readiness.tcpSocket and httpGet), by result: answered, or why not.", "result")
	ProbeDuration = add("vmgroup_probe_duration_seconds", "How long probes took.").
			in([]float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60})
	ProbesRunning          = add("vmgroup_probes_running", "Probes in progress.")
	GroupsProbesSuppressed = add("vmgroup_groups_probes_suppressed", "Groups whose members' failed probes are suppressed, because too many failed at once.")

	VCenterUp           = add("vmgroup_vcenter_up", "1 while vCenter's inventory is known and fresh, else 0.")
	VCenterCalls        = add("vmgroup_vcenter_calls_total", "Calls to vCenter, by method.", "method")
	VCenterCallDuration = add("vmgroup_vcenter_call_duration_seconds", "How long calls to vCenter took, by method; those that wait for changes are not timed.", "method").
				in([]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30})
	VCenterReadDuration = add("vmgroup_vcenter_read_duration_seconds", "How long it took to read everything in vCenter: the first answer of the stream of changes (first), and each full read (full).", "read").
				in(prometheus.ExponentialBuckets(0.1, 2, 14))
	VCenterUnknown     = add("vmgroup_vcenter_unknown", "1 while vCenter's inventory is not known, by the reason; no series while it is.", "reason")
	UnreachableMembers = add("vmgroup_members_unreachable", "Members that vCenter can't reach, by their host and vCenter's word for their state; no series while there are none.", "host", "state")
	StampsUnknown      = add("vmgroup_stamps_unknown", "VMs whose stamp a newer server wrote; this server never changes them.")

	HookDuration = add("vmgroup_hook_duration_seconds", "How long calls of the hooks, /groups, /sd and the page took, by path and HTTP status.", "hook", "code").
			in(prometheus.ExponentialBuckets(0.0001, 3, 11))
	Refused            = add("vmgroup_refused_total", "Refused connections and calls, by reason.", "reason")
	LogLinesDropped    = add("vmgroup_log_lines_dropped_total", "Log lines that were not written, because standard error was not read.")
	KeyFilesUnreadable = add("vmgroup_key_files_unreadable", "Files of tokens, certificates and CAs that cannot be read or do not exist.")
	CertificateExpiry  = add("vmgroup_certificate_expiry_timestamp_seconds", "When the hooks' certificate expires, in seconds since 1970.")
)

var all []*Metric

func add(name, help string, labels ...string) *Metric {
	m := &Metric{Name: name, Help: help, Labels: labels}
	all = append(all, m)
	return m
}

func (m *Metric) in(buckets []float64) *Metric {
	m.Buckets = buckets
	return m
}

// All lists the metrics. The list is immutable.
func All() []*Metric { return all }

// Counter registers the metric as a counter, or returns the one already registered; r can be nil.
func (m *Metric) Counter(r prometheus.Registerer) *prometheus.CounterVec {
	return registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels))
}

// Histogram registers the metric as a histogram, or returns the one already registered; r can be nil.
func (m *Metric) Histogram(r prometheus.Registerer) *prometheus.HistogramVec {
	return registered(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}, m.Labels))
}

// Gauge registers the metric as a gauge whose values are read at each scrape: read calls set once for each combination of labels. r can be
// nil.
func (m *Metric) Gauge(r prometheus.Registerer, read func(set func(value float64, labels ...string))) {
	registered(r, prometheus.Collector(&gauge{desc: prometheus.NewDesc(m.Name, m.Help, m.Labels, nil), read: read}))
}

// registered returns the registered collector: c, or an equal earlier one.
func registered[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if r == nil {
		return c
	}
	var before prometheus.AlreadyRegisteredError
	switch err := r.Register(c); {
	case errors.As(err, &before):
		if same, is := before.ExistingCollector.(C); is {
			return same
		}
	case err != nil:
		panic(err) // the list has one name twice
	}
	return c
}

type gauge struct {
	desc *prometheus.Desc
	read func(set func(value float64, labels ...string))
}

// Describe and Collect are prometheus.Collector's.
func (g *gauge) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

func (g *gauge) Collect(to chan<- prometheus.Metric) {
	g.read(func(value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels...)
	})
}
