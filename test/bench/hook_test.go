// Package bench measures the figures that the README claims. Where it can, it measures the ratio of two times in the same run, because absolute
// times vary from run to run. `make bench` runs it.
package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// fake is an inventory without a vCenter.
type fake struct{ *inventory.Inventory }

func (fake) Do(context.Context, plan.Ref, plan.Action) (plan.StepResult, error) {
	return plan.StepResult{}, errors.New("the fake does nothing")
}
func (fake) Identify(string, string) []types.UID { return nil }

// fill returns an inventory with groups of ten running members, and with unmanaged VMs.
func fill(groups, unmanaged int) fake {
	n := inventory.New(nil)
	r := inventory.Reading{VCenter: "vc", Complete: true, Places: []inventory.Place{{MoRef: "group-v1", Kind: "Folder", Name: "vm"}}}
	for g := range groups {
		for ordinal := range int32(10) {
			name := fmt.Sprintf("g%d-%d", g, ordinal)
			id := uuid.NewString()
			stamp := stamp.Stamp{Namespace: "default", Name: fmt.Sprintf("g%d", g), UID: uid(g), Ordinal: ordinal, Generation: 1,
				Revision: plan.Revision(&v1alpha1.VmGroupSpec{Template: "vm-operator-template"}), InstanceUUID: id, VCenter: "vc"}
			r.Machines = append(r.Machines, inventory.Machine{
				VM: plan.VM{MoRef: fmt.Sprintf("vm-%d", 100000+10*g+int(ordinal)), Name: name, Power: plan.PoweredOn, Reachable: true, CPU: 2,
					MemoryMB: 4096, IPs: []string{fmt.Sprintf("10.%d.%d.%d", g/250, g%250, ordinal+1)}, Host: "host-1", ChangeVersion: "2026-11-21T00:00:00Z"},
				Parent: "group-v1", Readable: true, InstanceUUID: id, StampText: stamp.Encode(),
			})
		}
	}
	for i := range unmanaged {
		r.Machines = append(r.Machines, inventory.Machine{VM: plan.VM{MoRef: fmt.Sprintf("vm-%d", i), Name: fmt.Sprintf("unmanaged-%d", i),
			Power: plan.PoweredOn, Reachable: true}, Parent: "group-v1", Readable: true, InstanceUUID: uuid.NewString()})
	}
	n.Publish(r)
	n.SetKnown()
	return fake{n}
}

func uid(group int) types.UID {
	return types.UID(fmt.Sprintf("5e0c1a4e-8f7b-4b0e-9d2c-%012d", group))
}

func server(vc loop.VCenter) http.Handler {
	l := loop.New(loop.Config{Slots: 8, Lease: 90 * time.Second, Resync: 30 * time.Second, Log: zerolog.Nop(), Events: true}, vc)
	return hook.New(hook.Config{Controller: l, Ready: func() error { return nil }, Log: zerolog.Nop()})
}

// settled calls twice for a group of ten, which is then settled, and returns the body of the group's next sync call.
func settled(tb testing.TB, h http.Handler, group int) []byte {
	tb.Helper()
	web := httptest.NewServer(h)
	defer web.Close()
	g := metacontroller.New(web.URL, "default", fmt.Sprintf("g%d", group), string(uid(group)), 10)
	for range 2 {
		if a, err := g.Sync(context.Background()); err != nil || a.Status.Phase != v1alpha1.PhaseRunning {
			tb.Fatalf("%v %s: %s", err, a.Status.Phase, a.Status.LastMessage)
		}
	}
	return asReal(tb, g)
}

// asReal returns the body of a group's next sync call, as large as a real Metacontroller's (managedFields, the controller object).
func asReal(tb testing.TB, g *metacontroller.Group) []byte {
	tb.Helper()
	body, err := g.Body(false)
	if err != nil {
		tb.Fatal(err)
	}
	var captured, request map[string]json.RawMessage
	sample, err := os.ReadFile("../../sync/hook/testdata/captured/sync-with-children.json")
	if err == nil {
		err = errors.Join(json.Unmarshal(sample, &captured), json.Unmarshal(body, &request))
	}
	if err != nil {
		tb.Fatal(err)
	}
	request["controller"] = captured["controller"]
	var parent, real map[string]map[string]any
	_ = json.Unmarshal(request["parent"], &parent) // fields of other types, such as strings, are not needed
	_ = json.Unmarshal(captured["parent"], &real)
	parent["metadata"]["managedFields"] = real["metadata"]["managedFields"]
	var whole map[string]any
	if err := json.Unmarshal(request["parent"], &whole); err != nil {
		tb.Fatal(err)
	}
	whole["metadata"] = parent["metadata"]
	if request["parent"], err = json.Marshal(whole); err != nil {
		tb.Fatal(err)
	}
	if body, err = json.Marshal(request); err != nil {
		tb.Fatal(err)
	}
	return body
}

// bareHandler does the least that any hook must do: route with chi, decode the request and encode an answer, with the same types.
func bareHandler(answer any) http.Handler {
	r := chi.NewRouter()
	r.Post("/sync", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var request hook.Request
		if err := json.Unmarshal(body, &request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	return r
}

func post(h http.Handler, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/sync", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// round makes one measurement: it returns the times of n calls, and the allocations of each call.
func round(h http.Handler, body []byte, n int) (times []time.Duration, allocs float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		began := time.Now()
		if w := post(h, body); w.Code != http.StatusOK {
			panic(w.Body.String())
		}
		times = append(times, time.Since(began))
	}
	runtime.ReadMemStats(&after)
	slices.Sort(times)
	return times, float64(after.Mallocs-before.Mallocs) / float64(n)
}

// BenchmarkSyncBesideABareHandler calls /sync for a settled group of 10 with 10,000 VMs in the inventory, beside a bare chi handler
// with the same JSON and types. It compares the medians of 5 alternating rounds. The goal is a ratio of at most 2.
func BenchmarkSyncBesideABareHandler(b *testing.B) {
	h := server(fill(1, 9990))
	body := settled(b, h, 0)
	var answer hook.SyncResponse
	if err := json.Unmarshal(post(h, body).Body.Bytes(), &answer); err != nil {
		b.Fatal(err)
	}
	least := bareHandler(answer)
	const n = 2000
	round(h, body, n/4)
	round(least, body, n/4)
	for range b.N {
		var ours, theirs, p99, ratios []float64
		var allocs, bareAllocs float64
		for range 5 {
			t, _ := round(least, body, n)
			o, a := round(h, body, n)
			_, bareAllocs = round(least, body, 100)
			allocs = a
			ours, theirs = append(ours, us(o[n/2])), append(theirs, us(t[n/2]))
			p99 = append(p99, us(o[n*99/100]))
			ratios = append(ratios, us(o[n/2])/us(t[n/2]))
		}
		b.ReportMetric(median(ours), "p50-µs")
		b.ReportMetric(median(p99), "p99-µs")
		b.ReportMetric(median(theirs), "bare-p50-µs")
		b.ReportMetric(median(ratios), "x-bare")
		b.ReportMetric(allocs, "allocs/call")
		b.ReportMetric(bareAllocs, "bare-allocs/call")
		b.ReportMetric(float64(len(body)), "body-bytes")
	}
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}

const beTheServer = "BENCH_BE_THE_SERVER"

// TestMain lets the test binary run as the process whose memory is measured.
func TestMain(m *testing.M) {
	switch os.Getenv(beTheServer) {
	case "fleet":
		serveFleet()
		return
	case "":
	default:
		thousandGroups()
		return
	}
	os.Exit(m.Run())
}

// thousandGroups fills a server with 1,000 groups of 10, calls for each group several times, and prints the memory in use.
func thousandGroups() {
	h := server(fill(1000, 0))
	for range 3 {
		for g := range 1000 {
			body := settled(&testing.B{}, h, g)
			post(h, body)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", status)
	runtime.KeepAlive(h)
}

// BenchmarkMemoryOfAThousandGroups measures the peak resident memory of a process with 1,000 groups of 10, without the simulator
// (but with this benchmark's request bodies). The goal is less than 150 MB.
func BenchmarkMemoryOfAThousandGroups(b *testing.B) {
	for range b.N {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), beTheServer+"=1")
		out, err := c.Output()
		if err != nil {
			b.Fatal(err)
		}
		for _, field := range []string{"VmHWM", "VmRSS"} {
			kb := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(out)
			if kb == nil {
				b.Fatalf("no %s in %s", field, out)
			}
			n, _ := strconv.Atoi(string(kb[1]))
			b.ReportMetric(float64(n)/1024, field+"-MB")
		}
	}
}
