package vsphere

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheLongerTheStreamLastsTheRarerEverythingIsReadAgain(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		c, registry := w.config(), prometheus.NewRegistry()
		c.Metrics = registry
		v, err := New(c)
		w.must(err)
		p := w.run(v)
		p.until("vCenter is known", func() bool { return p.state().Known })
		reads := func() (n uint64) {
			metrics, err := registry.Gather()
			w.must(err)
			for _, family := range metrics {
				for _, m := range family.GetMetric() {
					if strings.HasSuffix(family.GetName(), "vcenter_read_duration_seconds") && m.GetLabel()[0].GetValue() == "full" {
						n = m.GetHistogram().GetSampleCount()
					}
				}
			}
			return n
		}
		last := time.Duration(0)
		for _, after := range []struct {
			at    time.Duration
			reads uint64
		}{{4 * time.Minute, 1}, {6 * time.Minute, 2}, {14 * time.Minute, 2}, {16 * time.Minute, 3}, {40 * time.Minute, 4}, {80 * time.Minute, 5}, {3 * time.Hour, 6}} {
			time.Sleep(after.at - last)
			if last = after.at; reads() != after.reads {
				t.Errorf("after %s everything was read %d times, not %d", after.at, reads(), after.reads)
			}
		}
		w.DropSessions() // and a new stream begins with a read
		time.Sleep(time.Minute)
		if n := reads(); n != 7 {
			t.Errorf("after the new stream, the inventory was read %d times; want 7", n)
		}
	})
}
