package hook_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// A caller with the token can send any status. The server would look up and remember each VM in it.
func TestAStatusWithMoreThanAGroupHasIsRefused(t *testing.T) {
	t.Parallel()
	for list, most := range map[string]int{"members": 4 * v1alpha1.MaxReplicas, "standby": 4 * v1alpha1.MaxReplicas, "disks": v1alpha1.MaxPersistentDisks, "strays": v1alpha1.MaxStrays,
		"givenUp": v1alpha1.MaxVMsGivenUp, "quarantined": 10 * v1alpha1.MaxReplicas, "conditions": 10 * v1alpha1.MaxReplicas} {
		for _, path := range []string{"/sync", "/finalize", "/customize", "/plan"} {
			for n, want := range map[int]int{most: http.StatusOK, most + 1: http.StatusUnprocessableEntity} {
				body, err := json.Marshal(map[string]any{"finalizing": path == "/finalize", "children": map[string]any{}, "parent": map[string]any{
					"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
					"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "5f0c", "generation": 1, "deletionTimestamp": "2026-01-02T03:04:05Z"},
					"spec":     map[string]any{"cpu": 1, "memory": 1, "template": "ubuntu"}, "status": map[string]any{list: make([]struct{}, n)}}})
				must.Succeed(t, err)
				k := &taking{}
				req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(body)))
				req.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				hook.New(hook.Config{Controller: k, Log: zerolog.Nop()}).ServeHTTP(w, req)
				if w.Code != want || want != http.StatusOK && (len(k.calls) > 0 || !strings.Contains(w.Body.String(), "parent.status."+list)) {
					t.Errorf("%s with %d %s: %d %.200s, %d calls of the controller; want %d", path, n, list, w.Code, w.Body, len(k.calls), want)
				}
			}
		}
	}
}
