// This file finds which annotations hold a member that is to be taken down, and until when.
//
// An annotation of the group can hold a member; it names the member with its moRef. The hold begins when the member is marked, so the
// member's endpoints are terminating, and it doesn't count as available. It ends when the annotation is removed, or
// spec.deletion.holdTimeoutSeconds after the mark. The stamp has the time of the mark, so a restart of the server changes nothing.
//
// A hold applies to a guest that runs, whatever the reason for taking it down, healing included: an unready guest may have more to hand over
// than others. It doesn't apply to a VM that is off or whose guest is halting, to a VM that is released (deletion.policy Retain), to a restart
// by healing, or to a VM that vCenter shows again beside its replacement.

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// memberHolds are the annotations of a group that hold members.
type memberHolds struct {
	// Timeout is for how long they hold at most; 0: none does.
	Timeout time.Duration
	group   string
	all     []annotation
}

// annotation is one that holds a VM, or that is malformed: then moRef is empty.
type annotation struct{ key, member, moRef string }

// holdsOf returns the holds of a group.
func holdsOf(g *v1alpha1.VmGroup) memberHolds {
	h := memberHolds{Timeout: plan.Seconds(&g.Spec.Deletion.HoldTimeoutSeconds, 0), group: g.Name}
	for key, value := range g.Annotations {
		if !strings.HasPrefix(key, v1alpha1.AnnotationHold) {
			continue
		}
		a := annotation{key: key}
		if member, moRef, ok := g.Held(value); ok {
			a.member, a.moRef = member, moRef
		}
		h.all = append(h.all, a)
	}
	slices.SortFunc(h.all, func(a, b annotation) int { return strings.Compare(a.key, b.key) })
	return h
}

// By returns which annotations hold a member; nil if none does.
func (h *memberHolds) By(member, moRef string) (keys []string) {
	for _, a := range h.all {
		if h.Timeout > 0 && a.moRef == moRef && a.member == member {
			keys = append(keys, a.key)
		}
	}
	return keys
}

// Any reports whether any member can be held.
func (h *memberHolds) Any() bool { return h.Timeout > 0 && len(h.all) > 0 }

// Until returns until when a member is held that was marked at the time chosen; zero if it isn't held, or that time is unknown.
func (h *memberHolds) Until(member, moRef string, chosen, now time.Time) time.Time {
	until := chosen.Add(h.Timeout).UTC()
	if chosen.IsZero() || !now.Before(until) || h.By(member, moRef) == nil {
		return time.Time{}
	}
	return until
}

// Text says which annotations hold a member; empty if until is zero.
func (h *memberHolds) Text(member, moRef string, until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return fmt.Sprintf("held by %s until %s at the latest", plan.AtMost(h.By(member, moRef), 3), until.Format(time.RFC3339))
}

// Ignored says which annotations hold no member, and why. mismatch says why a VM is not that member; empty if it is.
func (h *memberHolds) Ignored(mismatch func(member, moRef string) string) (texts []string) {
	for _, a := range h.all {
		why := ""
		switch {
		case a.moRef == "":
			why = fmt.Sprintf("must name a member and its VM, such as %s-0/vm-42", h.group)
		case h.Timeout == 0:
			why = "spec.deletion.holdTimeoutSeconds is not set"
		default:
			if why = mismatch(a.member, a.moRef); why == "" {
				continue
			}
		}
		texts = append(texts, strings.TrimPrefix(a.key, v1alpha1.AnnotationHold)+": "+why)
	}
	return texts
}

// Begins tells that a member is held.
func (h *memberHolds) Begins(member, moRef string, until, now time.Time) plan.Event {
	return plan.Event{Reason: "MemberHeld", What: "Not taken down yet:", Member: member + " (" + moRef + ")", Why: h.Text(member, moRef, until), At: now,
		Key: "held/" + moRef + "/" + until.Format(time.RFC3339)}
}

// TimedOut returns the Event for a hold that timed out; over is false if it didn't. was is the time at which it was to end at the latest.
func (h *memberHolds) TimedOut(member, moRef string, was, now time.Time) (n plan.Event, over bool) {
	keys := h.By(member, moRef)
	if was.IsZero() || now.Before(was) || keys == nil {
		return n, false
	}
	why := fmt.Sprintf("%s did not end within %d s (spec.deletion.holdTimeoutSeconds)", plan.AtMost(keys, 3), int(h.Timeout.Seconds()))
	return plan.Event{Warning: true, Reason: "HoldTimedOut", What: "Not held any longer:", Member: member + " (" + moRef + ")", Why: why, At: now,
		Key: "hold-over/" + moRef + "/" + was.UTC().Format(time.RFC3339)}, true
}
