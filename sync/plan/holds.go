// This file finds which annotations hold a member that is to be taken down, and until when.
//
// An annotation of the group can hold a member; it names the member with its moRef. The hold begins when the member is marked, so the
// member's endpoints are terminating, and it doesn't count as available. It ends when the annotation is removed, or
// spec.deletion.holdTimeoutSeconds after the mark. The stamp has the time of the mark, so a restart of the server changes nothing.
//
// A hold applies to a guest that runs, whatever the reason for taking it down, healing included: an unready guest may have more to hand over
// than others. It doesn't apply to a VM that is off or whose guest is halting, to a VM that is released (deletion.policy Retain), to a restart
// by healing, or to a VM that vCenter shows again beside its replacement.

package plan

import (
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Holds are the annotations of a group that hold members.
type Holds struct {
	// Timeout is for how long they hold at most; 0: none does.
	Timeout time.Duration
	// All are the annotations by their keys, malformed ones included.
	All []Hold
}

// Hold is an annotation that holds a VM, or that is malformed: then MoRef is empty.
type Hold struct{ Key, Member, MoRef string }

// HoldsOf returns the holds of a group.
func HoldsOf(g *v1alpha1.VmGroup) Holds {
	h := Holds{Timeout: Seconds(&g.Spec.Deletion.HoldTimeoutSeconds, 0)}
	for key, value := range g.Annotations {
		if !strings.HasPrefix(key, v1alpha1.AnnotationHold) {
			continue
		}
		a := Hold{Key: key}
		if member, moRef, ok := g.Held(value); ok {
			a.Member, a.MoRef = member, moRef
		}
		h.All = append(h.All, a)
	}
	slices.SortFunc(h.All, func(a, b Hold) int { return strings.Compare(a.Key, b.Key) })
	return h
}

// By returns which annotations hold a member; nil if none does.
func (h *Holds) By(member, moRef string) (keys []string) {
	for _, a := range h.All {
		if h.Timeout > 0 && a.MoRef == moRef && a.Member == member {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// Any reports whether any member can be held.
func (h *Holds) Any() bool { return h.Timeout > 0 && len(h.All) > 0 }

// Until returns until when a member is held that was marked at the time chosen; zero if it isn't held, or that time is unknown.
func (h *Holds) Until(member, moRef string, chosen, now time.Time) time.Time {
	until := chosen.Add(h.Timeout).UTC()
	if chosen.IsZero() || !now.Before(until) || h.By(member, moRef) == nil {
		return time.Time{}
	}
	return until
}
