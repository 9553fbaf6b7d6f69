package plan

import (
	"cmp"
	"strings"
	"time"
)

// Event is something that happened to a group and that a user can ask about later. Events become Kubernetes Events.
//
// The replica that carried out an action events it (Action.Event), with the action's own reason. The plan events everything else
// by comparing its status with the stored one (package planner), so that any replica tells it once, and
// none tells it again after a restart. Equal events of two replicas have one Key.
type Event struct {
	// Warning: somebody should look at it.
	Warning bool
	// Reason is one CamelCase word, such as MemberRemoved.
	Reason string
	// What happened, to which Member (its name and moRef; empty: the group), and why. Events that differ only in the
	// member share an Event.
	What, Member, Why string
	// Key identifies the Event.
	Key string
	At  time.Time
	// PoweredOff reports whether it says that the VM MoRef was found powered off; vCenter's events may tell who did it.
	PoweredOff bool
	MoRef      string
	Made       time.Time // when that VM was cloned or adopted
}

// By returns the Event with the user who powered the VM off, if vCenter's events tell.
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

// Event returns the Event for an action that succeeded; false if it is not worth one.
func (a *Action) Event(at time.Time) (n Event, worth bool) {
	what := map[Op][2]string{
		Clone: {noteCreated, "Created"}, Adopt: {"MemberAdopted", "Adopted"}, Reset: {"MemberRestarted", "Restarted"},
		Reconfigure: {"MemberResized", "Resized"}, Quarantine: {"MemberQuarantined", "Quarantined"},
		Release: {"MemberReleased", "Released"}, Destroy: {EventRemoved, "Removed"},
	}[a.Op]
	kept := a.MoRef != "" && strings.HasSuffix(a.VM, a.MoRef) // in quarantine
	switch {
	case a.Op == PowerOn && a.Standby():
		what = [2]string{"MemberPromoted", "Promoted"}
	case a.Op == Unmark && kept:
		what = [2]string{"MemberReturned", "Returned"}
	case what[0] == "":
		return Event{}, false
	}
	n = Event{Reason: what[0], What: what[1], Member: a.VM, Why: a.Reason, Key: what[0] + "/" + cmp.Or(a.MoRef, a.VM), At: at}
	switch {
	case a.Op == Destroy || a.Op == Release:
		n.Key = KeyGone(a.MoRef)
	case a.Op == Clone: // until the VM is seen
		n.Key += "/" + at.UTC().Format(time.RFC3339Nano)
	case a.ChangeVersion != "": // may happen again
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

// KeyGone is the key of every Event that says that a VM is gone: the first one counts, and the one that removed it says why.
func KeyGone(moRef string) string { return "gone/" + moRef }
