// Package conditions has the list of a status' conditions: which there are, in which order, and since when each is as it is.
package conditions

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Kinds are all conditions, in the order in which the status lists them.
var Kinds = []string{v1alpha1.ConditionReady, v1alpha1.ConditionProgressing, v1alpha1.ConditionVCenterReachable,
	v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionMembersDiffer, v1alpha1.ConditionUpdateHeld,
	v1alpha1.ConditionCloneBlocked, v1alpha1.ConditionHealingSuspended, v1alpha1.ConditionPaused, v1alpha1.ConditionSpecInvalid,
	v1alpha1.ConditionVCenterChanged, v1alpha1.ConditionNameConflict, v1alpha1.ConditionDuplicateMember, v1alpha1.ConditionMembersUnreachable,
	v1alpha1.ConditionMembersVanished, v1alpha1.ConditionQuestionPending, v1alpha1.ConditionCustomizationFailed,
	v1alpha1.ConditionDuplicateAddress, v1alpha1.ConditionReadinessDoubted, v1alpha1.ConditionTemplateChanged,
	v1alpha1.ConditionAdoptionFailed, v1alpha1.ConditionDisksBlocked, v1alpha1.ConditionChildConflict, v1alpha1.ConditionHoldIgnored}

// List is the list of conditions as it is made.
type List struct {
	stored     []metav1.Condition
	list       []metav1.Condition
	generation int64
	now        metav1.Time
}

// New returns an empty list. A condition whose status is that of the stored one has its time, too.
func New(stored []metav1.Condition, generation int64, now time.Time) *List {
	return &List{stored: stored, list: make([]metav1.Condition, 0, len(Kinds)), generation: generation, now: metav1.NewTime(now.UTC().Truncate(time.Second))}
}

// Has reports whether a condition was added.
func (l *List) Has(kind string) bool { return has(l.list, kind) }

func has(list []metav1.Condition, kind string) bool {
	return slices.ContainsFunc(list, func(c metav1.Condition) bool { return c.Type == kind })
}

// Missing are the conditions that were not added, of those that the stored status has.
func (l *List) Missing() (kinds []string) {
	for _, c := range l.stored {
		if slices.Contains(Kinds, c.Type) && !has(l.list, c.Type) {
			kinds = append(kinds, c.Type)
		}
	}
	return kinds
}

// Sorted returns the conditions in the order of Kinds.
func (l *List) Sorted() []metav1.Condition {
	slices.SortFunc(l.list, func(a, b metav1.Condition) int {
		return cmp.Compare(slices.Index(Kinds, a.Type), slices.Index(Kinds, b.Type))
	})
	return l.list
}

// Add adds a condition.
func (l *List) Add(kind string, status metav1.ConditionStatus, reason, message string) {
	since := l.now
	for i := range l.stored {
		if l.stored[i].Type == kind && l.stored[i].Status == status && !l.stored[i].LastTransitionTime.IsZero() {
			since = l.stored[i].LastTransitionTime
		}
	}
	l.list = append(l.list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: plan.Printable(message), LastTransitionTime: since, ObservedGeneration: l.generation,
	})
}
