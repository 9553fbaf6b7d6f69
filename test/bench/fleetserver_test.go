package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // for -fleet.heap
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// figures are the server process's own measurements.
type figures struct {
	Ready             float64 // seconds from its start
	CPU               float64 // seconds
	HeapMB            float64 // live heap after a collection, if the request asks for it
	RSSMB, PeakMB     float64 // resident memory: now, and the peak since the last reset
	HookP50, HookP99  float64 // ms, since the last reset
	Hooks             int
	FullRead          float64 // seconds
	Members, Machines int
}

// serveFleet runs the server's process. It has all parts of `vmgroup serve` except for the page, the probes, and the reader of vCenter's events.
func serveFleet() {
	began := time.Now()
	var groups *loop.Loop
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	side, err := vsphere.New(vsphere.Config{
		Config: session.Config{Host: os.Getenv("FLEET_HOST"), User: "vmgroup", Password: "secret", Thumbprint: os.Getenv("FLEET_THUMBPRINT"),
			Log: zerolog.New(os.Stderr).Level(zerolog.WarnLevel), Metrics: metrics},
		Selection: inventory.Selection{Folder: "vm-operator"}, Changed: func(uid apitypes.UID) { groups.Changed(uid) },
		Leased: func(uid apitypes.UID, vm string) bool { return groups.Leased(uid, vm) }})
	if err != nil {
		panic(err)
	}
	groups = loop.New(loop.Config{Slots: 32, Lease: 90 * time.Second, Resync: 30 * time.Second, Log: zerolog.Nop(), Metrics: metrics, GroupMetrics: true, Events: true}, side)
	hooks := hook.New(hook.Config{Controller: groups, Preflight: side, ListGroups: side.ListGroups, Slots: groups.Slots, Ready: func() error { return nil }, Log: zerolog.Nop(), Meter: metrics})
	var mu sync.Mutex
	var now figures
	var times []time.Duration
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.Handle("/groups", hooks)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // read the body first, so that the time of the network doesn't count
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
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // resets VmHWM, the peak resident memory
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

// cpuSeconds returns the processor time of the process; 0 if it is unknown.
func cpuSeconds() float64 {
	stat, _ := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the fields from the third on (proc_pid_stat(5))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / 100
}

// residentMB returns a figure of the process's memory, in MB; 0 if it is unknown.
func residentMB(field string) float64 {
	status, _ := os.ReadFile("/proc/self/status")
	kb := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(status)
	if kb == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(kb[1]))
	return float64(n) / 1024
}
