package hook_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// fuzzPaths are the paths of the hooks.
var fuzzPaths = []string{"/sync", "/finalize", "/customize", "/plan"}

// thinker is a controller that plans each call on its own, and records the calls that permit the server to act.
type thinker struct {
	state   plan.VCenterState
	renewed []plan.Call
}

func (k *thinker) observed(c plan.Call) plan.Observed {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	return plan.Observed{Group: c.Group, Finalizing: c.Finalizing, Children: c.Children, Related: c.Related, State: k.state,
		Called: now, Now: now, Lease: 90 * time.Second, Resync: 30 * time.Second}
}

func (k *thinker) Sync(c plan.Call) plan.Result {
	k.renewed = append(k.renewed, c)
	return planner.Make(k.observed(c))
}

func (k *thinker) Preview(c plan.Call) (plan.Result, plan.Outlook, error) {
	o := k.observed(c)
	if o.Group.Replicas() > 20 { // a forecast of many members is slow, and finds no more faults than a forecast of a few
		return planner.Make(o), plan.Outlook{}, nil
	}
	return planner.Make(o), planner.Forecast(o), nil
}

func (k *thinker) Groups() []plan.Report { return nil }

// check posts a body to a hook, and returns what is wrong with the answer: an invalid body must be refused and permit
// nothing, any other must get an answer within the contract, twice the same.
func check(path string, known bool, body []byte) error {
	k := &thinker{}
	if known {
		k.state = healthy()
	}
	h := hook.New(hook.Config{Controller: k, Ready: func() error { return nil }, Log: zerolog.Nop(), MaxBody: 1 << 20})
	first := send(h, path, body)
	renewed := len(k.renewed)
	switch text := first.Body.String(); first.Code {
	case http.StatusOK:
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusTooManyRequests:
		unselected := renewed == 1 && k.renewed[0].Unselected() // the controller refuses such a call
		if renewed > 0 && !unselected || first.Code == http.StatusTooManyRequests && !unselected {
			return fmt.Errorf("%d %q, and yet the call counted", first.Code, text)
		}
		if len(text) < 10 || len(text) > 4096 || !strings.HasPrefix(first.Header().Get("Content-Type"), "text/plain") {
			return fmt.Errorf("%d in %d bytes: %.500q", first.Code, len(text), text)
		}
		return nil
	default:
		return fmt.Errorf("%d %q", first.Code, text)
	}
	acts := path == "/sync" || path == "/finalize"
	switch {
	case acts && (renewed != 1 || k.renewed[0].Group.UID == "" || k.renewed[0].Finalizing != (path == "/finalize")):
		return fmt.Errorf("%d calls counted: %+v", renewed, k.renewed)
	case !acts && renewed > 0:
		return errors.New("a preview counted as a call")
	}
	if again := send(h, path, body); !bytes.Equal(again.Body.Bytes(), first.Body.Bytes()) {
		return fmt.Errorf("two answers to one request:\n%s\n%s", first.Body, again.Body)
	}
	return contract(path, first.Body.Bytes())
}

func send(h http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// contract returns how an answer violates what Metacontroller accepts: it must decode strictly, with all its keys, no null
// anywhere, and children that are objects with a name.
func contract(path string, answer []byte) error {
	into, keys := any(&hook.SyncResponse{}), []string{"children", "resyncAfterSeconds", "status"}
	switch path {
	case "/finalize":
		into, keys = &hook.FinalizeResponse{}, []string{"children", "finalized", "resyncAfterSeconds", "status"}
	case "/customize":
		into, keys = &hook.CustomizeResponse{}, []string{"relatedResources"}
	case "/plan":
		into, keys = &hook.PlanAnswer{}, nil
	}
	strict := json.NewDecoder(bytes.NewReader(answer))
	strict.DisallowUnknownFields()
	if err := strict.Decode(into); err != nil {
		return fmt.Errorf("%w: %s", err, answer)
	}
	if _, err := strict.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more than one value: %s", answer)
	}
	again, err := json.Marshal(into)
	if err != nil || !bytes.Equal(bytes.TrimSpace(answer), again) {
		return fmt.Errorf("the answer changes when it is read and written again (%w):\n%s\n%s", err, answer, again)
	}
	var raw map[string]any
	if err := json.Unmarshal(answer, &raw); err != nil {
		return err
	}
	if is := slices.Sorted(maps.Keys(raw)); keys != nil && !slices.Equal(is, keys) {
		return fmt.Errorf("keys %v", is)
	}
	if n := nulls("", raw); len(n) > 0 {
		return fmt.Errorf("null at %v: %s", n, answer)
	}
	children, _ := raw["children"].([]any)
	for _, child := range children {
		object, _ := child.(map[string]any)
		meta, _ := object["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		kind, _ := object["kind"].(string)
		version, _ := object["apiVersion"].(string)
		if name == "" || kind == "" || version == "" {
			return fmt.Errorf("a child without kind or name: %v", child)
		}
	}
	return nil
}

// requests returns those that a real Metacontroller sent, and the samples.
func requests(tb testing.TB) [][]byte {
	tb.Helper()
	var all [][]byte
	for _, pattern := range []string{"testdata/captured*/*.json", "../../manifests/samples/hooks/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			tb.Fatalf("no %s: %v", pattern, err)
		}
		for _, f := range files {
			body, err := os.ReadFile(f)
			if err != nil {
				tb.Fatal(err)
			}
			all = append(all, body)
		}
	}
	return all
}

// Any bytes are refused with 4xx and no effect, or answered within the contract; never 5xx, never a panic (which the
// handler turns into 500).
func FuzzHookRequest(f *testing.F) {
	for i, body := range requests(f) {
		f.Add(uint8(i), i%2 == 0, body)
	}
	for _, text := range []string{``, `null`, `{}`, `[]`, `{"parent":null}`, `{"parent":{"kind":"VmGroup"}}`, `{"children":{"ConfigMap.v1":null}}`,
		strings.Repeat(`{"parent":`, 500), strings.Repeat("[", 20_000), `{"parent":{"spec":{"cpu":1e999}}}`, "\xff\xfe{}", `{"finalizing":"true"}`,
		`{"parent":{"metadata":{"creationTimestamp":"2026-` + strings.Repeat("\xff", 5_000) + `"}}}`, `{"parent":{"spec":{"cpu":` + strings.Repeat("9", 5_000) + `}}}`} {
		f.Add(uint8(0), true, []byte(text))
	}
	f.Fuzz(func(t *testing.T, path uint8, known bool, body []byte) {
		must.Succeed(t, check(fuzzPaths[int(path)%len(fuzzPaths)], known, body))
	})
}

// odd are values of types that a hook does not expect.
var odd = []any{nil, true, false, 0, -1, 1, 2.5, 1e18, json.Number("1e400"), json.Number("99999999999999999999"), "", "x", "null", "{}", "[]", `{"kind":1}`, "0001-01-01T00:00:00Z",
	"9999-12-31T23:59:59-23:59", "2026-11-21T03:00:00Z", "100%", "-5%", "999999999999999999%", "\x00", "\u2028\\\"", strings.Repeat("x", 300),
	"10.0.0.1-10.0.0.3", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", []any{}, map[string]any{}, []any{nil}, map[string]any{"": nil}}

// bend replaces, removes, duplicates or adds a value at a random place of a JSON value.
func bend(t *rapid.T, v any, parts []any) any {
	what := rapid.IntRange(0, 9).Draw(t, "what")
	switch x := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(x))
		if len(keys) == 0 || what == 0 {
			x[rapid.SampledFrom([]string{"", "kind", "name", "annotations", "status", "ipv4", "\x00"}).Draw(t, "new key")] = fresh(rapid.SampledFrom(parts).Draw(t, "part"))
			return x
		}
		key := rapid.SampledFrom(keys).Draw(t, "key")
		switch what {
		case 1:
			delete(x, key)
		case 2:
			x[key] = fresh(rapid.SampledFrom(parts).Draw(t, "value"))
		default:
			x[key] = bend(t, x[key], parts)
		}
		return x
	case []any:
		if len(x) == 0 || what < 3 {
			return append(slices.Clone(x), fresh(rapid.SampledFrom(parts).Draw(t, "item")))
		}
		at := rapid.IntRange(0, len(x)-1).Draw(t, "at")
		x = slices.Clone(x)
		x[at] = bend(t, x[at], parts)
		return x
	}
	return fresh(rapid.SampledFrom(odd).Draw(t, "instead"))
}

// fresh returns a deep copy: a value inserted into a request must not change in other places, nor contain itself.
func fresh(v any) any {
	switch x := v.(type) {
	case map[string]any:
		copied := make(map[string]any, len(x))
		for key, value := range x {
			copied[key] = fresh(value)
		}
		return copied
	case []any:
		copied := make([]any, len(x))
		for i := range x {
			copied[i] = fresh(x[i])
		}
		return copied
	}
	return v
}

// Requests of a real Metacontroller, bent in a few places, reach more code than random bytes do.
func FuzzBentHookRequest(f *testing.F) {
	seeds := requests(f)
	for seed := range uint64(16) { // rapid uses eight bytes for each draw, so a short input draws nothing
		f.Add(noise(seed, 640))
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { bentRequest(t, seeds) }))
}

func noise(seed uint64, n int) []byte {
	random, all := rand.New(rand.NewPCG(seed, 1)), make([]byte, 0, n)
	for len(all) < n {
		all = binary.LittleEndian.AppendUint64(all, random.Uint64())
	}
	return all
}

func bentRequest(t *rapid.T, seeds [][]byte) {
	t.Helper()
	body := seeds[rapid.IntRange(0, len(seeds)-1).Draw(t, "request")]
	path := rapid.SampledFrom(fuzzPaths).Draw(t, "path")
	var request any
	must.Succeed(t, json.Unmarshal(body, &request))
	request.(map[string]any)["finalizing"] = path == "/finalize"
	for range rapid.IntRange(1, 6).Draw(t, "times") {
		request = bend(t, request, odd)
	}
	bent, err := json.Marshal(request)
	must.Succeed(t, err)
	if err := check(path, rapid.Bool().Draw(t, "known"), bent); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, bent)
	}
}

// The property of FuzzBentHookRequest, so that a plain go test tries some requests, too.
func TestBentRequestsAreRefusedOrAnsweredWithinTheContract(t *testing.T) {
	t.Parallel()
	seeds := requests(t)
	rapid.Check(t, func(t *rapid.T) { bentRequest(t, seeds) })
}

// Found by FuzzBentHookRequest: while vCenter is unknown the answer has a child as its last-applied annotation does, and
// users can edit that.
func TestAnEditedRecordOfAChildIsNotPassedOn(t *testing.T) {
	t.Parallel()
	for _, record := range []string{`null`, `7`, `[]`, `{}`, `{"kind":1}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"another"}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"web-members","namespace":"default"}}`,
		`{"apiVersion":"v1","Kind":"ConfigMap","metadata":{"name":"web-members","namespace":"default"}}`,
		// Metacontroller would write such a child in another namespace, with Metacontroller's rights.
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-members","namespace":"kube-system"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-members","namespace":"kube-system","Namespace":"default"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-members"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-members","namespace":"default","labels":{"a":1}}}`} {
		body, err := json.Marshal(map[string]any{
			"parent": map[string]any{"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
				"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "uid-web"}, "spec": map[string]any{"cpu": 2, "memory": 4, "template": "t"}},
			"children": map[string]any{"ConfigMap.v1": map[string]any{"default/web-members": map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"metacontroller.k8s.io/last-applied-configuration": record}}}}},
		})
		must.Succeed(t, err)
		if err := check("/sync", false, body); err != nil {
			t.Errorf("%s: %v", record, err)
		}
		var answer struct {
			Children []struct{ Metadata map[string]any }
		}
		text := send(serve(&controller{}), "/sync", body).Body.Bytes()
		if err := json.Unmarshal(text, &answer); err != nil || len(answer.Children) != 1 ||
			!reflect.DeepEqual(answer.Children[0].Metadata, map[string]any{"name": "web-members", "namespace": "default"}) {
			t.Errorf("%s: %v %s", record, err, text)
		}
	}
}

func TestAChildWithoutANameIsRefused(t *testing.T) {
	t.Parallel()
	body := []byte(`{"parent":{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","metadata":{"name":"web","namespace":"default","uid":"u"}},"children":{"ConfigMap.v1":{"default/":{}}}}`)
	for i, path := range fuzzPaths {
		if w := send(serve(&controller{}), path, body); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%d %s: %d %s; want %d", i, path, w.Code, w.Body, http.StatusUnprocessableEntity)
		}
	}
}

// Found by FuzzHookRequest: the answer to such a request had a child without an apiVersion.
func TestAChildWithoutAKindOrAVersionIsRefused(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", ".", "ConfigMap", "ConfigMap v1", "ConfigMap.", ".v1"} {
		body := fmt.Appendf(nil, `{"parent":{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","metadata":{"name":"web","namespace":"default","uid":"u"}},"children":{%q:{"default/web-members":{}}}}`, key)
		for i, path := range fuzzPaths {
			if w := send(serve(&controller{}), path, body); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("%q: %d %s: %d %s; want %d", key, i, path, w.Code, w.Body, http.StatusUnprocessableEntity)
			}
		}
	}
}
