package inventory

import (
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// awaited is a VM that the reader was asked to read, with its record in the group's status.
type awaited struct {
	uid      types.UID
	recorded v1alpha1.Member
	kept     bool // in quarantine
}

// isAwaited reports whether a VM of which nothing is known is being read. The caller holds Inventory.mu.
func (q *requests) isAwaited(r *v1alpha1.Member) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, is := q.awaited[r.MoRef]
	return is
}
