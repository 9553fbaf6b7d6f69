package plan

import (
	"cmp"
	"strings"
	"time"
)

// Event is something that happened to a group and that a user can ask about later. Events become Kubernetes Events.
//
// The replica that carried out an action reports it (Action.Event), with the action's own reason. Package planner reports everything else
// by comparing its status with the stored one, so that any replica reports an event once, and none repeats it after a restart. Equal events
// of two replicas have the same Key.
type Event struct {
	// Warning reports whether the Event has type Warning instead of Normal.
	Warning bool
	// Reason is one CamelCase word, such as MemberRemoved.
	Reason string
	// What happened, to which Member (its name and moRef; empty: the group), and Why. Events that differ only in the member share a Kubernetes
	// Event.
	What, Member, Why string
	// Key identifies the Event.
	Key string
	At  time.Time
	// PoweredOff reports whether the event says that the VM MoRef was found powered off. vCenter's events may name the user who did it.
	PoweredOff bool
	MoRef      string
	Made       time.Time // when that VM was cloned or adopted
}

// By adds to the Event the user who powered the VM off; empty if vCenter's events don't name one.
func (n Event) By(user string) Event {
	if user != "" {
		n.What = "Powered off in vCenter by " + user + ":"
	}
	n.PoweredOff = false
	return n
}

// EventRemoved is the reason of an Event that says that the server removed a member.
const (
	EventRemoved = "MemberRemoved"
	noteCreated  = "MemberCreated"
)

// Event returns the Event for an action that succeeded; worth is false if users need no Event for this kind of action.
func (a *Action) Event(at time.Time) (n Event, worth bool) {
	what := map[Op][2]string{
		Clone: {noteCreated, "Created"}, Adopt: {"MemberAdopted", "Adopted"}, Reset: {"MemberRestarted", "Restarted"},
		Reconfigure: {"MemberResized", "Resized"}, Quarantine: {"MemberQuarantined", "Quarantined"},
		Release: {"MemberReleased", "Released"}, Destroy: {EventRemoved, "Removed"},
	}[a.Op]
	kept := a.MoRef != "" && strings.HasSuffix(a.Key, a.MoRef) // the VM is in quarantine
	switch {
	case a.Op == PowerOn && a.Standby():
		what = [2]string{"MemberPromoted", "Promoted"}
	case a.Op == Unmark && kept:
		what = [2]string{"MemberReturned", "Returned"}
	case what[0] == "":
		return Event{}, false
	}
	n = Event{Reason: what[0], What: what[1], Member: a.Key, Why: a.Reason, Key: what[0] + "/" + cmp.Or(a.MoRef, a.Key), At: at}
	switch {
	case a.Op == Destroy || a.Op == Release:
		n.Key = KeyGone(a.MoRef)
	case a.Op == Clone: // until the inventory shows the VM
		n.Key += "/" + at.UTC().Format(time.RFC3339Nano)
	case a.ChangeVersion != "": // the action may happen again to the same VM
		n.Key += "/" + a.ChangeVersion
	}
	if a.MoRef != "" && !kept {
		n.Member += " (" + a.MoRef + ")"
	}
	return n, true
}

// Seen returns the Event with the moRef of the VM that a Clone made, which only the inventory shows.
func (n Event) Seen(s *VCenterState) Event {
	if n.Reason != noteCreated {
		return n
	}
	for i := range s.VMs {
		if vm := &s.VMs[i]; vm.Name == n.Member && vm.Quarantined.IsZero() {
			n.Key, n.Member = n.Reason+"/"+vm.MoRef, n.Member+" ("+vm.MoRef+")"
			return n
		}
	}
	return n
}

// KeyGone is the key of every Event that says that a VM is gone, so that users see only the first one. The Event of the server's own step
// comes first, and says why.
func KeyGone(moRef string) string { return "gone/" + moRef }
