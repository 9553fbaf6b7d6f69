package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A stamp is a claim: whoever can write extraConfig of a VM can write it, a backup brings an old one back, and a clone copies it. This file decides
// from what else is known whether a VM with a group's stamp is one of the group's VMs. The first row that applies decides:
//
//	what is known of the VM                                                     it is
//	--------------------------------------------------------------------------  --------------------------------------------------
//	the status lists it, by moRef and instanceUuid                              the group's (Recorded)
//	a task of this process made or adopted it                                   the group's (MadeHere)
//	a VM with this instanceUuid was destroyed before                            a stray: it was restored
//	another VM that vCenter shows has this instanceUuid, and one of them had
//	  another that vCenter changed                                              a stray
//	a VM with this instanceUuid is, or was, in vCenter under another moRef:
//	  vCenter still shows that one, or its fate is being looked up              not decided yet
//	  vCenter's events of this one are being read                               not decided yet
//	  this one was created, cloned or deployed since                            a stray: it was restored
//	  this one has the .vmx file of that one (a VM that was off and out of
//	  use must also have been discovered with a host)                           the group's (Returned)
//	  this one was discovered, and the file of that one is not known            the group's (Returned)
//	  that one was in another vCenter, from which this one was migrated, and an
//	  operator said that this vCenter has the group's VMs now                   the group's (Returned)
//	  in the group's folder, and nothing says how it came, or of which file     the group's (Returned)
//	  otherwise                                                                 a stray
//	spec.adopt names it, it is at that place or in the group's folder, no
//	  other VM has its ordinal, and it is older than its stamp                  the group's (Adopted)
//	vCenter's events of it are being read                                       not decided yet
//	it is neither in the group's folder, nor in one that was the group's while
//	  this process ran, and was moved or renamed since                          a stray
//	cloned by the server's account, under the member's name, when the stamp
//	  says                                                                      the group's (MadeByAccount)
//	created, cloned, registered … otherwise; or not in the group's folder       a stray
//	no event says how it came: no other VM has its ordinal or, by its stamp,
//	  its instanceUuid, and the status doesn't list it as a stray               the group's (InFolder)
//	  otherwise                                                                 a stray
//
// A VM whose instanceUuid is not that in its stamp is a copy, and none of the group's, unless Renumbered.
//
// What a row doesn't prove: whoever can write the status can write a record. The server's account may be shared with a backup product: then a clone
// that it makes within a day under a free member's name, in the group's folder, is taken for the group's, unless this process saw the former VM. Whoever
// has rights in the group's folder and can hide events can put a VM into it; that concerns only this group. Events end after 30 days by default, or may
// be unreadable: so a VM that was once found to be a stray stays one by the status.
//
// One of the group's VMs that is a template now is a stray that holds its ordinal.
//
// A stray is never powered on or off, changed, moved or destroyed, and isn't counted: it fills no ordinal, is no endpoint, and blocks neither the spec
// nor the deletion. Its ordinal isn't filled while it is in the group's folder, present or former, and not decided (elsewhere, if it has the member's name, only right after a start of the server: strangers could stamp one VM after the other), while its name in the group's folder is the member's, or if the server's account made
// it: two VMs with one address are as bad as a lost one.

// Proof is what shows that a VM is a group's. The zero value is none.
type Proof string

// The proofs.
const (
	Recorded      Proof = "Recorded"
	MadeHere      Proof = "MadeHere"
	Returned      Proof = "Returned"
	Adopted       Proof = "Adopted"
	MadeByAccount Proof = "MadeByAccount"
	InFolder      Proof = "InFolder"
)

// Arrival is how a VM came into vCenter's inventory, by the newest of vCenter's events that say so.
type Arrival struct {
	// Read is false until vCenter's events of the VM have been read. Then the other fields are zero if no event says how it came.
	Read bool
	How  Coming
	// At is the time of the event by vCenter's clock, User the account that it names, Ours reports whether that is the server's, and Name is the
	// VM's name then.
	At   time.Time
	User string
	Ours bool
	Name string
	// Had are the instanceUuids that the VM had since it came, by the events of their changes and conflicts.
	Had []string
}

// Renumbered reports whether a VM, which has a copy of a member's stamp and the moRef in the member's record, is that member, and vCenter changed its
// instanceUuid. In one life of a vCenter, a moRef is one VM's, so an event that the VM with this moRef had an instanceUuid of the member says so: stamped
// are those in the stamp, if vCenter changed it before. A restore of vCenter gives moRefs to other VMs, such as a copy of the member's files: so the VM must
// also have the member's .vmx file, if both are known.
func Renumbered(had []string, file, recordedFile string, stamped ...string) bool {
	is := func(id string) bool { return id != "" && slices.Contains(stamped, id) }
	return slices.ContainsFunc(had, is) && (file == "" || recordedFile == "" || file == recordedFile)
}

// Coming is a way into vCenter's inventory.
type Coming string

// The ways: by CreateVM_Task; by CloneVM_Task, from a VM or from a template; by RegisterVM_Task; with a host that was added; and by a vMotion.
const (
	Created    Coming = "created"
	Cloned     Coming = "cloned"
	Registered Coming = "registered"
	Discovered Coming = "discovered"
	// Migrated is from another vCenter.
	Migrated Coming = "migrated"
)

// Fate is what became of another VM that had a VM's instanceUuid. The zero value means that none is known.
type Fate string

// The fates: vCenter shows it, and it is another VM (There); vCenter shows it as it was, or what became of it is being looked up (Sought); it left vCenter's inventory, and was not destroyed (Vanished);
// it left while it was off and out of use, and nobody asked why (Left); it was destroyed.
const (
	There       Fate = "there"
	Sought      Fate = "sought"
	HasVanished Fate = "vanished"
	Left        Fate = "left"
	Destroyed   Fate = "destroyed"
)

// Evidence is a VM with a group's stamp, and what is known of it beside the stamp.
type Evidence struct {
	VM *VM
	// Recorded reports whether the group's status lists the VM, by moRef and instanceUuid; Listed, whether the status lists it as a stray.
	Recorded, Listed bool
	// Made reports whether a task of this process made or adopted it.
	Made bool
	// InFolder reports whether the VM is in the group's folder, or in its quarantine folder, by their moRefs. FolderUnknown reports whether the server
	// doesn't know yet which these are.
	InFolder, FolderUnknown bool
	// InFormerFolder reports whether the VM is in a folder that was the group's while this process ran, and was moved or renamed since.
	InFormerFolder bool
	// Fresh reports whether the server came to know vCenter's state only moments ago: it hasn't had the time to ask how the VM came.
	Fresh bool
	// Named reports whether spec.adopt has the entry in the VM's stamp, and the VM is in the folder in which it was adopted, or in the group's.
	Named bool
	// Filled reports whether another VM, which is the group's, has the ordinal.
	Filled bool
	// Former is what became of another VM with the same instanceUuid. FormerFile is the .vmx file that it had; empty if not known.
	Former     Fate
	FormerFile string
	// Claimed reports whether there is another VM with the same instanceUuid that only its stamp says is the group's: neither the status nor this process
	// does, and it is not in the group's folder, present or former. It is no former VM, because a stranger can make one.
	Claimed bool
	Arrival Arrival
	// Moved reports whether the former VM was in another vCenter, and an operator said that the group's VMs are in this one now (Moved).
	Moved bool
}

// Stray is a VM with a group's stamp that nothing shows to be the group's.
type Stray struct {
	VM
	// Pending reports whether it isn't decided yet: vCenter is being asked.
	Pending bool
	// Holds reports whether the ordinal isn't filled because of it.
	Holds bool
	// Why says why it isn't the group's, for users.
	Why string
	// Path is the VM's inventory path, for spec.adopt.
	Path string
}

const (
	// clocksApart is the maximum difference between vCenter's clock and the server's.
	clocksApart = 15 * time.Minute
	// longestClone is the maximum time from a stamp's Created, when the clone begins, to the event at its end.
	longestClone = 24 * time.Hour
)

// RemedyFor says what an operator can do about a stray.
func RemedyFor(x *Stray) string {
	if x.IsTemplate && x.Holds {
		return "convert it back to a VM; or, to have another member, remove the key " + StampKey + " from its configuration"
	}
	return "if it is to be a member, add " + x.MoRef + " to spec.adopt; otherwise remove the key " + StampKey + " from its configuration, or delete it in vCenter yourself"
}

// StampKey is the extraConfig key of a VM's stamp.
const StampKey = "codeconnect.vmworld.com.vmgroup.stamp"

// Weigh decides whether a VM is the group's. Exactly one of the results is set.
func Weigh(group string, c *Evidence) (Proof, *Stray) {
	p, stray := weigh(group, c)
	if p != "" && c.VM.IsTemplate {
		return "", &Stray{VM: *c.VM, Holds: true, Why: "it was converted to a template"}
	}
	return p, stray
}

func weigh(group string, c *Evidence) (Proof, *Stray) {
	name := MemberName(group, c.VM.Ordinal)
	inPlace := c.InFolder && strings.EqualFold(c.VM.Name, name)
	stray := func(why string, args ...any) (Proof, *Stray) {
		return "", &Stray{VM: *c.VM, Why: fmt.Sprintf(why, args...), Holds: inPlace || c.Arrival.isCloneOf(name)}
	}
	pending := func() (Proof, *Stray) { // another VM with this instanceUuid has the ordinal, or is known to be missing
		return "", &Stray{VM: *c.VM, Pending: true, Holds: (c.InFolder || c.InFormerFolder || c.Fresh && strings.EqualFold(c.VM.Name, name)) && c.Former == "", Why: "vCenter's events are being read"}
	}
	a := &c.Arrival
	switch {
	case c.Recorded:
		return Recorded, nil
	case c.Made:
		return MadeHere, nil
	case c.Former == Destroyed:
		return stray("a VM with its instanceUuid was destroyed before: it was restored%s", a.by())
	case c.Former == There:
		return stray("the member with its instanceUuid is another VM")
	case c.Former == Sought:
		return pending()
	case c.Former != "" && !a.Read, c.FolderUnknown:
		return pending()
	case c.Former != "" && (a.How == Created || a.How == Cloned):
		return stray("it was %s%s, and the member with its instanceUuid had another moRef", a.How, a.by())
	case c.Moved && a.How == Migrated:
		return Returned, nil
	case c.Former != "" && (a.How == Discovered && c.FormerFile == "" || c.FormerFile != "" && c.VM.File == c.FormerFile && (a.How == Discovered || c.Former != Left)):
		return Returned, nil
	case c.Former != "" && c.InFolder && a.How == "" && (c.FormerFile == "" || c.VM.File == ""), c.Former == HasVanished && c.InFolder && c.FormerFile == "":
		return Returned, nil
	case c.Former != "":
		return stray("%s, and nothing shows that it is the member that was %s", a.text(), c.Former)
	case c.Named && !c.Filled && a.Read && (a.At.IsZero() || a.At.Before(c.VM.Created.Add(clocksApart))):
		return Adopted, nil
	case !a.Read:
		return pending()
	case !c.InFolder && !c.InFormerFolder:
		return stray("%s, and it is not in the group's folder", a.text())
	case a.isCloneOf(name) && a.isAt(c.VM.Created):
		return MadeByAccount, nil
	case !c.InFolder:
		return stray("%s, and it is not in the group's folder", a.text())
	case a.How != "":
		return stray("%s, and not by a clone of the server for this member", a.text())
	case c.Listed || c.Filled || c.Claimed:
		return stray("no event of vCenter says who made it")
	}
	return InFolder, nil
}

// isCloneOf reports whether the server's account cloned the VM under that name.
func (a *Arrival) isCloneOf(name string) bool {
	return a.How == Cloned && a.Ours && strings.EqualFold(a.Name, name)
}

// isAt reports whether the event can be that of a clone that began at a time.
func (a *Arrival) isAt(began time.Time) bool {
	return !a.At.Before(began.Add(-clocksApart)) && a.At.Before(began.Add(longestClone))
}

// text says how the VM came.
func (a *Arrival) text() string {
	if a.How == "" {
		return "no event of vCenter says how it came"
	}
	return fmt.Sprintf("it was %s%s", a.How, a.by())
}

func (a *Arrival) by() string {
	if a.User == "" {
		return ""
	}
	return " by " + Printable(a.User)
}
