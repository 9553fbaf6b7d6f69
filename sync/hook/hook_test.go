package hook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// controller plans each call on its own, with this state of vCenter.
type controller struct {
	state   plan.VCenterState
	emptied bool
	before  func()
	reports []plan.Report
	more    []plan.Child // returned as well
	calls   []plan.Call
	mu      sync.Mutex
}

func (k *controller) Groups() []plan.Report { return slices.Clone(k.reports) }

func (k *controller) Sync(c plan.Call) plan.Result {
	if k.before != nil {
		k.before()
	}
	k.mu.Lock()
	k.calls = append(k.calls, c)
	k.mu.Unlock()
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	r := planner.Make(plan.Observed{Group: c.Group, Finalizing: c.Finalizing, Children: c.Children, Related: c.Related, State: k.state, Emptied: k.emptied,
		Called: now, Now: now, Lease: 90 * time.Second, Resync: 30 * time.Second})
	r.Children = append(r.Children, k.more...)
	return r
}

func (k *controller) Preview(c plan.Call) (plan.Result, plan.Outlook, error) {
	if c.Group.Name == "twice" {
		return plan.Result{}, plan.Outlook{}, errors.New("several groups have members named default/twice")
	}
	return k.Sync(c), plan.Outlook{Spec: &c.Group.Spec, Steps: []plan.Step{{Round: 1, Action: plan.Action{Op: plan.Clone, Key: "web-0", Reason: "too few members: 0 of 2",
		Args: plan.CloneArgs{Details: &plan.Details{Spec: &c.Group.Spec}}}}}}, nil
}

func healthy() plan.VCenterState {
	return plan.VCenterState{Known: true, VCenter: "vc-1", Folder: "group-v7",
		Template: plan.Template{MoRef: "vm-1", Paths: []string{"/DC0/vm/ubuntu-24.04"}, Datacenter: "DC0"},
		VMs: []plan.VM{{MoRef: "vm-7", Name: "web-0", Power: plan.PoweredOn, Reachable: true, CPU: 2, MemoryMB: 4096,
			IPs: []string{"10.0.0.7"}, Host: "host-1", Generation: 1, VCenter: "vc-1"}}}
}

func serve(k hook.Controller) http.Handler {
	return hook.New(hook.Config{Controller: k, Ready: func() error { return nil }, Log: zerolog.Nop()})
}

func post(h http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func captured(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata has no file %s: %v", pattern, err)
	}
	all := map[string][]byte{}
	for _, f := range files {
		if all[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// created is the first sync call that Metacontroller makes for a new group of two.
func created(t *testing.T) []byte {
	t.Helper()
	return captured(t, "captured/sync-create.json")["testdata/captured/sync-create.json"]
}

// nulls finds null anywhere in a JSON value: Kubernetes stores it as absent, so every sync would write it again.
func nulls(path string, v any) []string {
	var found []string
	switch v := v.(type) {
	case nil:
		return []string{path}
	case map[string]any:
		for k, e := range v {
			found = append(found, nulls(path+"."+k, e)...)
		}
	case []any:
		for i, e := range v {
			found = append(found, nulls(fmt.Sprintf("%s[%d]", path, i), e)...)
		}
	}
	return found
}

func TestARealMetacontrollersRequestsAreAnsweredWithinTheContract(t *testing.T) {
	contract := map[string][]string{
		"sync":      {"children", "resyncAfterSeconds", "status"},
		"finalize":  {"children", "finalized", "resyncAfterSeconds", "status"},
		"customize": {"relatedResources"},
	}
	for file, body := range captured(t, "captured*/*.json") {
		which, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "-")
		t.Run(file, func(t *testing.T) {
			for name, state := range map[string]plan.VCenterState{"healthy": healthy(), "unknown": {}} {
				k := &controller{state: state}
				first := post(serve(k), "/"+which, body)
				if first.Code != http.StatusOK {
					t.Fatalf("%s: %d %s; want %d", name, first.Code, first.Body, http.StatusOK)
				}
				var answer map[string]any
				must.Succeed(t, json.Unmarshal(first.Body.Bytes(), &answer))
				if keys := slices.Sorted(maps.Keys(answer)); !slices.Equal(keys, contract[which]) {
					t.Errorf("%s: keys %v; want %v", name, keys, contract[which])
				}
				if n := nulls("", answer); len(n) > 0 {
					t.Errorf("%s: null at %v; want none", name, n)
				}
				if which != "customize" && k.calls[0].Finalizing != (which == "finalize") {
					t.Errorf("finalizing is %v", k.calls[0].Finalizing)
				}
				if again := post(serve(k), "/"+which, body); !bytes.Equal(again.Body.Bytes(), first.Body.Bytes()) {
					t.Errorf("%s: a different answer to the same request", name)
				}
			}
		})
	}
}

func TestAnInvalidRequestIsRefusedInOneSentence(t *testing.T) {
	parent := func(edit string) string {
		return `{"parent":{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","metadata":{"name":"web","namespace":"default","uid":"u"},"spec":{"cpu":1,"memory":1,"template":"t"}},"finalizing":false}` + edit
	}
	for _, c := range []struct {
		name, path, contentType, body string
		code                          int
		says                          string
	}{
		{"malformed JSON", "/sync", "application/json", `{"parent":`, 400, "not a JSON hook request"},
		{"trailing text after the JSON", "/sync", "application/json", parent("x"), 400, "error at byte"},
		{"a word for a number", "/sync", "application/json", strings.Replace(parent(""), `"cpu":1`, `"cpu":"one"`, 1), 400, "spec.cpu"},
		{"no parent", "/sync", "application/json", `{}`, 422, "no parent"},
		{"null", "/sync", "application/json", `null`, 422, "no parent"},
		{"another kind", "/sync", "application/json", strings.Replace(parent(""), "VmGroup", "Deployment", 1), 422, "a Deployment of"},
		{"another version", "/plan", "application/json", strings.Replace(parent(""), "v1alpha1", "v9", 1), 422, "v9"},
		{"no UID", "/sync", "application/json", strings.Replace(parent(""), `"uid":"u"`, `"uid":""`, 1), 422, "metadata.uid"},
		{"no name", "/sync", "application/json", strings.Replace(parent(""), `"name":"web"`, `"name":""`, 1), 422, "metadata.name"},
		{"finalizing at sync", "/sync", "application/json", strings.Replace(parent(""), "false", "true", 1), 422, "/finalize"},
		{"not finalizing at finalize", "/finalize", "application/json", parent(""), 422, "nothing is removed"},
		{"a form", "/sync", "application/x-www-form-urlencoded", parent(""), 415, "application/json"},
		{"no content type", "/sync", "", parent(""), 415, "application/json"},
		{"too large", "/sync", "application/json", `{"x":"` + strings.Repeat("x", 2000) + `"}`, 413, "larger than 1024 bytes"},
		{"an unknown path", "/snyc", "application/json", parent(""), 404, "/sync"},
		{"a path below a known one", "/groups/default", "application/json", parent(""), 404, "/groups/{namespace}/{name}"},
		{"a POST to a path for GET", "/groups", "application/json", parent(""), 405, "POST is not allowed for /groups"},
		{"a POST to service discovery", "/sd", "application/json", parent(""), 405, "POST is not allowed for /sd"},
		{"two groups of that name", "/plan", "application/json", strings.Replace(parent(""), "web", "twice", 1), 422, "several groups"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &controller{state: healthy()}
			h := hook.New(hook.Config{Controller: k, Ready: func() error { return nil }, Log: zerolog.Nop(), MaxBody: 1024})
			r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", c.contentType)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) || strings.Count(w.Body.String(), "\n") != 1 {
				t.Errorf("%d %q, want %d and %q", w.Code, w.Body, c.code, c.says)
			}
			if len(k.calls) > 0 {
				t.Error("the controller got a request that is refused")
			}
		})
	}
}

func TestASpecThatGotPastTheSchemaIsReportedInTheStatus(t *testing.T) {
	body := created(t)
	for from, says := range map[string]string{
		`"cpu":2`:      "spec.cpu: Invalid value: 0: must be between 1 and 768",
		`"memory":4`:   "spec.memory: Invalid value: 0: must be between 1 and 24576",
		`"name":"web"`: "metadata.name: Invalid value: \"" + strings.Repeat("w", 58) + "\": must be at most 57 characters",
	} {
		to := strings.NewReplacer("2", "0", "4", "0", "web", strings.Repeat("w", 58)).Replace(from)
		edited := bytes.ReplaceAll(body, []byte(from), []byte(to))
		if bytes.Equal(edited, body) {
			t.Fatalf("the captured request has no %s", from)
		}
		w := post(serve(&controller{state: healthy()}), "/sync", edited)
		var answer struct {
			Status struct {
				Phase, LastMessage string
				CurrentReplicas    int
				Conditions         []struct{ Type, Status, Message string }
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
			t.Fatalf("the answer has the status %d, and is read with %v; want 200, and JSON", w.Code, err)
		}
		s := answer.Status
		invalid := slices.ContainsFunc(s.Conditions, func(c struct{ Type, Status, Message string }) bool {
			return c.Type == "SpecInvalid" && c.Status == "True" && strings.Contains(c.Message, says)
		})
		if s.Phase != "ERROR" || !strings.Contains(s.LastMessage, says) || s.CurrentReplicas != 1 || !invalid {
			t.Errorf("%s: %+v", to, s)
		}
	}
}

func TestOverloadIsAnsweredWithAWholeNumberOfSeconds(t *testing.T) {
	body := created(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := serve(&controller{state: healthy(), before: func() { <-release }})
		var all sync.WaitGroup
		for range 64 + 256 {
			all.Go(func() {
				if w := post(h, "/sync", body); w.Code != http.StatusOK {
					t.Errorf("a call that waits for its turn is answered %d; want 200", w.Code)
				}
			})
		}
		synctest.Wait()
		if w := post(h, "/sync", body); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "2" {
			t.Errorf("got %+v", w)
		}
		close(release)
		all.Wait()
	})
}

func TestTheAnswerToAPanicHasNoDetails(t *testing.T) {
	for name, c := range map[string]struct {
		panics func()
		logged string
	}{
		"a value that can be anything":   {func() { panic("the secret is 4242") }, "a string"},
		"an error that can say anything": {func() { panic(errors.New("the secret is 4242")) }, "a *errors.errorString"},
		"the runtime's own":              {func() { var none []int; _ = none[len("the secret is 4242")] }, "index out of range"},
	} {
		var log bytes.Buffer
		h := hook.New(hook.Config{Controller: &controller{state: healthy(), before: c.panics}, Log: zerolog.New(&log)})
		w := post(h, "/sync", created(t))
		if w.Code != 500 || strings.Contains(w.Body.String(), "4242") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if text := log.String(); strings.Contains(text, "4242") || !strings.Contains(text, c.logged) || !strings.Contains(text, "hook_test.go") {
			t.Errorf("%s: the log says %s", name, text)
		}
	}
}

func TestReadinessAndHealth(t *testing.T) {
	ready := errors.New("the inventory has not been read yet")
	cfg := hook.Config{Controller: &controller{}, Ready: func() error { return ready }, Log: zerolog.Nop()}
	health, hooks := hook.Health(cfg), hook.New(cfg)
	get := func(path string, of ...http.Handler) (int, string) {
		w := httptest.NewRecorder()
		h := health
		if len(of) > 0 {
			h = of[0]
		}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		b, _ := io.ReadAll(w.Body)
		return w.Code, string(b)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("healthz %d; want 200", code)
	}
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "not been read") {
		t.Errorf("readyz %d %s; want 503 and %q in the text", code, body, "not been read")
	}
	if ready = nil; true {
		if code, _ := get("/readyz"); code != 200 {
			t.Errorf("readyz %d; want 200", code)
		}
	}
	for _, path := range []string{"/sync", "/groups", "/sd", "/"} {
		if code, _ := get(path); code != 404 {
			t.Errorf("the address of health answers %s with %d; want 404", path, code)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if code, _ := get(path, hooks); code != 404 {
			t.Errorf("the hooks' address answers %s with %d; want 404", path, code)
		}
	}
	if code, body := get("/sync", hooks); code != 405 || !strings.Contains(body, "GET is not allowed for /sync") {
		t.Errorf("GET /sync: %d %s; want 405 and %q in the text", code, body, "GET is not allowed for /sync")
	}
}

func TestPlanAnswersWithTheSteps(t *testing.T) {
	w := post(serve(&controller{state: healthy()}), "/plan", created(t))
	var a hook.PlanAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Group != "default/web" || len(a.Steps) != 1 || a.Steps[0].VM != "web-0" {
		t.Errorf("%v %s", err, w.Body)
	}
}
