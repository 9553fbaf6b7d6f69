package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// HasTags reports whether the server gave tags or attributes to any member.
func (n *Inventory) HasTags() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, m := range n.objects.members {
		if m.Stamp.Tagged.MoRef != "" {
			return true
		}
	}
	return false
}

// Untagged records that VMs with these names may have lost tags at these times. Members whose tags were compared before are to be compared again: so
// their stamps count as those of another VM, until they are written again.
func (n *Inventory) Untagged(names map[string]time.Time) {
	groups := map[types.UID]bool{}
	n.mu.Lock()
	for ref, m := range n.objects.members {
		tagged := &m.Stamp.Tagged
		if at, lost := names[m.Name]; !lost || tagged.MoRef == "" || tagged.MoRef == plan.TagDetached || !at.After(tagged.At) {
			continue
		}
		x := *m
		x.Stamp.Tagged.MoRef = plan.TagDetached
		n.objects.members[ref] = &x
		n.objects.groups[x.Stamp.UID].refs[ref] = &x
		groups[x.Stamp.UID] = true
	}
	for uid := range groups {
		n.rebuild(uid)
	}
	if len(groups) > 0 {
		n.version++
	}
	n.mu.Unlock()
	for uid := range groups {
		n.changed(uid)
	}
}
