package metrics_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"codeconnect.vmworld.com/vmgroup/sync/metrics"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

var named = regexp.MustCompile("`(vmgroup_[a-z_]+(?:\\{[a-z,]+\\})?)`")

func TestTheDocsListEveryMetricWithItsLabelsAndNoOther(t *testing.T) {
	documented := map[string]bool{}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("docs/*.md matches %d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		for line := range strings.Lines(read(t, page)) {
			if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(line, "| `vmgroup_") {
				for _, name := range named.FindAllStringSubmatch(cells[1], -1) {
					documented[name[1]] = true
				}
			}
		}
	}
	for _, m := range metrics.All() {
		name := m.Name
		if len(m.Labels) > 0 {
			name += "{" + strings.Join(m.Labels, ",") + "}"
		}
		if !documented[name] {
			t.Errorf("the table of metrics in docs has no `%s`: %s", name, m.Help)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs name %s, which does not exist", name)
	}
}

func TestNamesFollowPrometheus(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metrics.All() {
		if !strings.HasPrefix(m.Name, "vmgroup_") || m.Help == "" || seen[m.Name] {
			t.Errorf("the metric %+v has no prefix vmgroup_, no help, or the name of another metric", m)
		}
		seen[m.Name] = true
		seconds := strings.HasSuffix(m.Name, "_seconds")
		if seconds && !strings.HasSuffix(m.Name, "_duration_seconds") && !strings.HasSuffix(m.Name, "_timestamp_seconds") {
			t.Errorf("%s: is it a duration, or a timestamp?", m.Name)
		}
		if (m.Buckets != nil) != strings.HasSuffix(m.Name, "_duration_seconds") {
			t.Errorf("%s: a duration is a histogram with buckets, and nothing else is", m.Name)
		}
		r := prometheus.NewPedanticRegistry()
		labels := make([]string, len(m.Labels))
		switch {
		case m.Buckets != nil:
			m.Histogram(r).WithLabelValues(labels...).Observe(1)
		case strings.HasSuffix(m.Name, "_total"):
			m.Counter(r).WithLabelValues(labels...).Inc()
		default:
			m.Gauge(r, func(set func(float64, ...string)) { set(1, labels...) })
		}
		families, err := r.Gather()
		must.Succeed(t, err)
		if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %v", m.Name, problems, err)
		}
	}
}

// A metric registered elsewhere is missing from the list and the docs.
func TestMetricsAreRegisteredOnlyHere(t *testing.T) {
	made := regexp.MustCompile(`promauto\.|prometheus\.(New(Counter|Gauge|Histogram|Summary|Untyped|Desc)|Must)`)
	walk(t, "../..", ".go", func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(filepath.ToSlash(path), "sync/metrics/") && made.MatchString(text) {
			t.Errorf("%s registers a metric: let package metrics do that", path)
		}
	})
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	exists, found := map[string]bool{}, 0
	for _, m := range metrics.All() {
		exists[m.Name] = true
	}
	name := regexp.MustCompile(`\bvmgroup_[a-z_]+`)
	walk(t, "../../charts/vmgroup/files/monitoring", ".yaml", func(path, text string) {
		for _, n := range name.FindAllString(text, -1) {
			if found++; !exists[regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(n, "")] {
				t.Errorf("%s queries %s, which does not exist", path, n)
			}
		}
	})
	if found == 0 {
		t.Error("found no metric in the alerts: does this test still look in the right place?")
	}
}

func TestAMetricRegisteredTwiceIsOne(t *testing.T) {
	r := prometheus.NewRegistry()
	metrics.Actions.Counter(r).WithLabelValues("Clone", "ok").Inc()
	metrics.Actions.Counter(r).WithLabelValues("Clone", "ok").Inc()
	if all, err := r.Gather(); err != nil || len(all) != 1 || all[0].GetMetric()[0].GetCounter().GetValue() != 2 {
		t.Errorf("%v %v", all, err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Succeed(t, err)
	return string(text)
}

func walk(t *testing.T, root, ext string, look func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ext) {
			look(path, read(t, path))
		}
		return err
	})
	must.Succeed(t, err)
}
