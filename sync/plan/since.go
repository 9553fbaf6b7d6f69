package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Seen is what a status says of a state: whether the status has the state, and since when it has it, or doesn't.
type Seen struct {
	Is bool
	At time.Time
}

// Since returns since when a state lasts; zero if that isn't known. The time in the stored status stands, so that all replicas and a restarted
// process say the same. What this process noticed counts while no call has stored it: that is the case if the stored status has another state, from an
// earlier time. A stored state that changed later than that comes from another replica.
func Since(stored, noticed *Seen) time.Time {
	switch {
	case stored != nil && stored.Is && !stored.At.IsZero():
		return stored.At
	case noticed != nil && noticed.Is && (stored == nil || noticed.At.After(stored.At)):
		return noticed.At
	}
	return time.Time{}
}

// SeenReady is what a member's status says of its being ready, or not ready; nil without a status.
func SeenReady(m *v1alpha1.Member, ready bool) *Seen {
	if m == nil {
		return nil
	}
	return &Seen{Is: m.Ready == ready, At: m.LastTransitionTime.UTC()}
}

// SeenCondition is what a list of conditions says of one that has a status for which is returns true; nil if the list doesn't have it.
func SeenCondition(list []metav1.Condition, kind string, is func(metav1.ConditionStatus) bool) *Seen {
	c := meta.FindStatusCondition(list, kind)
	if c == nil {
		return nil
	}
	return &Seen{Is: is(c.Status), At: c.LastTransitionTime.Time}
}

// Record returns the stored status of a VM; nil if there is none. Its index is i, unless members were added or removed since.
func (o *Observed) Record(moRef string, i int) *v1alpha1.Member {
	return recordIn(o.Group.Status.Members, moRef, i)
}

// LastPlannedRecord returns the status of a VM as this process planned it last; nil if there is none.
func (o *Observed) LastPlannedRecord(moRef string, i int) *v1alpha1.Member {
	if o.LastPlannedStatus == nil {
		return nil
	}
	return recordIn(o.LastPlannedStatus.Members, moRef, i)
}

func recordIn(all []v1alpha1.Member, moRef string, i int) *v1alpha1.Member {
	if i >= 0 && i < len(all) && all[i].MoRef == moRef {
		return &all[i]
	}
	for i := range all {
		if all[i].MoRef == moRef {
			return &all[i]
		}
	}
	return nil
}

// LastPlannedConditions are the conditions as this process planned them last.
func (o *Observed) LastPlannedConditions() []metav1.Condition {
	if o.LastPlannedStatus == nil {
		return nil
	}
	return o.LastPlannedStatus.Conditions
}
