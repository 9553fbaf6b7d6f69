package bench

import (
	"context"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// scaleOut is how long a group of five takes until five more are on and their guests run, with so many standby members. Tasks and guests
// take a tenth of their time in a vCenter that is neither idle nor overloaded.
func scaleOut(b *testing.B, standby int32) float64 {
	b.Helper()
	vc, err := vcsim.Start(vcsim.Config{Guest: vcsim.Guest{Tools: true, Boot: 3 * time.Second},
		Latency: vcsim.Latency{Clone: 4 * time.Second, Power: 500 * time.Millisecond, Reconfigure: 200 * time.Millisecond, Other: 100 * time.Millisecond}})
	if err != nil {
		b.Fatal(err)
	}
	defer vc.Close() //nolint:errcheck // the measurement is over
	url, stop := serve(b, vc, 32)
	defer stop()
	g := metacontroller.New(url, "default", "web", "uid-web", 5)
	g.Spec.Readiness.Check, g.Spec.Standby = v1alpha1.ReadyToolsRunning, standby
	if _, err := g.Until(context.Background(), func(a metacontroller.Answer) bool {
		return metacontroller.Running(a) && a.Status.StandbyReplicas == standby
	}); err != nil {
		b.Fatal(err)
	}
	quiet(vc)
	g.Scale(10)
	began := time.Now()
	if _, err := g.Until(context.Background(), func(a metacontroller.Answer) bool { return a.Status.ReadyReplicas == 10 }); err != nil {
		b.Fatal(err)
	}
	return time.Since(began).Seconds()
}

// BenchmarkScaleOutWithStandby scales a group of five to ten, with five standby members and without any. The goal is at most 0.6 times
// the time: a boot instead of a clone and a boot.
func BenchmarkScaleOutWithStandby(b *testing.B) {
	for range b.N {
		var with, without, ratios []float64
		for range 3 {
			without = append(without, scaleOut(b, 0))
			with = append(with, scaleOut(b, 5))
			ratios = append(ratios, with[len(with)-1]/without[len(without)-1])
		}
		b.ReportMetric(median(with), "s")
		b.ReportMetric(median(without), "without-s")
		b.ReportMetric(median(ratios), "x-without")
	}
}
