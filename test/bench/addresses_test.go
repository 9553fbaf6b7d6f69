package bench

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// addressesMost is the goal for the server's peak memory in BenchmarkManyAddresses, in MiB. The chart's limit is 256 MiB.
const addressesMost = 200

// BenchmarkManyAddresses measures the memory of a server whose 1,000 members' guests report 1,400 addresses each, of which VMware Tools send up to 2,048:
// from its start on, and then while 77 of them a second report another one for 20 s.
func BenchmarkManyAddresses(b *testing.B) {
	const members, addresses, aSecond, lasting = 1000, 1400, 77, 20 * time.Second
	for range b.N {
		f := newFleet(b, 2*members, addresses)
		s := startFleetServer(b, f)
		start := s.figures("/fleet/figures")
		s.get("/fleet/reset")
		var changes atomic.Int32
		began := time.Now()
		for i := 0; time.Since(began) < lasting; i++ {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / aSecond)))
			g, o := i%f.groups, i/f.groups%perGroup
			if err := f.AddIP(fmt.Sprintf("%s/%s-%d", folderOf(g), groupName(g), o), "fd00::1"); err != nil {
				b.Error(err)
			}
			changes.Add(1)
		}
		changing := s.figures("/fleet/figures")
		if *fleetHeap != "" {
			_ = os.WriteFile(*fleetHeap, s.get("/debug/pprof/heap"), 0o600)
		}
		live := s.figures("/fleet/figures?live=1")
		s.stop()
		_ = f.Close()
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(start.Ready, "s-to-ready")
		b.ReportMetric(start.PeakMB, "MiB-peak-start")
		b.ReportMetric(changing.PeakMB, "MiB-peak-changing")
		b.ReportMetric(live.HeapMB, "MiB-live")
		b.ReportMetric(float64(changes.Load())/lasting.Seconds(), "changes/s")
		if start.Members != members {
			b.Errorf("the server knows %d members, want %d", start.Members, members)
		}
		if max(start.PeakMB, changing.PeakMB) >= addressesMost {
			b.Errorf("%.0f MiB at its start and %.0f MiB while guests report, want less than %d", start.PeakMB, changing.PeakMB, addressesMost)
		}
	}
}
