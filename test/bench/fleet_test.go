package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/docs"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
)

var (
	fleetSizes  = flag.String("fleet.sizes", "1000,5000,10000,20000,40000", "the numbers of VMs in vCenter")
	fleetLimit  = flag.String("fleet.limit", "", "GOMEMLIMIT of the server; by default the one that docs/install.md names for the size")
	fleetIdle   = flag.Duration("fleet.idle", 15*time.Second, "how long the fleet is watched at rest")
	fleetHeap   = flag.String("fleet.heap", "", "a file for the server's heap profile at its end")
	fleetDuring = flag.Duration("fleet.during", 20*time.Second, "how long it is watched during full reads, at least")
)

// limitFor returns the GOMEMLIMIT that docs/install.md recommends for this number of VMs.
func limitFor(b *testing.B, machines int) string {
	b.Helper()
	page, err := docs.Pages.ReadFile("install.md")
	if err != nil {
		b.Fatal(err)
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9,]+) \| \w+, (\w+) \|`).FindAllStringSubmatch(string(page), -1) {
		if n, err := strconv.Atoi(strings.ReplaceAll(row[1], ",", "")); err == nil && machines <= n {
			return row[2]
		}
	}
	b.Fatalf("docs/install.md has no GOMEMLIMIT for %d VMs", machines)
	return ""
}

// fleetServer is the server's process, seen from the benchmark.
type fleetServer struct {
	b      *testing.B
	url    string
	intact []int // members that the test has not powered off yet, in random order
	stop   func()
	called int // how many calls watch has made: groups take turns, because a group that is not called loses its lease
}

func startFleetServer(b *testing.B, f *fleet) *fleetServer {
	b.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), beTheServer+"=fleet", "GOMEMLIMIT="+cmp.Or(*fleetLimit, limitFor(b, f.groups*perGroup*2)), "FLEET_HOST="+f.URL().Host,
		"FLEET_THUMBPRINT="+f.ThumbprintSHA256())
	c.Stderr = os.Stderr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err1 != nil || err2 != nil || c.Start() != nil {
		b.Fatal(err1, err2)
	}
	var address string
	if _, err := fmt.Fscanln(out, &address); err != nil {
		b.Fatal(err)
	}
	return &fleetServer{b, "http://" + address, rand.Perm(f.groups * perGroup), func() { _ = in.Close(); _ = c.Wait() }, 0}
}

func (s *fleetServer) get(path string) []byte {
	res, err := http.Get(s.url + path)
	if err != nil {
		s.b.Error(err)
		return nil
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		s.b.Errorf("%s: %s %v", path, res.Status, err)
	}
	return text
}

func (s *fleetServer) figures(path string) (f figures) {
	_ = json.Unmarshal(s.get(path), &f)
	return f
}

// bodies brings all groups up, and returns the bodies of their next sync calls, as large as a real Metacontroller's.
func (s *fleetServer) bodies(f *fleet) [][]byte {
	all := make([][]byte, f.groups)
	var callers sync.WaitGroup
	for worker := range 4 {
		callers.Go(func() {
			for i := worker; i < f.groups; i += 4 {
				g := metacontroller.New(s.url, namespaceOf(i), groupName(i), string(uid(i)), perGroup)
				a, err := g.Until(context.Background(), metacontroller.Running)
				if err != nil {
					s.b.Errorf("%v %s: %s", err, a.Status.Phase, a.Status.LastMessage)
					return
				}
				all[i] = asReal(s.b, g)
			}
		})
	}
	callers.Wait()
	return all
}

// watch calls for each group every 30 s, as Metacontroller does, and powers members off, until done is closed. It returns the times until
// these members were on again.
func (s *fleetServer) watch(f *fleet, bodies [][]byte, done <-chan struct{}) (seen []time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	call := time.NewTicker(30 * time.Second / time.Duration(len(bodies)))
	off := time.NewTicker(200 * time.Millisecond)
	defer call.Stop()
	defer off.Stop()
	for {
		select {
		case <-done:
			all.Wait()
			return seen
		case <-call.C:
			body := bodies[s.called%len(bodies)]
			s.called++
			all.Go(func() {
				res, err := http.Post(s.url+"/sync", "application/json", bytes.NewReader(body))
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		case <-off.C:
			if len(s.intact) == 0 { // the server powers a member on later if it halts a second time, so no member is powered off twice
				continue
			}
			member := s.intact[0]
			s.intact = s.intact[1:]
			all.Go(func() {
				took, err := f.PowerOff(member/perGroup, member%perGroup)
				if err != nil {
					s.b.Error(err)
				}
				mu.Lock()
				seen = append(seen, took)
				mu.Unlock()
			})
		}
	}
}

func quantiles(times []time.Duration) (p50, p99 float64) {
	slices.Sort(times)
	if len(times) == 0 {
		return 0, 0
	}
	return times[len(times)/2].Seconds(), times[len(times)*99/100].Seconds()
}

// BenchmarkFleet measures a server whose vCenter has up to 40,000 VMs, half of them members of groups of ten. Metacontroller calls for each
// group every 30 s, and the test powers off five members a second. There are three phases:
//   - without a full read;
//   - during a full read at leisure, as the server makes periodically, while a client reads /groups and /metrics;
//   - during full reads one after another, as after the server's start or while groups are deleted.
//
// The embedded vCenter runs in this process; the server has a process of its own, with the GOMEMLIMIT of docs/install.md. The goals for 40,000
// VMs: less than 300 MB, hook calls below 5 ms (p99, in the server) during a full read, and less than a second (p99) until a member that was
// powered off is on again. On a busy machine, twice these times pass; more is a failure.
func BenchmarkFleet(b *testing.B) {
	for size := range strings.SplitSeq(*fleetSizes, ",") {
		b.Run("vms="+size, func(b *testing.B) {
			vms, err := strconv.Atoi(size)
			if err != nil {
				b.Fatal(err)
			}
			for range b.N {
				measureFleet(b, vms)
			}
		})
	}
}

func measureFleet(b *testing.B, vms int) {
	f := newFleet(b, vms, 1)
	defer f.Close() //nolint:errcheck // the server is gone
	s := startFleetServer(b, f)
	defer s.stop()
	start := s.figures("/fleet/figures")
	bodies := s.bodies(f)
	s.get("/fleet/reset")
	before := s.figures("/fleet/figures?live=1")
	done := make(chan struct{})
	time.AfterFunc(*fleetIdle, func() { close(done) })
	rest50, rest99 := quantiles(s.watch(f, bodies, done))
	rest := s.figures("/fleet/figures")

	s.get("/fleet/reset")
	beside := make(chan struct{})
	go func() { // lasts at least to the end of the read, because an urgent read of the next phase would speed this one up
		defer close(beside)
		began := time.Now()
		go s.get("/groups")
		go s.get("/metrics")
		s.get("/fleet/scan?leisure=1")
		time.Sleep(*fleetDuring - time.Since(began))
	}()
	_, leisure99 := quantiles(s.watch(f, bodies, beside))
	leisure := s.figures("/fleet/figures")

	s.get("/fleet/reset")
	during, reads, lasted := make(chan struct{}), 0, time.Duration(0)
	go func() {
		defer close(during)
		for began := time.Now(); lasted < *fleetDuring; reads++ {
			s.get("/fleet/scan")
			lasted = time.Since(began)
		}
	}()
	full50, full99 := quantiles(s.watch(f, bodies, during))
	full := s.figures("/fleet/figures")
	if *fleetHeap != "" {
		_ = os.WriteFile(*fleetHeap, s.get("/debug/pprof/heap?gc=1"), 0o600)
	}
	var figures []string
	report := func(figure float64, unit string) {
		b.ReportMetric(figure, unit)
		figures = append(figures, fmt.Sprintf("%.4g %s", figure, unit))
	}
	defer func() {
		if b.Failed() { // a failed benchmark doesn't print its metrics
			b.Log(strings.Join(figures, "\n"))
		}
	}()
	b.ReportMetric(0, "ns/op")
	report(start.Ready, "s-to-ready")
	report(start.CPU, "cpu-s-to-ready")
	report(start.PeakMB, "MB-peak-start")
	report(before.HeapMB, "MB-live")
	report(rest.PeakMB, "MB-peak-rest")
	report(leisure.PeakMB, "MB-peak-leisure")
	report(full.PeakMB, "MB-peak-full")
	report(rest.HookP50, "ms-hook-p50-rest")
	report(rest.HookP99, "ms-hook-p99-rest")
	report(leisure.HookP99, "ms-hook-p99-leisure")
	report(leisure99, "s-change-p99-leisure")
	report(full.HookP50, "ms-hook-p50-full")
	report(full.HookP99, "ms-hook-p99-full")
	report(rest50, "s-change-p50-rest")
	report(rest99, "s-change-p99-rest")
	report(full50, "s-change-p50-full")
	report(full99, "s-change-p99-full")
	report(full.FullRead, "s-full-read")
	report(leisure.FullRead, "s-read-leisure")
	cores := (rest.CPU - before.CPU) / fleetIdle.Seconds()
	report(cores, "cores-rest")
	report((full.CPU-leisure.CPU-cores*lasted.Seconds())/float64(reads), "cpu-s-full") // without the CPU time that the calls and changes take at rest
	if full.Machines < vms {
		b.Errorf("the server knows %d VMs, %d of them members, want all", full.Machines, full.Members)
	}
	if vms < 40000 {
		return
	}
	for _, goal := range []struct {
		what       string
		got, below float64
	}{
		{"MB of memory", max(start.PeakMB, rest.PeakMB, leisure.PeakMB, full.PeakMB), 300},
		{"ms for a hook call during a full read at leisure (p99)", leisure.HookP99, 2 * 5},
		{"ms for a hook call during full reads (p99)", full.HookP99, 2 * 5},
		{"s until a member is on again, at rest (p99)", rest99, 2 * 1},
		{"s until a member is on again, during a full read at leisure (p99)", leisure99, 2 * 1},
		{"s until a member is on again, during full reads (p99)", full99, 2 * 1},
	} {
		if goal.got >= goal.below {
			b.Errorf("%.1f %s, want less than %.0f", goal.got, goal.what, goal.below)
		}
	}
}
