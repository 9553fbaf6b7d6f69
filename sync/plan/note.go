package plan

import (
	"cmp"
	"strings"
	"time"
)

// Note is something that happened to a group, and that somebody may ask about later. Notes become Kubernetes Events.
//
// What an action did is noted by whoever carried it out (Action.Note), with the action's own reason. What is new otherwise is
// noted by the plan, by comparing its status with the stored one (package planner): so it is told once, by whichever replica
// answers, and not told again after a restart. Equal notes of two replicas have one Key.
type Note struct {
	// Warning: somebody should look at it.
	Warning bool
	// Reason is one CamelCase word, such as MemberRemoved.
	Reason string
	// What happened, to which Member (its name and moRef; empty: the group), and why. Notes that differ in nothing but the
	// member are told as one.
	What, Member, Why string
	// Key tells notes apart.
	Key string
	At  time.Time
	// Deed is what somebody did to the VM MoRef; vCenter's events may tell who.
	Deed  Deed
	MoRef string
}

// Deed is what somebody other than this server did to a VM.
type Deed string

// The deeds that are asked about.
const (
	DeedRemoved    Deed = "Removed"
	DeedPoweredOff Deed = "Powered off"
)

// By is the note with the user who did it, if vCenter's events tell; nobody is to be asked any more.
func (n Note) By(user string) Note {
	if user != "" {
		n.What = string(n.Deed) + " in vCenter by " + user + ":"
	}
	n.Deed = ""
	return n
}

const noteCreated = "MemberCreated"

// Note is what an action that succeeded is told as; false if it is not worth telling.
func (a *Action) Note(at time.Time) (n Note, worth bool) {
	what := map[Op][2]string{
		Clone: {noteCreated, "Created"}, Adopt: {"MemberAdopted", "Adopted"}, Reset: {"MemberRestarted", "Restarted"},
		Reconfigure: {"MemberResized", "Resized"}, Quarantine: {"MemberQuarantined", "Quarantined"},
		Release: {"MemberReleased", "Released"}, Destroy: {"MemberRemoved", "Removed"},
	}[a.Op]
	kept := a.MoRef != "" && strings.HasSuffix(a.VM, a.MoRef) // in quarantine
	switch {
	case a.Op == Unmark && kept:
		what = [2]string{"MemberReturned", "Returned"}
	case what[0] == "":
		return Note{}, false
	}
	n = Note{Reason: what[0], What: what[1], Member: a.VM, Why: a.Reason, Key: what[0] + "/" + cmp.Or(a.MoRef, a.VM), At: at}
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

// Seen is the note with the moRef of the VM that a Clone made, which only vCenter's answer shows.
func (n Note) Seen(s *VCenterState) Note {
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

// KeyGone is the key of every note that says that a VM is gone: the first one counts, and who removed it says why.
func KeyGone(moRef string) string { return "gone/" + moRef }
