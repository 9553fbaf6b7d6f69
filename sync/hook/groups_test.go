package hook_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// listed is a list of one group with four members.
func listed() []plan.Listed {
	vm := func(ordinal int32, power plan.PowerState, ips ...string) plan.VM {
		return plan.VM{MoRef: "vm-" + string(rune('0'+ordinal)), Name: plan.MemberName("web", ordinal), Ordinal: ordinal, Power: power, IPs: ips,
			Host: "host-1", Reachable: true, Generation: 3, Revision: "r"}
	}
	marked := vm(3, plan.PoweredOn, "fe80::1", "fd00::3")
	marked.Marked, marked.Reachable, marked.Host = true, false, ""
	return []plan.Listed{
		{Ref: plan.Ref{Namespace: "shop", Name: "web", UID: "u"}, VMs: []plan.VM{vm(0, plan.PoweredOn, "fd00::7", "10.0.0.7", "169.254.1.1"),
			vm(1, plan.PoweredOff, "10.0.0.8"), vm(2, plan.PoweredOn), marked}},
		{Ref: plan.Ref{Namespace: "test", Name: "web", UID: "v"}, VMs: []plan.VM{vm(0, plan.PoweredOn, "10.0.1.7")}},
	}
}

// both serves hooks and metrics at one address, for tests that use both.
func both(cfg hook.Config) http.Handler {
	all := http.NewServeMux()
	all.Handle("/", hook.New(cfg))
	all.Handle("/metrics", hook.Health(cfg))
	return all
}

// look starts a server, and returns a function that GETs a path over the network. known says whether the server knows the inventory.
func look(t *testing.T, k *controller, known *bool) func(path string) (code int, body string, header http.Header) {
	t.Helper()
	meter := prometheus.NewRegistry()
	server := httptest.NewServer(both(hook.Config{Controller: k, ListGroups: func() ([]plan.Listed, bool) { return listed(), *known },
		Ready: func() error { return nil }, Log: zerolog.Nop(), Meter: meter, Metrics: promhttp.HandlerFor(meter, promhttp.HandlerOpts{})}))
	t.Cleanup(server.Close)
	return func(path string) (int, string, http.Header) {
		t.Helper()
		response, err := server.Client().Get(server.URL + path)
		must.Succeed(t, err)
		defer response.Body.Close() //nolint:errcheck // the body was only read
		body, err := io.ReadAll(response.Body)
		must.Succeed(t, err)
		return response.StatusCode, strings.TrimSpace(string(body)), response.Header
	}
}

func TestServiceDiscoveryListsTheMembersThatRunAndHaveAnAddress(t *testing.T) {
	t.Parallel()
	known := true
	get := look(t, &controller{}, &known)
	targets := func(path string) (all []string) {
		t.Helper()
		code, body, header := get(path)
		var groups []struct {
			Targets []string
			Labels  map[string]string
		}
		if err := json.Unmarshal([]byte(body), &groups); err != nil || code != 200 || header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		for _, g := range groups {
			all = append(all, strings.Join(g.Targets, " "))
			for name := range g.Labels {
				if !strings.HasPrefix(name, "__meta_vmgroup_") {
					t.Errorf("the label %s; want %q at its start", name, "__meta_vmgroup_")
				}
			}
		}
		return all
	}
	for path, want := range map[string]string{
		"/sd":                               "10.0.0.7,[fd00::3],10.0.1.7",
		"/sd?port=9100":                     "10.0.0.7:9100,[fd00::3]:9100,10.0.1.7:9100",
		"/sd?port=9100&port=80":             "10.0.0.7:9100 10.0.0.7:80,[fd00::3]:9100 [fd00::3]:80,10.0.1.7:9100 10.0.1.7:80",
		"/sd?namespace=test":                "10.0.1.7",
		"/sd?namespace=test&namespace=shop": "10.0.0.7,[fd00::3],10.0.1.7",
		"/sd?group=web&namespace=shop":      "10.0.0.7,[fd00::3]",
		"/sd?group=db":                      "",
		"/sd?port=9100&namespace=other&":    "",
		"/sd?port=09100&namespace=test":     "10.0.1.7:9100",
	} {
		if got := strings.Join(targets(path), ","); got != want {
			t.Errorf("%s: %s, not %s", path, got, want)
		}
	}
	if code, body, _ := get("/sd?group=db"); code != 200 || body != "[]" {
		t.Errorf("without targets, the answer is %d %s; want 200 and [], which Prometheus needs", code, body)
	}
	_, body, _ := get("/sd?namespace=shop&port=9100")
	want := `[{"targets":["10.0.0.7:9100"],"labels":{"__meta_vmgroup_group":"web","__meta_vmgroup_group_uid":"u","__meta_vmgroup_host":"host-1",` +
		`"__meta_vmgroup_ips":",fd00::7,10.0.0.7,","__meta_vmgroup_ipv4":"10.0.0.7","__meta_vmgroup_ipv6":"fd00::7","__meta_vmgroup_member":"web-0",` +
		`"__meta_vmgroup_moref":"vm-0","__meta_vmgroup_namespace":"shop","__meta_vmgroup_ordinal":"0","__meta_vmgroup_power_state":"poweredOn",` +
		`"__meta_vmgroup_reachable":"true","__meta_vmgroup_terminating":"false","__meta_vmgroup_vm":"web-0"}},` +
		`{"targets":["[fd00::3]:9100"],"labels":{"__meta_vmgroup_group":"web","__meta_vmgroup_group_uid":"u",` +
		`"__meta_vmgroup_ips":",fd00::3,","__meta_vmgroup_ipv6":"fd00::3","__meta_vmgroup_member":"web-3",` +
		`"__meta_vmgroup_moref":"vm-3","__meta_vmgroup_namespace":"shop","__meta_vmgroup_ordinal":"3","__meta_vmgroup_power_state":"poweredOn",` +
		`"__meta_vmgroup_reachable":"false","__meta_vmgroup_terminating":"true","__meta_vmgroup_vm":"web-3"}}]`
	if body != want {
		t.Errorf("got the targets\n%s\nwant\n%s", body, want)
	}
}

func TestServiceDiscoverySaysWhatIsWrongWithAQuery(t *testing.T) {
	t.Parallel()
	known := true
	get := look(t, &controller{}, &known)
	for path, says := range map[string]string{
		"/sd?port=0": `port "0"`, "/sd?port=65536": `port "65536"`, "/sd?port=": `port ""`, "/sd?port=%2B80": `port "+80"`, "/sd?port=80,81": `port "80,81"`,
		"/sd?port=http": "must be 1 to 65535", "/sd?port=80&port=x": `port "x"`, "/sd?ports=80": `unknown parameter "ports"`, "/sd?namespace=": "namespace is empty",
		"/sd?group=": "group is empty", "/sd?a;b": "invalid query", "/sd?port=%zz": "invalid query",
	} {
		if code, body, _ := get(path); code != 400 || !strings.Contains(body, says) || strings.Contains(body, "\n") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func TestAnUnknownInventoryIsAnErrorAndNotAnEmptyList(t *testing.T) {
	t.Parallel()
	known := false
	get := look(t, &controller{}, &known)
	if code, body, _ := get("/sd"); code != 503 || !strings.Contains(body, "unknown") {
		t.Errorf("/sd: %d %s; want 503 and %q in the text", code, body, "unknown")
	}
	if code, body, _ := get("/groups/shop/none"); code != 503 || !strings.Contains(body, `"shop/none"`) {
		t.Errorf("/groups/shop/none: %d %s; want 503 and %q in the text", code, body, `"shop/none"`)
	}
	if code, body, _ := get("/groups/shop/web"); code != 200 || !strings.Contains(body, "what vCenter has is unknown now") {
		t.Errorf("/groups/shop/web: %d %s; want 200 and %q in the text", code, body, "what vCenter has is unknown now")
	}
	w := httptest.NewRecorder()
	serve(&controller{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/sd", nil))
	if w.Code != 503 {
		t.Errorf("without a list: %d %s; want 503", w.Code, w.Body)
	}
}

func TestSlotsSayHowManyCanRunAndWhy(t *testing.T) {
	limits := []plan.Limit{{Of: "clones from host-12", Now: 4, Most: 32, Running: 3, Reason: "vCenter queued a task for 12 s"}}
	for _, c := range []struct {
		slots func() plan.Slots
		want  string
	}{
		{func() plan.Slots { return plan.Slots{Most: 32, Running: 3, Waiting: 2, Limits: limits} },
			`{"most":32,"running":3,"waiting":2,"limits":[{"of":"clones from host-12","now":4,"most":32,"running":3,"reason":"vCenter queued a task for 12 s"}]}`},
		{nil, `{"most":0,"running":0,"waiting":0,"limits":[]}`},
	} {
		w := httptest.NewRecorder()
		hook.New(hook.Config{Controller: &controller{}, Slots: c.slots, Ready: func() error { return nil }, Log: zerolog.Nop()}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/slots", nil))
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != c.want {
			t.Errorf("%d %s; want %d and %s", w.Code, got, http.StatusOK, c.want)
		}
	}
}

func TestGroupsAreThoseUnderLeaseAndThoseInStamps(t *testing.T) {
	t.Parallel()
	known := true
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	k := &controller{reports: []plan.Report{
		{Namespace: "shop", Name: "web", UID: "w", Lease: true, Generation: 4, LastCall: at, LeaseEnds: at.Add(90 * time.Second), Phase: v1alpha1.PhasePending,
			Message: "cloning 1 member", Members: []v1alpha1.Member{}, Faults: []plan.FaultReport{},
			Pending:  []plan.PendingReport{{Op: plan.Clone, VM: "web-0", State: plan.Running, Reason: "too few members: 0 of 1", Since: at}},
			LastPlan: &plan.PlanReport{At: at, Steps: []plan.StepReport{{Op: plan.Clone, VM: "web-0", Reason: "too few members: 0 of 1"}}},
			Actions:  []plan.ActionReport{{Time: at, Op: plan.CreateFolder, Reason: "members need a folder", Result: plan.ResultOK, DurationSeconds: 1.5}}},
		{Namespace: "test", Name: "web", UID: "v", Lease: true},
	}}
	get := look(t, k, &known)
	_, body, header := get("/groups")
	var all []plan.Report
	if err := json.Unmarshal([]byte(body), &all); err != nil || header.Get("Content-Type") != "application/json" {
		t.Fatalf("the list of groups has the type %s, and is read with %v: %s; want no error and %s", header.Get("Content-Type"), err, body, "application/json")
	}
	if strings.Contains(body, `"actions"`) {
		t.Error("the list has the actions that ended: ", body)
	}
	if len(all) != 3 || all[0].UID != "w" || all[1].UID != "u" || all[2].UID != "v" || !all[0].Lease || all[1].Lease || !all[2].Lease {
		t.Fatalf("got the groups %+v; want w, u and v, and a lease of w and v alone", all)
	}
	if r := all[1]; len(r.Members) != 4 || r.Members[3].Name != "web-3" || r.Members[1].PowerState != "poweredOff" || r.Generation != 3 || r.Members[0].Reason != "NoLease" {
		t.Errorf("got the group %+v; want four members, the reason NoLease, and the generation 3", r)
	}
	want := `{"namespace":"shop","name":"web","uid":"w","generation":4,"lease":true,"lastCall":"2026-11-21T03:00:00Z","leaseEnds":"2026-11-21T03:01:30Z",` +
		`"phase":"PENDING","message":"cloning 1 member","members":[],"pending":[{"op":"Clone","vm":"web-0","state":"Running","reason":"too few members: 0 of 1","since":"2026-11-21T03:00:00Z"}],` +
		`"faults":[],"lastPlan":{"at":"2026-11-21T03:00:00Z","steps":[{"op":"Clone","vm":"web-0","reason":"too few members: 0 of 1"}]},` +
		`"actions":[{"time":"2026-11-21T03:00:00Z","op":"CreateFolder","reason":"members need a folder","result":"ok","durationSeconds":1.5}]}`
	if code, one, _ := get("/groups/shop/web"); code != 200 || one != want {
		t.Errorf("%d %s\nnot %s", code, one, want)
	}
	for _, path := range []string{"/groups/shop/db", "/groups/a%2Fb/web"} {
		if code, body, _ := get(path); code != 404 || !strings.Contains(body, "there is no group") {
			t.Errorf("%s: %d %s; want 404 and %q in the text", path, code, body, "there is no group")
		}
	}
	if _, again, _ := get("/groups"); again != body {
		t.Error("a different answer to the same request")
	}
	_, metrics, _ := get("/metrics")
	if !strings.Contains(metrics, `hook="/groups/{namespace}/{name}"`) || strings.Contains(metrics, "/groups/shop") {
		t.Error("groups' names are labels: ", metrics)
	}
}

func TestThePageIsServedOnGETAndHEADAndMeasuredByItsPattern(t *testing.T) {
	t.Parallel()
	meter := prometheus.NewRegistry()
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page "+r.URL.Path) })
	h := both(hook.Config{Controller: &controller{}, Page: page, Ready: func() error { return nil }, Log: zerolog.Nop(), Meter: meter, Metrics: promhttp.HandlerFor(meter, promhttp.HandlerOpts{})})
	ask := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	for _, path := range []string{"/", "/ui/groups/shop/web", "/ui/assets/style.css"} {
		if code, body := ask("GET", path); code != 200 || body != "page "+path {
			t.Errorf("%s: %d %s; want 200 and %s", path, code, body, "page "+path)
		}
		if code, _ := ask("HEAD", path); code != 200 {
			t.Errorf("HEAD %s: %d; want 200", path, code)
		}
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			if code, _ := ask(method, path); code != 405 {
				t.Errorf("%s %s: %d; want 405", method, path, code)
			}
		}
	}
	if code, body := ask("GET", "/uix"); code != 404 || !strings.Contains(body, "or GET /, /groups") {
		t.Errorf("%d %s; want 404 and %q in the text", code, body, "or GET /, /groups")
	}
	_, metrics := ask("GET", "/metrics")
	for _, want := range []string{`vmgroup_hook_duration_seconds_count{code="200",hook="/"} 2`, `vmgroup_hook_duration_seconds_count{code="200",hook="/ui/*"} 2`, `vmgroup_hook_duration_seconds_count{code="200",hook="/ui/assets/*"} 2`} {
		if !strings.Contains(metrics, want) || strings.Contains(metrics, "shop") {
			t.Errorf("the metrics lack %s, or name a group: %s", want, metrics)
		}
	}
	without := hook.New(hook.Config{Controller: &controller{}, Log: zerolog.Nop()})
	w := httptest.NewRecorder()
	if without.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 404 {
		t.Errorf("without a page: %d; want 404", w.Code)
	}
}

// The server answers hooks however many browsers ask for pages.
func TestBrowsersNeverKeepAHookWaiting(t *testing.T) {
	t.Parallel()
	release, inside := make(chan struct{}), make(chan struct{}, 100)
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside <- struct{}{}; <-release })
	h := hook.New(hook.Config{Controller: &controller{state: healthy()}, Page: page, Log: zerolog.Nop()})
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) })
	}
	for range 4 {
		<-inside
	}
	for range 100 {
		if w := post(h, "/sync", []byte(`{"parent":{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","metadata":{"name":"web","namespace":"shop","uid":"u"}}}`)); w.Code != 200 {
			t.Fatalf("%d %s; want 200", w.Code, w.Body)
		}
	}
	if len(inside) != 0 {
		t.Errorf("%d more pages were made at once; want 0", len(inside))
	}
	close(release)
	all.Wait()
}

// An admin's VM can have any name, and any host.
func TestTheListsHaveNoUnprintableCharacters(t *testing.T) {
	t.Parallel()
	const strange = "web\u0085\u009b31m\u202e\u200b\U000e0001"
	all := listed()
	for i := range all {
		for j := range all[i].VMs {
			all[i].VMs[j].Name, all[i].VMs[j].Host = strange, strange
		}
	}
	server := httptest.NewServer(both(hook.Config{Controller: &controller{}, ListGroups: func() ([]plan.Listed, bool) { return all, true }, Log: zerolog.Nop()}))
	defer server.Close()
	for _, path := range []string{"/sd", "/groups", "/groups/shop/web"} {
		response, err := server.Client().Get(server.URL + path)
		must.Succeed(t, err)
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		must.Succeed(t, err)
		text := strings.TrimSpace(string(body))
		if response.StatusCode != 200 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || !strings.Contains(text, `\u202e`) || !json.Valid(body) {
			t.Errorf("%s: %d %q", path, response.StatusCode, text)
		}
	}
}
