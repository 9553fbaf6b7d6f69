package judges

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	vms "codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// fleet is a server of several replicas on the embedded vCenter, in virtual time, with the metrics that Prometheus scrapes from each replica
// once a minute.
type fleet struct {
	*vcsim.VCenter
	t        *testing.T
	network  *memnet.Network
	hooks    memnet.Handlers
	replicas map[string]*replica // by pod
	groups   []*metacontroller.Group
	called   string // the pod that Metacontroller calls; empty if Metacontroller calls none
	began    time.Time
	minutes  int
	series   map[string][]string // by name with labels: a value for each minute so far, in promtool's notation
}

// replica is one process of the server.
type replica struct {
	url      string
	registry *prometheus.Registry
	wire     *vcsim.Wire // the connection to vCenter
	stop     func()
}

// newFleet starts a vCenter, and a replica for each pod. Call newFleet in a synctest bubble; vCenter and the replicas end with the test.
func newFleet(t *testing.T, clone time.Duration, pods ...string) *fleet {
	t.Helper()
	network := memnet.New()
	v, err := vcsim.Start(vcsim.Config{Listener: network.Listen(), Plain: true, Templates: []string{"vm-operator-template", "vm-operator-template-2"},
		Latency: vcsim.Latency{Clone: clone, Power: 5 * time.Second, Reconfigure: 2 * time.Second, Other: time.Second}})
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, v.Close()) })
	f := &fleet{VCenter: v, t: t, network: network, replicas: map[string]*replica{}, began: time.Now(), series: map[string][]string{}}
	for _, pod := range pods {
		f.start(pod, true)
	}
	f.called = pods[0]
	return f
}

// start starts a replica, as `vmgroup serve` does.
func (f *fleet) start(pod string, groupMetrics bool) {
	f.t.Helper()
	wire, err := f.Wire(f.network.Listen())
	must.Succeed(f.t, err)
	at, registry := wire.URL(), prometheus.NewRegistry()
	password, _ := at.User.Password()
	var groups *loop.Loop
	changed := func(uid types.UID) { groups.Changed(uid) }
	vc, err := vsphere.New(vsphere.Config{
		Config: session.Config{Host: (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String(), User: at.User.Username(), Password: password, Insecure: true,
			Log: zerolog.Nop(), Metrics: registry, Dial: f.network.DialContext, Through: wire.Direct},
		Selection: vms.Selection{Folder: "vm-operator"}, Changed: changed,
		Leased: func(uid types.UID, vm string) bool { return groups.Leased(uid, vm) },
	})
	must.Succeed(f.t, err)
	groups = loop.New(loop.Config{Slots: 32, Lease: 90 * time.Second, Resync: 30 * time.Second, Log: zerolog.Nop(), Metrics: registry, GroupMetrics: groupMetrics, Who: vc.Who}, vc)
	refuse := f.hooks.Handle(pod, hook.New(hook.Config{Controller: groups, Preflight: vc, ListGroups: vc.ListGroups, Ready: func() error { return nil }, Log: zerolog.Nop(), Meter: registry}))
	ctx, cancel := context.WithCancel(context.Background())
	loopDone, vcDone := make(chan struct{}), make(chan struct{})
	vcCtx, stopVC := context.WithCancel(context.Background())
	go func() { defer close(loopDone); groups.Run(ctx) }()
	go func() { defer close(vcDone); _ = vc.Run(vcCtx) }()
	r := &replica{url: "http://" + pod, registry: registry, wire: wire}
	r.stop = func() {
		refuse()
		cancel()
		<-loopDone
		stopVC()
		<-vcDone
		must.Succeed(f.t, wire.Close())
	}
	f.replicas[pod] = r
	f.t.Cleanup(func() {
		if f.replicas[pod] == r {
			r.stop()
		}
	})
}

// end ends a replica, as when its pod is deleted.
func (f *fleet) end(pod string) {
	f.replicas[pod].stop()
	delete(f.replicas, pod)
}

// group applies a VmGroup.
func (f *fleet) group(namespace, name string, replicas int32) *metacontroller.Group {
	g := metacontroller.New("", namespace, name, "uid-"+name, replicas)
	g.Client = &http.Client{Transport: &f.hooks}
	f.groups = append(f.groups, g)
	return g
}

// until lets time pass until this minute. Metacontroller calls for each group every ten seconds, and Prometheus scrapes every minute.
func (f *fleet) until(minute int, each ...func()) {
	f.t.Helper()
	for ; f.minutes <= minute; f.minutes++ {
		f.scrape()
		for _, do := range each {
			do()
		}
		for range 6 {
			f.call()
			time.Sleep(10 * time.Second)
		}
	}
}

func (f *fleet) call() {
	f.t.Helper()
	if f.called == "" {
		return
	}
	f.groups = slices.DeleteFunc(f.groups, func(g *metacontroller.Group) bool {
		g.URL = f.replicas[f.called].url
		ask := g.Sync
		if g.DeletionTimestamp != nil {
			ask = g.Finalize
		}
		a, err := ask(f.t.Context())
		must.Succeed(f.t, err)
		return a.Finalized
	})
}

// scrape adds a sample to each series, with the labels that a ServiceMonitor with honorLabels adds. A series that has ended gets Prometheus'
// staleness marker.
func (f *fleet) scrape() {
	f.t.Helper()
	now := map[string]float64{}
	for pod, r := range f.replicas {
		target := map[string]string{"namespace": "vmgroup-system", "service": "vmgroup", "job": "vmgroup", "pod": pod, "instance": pod + ":8081"}
		now["up"+labeled(target)] = 1
		families, err := r.registry.Gather()
		must.Succeed(f.t, err)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				labels := maps.Clone(target)
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
				if m.GetHistogram() != nil { // no alert uses a histogram
					continue
				}
				if strings.HasSuffix(family.GetName(), "_timestamp_seconds") && value > 0 { // promtool's time begins at 0
					value -= float64(f.began.Unix())
				}
				now[family.GetName()+labeled(labels)] = value
			}
		}
	}
	for name, value := range now {
		if f.series[name] == nil {
			f.series[name] = slices.Repeat([]string{"_"}, f.minutes)
		}
		f.series[name] = append(f.series[name], strconv.FormatFloat(value, 'f', -1, 64))
	}
	for name, values := range f.series {
		if _, is := now[name]; !is {
			gone := "_"
			if last := values[len(values)-1]; last != "_" && last != "stale" {
				gone = "stale"
			}
			f.series[name] = append(values, gone)
		}
	}
}

func labeled(labels map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// firing lists all alerts that must fire at a minute: "VmGroupBlocked shop/web" for a group, or "VmGroupVCenterLost a" for a pod.
type firing struct {
	minute int
	alerts []string
}

// tests returns the test file for promtool, with the scraped series and the alerts that must fire.
func (f *fleet) tests(want []firing) string {
	var text strings.Builder
	fmt.Fprintf(&text, "rule_files: [rules.yaml]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n")
	for _, name := range slices.Sorted(maps.Keys(f.series)) {
		fmt.Fprintf(&text, "  - {series: '%s', values: '%s'}\n", name, strings.Join(f.series[name], " "))
	}
	text.WriteString("  promql_expr_test:\n")
	for _, w := range want {
		fmt.Fprintf(&text, "  - expr: group by (alertname, namespace, group, pod) (ALERTS{alertstate=\"firing\"})\n    eval_time: %dm\n    exp_samples:\n", w.minute)
		for _, alert := range w.alerts {
			name, of, _ := strings.Cut(alert, " ")
			namespace, group, is := strings.Cut(of, "/")
			labels := fmt.Sprintf("alertname=%q, namespace=%q", name, cmp.Or(map[bool]string{true: namespace}[is], "vmgroup-system"))
			switch {
			case is:
				labels += fmt.Sprintf(", group=%q", group)
			case of != "":
				labels += fmt.Sprintf(", pod=%q", of)
			}
			fmt.Fprintf(&text, "    - {labels: '{%s}', value: 1}\n", labels)
		}
	}
	return text.String()
}
