package planner_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

var corpus = flag.String("corpus", "", "write the answers of all stories, and of drawn observations, to this file, one to a line")

// corpusSize is the number of observations drawn: the same ones each time.
const corpusSize = 1500

// services are Services of kinds that the generators of the properties don't draw.
var services = []v1alpha1.Service{
	{},
	{Ports: []v1alpha1.ServicePort{{Port: 80}}},
	{Type: v1alpha1.ServiceClusterIP, Ports: []v1alpha1.ServicePort{{Port: 80, TargetPort: new(int32(8080))}}},
	{Ports: []v1alpha1.ServicePort{{Name: "dns", Port: 53, Protocol: "UDP"}, {Name: "http", Port: 80, TargetPort: new(int32(80)), Protocol: "TCP", AppProtocol: "kubernetes.io/h2c"}}},
	{Ports: []v1alpha1.ServicePort{{Port: 80}}, Annotations: map[string]string{"example.com/owner": "shop"}, DrainSeconds: 30},
}

// answering is a controller with a fixed answer.
type answering struct{ result plan.Result }

func (a *answering) Sync(plan.Call) plan.Result { return a.result }
func (a *answering) Preview(plan.Call) (plan.Result, plan.Outlook, error) {
	return plan.Result{}, plan.Outlook{}, nil
}
func (a *answering) Groups() []plan.Report { return nil }

// full is a group of the largest size, each member with addresses of both families.
func full() plan.Observed {
	o := observed(v1alpha1.MaxReplicas)
	o.Group.Spec.Service = &services[1]
	for i := range int32(v1alpha1.MaxReplicas) {
		m := vm(&o, i)
		m.MoRef, m.Host, m.Tools = fmt.Sprintf("vm-%d", 10000+i), "esx.example.com", true
		m.IPs = []string{fmt.Sprintf("10.1.%d.%d", i/256, i%256), fmt.Sprintf("2001:db8::%x", i+1)}
		o.State.VMs = append(o.State.VMs, m)
	}
	return o
}

// The end-to-end tests (test/e2e) check that a real API server stores every answer of the hooks. The stories and the properties produce more
// different answers than the groups of those tests, so this test writes their answers to a file, in the form that the hooks send.
func TestTheCorpusIsWritten(t *testing.T) {
	if *corpus == "" {
		t.Skip("only for the end-to-end tests: -corpus <file>")
	}
	controller := &answering{}
	server := hook.New(hook.Config{Controller: controller, Ready: func() error { return nil }, Log: zerolog.Nop()})
	var lines bytes.Buffer
	parent := group(3)
	parent.APIVersion, parent.Kind = v1alpha1.GroupVersion.String(), v1alpha1.Kind
	answer := func(r *plan.Result) {
		body, err := json.Marshal(map[string]any{"parent": parent, "children": map[string]any{}, "related": map[string]any{}, "finalizing": false})
		must.Succeed(t, err)
		controller.result = *r
		request := httptest.NewRequest(http.MethodPost, "/sync", bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, request)
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		lines.Write(w.Body.Bytes()) // ends with a newline
	}
	stories := allStories()
	for _, name := range slices.Sorted(maps.Keys(stories)) {
		s := newStory()
		s.heard = answer
		stories[name](s)
	}
	// published returns the answers for a group before and after the server sees its Service: only then does it create EndpointSlices.
	published := func(o plan.Observed) {
		r := planner.Make(o)
		answer(&r)
		if o.Group.Spec.Service == nil {
			return
		}
		o.Children = map[plan.ChildKey]plan.ObservedChild{}
		for _, c := range r.Children {
			o.Children[c.Key] = plan.ObservedChild{}
		}
		r = planner.Make(o)
		answer(&r)
	}
	observations := rapid.Custom(anything)
	for seed := range corpusSize {
		o := observations.Example(seed)
		if o.Group.Spec.Service != nil {
			o.Group.Spec.Service = &services[seed%len(services)]
		}
		published(o)
	}
	published(full())
	must.Succeed(t, os.WriteFile(*corpus, lines.Bytes(), 0o600))
}
