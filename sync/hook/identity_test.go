package hook_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// taking is a controller that counts its calls.
type taking struct{ calls []plan.Call }

func (k *taking) Sync(c plan.Call) plan.Result { k.calls = append(k.calls, c); return plan.Result{} }
func (k *taking) Preview(c plan.Call) (plan.Result, plan.Outlook, error) {
	k.calls = append(k.calls, c)
	return plan.Result{}, plan.Outlook{}, nil
}
func (k *taking) Groups() []plan.Report { return nil }

// postTo posts a hook call of a parent with that metadata, and that many entries of spec.adopt.
func postTo(t *testing.T, k *taking, path string, metadata map[string]any, adopt int) *httptest.ResponseRecorder {
	t.Helper()
	body, err := json.Marshal(map[string]any{"finalizing": path == "/finalize", "children": map[string]any{}, "parent": map[string]any{
		"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": metadata,
		"spec": map[string]any{"cpu": 1, "memory": 1, "template": "ubuntu", "adopt": make([]string, adopt)}}})
	must.Succeed(t, err)
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(body)))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	hook.New(hook.Config{Controller: k, Log: zerolog.Nop()}).ServeHTTP(w, req)
	return w
}

func TestHooksAcceptOnlyNamesThatAnAPIServerAccepts(t *testing.T) {
	good := func() map[string]any {
		return map[string]any{"namespace": "shop", "name": "web", "uid": "5f0c", "generation": 1}
	}
	for _, path := range []string{"/sync", "/customize", "/plan"} {
		k := &taking{}
		if w := postTo(t, k, path, good(), 0); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s; want %d", path, w.Code, w.Body, http.StatusOK)
		}
		k.calls = nil
		for key, values := range map[string][]any{
			"namespace":  {"..", ".", "a/../../x", "a/b", "Shop", "a.b", strings.Repeat("a", 64), "a\nb", "a\x1b[2J"},
			"name":       {"..", "a/b", "../x", "Web", strings.Repeat("a", 254), "a\nb"},
			"uid":        {strings.Repeat("u", 129), "a b", "a\nb", "\u202e"},
			"generation": {-1, int64(1) << 62, int64(1)<<31 + 1},
		} {
			for _, value := range values {
				metadata := good()
				metadata[key] = value
				w := postTo(t, k, path, metadata, 0)
				if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "metadata."+key) || strings.ContainsAny(w.Body.String(), "\x1b") {
					t.Errorf("%s with %s %v: %d %s", path, key, value, w.Code, w.Body)
				}
			}
		}
		if len(k.calls) != 0 {
			t.Errorf("%s: %d calls came through; want 0", path, len(k.calls))
		}
	}
}

func TestATooLongListIsCutBeforeTheControllerGetsIt(t *testing.T) {
	k := &taking{}
	postTo(t, k, "/sync", map[string]any{"namespace": "shop", "name": "web", "uid": "5f0c", "generation": 1}, 60_000)
	if len(k.calls) != 1 || len(k.calls[0].Group.Spec.Adopt) != 1001 {
		t.Errorf("%d calls", len(k.calls))
	}
}
