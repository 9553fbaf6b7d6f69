package hook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// unselected returns a captured finalize without its deletionTimestamp: Metacontroller sends it when the CompositeController's
// labelSelector no longer matches the group.
func unselected(t *testing.T, edit func(parent map[string]any)) []byte {
	t.Helper()
	var request map[string]any
	must.Succeed(t, json.Unmarshal(captured(t, "captured/finalize-with-children.json")["testdata/captured/finalize-with-children.json"], &request))
	parent := request["parent"].(map[string]any)
	meta := parent["metadata"].(map[string]any)
	if meta["deletionTimestamp"] == nil || request["finalizing"] != true {
		t.Fatal("the captured request is no finalize of a deletion")
	}
	delete(meta, "deletionTimestamp")
	delete(meta, "deletionGracePeriodSeconds")
	edit(parent)
	body, err := json.Marshal(request)
	must.Succeed(t, err)
	return body
}

func asItIs(map[string]any) {}

func TestAFinalizeWithoutDeletionTimestampIsRefusedWhileThereAreVMs(t *testing.T) {
	w := post(serve(&controller{state: healthy(), emptied: true}), "/finalize", unselected(t, asItIs))
	text := w.Body.String()
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(text, "Nothing is removed") || !strings.Contains(text, "labelSelector") || strings.Count(text, "\n") != 1 {
		t.Errorf("%d %s", w.Code, text)
	}
}

func TestAFinalizeWithoutDeletionTimestampIsRetriedWhereNoPersonHasToAct(t *testing.T) {
	w := post(serve(&controller{}), "/finalize", unselected(t, asItIs)) // the server has not read the inventory yet
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "5" || strings.Count(w.Body.String(), "\n") != 1 {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestTheAnswerThatReleasesAGroupReturnsItUnchanged(t *testing.T) {
	empty := plan.VCenterState{Known: true, VCenter: "vc-2"}
	for name, c := range map[string]struct{ status, want any }{
		"a status":                     {map[string]any{"phase": "RUNNING", "currentReplicas": 3, "vCenterUUID": "vc-1", "ofALaterVersion": []any{"kept"}}, map[string]any{"phase": "RUNNING", "currentReplicas": 3.0, "vCenterUUID": "vc-1", "ofALaterVersion": []any{"kept"}}},
		"members in another vCenter":   {map[string]any{"vCenterUUID": "vc-1", "members": []any{map[string]any{"name": "web-0", "ordinal": 0, "moRef": "vm-7"}}}, map[string]any{"vCenterUUID": "vc-1", "members": []any{map[string]any{"name": "web-0", "ordinal": 0.0, "moRef": "vm-7"}}}},
		"none":                         {nil, map[string]any{}},
		"an empty one":                 {map[string]any{}, map[string]any{}},
		"one with a message in quotes": {map[string]any{"lastMessage": "a \"word\" <b> \u2028"}, map[string]any{"lastMessage": "a \"word\" <b> \u2028"}},
	} {
		t.Run(name, func(t *testing.T) {
			body := unselected(t, func(parent map[string]any) {
				if delete(parent, "status"); c.status != nil {
					parent["status"] = c.status
				}
			})
			w := post(serve(&controller{state: empty, emptied: true}), "/finalize", body)
			var answer struct {
				Status             map[string]any
				Children           []json.RawMessage
				ResyncAfterSeconds float64
				Finalized          bool
			}
			strict := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&answer); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %v %s; want no error and %d", w.Code, err, w.Body, http.StatusOK)
			}
			if !answer.Finalized || answer.ResyncAfterSeconds != 0 || !reflect.DeepEqual(any(answer.Status), c.want) {
				t.Errorf("got the answer %s; want it finalized, without a time, and with the status %v", w.Body, c.want)
			}
			var sent struct {
				Children map[string]map[string]struct {
					Metadata struct{ Annotations map[string]string }
				}
			}
			must.Succeed(t, json.Unmarshal(body, &sent))
			var want, got []string
			for _, kind := range sent.Children {
				for _, child := range kind {
					want = append(want, child.Metadata.Annotations["metacontroller.k8s.io/last-applied-configuration"])
				}
			}
			for _, child := range answer.Children {
				got = append(got, string(child))
			}
			slices.Sort(want)
			slices.Sort(got)
			if len(want) != 3 || !slices.Equal(got, want) {
				t.Errorf("the children are\n%s\nnot\n%s", got, want)
			}
		})
	}
}

func TestThePlanOfAnUnselectedGroupRemovesNothing(t *testing.T) {
	w := post(serve(&controller{state: healthy()}), "/plan", unselected(t, asItIs))
	var a hook.PlanAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK || !strings.Contains(a.Message, "Nothing is removed") {
		t.Errorf("%d %v %s", w.Code, err, w.Body)
	}
}
