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
	"net"
	"net/http"
	_ "net/http/pprof" // for -fleet.heap
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

var (
	fleetSizes  = flag.String("fleet.sizes", "1000,5000,10000,20000,40000", "the numbers of VMs in vCenter")
	fleetLimit  = flag.String("fleet.limit", "", "GOMEMLIMIT of the server; by default the one that docs/install.md names for the size")
	fleetIdle   = flag.Duration("fleet.idle", 15*time.Second, "how long the fleet is watched at rest")
	fleetHeap   = flag.String("fleet.heap", "", "a file for the server's heap profile at its end")
	fleetDuring = flag.Duration("fleet.during", 20*time.Second, "how long it is watched during full reads, at least")
)

// figures are what the server's process says of itself.
type figures struct {
	Ready             float64 // seconds from its start
	CPU               float64 // seconds
	HeapMB            float64 // live, after a collection, if asked for
	RSSMB, PeakMB     float64 // peak since the last reset
	HookP50, HookP99  float64 // ms, since the last reset
	Hooks             int
	FullRead          float64 // seconds
	Members, Machines int
}

// serveFleet is the process of the server, whose vCenter is the model.
func serveFleet() {
	began := time.Now()
	var groups *loop.Loop
	metrics := prometheus.NewRegistry()
	side, err := vsphere.New(vsphere.Config{
		Config: session.Config{Host: os.Getenv("FLEET_HOST"), User: "vmgroup", Password: "secret", Thumbprint: os.Getenv("FLEET_THUMBPRINT"),
			Log: zerolog.New(os.Stderr).Level(zerolog.WarnLevel), Metrics: metrics},
		Selection: inventory.Selection{Folder: "vm-operator"}, Changed: func(uid apitypes.UID) { groups.Changed(uid) }})
	if err != nil {
		panic(err)
	}
	groups = loop.New(loop.Config{Slots: 8, Lease: 90 * time.Second, Resync: 30 * time.Second, Log: zerolog.Nop(), Metrics: metrics, Events: true}, side)
	hooks := hook.New(hook.Config{Keeper: groups, Ready: func() error { return nil }, Log: zerolog.Nop()})
	var mu sync.Mutex
	var now figures
	var times []time.Duration
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // what the network takes is not the server's
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		began := time.Now()
		hooks.ServeHTTP(w, r)
		took := time.Since(began)
		mu.Lock()
		times = append(times, took)
		mu.Unlock()
	})
	mux.HandleFunc("/fleet/scan", func(w http.ResponseWriter, r *http.Request) {
		began, read := time.Now(), side.Parts().Reader.Scan
		if r.FormValue("leisure") != "" {
			read = side.Parts().Reader.ScanAtLeisure
		}
		if err := read(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		mu.Lock()
		now.FullRead = time.Since(began).Seconds()
		mu.Unlock()
	})
	mux.HandleFunc("/fleet/reset", func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		times = nil
		mu.Unlock()
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // VmHWM begins again
	})
	mux.HandleFunc("/fleet/figures", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		now.CPU, now.RSSMB, now.PeakMB = cpuSeconds(), residentMB("VmRSS"), residentMB("VmHWM")
		counts := side.Parts().Inventory.Count()
		now.Members, now.Machines = counts.Members, counts.Members+counts.Unmanaged
		if r.FormValue("live") != "" {
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			now.HeapMB = float64(m.HeapAlloc) / (1 << 20)
		}
		slices.Sort(times)
		if now.Hooks = len(times); now.Hooks > 0 {
			now.HookP50, now.HookP99 = ms(times[len(times)/2]), ms(times[len(times)*99/100])
		}
		_ = json.NewEncoder(w).Encode(now)
	})
	mux.Handle("/debug/pprof/", http.DefaultServeMux)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = http.Serve(listener, mux) }()
	ctx, stop := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { groups.Run(ctx) })
	both.Go(func() { _ = side.Run(ctx) })
	for !side.WasRead() {
		time.Sleep(10 * time.Millisecond)
	}
	mu.Lock()
	now.Ready = time.Since(began).Seconds()
	mu.Unlock()
	fmt.Println(listener.Addr())
	_, _ = os.Stdin.Read(make([]byte, 1))
	stop()
	both.Wait()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// cpuSeconds is the processor time of the process; 0 where that is unknown.
func cpuSeconds() float64 {
	stat, _ := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on (proc_pid_stat(5))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / 100
}

// residentMB reads a figure of the process's memory; 0 where that is unknown.
func residentMB(field string) float64 {
	status, _ := os.ReadFile("/proc/self/status")
	kb := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(status)
	if kb == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(kb[1]))
	return float64(n) / 1024
}

// limitFor is the GOMEMLIMIT for so many VMs.
func limitFor(machines int) string {
	if machines > 20000 {
		return "256MiB"
	}
	return "230MiB"
}

// fleetServer is the server's process, seen from the benchmark.
type fleetServer struct {
	b      *testing.B
	url    string
	intact []int // members that were not powered off yet, in random order
	stop   func()
}

func startFleetServer(b *testing.B, f *fleet) *fleetServer {
	b.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), beTheServer+"=fleet", "GOMEMLIMIT="+cmp.Or(*fleetLimit, limitFor(f.groups*perGroup*2)), "FLEET_HOST="+f.Listener.Addr().String(),
		"FLEET_THUMBPRINT="+vcfault.Thumbprint(f.Certificate()))
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
	return &fleetServer{b, "http://" + address, rand.Perm(f.groups * perGroup), func() { _ = in.Close(); _ = c.Wait() }}
}

func (s *fleetServer) get(path string) []byte {
	res, err := http.Get(s.url + path)
	if err != nil {
		s.b.Error(err)
		return nil
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, _ := io.ReadAll(res.Body)
	return text
}

func (s *fleetServer) figures(path string) (f figures) {
	_ = json.Unmarshal(s.get(path), &f)
	return f
}

// bodies are the sync calls of all groups, settled, as large as a real Metacontroller's.
func (s *fleetServer) bodies(f *fleet) [][]byte {
	all := make([][]byte, f.groups)
	var callers sync.WaitGroup
	for worker := range 4 {
		callers.Go(func() {
			for i := worker; i < f.groups; i += 4 {
				g := metacontroller.New(s.url, fmt.Sprintf("ns%d", i/100), fmt.Sprintf("g%d", i), string(uid(i)), perGroup)
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

// watch calls the groups every 30 s, as Metacontroller does, and powers members off, until done; it returns how long it took until
// the server called to power them on.
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
			all.Go(func() {
				res, err := http.Post(s.url+"/sync", "application/json", bytes.NewReader(bodies[rand.IntN(len(bodies))]))
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		case <-off.C:
			if len(s.intact) == 0 { // one that halts twice is powered on later
				continue
			}
			member := s.intact[0]
			s.intact = s.intact[1:]
			all.Go(func() {
				took, called := f.PowerOff(member/perGroup, member%perGroup)
				if !called {
					s.b.Error("a member that was powered off stays off")
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

// BenchmarkFleet measures a server whose vCenter has up to 40,000 VMs, half of them members of groups of ten: Metacontroller calls for
// each group every 30 s, and somebody powers five members a second off; first at rest, then during a full read at leisure, as the server makes
// them now and then, then during full reads one after another, as after its start or while groups are deleted. vCenter is
// a model of its wire (fleet) in this process; the server has a process of its own, with GOMEMLIMIT as the manifests set it. The
// goals for 40,000: less than 300 MB, hook calls below 5 ms (p99, in the server) during a full read, and less than a second (p99) from a
// change to the server's call.
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
	f := newFleet(vms)
	defer f.Close()
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
	time.AfterFunc(*fleetDuring, func() { close(beside) })
	go s.get("/fleet/scan?leisure=1")
	_, leisure99 := quantiles(s.watch(f, bodies, beside))
	leisure := s.figures("/fleet/figures")

	s.get("/fleet/reset")
	during, reads := make(chan struct{}), 0
	go func() {
		defer close(during)
		for began := time.Now(); time.Since(began) < *fleetDuring; reads++ {
			s.get("/fleet/scan")
		}
	}()
	full50, full99 := quantiles(s.watch(f, bodies, during))
	full := s.figures("/fleet/figures")
	if *fleetHeap != "" {
		_ = os.WriteFile(*fleetHeap, s.get("/debug/pprof/heap?gc=1"), 0o600)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(start.Ready, "s-to-ready")
	b.ReportMetric(start.CPU, "cpu-s-to-ready")
	b.ReportMetric(start.PeakMB, "MB-peak-start")
	b.ReportMetric(before.HeapMB, "MB-live")
	b.ReportMetric(rest.PeakMB, "MB-peak-rest")
	b.ReportMetric(full.PeakMB, "MB-peak-full")
	b.ReportMetric(rest.HookP50, "ms-hook-p50-rest")
	b.ReportMetric(rest.HookP99, "ms-hook-p99-rest")
	b.ReportMetric(leisure.HookP99, "ms-hook-p99-leisure")
	b.ReportMetric(leisure99, "s-change-p99-leisure")
	b.ReportMetric(full.HookP50, "ms-hook-p50-full")
	b.ReportMetric(full.HookP99, "ms-hook-p99-full")
	b.ReportMetric(rest50, "s-change-p50-rest")
	b.ReportMetric(rest99, "s-change-p99-rest")
	b.ReportMetric(full50, "s-change-p50-full")
	b.ReportMetric(full99, "s-change-p99-full")
	b.ReportMetric(full.FullRead, "s-full-read")
	b.ReportMetric((rest.CPU-before.CPU)/fleetIdle.Seconds(), "cores-rest")
	b.ReportMetric((full.CPU-leisure.CPU)/float64(max(reads, 1)), "cpu-s-full")
	if full.Machines < vms {
		b.Errorf("%d VMs are known, %d of them members", full.Machines, full.Members)
	}
}
