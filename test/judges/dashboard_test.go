package judges

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"codeconnect.vmworld.com/vmgroup/sync/metrics"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// dashboard is the part of a Grafana dashboard that queries Prometheus.
type dashboard struct {
	Panels []struct {
		ID          int
		Type, Title string
		Description string
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

// scraped are the labels that a scrape through the ServiceMonitor adds, and the label of a histogram's buckets.
var scraped = []string{"namespace", "pod", "service", "job", "instance", "container", "endpoint", "le", model.MetricNameLabel}

// asked returns the errors of an expression: it does not parse, or names a metric or a label that doesn't exist.
func asked(expr string) (wrong []string) {
	for _, v := range [][2]string{{"$__rate_interval", "5m"}, {"$server", "s"}, {"$namespace", "n"}} {
		expr = strings.ReplaceAll(expr, v[0], v[1])
	}
	if strings.Contains(expr, "$") {
		return []string{"the dashboard doesn't define the variable " + expr}
	}
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	known := slices.Clone(scraped)
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, is := n.(*parser.VectorSelector); is {
			name := s.Name
			if name == "vmgroup:replica_superseded" { // a rule of components/monitoring records it; without that, nothing is left out
				return nil
			}
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			i := slices.IndexFunc(metrics.All(), func(m *metrics.Metric) bool { return m.Name == name && (name == s.Name || m.Buckets != nil) })
			if i < 0 {
				wrong = append(wrong, "there is no metric "+s.Name)
				return nil
			}
			known = append(known, metrics.All()[i].Labels...)
			for _, m := range s.LabelMatchers {
				if !slices.Contains(scraped, m.Name) && !slices.Contains(metrics.All()[i].Labels, m.Name) {
					wrong = append(wrong, s.Name+" has no label "+m.Name)
				}
			}
		}
		return nil
	})
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if a, is := n.(*parser.AggregateExpr); is {
			for _, l := range a.Grouping {
				if !slices.Contains(known, l) {
					wrong = append(wrong, "none of its metrics has the label "+l)
				}
			}
		}
		return nil
	})
	return wrong
}

func TestTheDashboardQueriesMetricsAndLabelsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "charts/vmgroup/files/dashboard/vmgroup.json"))
	must.Succeed(t, err)
	var d dashboard
	must.Succeed(t, json.Unmarshal(text, &d))
	shown := map[string]bool{}
	ids, queries := map[int]bool{}, 0
	for i, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d, %q: the id is used twice, the title is missing, or the panel is too far to the right", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, o := range d.Panels[:i] {
			if a, b := p.GridPos, o.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q overlaps %q", p.Title, o.Title)
			}
		}
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("%q has no description or shows nothing", p.Title)
		}
		for _, q := range p.Targets {
			queries++
			for _, wrong := range asked(q.Expr) {
				t.Errorf("%q: %s", p.Title, wrong)
			}
			for _, m := range metrics.All() {
				shown[m.Name] = shown[m.Name] || strings.Contains(q.Expr, m.Name)
			}
		}
	}
	for _, m := range metrics.All() {
		if !shown[m.Name] {
			t.Errorf("the dashboard does not show %s", m.Name)
		}
	}
	for _, v := range d.Templating.List {
		if metric, label, is := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(v.Definition, "label_values("), ")"), ", "); is {
			for _, wrong := range asked("count by (" + label + ") (" + metric + ")") {
				t.Errorf("the variable %s: %s", v.Name, wrong)
			}
		}
	}
	if queries < 20 {
		t.Errorf("the dashboard has %d queries, want at least 20", queries)
	}
	for what, expr := range map[string]string{"another metric": "vmgroup_group", "a sum of something that isn't a histogram": "vmgroup_groups_sum", "another label": `vmgroup_groups{state="ERROR"}`,
		"grouping by a label that the metric lacks": "max by (phase) (vmgroup_vcenter_up)", "a missing bracket": "sum(vmgroup_groups", "another variable": `vmgroup_groups{namespace="$cluster"}`} {
		if len(asked(expr)) == 0 {
			t.Errorf("planted: %s: nothing is found", what)
		}
	}
}
