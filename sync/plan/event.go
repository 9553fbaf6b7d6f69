package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// KindEvent is the kind of an Event among a group's children. The CompositeController does not list it in childResources, so
// Metacontroller creates it once, never observes, updates or deletes it, and ignores the same name in a later answer
// (https://github.com/metacontroller/metacontroller/blob/v4.17.2/pkg/controller/common/manage_children.go).
const KindEvent = "Event.v1"

// EventFields are an Event's fields beside its metadata, in core/v1, as client-go's recorder writes them: kubectl describe shows these.
type EventFields struct {
	InvolvedObject EventObject `json:"involvedObject"`
	Reason         string      `json:"reason"`
	Message        string      `json:"message"`
	Type           string      `json:"type"`
	Source         EventSource `json:"source"`
	FirstTimestamp metav1.Time `json:"firstTimestamp"`
	LastTimestamp  metav1.Time `json:"lastTimestamp"`
	// Count is the number of events that the Event reports.
	Count              int    `json:"count"`
	ReportingComponent string `json:"reportingComponent"`
}

// EventObject is the object that an Event is about.
type EventObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// EventSource is who reports an Event.
type EventSource struct {
	Component string `json:"component"`
}

const (
	eventComponent = "vmgroup"
	// eventMessageMost is the longest message that the API server accepts, in bytes
	// (https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/).
	eventMessageMost = 1024
	// eventMembersMost is the maximum number of members that one Event names.
	eventMembersMost = 20
)

// together reports whether two events are reported in one Event.
func (n *Event) together(with *Event) bool {
	return n.Warning == with.Warning && n.Reason == with.Reason && n.What == with.What && n.Why == with.Why && n.Member != "" && with.Member != ""
}

// Together splits off the first event and those that share an Event with it.
func Together(events []Event) (together, left []Event) {
	for i := range events {
		if i == 0 || events[0].together(&events[i]) {
			together = append(together, events[i])
		} else {
			left = append(left, events[i])
		}
	}
	return together, left
}

// EventOf returns the Event for events that Together put together. Its name is a hash of their keys, so that several answers, also of
// several replicas, create one Event.
func EventOf(ref Ref, events []Event) Child {
	n := &events[0]
	var members, keys []string
	first, last := n.At, n.At
	for i := range events {
		keys = append(keys, events[i].Key)
		if m := events[i].Member; m != "" && !slices.Contains(members, m) {
			members = append(members, m)
		}
		if events[i].At.Before(first) {
			first = events[i].At
		}
		if events[i].At.After(last) {
			last = events[i].At
		}
	}
	slices.SortFunc(members, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) }) // web-2 before web-10
	message := n.What
	if len(members) > 0 {
		message += " " + AtMost(members, eventMembersMost)
	}
	if n.Why != "" {
		message += ": " + n.Why
	}
	kind := "Normal"
	if n.Warning {
		kind = "Warning"
	}
	slices.Sort(keys)
	sum := sha256.Sum256([]byte(string(ref.UID) + "\n" + n.Reason + "\n" + strings.Join(keys, "\n")))
	return Child{
		Key: ChildKey{Kind: KindEvent, Name: ref.Name + "." + hex.EncodeToString(sum[:8])},
		Fields: EventFields{
			InvolvedObject: EventObject{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)},
			Reason:         n.Reason, Message: Bounded(Printable(message), eventMessageMost), Type: kind, Source: EventSource{eventComponent},
			FirstTimestamp: metav1.NewTime(first.UTC().Truncate(time.Second)), LastTimestamp: metav1.NewTime(last.UTC().Truncate(time.Second)),
			Count: len(events), ReportingComponent: eventComponent,
		},
	}
}
