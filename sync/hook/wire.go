package hook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The two annotations that contain an object as it was last applied: kubectl's, which the server drops, and Metacontroller's, from which
// the server keeps a child unchanged while vCenter is unknown (with server-side apply, see applied.go).
const (
	kubectlLastApplied        = "kubectl.kubernetes.io/last-applied-configuration"
	metacontrollerLastApplied = "metacontroller.k8s.io/last-applied-configuration"
)

// Request is what Metacontroller posts to a hook (hook version v2; v1 has other keys for children, and both are
// accepted). Other keys are ignored, because Metacontroller or the CRD may be newer.
type Request struct {
	Controller struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	} `json:"controller"`
	Parent     *v1alpha1.VmGroup                 `json:"parent"`
	Children   map[string]map[string]childObject `json:"children"`
	Finalizing bool                              `json:"finalizing"`
	// Related is decoded later (UserData), by code whose errors contain none of its data.
	Related json.RawMessage `json:"related"`
}

// childObject has the fields of a child that the server needs.
type childObject struct {
	childFields
	// applied is the child as it was last applied by server-side apply, in JSON; empty if it wasn't.
	applied string
}

type childFields struct {
	Metadata struct {
		Annotations   map[string]string `json:"annotations"`
		ManagedFields []managedFields   `json:"managedFields"`
	} `json:"metadata"`
	// Endpoints are an EndpointSlice's. They are decoded only for groups that drain members.
	Endpoints json.RawMessage `json:"endpoints"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *childObject) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &c.childFields); err != nil {
		return err
	}
	c.applied = serverSideApplied(text, c.Metadata.ManagedFields)
	c.Metadata.ManagedFields = nil
	return nil
}

// lastApplied returns the child as it was last applied, in JSON; empty if unknown. The annotation takes precedence over managedFields:
// after a change of Metacontroller's strategy, managedFields may still be those of the former one.
func (c *childObject) lastApplied(namespace string, key plan.ChildKey) string {
	text := c.Metadata.Annotations[metacontrollerLastApplied]
	switch {
	case c.applied != "" && !isRecordOf(namespace, key, text):
		return c.applied
	case !json.Valid([]byte(text)):
		return "" // the annotation was edited: the planner recreates the child
	}
	return text
}

// call turns a request into the planner's types, or returns what is wrong with it.
func (r *Request) call() (plan.Call, error) {
	g := r.Parent
	switch {
	case g == nil:
		return plan.Call{}, fmt.Errorf("this is not a hook request: it has no parent")
	case g.Kind != v1alpha1.Kind || g.APIVersion != v1alpha1.GroupVersion.String():
		return plan.Call{}, fmt.Errorf("parent is a %s of %q: this hook serves %s of %q", orNothing(g.Kind), g.APIVersion, v1alpha1.Kind, v1alpha1.GroupVersion)
	case g.Name == "" || g.Namespace == "":
		return plan.Call{}, fmt.Errorf("metadata.name and metadata.namespace must be set")
	}
	if err := identity(g); err != nil {
		return plan.Call{}, err
	}
	if err := statusBounds(&g.Status); err != nil {
		return plan.Call{}, err
	}
	cascade := plan.CascadeOf(g)
	g.ManagedFields = nil // unused, and the largest part of the object in memory
	delete(g.Annotations, kubectlLastApplied)
	g.Finalizers = severalInstalls(g.Finalizers, r.Controller.Metadata.Name)
	if !g.DeletionTimestamp.IsZero() { // those for which the group waits after this install is done
		g.Finalizers = slices.DeleteFunc(g.Finalizers, func(f string) bool { return f == controllerFinalizer+r.Controller.Metadata.Name })
	}
	g.Bound()
	c := plan.Call{Group: g, Finalizing: r.Finalizing, Cascade: cascade}
	var err error
	if c.Related, err = UserData(g, r.Related); err != nil {
		return plan.Call{}, err
	}
	for kind, objects := range r.Children {
		if of, version, _ := strings.Cut(kind, "."); len(objects) > 0 && (of == "" || version == "") {
			return plan.Call{}, fmt.Errorf("children has the key %q: want a kind and version, such as %q", kind, plan.KindConfigMap)
		}
		for key, child := range objects {
			if c.Children == nil {
				c.Children = make(map[plan.ChildKey]plan.ObservedChild, len(objects))
			}
			name := key[strings.LastIndexByte(key, '/')+1:] // v2: namespace/name
			if name == "" {
				return plan.Call{}, fmt.Errorf("children has a %s without a name", kind)
			}
			at := plan.ChildKey{Kind: kind, Name: name}
			c.Children[at] = plan.ObservedChild{LastApplied: child.lastApplied(g.Namespace, at), Endpoints: child.endpoints(g, kind)}
		}
	}
	return c, nil
}

// controllerFinalizer plus the name of a CompositeController is Metacontroller's finalizer; ours are named vmgroup and vmgroup-<name>.
const controllerFinalizer = "metacontroller.io/compositecontroller-"

// severalInstalls returns the finalizers of all installs of this server that have the group, in the same order for each install; none if
// there is no other install, or if the request doesn't say for which install it is.
func severalInstalls(finalizers []string, controller string) (all []string) {
	own := controllerFinalizer + controller
	for _, f := range finalizers {
		name, is := strings.CutPrefix(f, controllerFinalizer)
		if is && controller != "" && f != own && (name == "vmgroup" || strings.HasPrefix(name, "vmgroup-")) {
			all = append(all, f)
		}
	}
	if len(all) > 0 {
		all = append(all, own)
		slices.Sort(all)
	}
	return all
}

// endpoints returns the state of the endpoints in an EndpointSlice, for a group that drains its members.
func (c *childObject) endpoints(g *v1alpha1.VmGroup, kind string) map[string]plan.EndpointSeen {
	if kind != plan.KindEndpointSlice || g.Spec.Service == nil || g.Spec.Service.DrainSeconds == 0 {
		return nil
	}
	var endpoints []plan.Endpoint
	if json.Unmarshal(c.Endpoints, &endpoints) != nil {
		return nil // no API server sends that: treat all endpoints as unknown
	}
	return plan.EndpointsSeen(endpoints, c.Metadata.Annotations[v1alpha1.AnnotationTerminatingSince])
}

// identity checks the names that become folders and stamps as an API server does: Kubernetes sends only valid names, but any holder of the
// token can send others.
func identity(g *v1alpha1.VmGroup) error {
	if faults := validation.IsDNS1123Label(g.Namespace); len(faults) > 0 {
		return fmt.Errorf("metadata.namespace is not a namespace name: %s", faults[0])
	}
	if faults := validation.IsDNS1123Subdomain(g.Name); len(faults) > 0 {
		return fmt.Errorf("metadata.name is not an object name: %s", faults[0])
	}
	if len(g.UID) > maxUID || strings.ContainsFunc(string(g.UID), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("metadata.uid can have at most %d printable ASCII characters", maxUID)
	}
	if g.Generation < 0 || g.Generation > v1alpha1.MaxGeneration {
		return fmt.Errorf("metadata.generation must be 0 to %d", int64(v1alpha1.MaxGeneration))
	}
	return nil
}

// maxUID bounds a UID, in characters; Kubernetes' UIDs have 36.
const maxUID = 128

// maxRecorded bounds the lists of a status that grow with the group's past: ten times the largest group.
const maxRecorded = 10 * v1alpha1.MaxReplicas

// statusBounds returns an error for a status that no server wrote, before anything is remembered of it: each recorded VM costs look-ups. Cutting a list would
// forget members, so the request is refused.
func statusBounds(s *v1alpha1.VmGroupStatus) error {
	for _, list := range []struct {
		name    string
		n, most int
	}{
		{"members", len(s.Members), v1alpha1.MaxMembersInStatus},
		{"standby", len(s.Standby), v1alpha1.MaxMembersInStatus},
		{"disks", len(s.Disks), v1alpha1.MaxPersistentDisks},
		{"givenUp", len(s.GivenUp), v1alpha1.MaxVMsGivenUp},
		{"strays", len(s.Strays), v1alpha1.MaxStrays},
		{"quarantined", len(s.Quarantined), maxRecorded},
		{"adopted", len(s.Adopted), maxRecorded},
		{"conditions", len(s.Conditions), maxRecorded},
	} {
		if list.n > list.most {
			return fmt.Errorf("parent.status.%s has %d entries, and no group has more than %d: remove the entries that the server didn't write (kubectl edit --subresource=status)",
				list.name, list.n, list.most)
		}
	}
	return nil
}

func orNothing(s string) string {
	if s == "" {
		return "object without a kind"
	}
	return s
}

// SyncResponse and FinalizeResponse have only keys that Metacontroller allows in the answer: with hook version v2 an unknown key fails the
// sync, and Metacontroller would obey finalized in a sync's answer.
type SyncResponse struct {
	Status             v1alpha1.VmGroupStatus `json:"status"`
	Children           []json.RawMessage      `json:"children"`
	ResyncAfterSeconds float64                `json:"resyncAfterSeconds"`
}

type FinalizeResponse struct {
	SyncResponse
	Finalized bool `json:"finalized"`
}

func respond(namespace string, r *plan.Result) (SyncResponse, error) {
	out := SyncResponse{Status: r.Status, Children: make([]json.RawMessage, len(r.Children)), ResyncAfterSeconds: r.Resync.Seconds()}
	for i := range r.Children {
		child, err := encodeChild(namespace, &r.Children[i])
		if err != nil {
			return out, err
		}
		out.Children[i] = child
	}
	return out, nil
}
