// Package children says where a group's members are found: it makes the ConfigMaps, the Service and the EndpointSlices that
// publish them.
//
// It is as pure as the planner, which alone uses it and says who is a member and how it is. It decides about no VM. The children are
// made of facts that all replicas of the server see alike, and equal facts give equal bytes: whatever differs is written at every sync.
package children

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Publisher makes the children of a group from what was observed.
type Publisher struct {
	*plan.Observed
	// Sighted: vCenter's facts are known and of the right vCenter.
	Sighted bool
	// Invalid is why the spec is not worked on; nil if it is valid.
	Invalid *plan.Fault
}

// conflictAfter is how long a child may stay absent before a foreign object is thought to have its name: Metacontroller
// then makes no child and says nothing.
const conflictAfter = 30 * time.Second

// All are the children that publish these members.
func (pub Publisher) All(members []Member) []plan.Child {
	var all []plan.Child
	if pub.asksFor(plan.KindConfigMap) {
		all = pub.configMaps(members)
	}
	if !pub.asksFor(plan.KindService) {
		return all
	}
	if !pub.remakesService() {
		all = append(all, pub.service())
	}
	if pub.ServiceIsOurs() {
		all = append(all, pub.endpointSlices(members)...)
	}
	return all
}

// ServiceIsOurs reports whether EndpointSlices lead to our members by a Service of ours: who asks for a Service's endpoints goes
// by its name alone, and the clients of a foreign one would be led to us. So they come when the Service is seen; and they
// stay while it is recreated.
func (pub Publisher) ServiceIsOurs() bool {
	if _, there := pub.Children[pub.serviceKey()]; there {
		return true
	}
	for key := range pub.Children {
		if key.Kind == plan.KindEndpointSlice {
			return !pub.Conflicts(pub.serviceKey())
		}
	}
	return false
}

// LastApplied returns the children as they were applied last: as observed they would be written again at every sync. One
// that bears no such record is made again from the stored status; if that says nothing of it, it is but named, which
// Metacontroller's merge takes for "as it is". What the spec does not ask for any more goes: that is no matter of vCenter's.
// From a spec that is refused nothing is made, and nothing goes for it.
func (pub Publisher) LastApplied() []plan.Child {
	kept := make([]plan.Child, 0, len(pub.Children))
	var recorded []plan.Child
	for key, child := range pub.Children {
		if pub.Invalid == nil && !pub.asksFor(key.Kind) {
			continue
		}
		again := plan.Child{Key: key, LastApplied: child.LastApplied}
		if again.LastApplied == "" && pub.Invalid == nil {
			if recorded == nil {
				recorded = pub.All(recordedMembers(pub.Group.Status.Members))
			}
			if at := slices.IndexFunc(recorded, func(c plan.Child) bool { return c.Key == key }); at >= 0 {
				again = recorded[at]
			}
		}
		kept = append(kept, again)
	}
	Sort(kept)
	return kept
}

// Sort puts children in order, by kind and name.
func Sort(all []plan.Child) {
	slices.SortFunc(all, func(a, b plan.Child) int {
		return cmp.Or(strings.Compare(a.Key.Kind, b.Key.Kind), strings.Compare(a.Key.Name, b.Key.Name))
	})
}

// childLabels are those that every child bears.
func (pub Publisher) childLabels() map[string]string {
	return map[string]string{v1alpha1.LabelGroup: pub.Group.Name, "app.kubernetes.io/managed-by": "vmgroup"}
}

// Conflicting names the desired children that never appear: a foreign object has their name.
func (pub Publisher) Conflicting() []string {
	var names []string
	for key := range pub.ChildrenWantedSince {
		if pub.wants(key) && pub.Conflicts(key) {
			names = append(names, key.String())
		}
	}
	slices.Sort(names)
	return names
}

// ConflictText says so for people. saidToConflict reads it again.
func ConflictText(names []string) string {
	return "another object has the name of " + strings.Join(names, ", ") + ": delete it, or recreate it under another name"
}

// wants reports whether a child that was answered before is wanted still: the spec may have changed.
func (pub Publisher) wants(key plan.ChildKey) bool {
	switch {
	case !pub.asksFor(key.Kind):
		return false
	case key.Kind == plan.KindService:
		return !pub.remakesService()
	case key.Kind == plan.KindEndpointSlice:
		return pub.ServiceIsOurs()
	}
	return true
}

// asksFor reports whether the spec asks for children of that kind.
func (pub Publisher) asksFor(kind string) bool {
	switch kind {
	case plan.KindConfigMap:
		return pub.Group.Spec.Inventory != v1alpha1.InventoryNone
	case plan.KindService, plan.KindEndpointSlice:
		return pub.Group.Spec.Service != nil
	}
	return false
}

// Conflicts reports whether a child was answered and has not appeared for too long. What was said once stands until the child
// is there: a restart of the server restarts the time.
func (pub Publisher) Conflicts(key plan.ChildKey) bool {
	since, awaited := pub.ChildrenWantedSince[key]
	if _, there := pub.Children[key]; there || !awaited || pub.Finalizing || !pub.Sighted {
		return false
	}
	return pub.Now.Sub(since) > conflictAfter || pub.saidToConflict(key.String())
}

func (pub Publisher) saidToConflict(name string) bool {
	return slices.ContainsFunc(pub.Group.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionChildConflict && c.Status == metav1.ConditionTrue &&
			(strings.Contains(c.Message, " "+name+",") || strings.Contains(c.Message, " "+name+":"))
	})
}
