package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// ChildKey names a child object within its group: Kind as Metacontroller keys it ("ConfigMap.v1"), and name.
// Children live in the group's namespace.
type ChildKey struct{ Kind, Name string }

// The kinds of children as Metacontroller keys them: Kind.group/version, or Kind.version in the core group.
const (
	KindConfigMap     = "ConfigMap.v1"
	KindService       = "Service.v1"
	KindEndpointSlice = "EndpointSlice.discovery.k8s.io/v1"
)

// ObservedChild is a child as Metacontroller saw it.
type ObservedChild struct {
	// LastApplied is the JSON that was applied last (Metacontroller's annotation); empty if it bears none.
	LastApplied string
	// Endpoints are what an EndpointSlice shows, by host name (EndpointsSeen). Only a group that drains its members needs them.
	Endpoints map[string]EndpointSeen
}

// Child is a desired child object.
type Child struct {
	Key ChildKey
	// LastApplied, if not empty, is the child's whole JSON: it is to stay exactly as it was applied last.
	LastApplied         string
	Labels, Annotations map[string]string
	// Fields are what the object has beside apiVersion, kind and metadata, ready to be encoded as a JSON object:
	// ConfigMapFields, ServiceFields or EndpointSliceFields; nil if nothing. No field of them may come out as null, [] or
	// {}: the API server stores those otherwise than they were sent, and Metacontroller would write the child at every sync.
	Fields any
}

// conflictAfter is how long a child may stay absent before a foreign object is thought to have its name: Metacontroller
// then makes no child and says nothing.
const conflictAfter = 30 * time.Second

// children are the desired child objects: whole every time, as last applied while the facts are not known or the spec is refused, and none while
// the group is finalized, unless its members are drained, or it is paused: nothing is changed then.
func (v *view) children() []Child {
	switch {
	case v.Finalizing && !v.drainsAll() && !v.paused():
		return nil
	case !v.sighted, v.invalid != nil:
		return v.lastApplied()
	}
	return v.wanted(v.published())
}

// wanted are the children that publish these members.
func (v *view) wanted(members []published) []Child {
	var all []Child
	if v.asksFor(KindConfigMap) {
		all = v.configMaps(members)
	}
	if !v.asksFor(KindService) {
		return all
	}
	if !v.remakesService() {
		all = append(all, v.service())
	}
	if v.serviceIsOurs() {
		all = append(all, v.endpointSlices(members)...)
	}
	return all
}

// serviceIsOurs reports whether EndpointSlices lead to our members by a Service of ours: who asks for a Service's endpoints goes
// by its name alone, and the clients of a foreign one would be led to us. So they come when the Service is seen; and they
// stay while it is recreated.
func (v *view) serviceIsOurs() bool {
	if _, there := v.Children[v.serviceKey()]; there {
		return true
	}
	for key := range v.Children {
		if key.Kind == KindEndpointSlice {
			return !v.conflicts(v.serviceKey())
		}
	}
	return false
}

// lastApplied returns the children as they were applied last: as observed they would be written again at every sync. One
// that bears no such record is made again from the stored status; if that says nothing of it, it is but named, which
// Metacontroller's merge takes for "as it is". What the spec does not ask for any more goes: that is no matter of vCenter's.
// From a spec that is refused nothing is made, and nothing goes for it.
func (v *view) lastApplied() []Child {
	kept := make([]Child, 0, len(v.Children))
	var recorded []Child
	for key, child := range v.Children {
		if v.invalid == nil && !v.asksFor(key.Kind) {
			continue
		}
		again := Child{Key: key, LastApplied: child.LastApplied}
		if again.LastApplied == "" && v.invalid == nil {
			if recorded == nil {
				recorded = v.wanted(recordedMembers(v.Group.Status.Members))
			}
			if at := slices.IndexFunc(recorded, func(c Child) bool { return c.Key == key }); at >= 0 {
				again = recorded[at]
			}
		}
		kept = append(kept, again)
	}
	sortChildren(kept)
	return kept
}

func sortChildren(all []Child) {
	slices.SortFunc(all, func(a, b Child) int {
		return cmp.Or(strings.Compare(a.Key.Kind, b.Key.Kind), strings.Compare(a.Key.Name, b.Key.Name))
	})
}

// childLabels are those that every child bears.
func (v *view) childLabels() map[string]string {
	return map[string]string{v1alpha1.LabelGroup: v.Group.Name, "app.kubernetes.io/managed-by": "vmgroup"}
}

// conflictingChildren names the desired children that never appear: a foreign object has their name.
func (v *view) conflictingChildren() []string {
	var names []string
	for key := range v.ChildrenWantedSince {
		if v.wants(key) && v.conflicts(key) {
			names = append(names, key.String())
		}
	}
	slices.Sort(names)
	return names
}

// conflictText says so for people. saidToConflict reads it again.
func conflictText(names []string) string {
	return "another object has the name of " + strings.Join(names, ", ") + ": delete it, or recreate it under another name"
}

// wants reports whether a child that was answered before is wanted still: the spec may have changed.
func (v *view) wants(key ChildKey) bool {
	switch {
	case !v.asksFor(key.Kind):
		return false
	case key.Kind == KindService:
		return !v.remakesService()
	case key.Kind == KindEndpointSlice:
		return v.serviceIsOurs()
	}
	return true
}

// asksFor reports whether the spec asks for children of that kind.
func (v *view) asksFor(kind string) bool {
	switch kind {
	case KindConfigMap:
		return v.Group.Spec.Inventory != v1alpha1.InventoryNone
	case KindService, KindEndpointSlice:
		return v.Group.Spec.Service != nil
	}
	return false
}

// conflicts reports whether a child was answered and has not appeared for too long. What was said once stands until the child
// is there: a restart of the server begins the time anew.
func (v *view) conflicts(key ChildKey) bool {
	since, awaited := v.ChildrenWantedSince[key]
	if _, there := v.Children[key]; there || !awaited || v.Finalizing || !v.sighted {
		return false
	}
	return v.Now.Sub(since) > conflictAfter || v.saidToConflict(key.String())
}

func (v *view) saidToConflict(name string) bool {
	return slices.ContainsFunc(v.Group.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionChildConflict && c.Status == metav1.ConditionTrue &&
			(strings.Contains(c.Message, " "+name+",") || strings.Contains(c.Message, " "+name+":"))
	})
}

// String is the child's kind and name, for people.
func (k ChildKey) String() string {
	kind, _, _ := strings.Cut(k.Kind, ".")
	return kind + " " + k.Name
}
