// Package children makes the objects that tell where a group's members are: the ConfigMaps, the Service and the EndpointSlices.
//
// It is as pure as the planner, its only user, which decides what is a member and in which state. The children depend only on facts that all
// replicas of the server see, and equal facts give equal bytes: otherwise Metacontroller would write the children at every sync.
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
	// VCenterKnown: vCenter's state is known, and it is the vCenter of the group.
	VCenterKnown bool
	// Invalid is why the spec is refused; nil if it is valid.
	Invalid *plan.Fault
}

// missingAfter is how long a child can stay absent before the server reports it. If another object has its name, Metacontroller creates no
// child and says nothing. If the API server refuses the child, because of a quota, a policy or Metacontroller's rights, Metacontroller reports
// the refusal in an Event SyncError
// (https://github.com/metacontroller/metacontroller/blob/master/pkg/controller/common/manage_children.go). The hooks are told neither.
const missingAfter = 30 * time.Second

// All returns the children that publish these members.
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

// ServiceIsOurs reports whether the Service with the group's name is ours, so that EndpointSlices can be published: a Service's
// endpoints are found by its name alone, and clients of a foreign Service would reach our members. So slices are created once the
// Service is observed, and are kept while it is recreated.
func (pub Publisher) ServiceIsOurs() bool {
	if _, there := pub.Children[pub.serviceKey()]; there {
		return true
	}
	for key := range pub.Children {
		if key.Kind == plan.KindEndpointSlice {
			return !pub.Misses(pub.serviceKey())
		}
	}
	return false
}

// LastApplied returns the children as last applied: as observed they would be written again at every sync. One
// without that record is made from the stored status; if that has nothing of it, only its name is returned, which
// Metacontroller's merge leaves as it is. Children that the spec no longer wants are left out: that does not depend on vCenter. An invalid spec
// creates nothing and removes nothing.
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

// AsReceived returns the observed children unchanged.
func AsReceived(observed map[plan.ChildKey]plan.ObservedChild) []plan.Child {
	all := make([]plan.Child, 0, len(observed))
	for key, child := range observed {
		all = append(all, plan.Child{Key: key, LastApplied: child.LastApplied})
	}
	Sort(all)
	return all
}

// Sort sorts children by kind and name.
func Sort(all []plan.Child) {
	slices.SortFunc(all, func(a, b plan.Child) int {
		return cmp.Or(strings.Compare(a.Key.Kind, b.Key.Kind), strings.Compare(a.Key.Name, b.Key.Name))
	})
}

// childLabels are the labels of every child.
func (pub Publisher) childLabels() map[string]string {
	labels := map[string]string{v1alpha1.LabelGroup: pub.Group.Name, "app.kubernetes.io/managed-by": "vmgroup"}
	pub.ChildLabels.CopyTo(labels, pub.Group.Labels)
	return labels
}

// MissingChildren names the desired children that never appear.
func (pub Publisher) MissingChildren() []string {
	var names []string
	for key := range pub.ChildrenWantedSince {
		if pub.wants(key) && pub.Misses(key) {
			names = append(names, key.String())
		}
	}
	slices.Sort(names)
	return names
}

// MissingText says that Kubernetes doesn't have these children, and how to find out why. saidToBeMissing parses it.
func MissingText(names []string) string {
	return "Kubernetes doesn't have the group's " + plan.AtMost(names, 20) + ": if the API server refuses to create it, the group's Event SyncError says why " +
		"(a quota, a policy, Metacontroller's rights); otherwise another object has the name: delete it, or recreate it under another name"
}

// AwaitsService reports whether the group has no Service yet: it is about to be created, or another object has its name, which
// Metacontroller doesn't report. Clients can't reach the members until then.
func (pub Publisher) AwaitsService() bool {
	_, there := pub.Children[pub.serviceKey()]
	return pub.asksFor(plan.KindService) && pub.VCenterKnown && !pub.Finalizing && !there
}

// wants reports whether an earlier child is still wanted: the spec may have changed.
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

// asksFor reports whether the spec wants children of that kind.
func (pub Publisher) asksFor(kind string) bool {
	switch kind {
	case plan.KindConfigMap:
		return pub.Group.Spec.Inventory != v1alpha1.InventoryNone
	case plan.KindService, plan.KindEndpointSlice:
		return pub.Group.Spec.Service != nil
	}
	return false
}

// Misses reports whether a child was answered but has not appeared for too long. Once reported, that stands until the child
// exists, because a restart of the server restarts the time.
func (pub Publisher) Misses(key plan.ChildKey) bool {
	since, awaited := pub.ChildrenWantedSince[key]
	if _, there := pub.Children[key]; there || !awaited || pub.Finalizing || !pub.VCenterKnown {
		return false
	}
	return pub.Now.Sub(since) > missingAfter || pub.saidToBeMissing(key.String())
}

func (pub Publisher) saidToBeMissing(name string) bool {
	return slices.ContainsFunc(pub.Group.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionChildMissing && c.Status == metav1.ConditionTrue &&
			slices.ContainsFunc([]string{",", ":", " and "}, func(after string) bool { return strings.Contains(c.Message, " "+name+after) })
	})
}
