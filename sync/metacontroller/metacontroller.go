// Package metacontroller is a stand-in for Metacontroller in tests and in `vmgroup demo`: it keeps one VmGroup and its children, posts them
// to the hooks in hook version v2, and stores the answers.
package metacontroller

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

const lastApplied = "metacontroller.k8s.io/last-applied-configuration"

// Group is a VmGroup in a cluster of its own. Only one goroutine at a time can use it.
type Group struct {
	v1alpha1.VmGroup
	// URL is the address of the hooks, such as http://127.0.0.1:8080.
	URL string
	// Children are the group's child objects, by Metacontroller's key of their kind and by name, as last applied.
	Children map[string]map[string]json.RawMessage
	// Events are the children of kind Event, by name, as in their first answer: childResources does not list the kind, so Metacontroller
	// creates them once, and never observes them.
	Events map[string]json.RawMessage
	// Related are the objects that the hooks can request: Secrets and ConfigMaps of the group's namespace.
	Related []Related
	// ServerSideApply reports whether Metacontroller runs with --apply-strategy=server-side-apply.
	ServerSideApply bool
	// Client posts the hook calls; http.DefaultClient if nil.
	Client *http.Client
	// Every is how long Until and Delete wait between two calls: 20 ms for a new group. If zero, they wait as long as the answer says, or a
	// tenth of the time that they have waited so far.
	Every time.Duration
	// Writes counts the status writes: a settled group causes none.
	Writes int

	observed map[string]json.RawMessage // by the JSON of a child as applied, the child as the hook sees it
}

// New returns a group as kubectl apply would create it.
func New(url, namespace, name, uid string, replicas int32) *Group {
	g := &Group{URL: url, Every: 20 * time.Millisecond}
	g.APIVersion, g.Kind = v1alpha1.GroupVersion.String(), v1alpha1.Kind
	g.Namespace, g.Name, g.UID, g.Generation, g.ResourceVersion = namespace, name, types.UID(uid), 1, "1"
	g.Spec = v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "vm-operator-template", Replicas: &replicas}
	return g
}

// Scale sets spec.replicas, as kubectl scale does.
func (g *Group) Scale(replicas int32) {
	g.Spec.Replicas = &replicas
	g.Generation++
}

// Edit changes the spec, as kubectl edit does.
func (g *Group) Edit(change func(*v1alpha1.VmGroupSpec)) {
	change(&g.Spec)
	g.Generation++
}

// Related is a Secret (or a ConfigMap) of the group's namespace, with its data in plain text.
type Related struct {
	Kind, Name string
	Data       map[string]string
}

// Answer is a hook's answer.
type Answer struct {
	Status             v1alpha1.VmGroupStatus `json:"status"`
	Children           []json.RawMessage      `json:"children"`
	ResyncAfterSeconds float64                `json:"resyncAfterSeconds"`
	Finalized          bool                   `json:"finalized"`
}

// Resync returns the time after which Metacontroller calls again by itself: at least a second here.
func (a *Answer) Resync() time.Duration {
	return max(time.Second, time.Duration(a.ResyncAfterSeconds*float64(time.Second)))
}

// Sync calls the sync hook and stores its answer.
func (g *Group) Sync(ctx context.Context) (Answer, error) { return g.call(ctx, "/sync", false) }

// Finalize begins the group's deletion, if it has not begun, calls the finalize hook, and stores its answer.
func (g *Group) Finalize(ctx context.Context) (Answer, error) {
	if g.DeletionTimestamp == nil {
		// In whole seconds, like the API server's times, but rounded up, so that a drain of a few seconds isn't shortened.
		at := metav1.NewTime(time.Now().Add(time.Second).Truncate(time.Second))
		g.DeletionTimestamp = &at
		g.Generation++ // as the API server does
	}
	return g.call(ctx, "/finalize", true)
}

// Unselect calls the finalize hook for a group that is not being deleted, as Metacontroller does when its labelSelector does
// not match. letGo reports whether the hook allows the removal of the finalizer; otherwise the hook refused, and said why. Any other
// answer, or a change of status or children, is an error.
func (g *Group) Unselect(ctx context.Context) (letGo bool, said string, err error) {
	if g.DeletionTimestamp != nil {
		return false, "", errors.New("the group is being deleted")
	}
	before, err := g.Body(true)
	if err != nil {
		return false, "", err
	}
	a, err := g.call(ctx, "/finalize", true)
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		return false, refused.text, nil
	}
	if err != nil {
		return false, "", err
	}
	after, err := g.Body(true)
	if err == nil && (!a.Finalized || !bytes.Equal(before, after)) {
		err = fmt.Errorf("finalized is %v, and of\n%s\ncame\n%s", a.Finalized, before, after)
	}
	return a.Finalized, "", err
}

// refusal is an answer on which Metacontroller stores nothing and calls again.
type refusal struct{ status, text string }

func (r *refusal) Error() string { return r.status + ": " + r.text }

// kinds are the CompositeController's childResources: each is in every request.
var kinds = []string{"ConfigMap.v1", "EndpointSlice.discovery.k8s.io/v1", "Service.v1"}

// Body returns the request of a hook call.
func (g *Group) Body(finalizing bool) ([]byte, error) {
	children, observed := map[string]map[string]json.RawMessage{}, map[string]json.RawMessage{}
	applied := withLastApplied
	if g.ServerSideApply {
		applied = withManagedFields
	}
	for _, kind := range kinds {
		children[kind] = map[string]json.RawMessage{}
		for name, text := range g.Children[kind] {
			object, ok := g.observed[string(text)]
			if !ok {
				var err error
				if object, err = applied(text); err != nil {
					return nil, fmt.Errorf("child %s: %w", name, err)
				}
			}
			observed[string(text)], children[kind][g.Namespace+"/"+name] = object, object
		}
	}
	g.observed = observed
	return json.Marshal(map[string]any{
		"controller": map[string]any{"metadata": map[string]string{"name": "vmgroup"}},
		"parent":     &g.VmGroup,
		"children":   children,
		"related":    g.related(),
		"finalizing": finalizing,
	})
}

// withLastApplied returns a child as Metacontroller leaves it with dynamic apply.
func withLastApplied(applied json.RawMessage) (json.RawMessage, error) {
	var object map[string]any
	if err := json.Unmarshal(applied, &object); err != nil {
		return nil, err
	}
	meta := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[lastApplied] = string(applied)
	meta["annotations"] = annotations
	return json.Marshal(object)
}

// related returns the objects that spec.userData names, which the customize hook requests.
func (g *Group) related() map[string]map[string]any {
	related := map[string]map[string]any{}
	for _, r := range g.Related {
		wanted := false
		if from := g.Spec.UserData; from != nil {
			wanted = r.Kind == "Secret" && from.SecretKeyRef != nil && from.SecretKeyRef.Name == r.Name ||
				r.Kind == "ConfigMap" && from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name == r.Name
		}
		if !wanted {
			continue
		}
		object := map[string]any{"apiVersion": "v1", "kind": r.Kind, "metadata": map[string]string{"name": r.Name, "namespace": g.Namespace}, "data": r.Data}
		if r.Kind == "Secret" {
			data := map[string][]byte{} // encoding/json writes []byte as base64
			for key, value := range r.Data {
				data[key] = []byte(value)
			}
			object["data"] = data
		}
		related[r.Kind+".v1"] = map[string]any{g.Namespace + "/" + r.Name: object}
	}
	return related
}

func (g *Group) call(ctx context.Context, path string, finalizing bool) (a Answer, err error) {
	body, err := g.Body(finalizing)
	if err != nil {
		return a, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	client := g.Client
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	if response.StatusCode != http.StatusOK {
		refused := &refusal{response.Status, string(text)}
		if response.StatusCode == http.StatusUnprocessableEntity || response.StatusCode == http.StatusTooManyRequests {
			return a, refused
		}
		return a, errors.New(refused.Error())
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields() // like Metacontroller with v2
	if err := strict.Decode(&a); err != nil {
		return a, fmt.Errorf("%s: %w", text, err)
	}
	return a, g.store(a)
}

// store replaces the status, if it changed, and the children: it deletes those that the answer doesn't have. An answer that ends the
// group changes no child.
func (g *Group) store(a Answer) error {
	if !equality.Semantic.DeepEqual(g.Status, a.Status) {
		g.Status = a.Status
		g.Writes++
	}
	if a.Finalized {
		return nil
	}
	g.Children = map[string]map[string]json.RawMessage{}
	for _, child := range a.Children {
		var object struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := json.Unmarshal(child, &object); err != nil {
			return err
		}
		kind := object.Kind + "." + object.APIVersion
		if kind == "Event.v1" {
			if g.Events == nil {
				g.Events = map[string]json.RawMessage{}
			}
			if _, exists := g.Events[object.Metadata.Name]; !exists { // a second POST would be answered with 409
				g.Events[object.Metadata.Name] = child
			}
			continue
		}
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("a child of kind %s, which childResources does not list", kind)
		}
		if g.Children[kind] == nil {
			g.Children[kind] = map[string]json.RawMessage{}
		}
		g.Children[kind][object.Metadata.Name] = child
	}
	return nil
}

// Until syncs until holds returns true for an answer. Its error has the last answer.
func (g *Group) Until(ctx context.Context, holds func(Answer) bool) (Answer, error) {
	return g.until(ctx, g.Sync, holds)
}

// Delete finalizes until the hook says finalized.
func (g *Group) Delete(ctx context.Context) error {
	_, err := g.UntilFinalizing(ctx, func(a Answer) bool { return a.Finalized })
	return err
}

// UntilFinalizing finalizes a group until holds returns true for an answer.
func (g *Group) UntilFinalizing(ctx context.Context, holds func(Answer) bool) (Answer, error) {
	return g.until(ctx, g.Finalize, holds)
}

func (g *Group) until(ctx context.Context, call func(context.Context) (Answer, error), holds func(Answer) bool) (Answer, error) {
	for began := time.Now(); ; {
		a, err := call(ctx)
		if err == nil && holds(a) {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return a, fmt.Errorf("%w; last: %s %q (%v)", ctx.Err(), a.Status.Phase, a.Status.LastMessage, err)
		case <-time.After(cmp.Or(g.Every, max(a.Resync(), time.Since(began)/10))):
		}
	}
}

// Running reports whether the group is RUNNING.
func Running(a Answer) bool { return a.Status.Phase == v1alpha1.PhaseRunning }
