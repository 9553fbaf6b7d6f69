//go:build unix

package promises

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// service is the Service in front of the server's replicas. It sends calls to the same replica for a while, as a connection that is kept open
// does.
type service struct {
	mu     sync.Mutex
	random *rand.Rand
	urls   []string // by replica; empty while the replica is down
	at     int      // the replica that gets the calls
	sticks bool     // at only changes if its replica is down
}

func (s *service) set(replica int, url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.urls) <= replica {
		s.urls = append(s.urls, "")
	}
	s.urls[replica] = url
}

// prefer sends calls to one replica, as long as it is up.
func (s *service) prefer(replica int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.sticks = replica, true
}

// choose returns the URL for the next call.
func (s *service) choose() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at >= len(s.urls) || s.urls[s.at] == "" || !s.sticks && s.random.IntN(20) == 0 {
		var up []int
		for i, url := range s.urls {
			if url != "" {
				up = append(up, i)
			}
		}
		if len(up) == 0 {
			return "", fmt.Errorf("all replicas are down")
		}
		s.at = up[s.random.IntN(len(up))]
	}
	return s.urls[s.at], nil
}

// answer is a hook's answer.
type answer struct {
	Status             json.RawMessage   `json:"status"`
	Children           []json.RawMessage `json:"children"`
	ResyncAfterSeconds float64           `json:"resyncAfterSeconds"`
	Finalized          bool              `json:"finalized"`
}

// event has the fields of a Kubernetes Event that this suite reads.
type event struct {
	Type, Reason, Message string
}

// revision is a VmGroup as the API server stored it, and the time of that.
type revision struct {
	v1alpha1.VmGroup
	from time.Time
}

// group is a VmGroup in an API server, with a Metacontroller that calls the hooks for the group: at once when the group or its status has
// changed, and otherwise when the last answer asked for a call. Metacontroller sees the group a moment late (its informer's cache), and sees
// its own writes only after all earlier ones.
type group struct {
	service *service
	client  *http.Client
	mu      sync.Mutex
	random  *rand.Rand
	// revisions are the revisions that Metacontroller may not have seen yet, the newest last; there is always one.
	revisions []revision
	children  map[string]map[string]json.RawMessage // by Metacontroller's key of their kind, then by namespace and name
	events    map[string]event                      // by name; Metacontroller creates each once
	gone      bool                                  // the finalizer is removed
	pace      time.Duration                         // the shortest time between two calls, to model Metacontroller's rate limits
	changed   chan struct{}                         // wakes Metacontroller
	history   history
	happened  func(format string, args ...any)
}

// kinds are the CompositeController's childResources.
var kinds = []string{"ConfigMap.v1", "EndpointSlice.discovery.k8s.io/v1", "Service.v1"}

const lastApplied = "metacontroller.k8s.io/last-applied-configuration"

// newGroup applies a group, and reports what happens to it to happened.
func newGroup(s *service, random *rand.Rand, name string, spec v1alpha1.VmGroupSpec, happened func(format string, args ...any)) *group {
	g := &group{service: s, random: random, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}, events: map[string]event{},
		children: map[string]map[string]json.RawMessage{}, changed: make(chan struct{}, 1), happened: happened}
	var o v1alpha1.VmGroup
	o.APIVersion, o.Kind = v1alpha1.GroupVersion.String(), v1alpha1.Kind
	o.Namespace, o.Name, o.Generation, o.ResourceVersion = "default", name, 1, "1"
	o.UID = uuid.NewUUID()
	o.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	o.Finalizers = []string{"metacontroller.io/compositecontroller-vmgroup"}
	o.Spec = spec
	g.put(o)
	g.history.applied(o.Spec, false)
	text, _ := json.Marshal(o.Spec)
	g.happened("kubectl apply: %s", text)
	return g
}

// put stores the group. The caller holds mu, or no other goroutine has the group yet.
func (g *group) put(o v1alpha1.VmGroup) {
	version := 1
	if n := len(g.revisions); n > 0 {
		version, _ = strconv.Atoi(g.revisions[n-1].ResourceVersion)
		version++
	}
	o.ResourceVersion = strconv.Itoa(version)
	g.revisions = append(g.revisions, revision{o, time.Now()})
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// now returns the group as kubectl get shows it.
func (g *group) now() v1alpha1.VmGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	return *g.revisions[len(g.revisions)-1].DeepCopy()
}

// edit changes the spec, as kubectl edit does.
func (g *group) edit(why string, change func(*v1alpha1.VmGroupSpec)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.revisions[len(g.revisions)-1].DeepCopy()
	change(&o.Spec)
	o.Generation++
	g.history.applied(o.Spec, false)
	g.happened("generation %d: %s", o.Generation, why)
	g.put(*o)
}

// annotate sets an annotation, as kubectl annotate does, or removes it if the value is empty.
func (g *group) annotate(key, value string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.revisions[len(g.revisions)-1].DeepCopy()
	if value == "" {
		delete(o.Annotations, key)
	} else {
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[key] = value
	}
	g.happened("annotation %s: %q", key, value)
	g.put(*o)
}

// isGone reports whether Metacontroller has removed its finalizer.
func (g *group) isGone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}

// remove deletes the group, as kubectl delete does.
func (g *group) remove() {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.revisions[len(g.revisions)-1].DeepCopy()
	at := metav1.NewTime(time.Now().Truncate(time.Second))
	o.DeletionTimestamp = &at
	o.Generation++
	g.history.applied(o.Spec, true)
	g.happened("generation %d: kubectl delete", o.Generation)
	g.put(*o)
}

// run does what Metacontroller does, until the group is gone or ctx ends.
func (g *group) run(ctx context.Context) {
	failures := 0
	timer := time.NewTimer(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
		case <-timer.C:
		}
		parent := g.seen()
		a, err := g.call(ctx, parent)
		after := 30 * time.Second // resyncPeriodSeconds
		if err != nil {
			after = min(5*time.Millisecond<<min(failures, 20), time.Second) // Metacontroller's backoff grows to 1000 s
			failures++
		} else {
			failures = 0
			if g.store(parent, a) {
				return
			}
			if a.ResyncAfterSeconds > 0 {
				after = min(after, time.Duration(a.ResyncAfterSeconds*float64(time.Second)))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(g.pace):
		}
		g.mu.Lock()
		if len(g.revisions) > 1 { // the cache catches up soon
			after = min(after, time.Duration(g.random.IntN(100))*time.Millisecond)
		}
		g.mu.Unlock()
		timer.Reset(after)
	}
}

// seen returns the group as Metacontroller's cache has it: a moment late, and never older than in the last call.
func (g *group) seen() v1alpha1.VmGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	late := time.Duration(g.random.IntN(30)) * time.Millisecond
	if g.random.IntN(10) == 0 {
		late *= 20
	}
	for len(g.revisions) > 1 && time.Since(g.revisions[1].from) >= late {
		g.revisions = g.revisions[1:]
	}
	return *g.revisions[0].DeepCopy()
}

// call posts the group to the hook.
func (g *group) call(ctx context.Context, parent v1alpha1.VmGroup) (a answer, err error) {
	url, err := g.service.choose()
	if err != nil {
		return a, err
	}
	path := "/sync"
	if parent.DeletionTimestamp != nil {
		path = "/finalize"
	}
	g.mu.Lock()
	children := map[string]map[string]json.RawMessage{}
	for _, kind := range kinds {
		children[kind] = map[string]json.RawMessage{}
		for name, child := range g.children[kind] {
			children[kind][name] = child
		}
	}
	g.mu.Unlock()
	body, err := json.Marshal(map[string]any{"controller": map[string]any{"metadata": map[string]string{"name": "vmgroup"}}, "parent": &parent,
		"children": children, "related": map[string]any{}, "finalizing": parent.DeletionTimestamp != nil})
	if err != nil {
		return a, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := g.client.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	if response.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%s: %s", response.Status, text)
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	return a, strict.Decode(&a)
}

// store writes the answer to the call with this parent: children first, then the status. It reports whether the group is gone. With
// finalized, Metacontroller removes its finalizer and does nothing else.
func (g *group) store(parent v1alpha1.VmGroup, a answer) (gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.Finalized {
		g.gone = true
		return true
	}
	applied := map[string]map[string]json.RawMessage{}
	for _, child := range a.Children {
		var o struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
			event
		}
		if err := json.Unmarshal(child, &o); err != nil {
			g.history.broke("a child that is no object: %s", child)
			continue
		}
		kind := o.Kind + "." + o.APIVersion
		if kind == "Event.v1" {
			if _, exists := g.events[o.Metadata.Name]; !exists {
				g.events[o.Metadata.Name] = o.event
				g.happened("Event %s: %s", o.Reason, o.Message)
			}
			continue
		}
		if applied[kind] == nil {
			applied[kind] = map[string]json.RawMessage{}
		}
		applied[kind][parent.Namespace+"/"+o.Metadata.Name] = withLastApplied(child)
	}
	g.children = applied
	o := g.revisions[len(g.revisions)-1].DeepCopy()
	var status v1alpha1.VmGroupStatus
	if err := json.Unmarshal(a.Status, &status); err != nil {
		g.history.broke("the answer's status is not a VmGroupStatus: %s", a.Status)
		return false
	}
	status.ObservedGeneration = parent.Generation
	if !equality.Semantic.DeepEqual(o.Status, status) {
		if o.Status.Phase != status.Phase || o.Status.LastMessage != status.LastMessage {
			g.happened("%s: %s", status.Phase, status.LastMessage)
		}
		o.Status = status
		g.put(*o)
	}
	return false
}

// withLastApplied returns a child as Metacontroller stores it, with the annotation of what was last applied.
func withLastApplied(applied json.RawMessage) json.RawMessage {
	var o map[string]any
	if json.Unmarshal(applied, &o) != nil {
		return applied
	}
	meta, _ := o["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[lastApplied] = string(applied)
	meta["annotations"] = annotations
	observed, _ := json.Marshal(o)
	return observed
}
