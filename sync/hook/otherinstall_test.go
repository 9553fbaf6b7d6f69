package hook_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

func TestTheFinalizersOfSeveralInstallsReachThePlan(t *testing.T) {
	const prefix = "metacontroller.io/compositecontroller-"
	for name, c := range map[string]struct {
		controller string
		finalizers []string
		want       []string
	}{
		"its own":             {"vmgroup", []string{prefix + "vmgroup"}, nil},
		"another install's":   {"vmgroup", []string{prefix + "vmgroup-east", prefix + "vmgroup"}, []string{prefix + "vmgroup", prefix + "vmgroup-east"}},
		"the default one's":   {"vmgroup-east", []string{prefix + "vmgroup"}, []string{prefix + "vmgroup", prefix + "vmgroup-east"}},
		"others' controllers": {"vmgroup", []string{prefix + "backup", prefix + "vmgroups", "example.com/vmgroup", "foregroundDeletion"}, nil},
		"by hand":             {"", []string{prefix + "vmgroup"}, nil},
	} {
		var request map[string]any
		must.Succeed(t, json.Unmarshal(created(t), &request))
		request["controller"].(map[string]any)["metadata"].(map[string]any)["name"] = c.controller
		request["parent"].(map[string]any)["metadata"].(map[string]any)["finalizers"] = c.finalizers
		body, err := json.Marshal(request)
		must.Succeed(t, err)
		k := &controller{state: healthy()}
		if w := post(serve(k), "/sync", body); w.Code != http.StatusOK {
			t.Fatalf("the sync is answered %d, want %d: %s", w.Code, http.StatusOK, w.Body)
		}
		if got := k.calls[0].Group.Finalizers; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		request["parent"].(map[string]any)["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-21T03:00:00Z"
		request["finalizing"] = true
		body, err = json.Marshal(request)
		must.Succeed(t, err)
		if w := post(serve(k), "/finalize", body); w.Code != http.StatusOK {
			t.Fatalf("the finalize is answered %d, want %d: %s", w.Code, http.StatusOK, w.Body)
		}
		others := slices.DeleteFunc(slices.Clone(c.want), func(f string) bool { return f == prefix+c.controller })
		if got := k.calls[1].Group.Finalizers; !slices.Equal(got, others) {
			t.Errorf("%s, and the group is deleted: %v, want %v", name, got, others)
		}
	}
}

// After a 422, Metacontroller changes neither the status nor the children, and an Event says why.
func TestASyncForAGroupThatAnotherInstallServesIsRefused(t *testing.T) {
	var request map[string]any
	must.Succeed(t, json.Unmarshal(created(t), &request))
	parent := request["parent"].(map[string]any)
	parent["metadata"].(map[string]any)["finalizers"] = []string{"metacontroller.io/compositecontroller-vmgroup-east"}
	parent["status"] = map[string]any{
		"vCenterUUID": "another", "members": []any{map[string]any{"name": "web-0", "moRef": "vm-7"}},
		"conditions": []any{map[string]any{"type": "VCenterChanged", "status": "False", "reason": "AsExpected", "message": "", "lastTransitionTime": "2026-11-21T03:00:00Z"}},
	}
	body, err := json.Marshal(request)
	must.Succeed(t, err)
	w := post(serve(&controller{state: healthy()}), "/sync", body)
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "another install of VmGroup serves") {
		t.Errorf("%d %s; want %d and %q in the text", w.Code, w.Body, http.StatusUnprocessableEntity, "another install of VmGroup serves")
	}
}
