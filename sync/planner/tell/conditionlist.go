// This file has the list of a status' conditions: which there are, in which order, and since when each is as it is.

package tell

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// conditionKinds are all conditions, in the order in which the status lists them.
var conditionKinds = []string{v1alpha1.ConditionReady, v1alpha1.ConditionProgressing, v1alpha1.ConditionVCenterReachable,
	v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionMembersDiffer, v1alpha1.ConditionUpdateHeld,
	v1alpha1.ConditionCloneBlocked, v1alpha1.ConditionHealingSuspended, v1alpha1.ConditionPaused, v1alpha1.ConditionSpecInvalid,
	v1alpha1.ConditionVCenterChanged, v1alpha1.ConditionNameConflict, v1alpha1.ConditionDuplicateMember, v1alpha1.ConditionStrayVMs, v1alpha1.ConditionMembersUnreachable,
	v1alpha1.ConditionMembersVanished, v1alpha1.ConditionToolsSilent, v1alpha1.ConditionQuestionPending, v1alpha1.ConditionCustomizationFailed,
	v1alpha1.ConditionDuplicateAddress, v1alpha1.ConditionMembersShareHost, v1alpha1.ConditionProbesSuppressed, v1alpha1.ConditionTemplateChanged,
	v1alpha1.ConditionAdoptionFailed, v1alpha1.ConditionDisksBlocked, v1alpha1.ConditionChildMissing, v1alpha1.ConditionHoldIgnored,
	v1alpha1.ConditionUserDataUnrecognized}

// conditionList is the list of conditions as it is made.
type conditionList struct {
	stored     []metav1.Condition
	noticed    []metav1.Condition
	list       []metav1.Condition
	generation int64
	now        metav1.Time
}

// newConditions returns an empty list. stored and noticed tell since when a condition has its status (sinceWhen).
func newConditions(stored, noticed []metav1.Condition, generation int64, now time.Time) *conditionList {
	return &conditionList{stored: stored, noticed: noticed, list: make([]metav1.Condition, 0, len(conditionKinds)), generation: generation, now: metav1.NewTime(now.UTC().Truncate(time.Second))}
}

// Has reports whether a condition was added.
func (l *conditionList) Has(kind string) bool { return hasCondition(l.list, kind) }

func hasCondition(list []metav1.Condition, kind string) bool {
	return slices.ContainsFunc(list, func(c metav1.Condition) bool { return c.Type == kind })
}

// Missing are the conditions that were not added, of those that the stored status has.
func (l *conditionList) Missing() (kinds []string) {
	for _, c := range l.stored {
		if slices.Contains(conditionKinds, c.Type) && !hasCondition(l.list, c.Type) {
			kinds = append(kinds, c.Type)
		}
	}
	return kinds
}

// Sorted returns the conditions in the order of conditionKinds.
func (l *conditionList) Sorted() []metav1.Condition {
	slices.SortFunc(l.list, func(a, b metav1.Condition) int {
		return cmp.Compare(slices.Index(conditionKinds, a.Type), slices.Index(conditionKinds, b.Type))
	})
	return l.list
}

// Add adds a condition.
func (l *conditionList) Add(kind string, status metav1.ConditionStatus, reason, message string) {
	has := func(is metav1.ConditionStatus) bool { return is == status }
	at := metav1.NewTime(plan.Since(plan.SeenCondition(l.stored, kind, has), plan.SeenCondition(l.noticed, kind, has)))
	if at.IsZero() {
		at = l.now
	}
	l.list = append(l.list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: plan.Printable(message), LastTransitionTime: at, ObservedGeneration: l.generation,
	})
}
