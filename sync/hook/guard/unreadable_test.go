package guard

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// unreadableIn returns vmgroup_key_files_unreadable.
func unreadableIn(t *testing.T, meter *prometheus.Registry) float64 {
	t.Helper()
	families, err := meter.Gather()
	must.Succeed(t, err)
	for _, f := range families {
		if f.GetName() == "vmgroup_key_files_unreadable" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no vmgroup_key_files_unreadable")
	return 0
}

func TestTheMetricCountsFilesThatAreMissing(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	whole := pairFiles(a)
	whole["ca.crt"], whole["token"], whole["reader"] = a.pem(), []byte(first), []byte(reader)
	v := newVolume(t, whole)
	d := open(t, withPair(v, Config{
		ClientCAFile: v.path("ca.crt"), TokenFiles: []string{v.path("token"), v.path("token-next")}, ReaderTokenFiles: []string{v.path("reader")},
	}), generous)
	for _, c := range []struct {
		gone []string
		want float64
	}{
		{nil, 0}, // token-next doesn't exist
		{[]string{"tls.crt"}, 1},
		{[]string{"tls.key"}, 1},
		{[]string{"tls.crt", "tls.key"}, 2},
		{[]string{"ca.crt"}, 1},
		{[]string{"reader"}, 0},
		{[]string{"token"}, 2}, // neither token exists
		{[]string{"tls.crt", "tls.key", "ca.crt", "token"}, 5},
	} {
		files := maps.Clone(whole)
		for _, name := range c.gone {
			delete(files, name)
		}
		if v.swap(files); unreadableIn(t, d.meter) != c.want {
			t.Errorf("without %v, the metric is %v; want %v", c.gone, unreadableIn(t, d.meter), c.want)
		}
	}
}
