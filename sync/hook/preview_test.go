package hook_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// slowPreflight is a vCenter that never answers in time. most is the highest number of preflights at once.
type slowPreflight struct {
	mu        sync.Mutex
	now, most int
}

func (s *slowPreflight) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
}

func (s *slowPreflight) Resolve(context.Context, *v1alpha1.VmGroup) {}

func (s *slowPreflight) Preflight(ctx context.Context, _ plan.Ref, a plan.Action, _, _ int) plan.Preflight {
	s.count(1)
	defer s.count(-1)
	<-ctx.Done()
	return plan.Preflight{Obstacles: []plan.Obstacle{{VM: a.Key, Op: a.Op, Part: "networks", Fault: plan.Fault{Reason: "Timeout", Message: "vCenter did not answer in time."}}}}
}

func TestPlansThatVCenterAnswersSlowlyAreBoundedInTimeAndNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		preflight := new(slowPreflight)
		h := hook.New(hook.Config{Controller: &controller{state: healthy()}, Preflight: preflight, Ready: func() error { return nil }, Log: zerolog.Nop()})
		began := time.Now()
		answers := make(chan *httptest.ResponseRecorder)
		for range 3 {
			go func() {
				answers <- post(h, "/plan", []byte(`{"parent":{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup",`+
					`"metadata":{"name":"web","namespace":"shop"},"spec":{"cpu":2,"memory":4,"replicas":2,"template":"ubuntu"}},"children":{}}`))
			}()
		}
		blocked := 0
		for range 3 {
			w := <-answers
			var a hook.PlanAnswer
			switch {
			case w.Code == http.StatusOK && json.Unmarshal(w.Body.Bytes(), &a) == nil && len(a.Steps) > 0 && len(a.Blocked) == 1 && a.Blocked[0].Reason == "Timeout":
				blocked++
			case w.Code != http.StatusTooManyRequests:
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if took := time.Since(began); blocked != 2 || preflight.most != 2 || took > 25*time.Second {
			t.Errorf("%d were answered, in %s, and %d looked at once", blocked, took, preflight.most)
		}
	})
}

func TestAPlanIsMadeOfAManifestThatWasNeverApplied(t *testing.T) {
	t.Parallel()
	const spec = `"spec":{"cpu":2,"memory":4,"replicas":2,"template":"ubuntu"}`
	group := func(metadata string) string {
		return `{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","metadata":{` + metadata + `},` + spec + `}`
	}
	h := serve(&controller{state: healthy()})
	for body, want := range map[string]string{
		`{"parent":` + group(`"generateName":"web-","namespace":"shop"`) + `}`: "shop/web-xxxxx",
		`{"parent":` + group(`"generateName":"web-"`) + `,"children":{}}`:      "default/web-xxxxx",
		`{"parent":` + group(`"name":"web"`) + `}`:                             "default/web",
		group(`"name":"web","namespace":"shop"`):                               "shop/web",
		group(`"generateName":"web-"`):                                         "default/web-xxxxx",
	} {
		w := post(h, "/plan", []byte(body))
		var a hook.PlanAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK || a.Group != want {
			t.Errorf("%s: %d %s, want %s", body, w.Code, w.Body, want)
		}
		for _, path := range []string{"/sync", "/finalize"} { // Metacontroller never sends such a group to these hooks
			if w := post(h, path, []byte(body)); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s of %s: %d %s; want %d", path, body, w.Code, w.Body, http.StatusUnprocessableEntity)
			}
		}
	}
	for _, body := range []string{`{}`, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"}}`, `{"parent":` + group("") + `}`, `{"kind":"List","apiVersion":"v1","items":[]}`} {
		if w := post(h, "/plan", []byte(body)); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s; want %d", body, w.Code, w.Body, http.StatusUnprocessableEntity)
		}
	}
}
