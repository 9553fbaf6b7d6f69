package loop

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// sharedClaims says which range of addresses of a group another group that this server acts for has, too: of several, one of the same
// namespace, and the one whose name is first. It names no objects of other namespaces. The answer stays the same while nothing changes.
// The caller holds the lock.
func (l *Loop) sharedClaims(g *group, now time.Time) string {
	if len(g.lease.claims) == 0 {
		return ""
	}
	text, first := "", ""
	for _, other := range l.groups {
		mine := other.ref.Namespace == g.ref.Namespace
		if mine && other.ref.Name == g.ref.Name || other.lease.emptied || !l.leased(other, now) {
			continue
		}
		whose := "a group of another namespace"
		if mine {
			whose = "the group " + other.ref.Name
		}
		if shared := plan.SharedClaim(g.lease.claims, other.lease.claims, whose); shared != "" &&
			(text == "" || mine && (first == "" || other.ref.Name < first) || !mine && first == "" && shared < text) {
			text = shared
			if mine {
				first = other.ref.Name
			}
		}
	}
	return text
}
