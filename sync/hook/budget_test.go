package hook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// slow is a body that waits for the gate to open.
type slow struct {
	io.Reader
	gate  <-chan struct{}
	begin func()
}

func (s *slow) Read(p []byte) (int, error) {
	if s.begin != nil {
		s.begin()
		s.begin = nil
	}
	<-s.gate
	return s.Reader.Read(p)
}

// Of 64 bodies of the largest size, the server reads as many at once as fit into its memory; it asks the others to retry,
// and still accepts small requests.
func TestManyLargeBodiesStayWithinTheMemoryBudget(t *testing.T) {
	t.Parallel()
	const size, fit = 8 << 20, 4
	k := &controller{state: healthy()}
	h := serve(k)
	gate := make(chan struct{})
	var reading, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 64 {
		body := &slow{Reader: strings.NewReader(strings.Repeat(" ", 16)), gate: gate, begin: func() { reading.Add(1) }}
		r := httptest.NewRequest(http.MethodPost, "/sync", body)
		r.Header.Set("Content-Type", "application/json")
		if r.ContentLength = size; i%2 == 1 {
			r.ContentLength = -1 // the length is unknown
		}
		all.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			switch {
			case w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "2":
				refused.Add(1)
			case w.Code != http.StatusBadRequest: // the bodies are cut off, so the hook refuses them
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	patient := time.Now().Add(time.Minute)
	for reading.Load() < fit && time.Now().Before(patient) {
		time.Sleep(time.Millisecond)
	}
	if w := post(h, "/sync", created(t)); w.Code != http.StatusOK {
		t.Errorf("a small request beside large ones: %d %s; want %d", w.Code, w.Body, http.StatusOK)
	}
	for refused.Load() < 64-fit && time.Now().Before(patient) {
		time.Sleep(time.Millisecond)
	}
	if reading.Load() != fit || refused.Load() != 64-fit {
		t.Errorf("%d are read at once, %d were refused; want %d and %d", reading.Load(), refused.Load(), fit, 64-fit)
	}
	close(gate)
	all.Wait()
	for range 2 * fit { // the answered requests have freed the budget
		r := httptest.NewRequest(http.MethodPost, "/sync", strings.NewReader(" "))
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = size
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusBadRequest {
			t.Errorf("%d %s; want %d", w.Code, w.Body, http.StatusBadRequest)
		}
	}
}

func TestABodyOfVeryManyValuesIsRefused(t *testing.T) {
	t.Parallel()
	h := serve(&controller{state: healthy()})
	for _, one := range []string{`{}`, `[]`, `0`, `""`, `null`} {
		body := `{"parent":{"status":{"members":[` + strings.Repeat(one+",", 1<<20) + one + `]}}}`
		w := post(h, "/sync", []byte(body))
		if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "values") {
			t.Errorf("a list of 1048577 values %s is answered %d %s; want 413, which names the values", one, w.Code, w.Body)
		}
	}
	for _, text := range []string{`{"parent":"` + strings.Repeat(`{,[`, 1<<19) + `"}`, `{"parent":"` + strings.Repeat(`\",\\`, 1<<18) + `"}`} {
		if w := post(h, "/sync", []byte(text)); w.Code != http.StatusBadRequest { // each body contains one long string
			t.Errorf("%.40s: %d %s; want %d", text, w.Code, w.Body, http.StatusBadRequest)
		}
	}
}

func TestATooLongBodyIsRefusedUnread(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/sync", &slow{Reader: strings.NewReader("")})
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = 1 << 40
	w := httptest.NewRecorder()
	serve(&controller{}).ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s; want %d", w.Code, w.Body, http.StatusRequestEntityTooLarge)
	}
}

// The largest possible group, with everything that Metacontroller sends, passes with room to spare.
func TestTheLargestGroupPassesThreeTimesOver(t *testing.T) {
	t.Parallel()
	state := healthy()
	state.VMs = nil
	replicas := int32(v1alpha1.MaxReplicas)
	g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu-24.04", Replicas: &replicas,
		Service: &v1alpha1.Service{Ports: []v1alpha1.ServicePort{{Port: 80}}}}}
	g.APIVersion, g.Kind, g.Namespace, g.Name, g.UID, g.Generation = v1alpha1.GroupVersion.String(), v1alpha1.Kind, "default", "web", "uid-web", 1
	for i := range replicas {
		state.VMs = append(state.VMs, plan.VM{MoRef: fmt.Sprintf("vm-%d", 100_000+i), Name: plan.MemberName("web", i), Ordinal: i, Power: plan.PoweredOn, Reachable: true,
			CPU: 2, MemoryMB: 4096, IPs: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), fmt.Sprintf("2001:db8::%x", i+1)}, Host: "esx-01.example.com", Generation: 1, VCenter: "vc-1",
			Revision: plan.Revision(&g.Spec)})
	}
	h := hook.New(hook.Config{Controller: &controller{state: state}, Log: zerolog.Nop()})
	request := map[string]any{"parent": g, "children": map[string]any{"Service.v1": map[string]any{"default/web": map[string]any{"metadata": map[string]any{"name": "web"}}}}}
	var body []byte
	for range 2 { // the second request has the status and the children of the first answer
		var err error
		if body, err = json.Marshal(request); err != nil {
			t.Fatal(err)
		}
		var answer hook.SyncResponse
		w := post(h, "/sync", body)
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %v %.300s; want no error and %d", w.Code, err, w.Body, http.StatusOK)
		}
		g.Status = answer.Status
		children := map[string]map[string]any{}
		for _, child := range answer.Children {
			var object map[string]any
			must.Succeed(t, json.Unmarshal(child, &object))
			kind, meta := object["kind"].(string), object["metadata"].(map[string]any)
			key := map[string]string{"ConfigMap": "ConfigMap.v1", "Service": "Service.v1", "EndpointSlice": "EndpointSlice.discovery.k8s.io/v1"}[kind]
			if children[key] == nil {
				children[key] = map[string]any{}
			}
			meta["annotations"] = map[string]any{"metacontroller.k8s.io/last-applied-configuration": string(child)}
			children[key]["default/"+meta["name"].(string)] = object
		}
		request["children"] = children
	}
	values := 0
	for d := json.NewDecoder(bytes.NewReader(body)); ; values++ {
		if _, err := d.Token(); err != nil {
			break
		}
	}
	t.Logf("%d bytes, %d tokens, %d members, %d children", len(body), values, len(g.Status.Members), len(request["children"].(map[string]map[string]any)["EndpointSlice.discovery.k8s.io/v1"]))
	if len(g.Status.Members) != int(replicas) || 3*len(body) > 8<<20 {
		t.Errorf("%d members in %d bytes", len(g.Status.Members), len(body))
	}
	thrice, err := json.Marshal(map[string]any{"parent": g, "children": request["children"], "more": []any{request, request}})
	must.Succeed(t, err)
	if w := post(h, "/sync", thrice); w.Code != http.StatusOK {
		t.Errorf("%d bytes: %d %.300s; want %d", len(thrice), w.Code, w.Body, http.StatusOK)
	}
}
