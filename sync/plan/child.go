package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// ChildKey names a child object within its group: Kind as Metacontroller keys it ("ConfigMap.v1"), and name.
// Children live in the group's namespace.
type ChildKey struct{ Kind, Name string }

// KindConfigMap is Metacontroller's key of the kind ConfigMap.
const KindConfigMap = "ConfigMap.v1"

// ObservedChild is a child as Metacontroller saw it.
type ObservedChild struct {
	// LastApplied is the JSON that was applied last (Metacontroller's annotation); empty if it bears none.
	LastApplied string
}

// Child is a desired child object.
type Child struct {
	Key ChildKey
	// LastApplied, if not empty, is the child's whole JSON: it is to stay exactly as it was applied last.
	LastApplied string
	Labels      map[string]string
	Data        map[string]string
}

const (
	// maxChildBytes is where the members' ConfigMap is split: its last-applied annotation, which holds it all
	// once more, may not pass 262,144 bytes (the API server's limit of all annotations).
	maxChildBytes = 200_000
	// conflictAfter is how long a child may stay absent before a foreign object is thought to have its name:
	// Metacontroller then makes no child and says nothing.
	conflictAfter = 30 * time.Second
	membersKey    = "members.json"
)

// children are the desired child objects: whole every time, as last applied while the facts are not known, and
// none while the group is finalized.
func (v *view) children() []Child {
	switch {
	case v.Finalizing:
		return nil
	case !v.sighted:
		return v.lastApplied()
	case v.Group.Spec.Inventory == v1alpha1.InventoryNone:
		return nil
	}
	return v.configMaps(v.memberStatuses())
}

// lastApplied returns the children as they were applied last: as observed they would be written again at every
// sync. One that bears no such record is made again from the stored status.
func (v *view) lastApplied() []Child {
	var kept []Child
	for key, child := range v.Children {
		if key.Kind != KindConfigMap {
			continue
		}
		if child.LastApplied == "" {
			return v.configMaps(v.Group.Status.Members)
		}
		kept = append(kept, Child{Key: key, LastApplied: child.LastApplied})
	}
	slices.SortFunc(kept, func(a, b Child) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	return kept
}

// published is a member as pods and scripts read it.
type published struct {
	Name       string   `json:"name"`
	Ordinal    int32    `json:"ordinal"`
	PowerState string   `json:"powerState,omitempty"`
	IPs        []string `json:"ips"`
	Ready      bool     `json:"ready"`
}

// configMaps publishes the members in "<group>-members", and in numbered ones from 2 on where one is too small.
func (v *view) configMaps(members []v1alpha1.Member) []Child {
	var all []Child
	var text strings.Builder
	flush := func() {
		name := v.Group.Name + "-members"
		if len(all) > 0 {
			name = fmt.Sprintf("%s-%d", name, len(all)+1)
		}
		all = append(all, Child{
			Key:    ChildKey{Kind: KindConfigMap, Name: name},
			Labels: map[string]string{v1alpha1.LabelGroup: v.Group.Name, "app.kubernetes.io/managed-by": "vmgroup"},
			Data:   map[string]string{membersKey: "[" + text.String() + "\n]\n"},
		})
		text.Reset()
	}
	for _, m := range members {
		line, _ := json.Marshal(published{m.Name, m.Ordinal, m.PowerState, append([]string{}, m.IPs...), m.Ready}) // cannot fail: strings, a number, a bool
		if text.Len() > 0 && text.Len()+len(line) > maxChildBytes {
			flush()
		}
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		text.WriteString("\n ")
		text.Write(line)
	}
	flush()
	return all
}

// conflictingChildren names the desired children that never appear: a foreign object has their name.
func (v *view) conflictingChildren() []string {
	if v.Finalizing || !v.sighted || v.Group.Spec.Inventory == v1alpha1.InventoryNone || len(v.ChildrenWantedSince) == 0 {
		return nil
	}
	said := slices.ContainsFunc(v.Group.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionChildConflict })
	var names []string
	for key, since := range v.ChildrenWantedSince {
		if _, there := v.Children[key]; !there && (said || v.Now.Sub(since) > conflictAfter) {
			kind, _, _ := strings.Cut(key.Kind, ".")
			names = append(names, kind+" "+key.Name)
		}
	}
	slices.Sort(names)
	return names
}
