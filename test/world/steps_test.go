package world

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// phase is how far a step has come.
type phase int

const (
	begun    phase = iota // the replica has called Do; vCenter doesn't know of it
	running               // its task runs in vCenter, whatever happens to the replica
	answered              // the task has ended, and the replica doesn't know yet
)

// step is an action that a replica carries out, call by call as package vsphere does.
type step struct {
	*world
	by    *replica
	ref   plan.Ref
	a     plan.Action
	done  chan error
	id    int
	phase phase
	asks  bool      // its task writes the stamp before a guest is asked to halt
	guard string    // the changeVersion that a reconfigure requires
	boot  time.Time // when the guest that was asked to halt had booted
	// asked is what the stamp says of the request to halt, and unasked the VM before.
	asked   plan.Moment
	unasked plan.VM
	rule    map[string]bool // the VMs that a SetRules keeps apart
	made    string          // the VM that a clone made
	holder  string          // the VM whose name made vCenter refuse a clone
	err     error           // how the task ended
	// promised is the lowest promise when the step began, as far as its replica could know.
	promised int
	// ends: its replica knows that the group is being deleted.
	ends bool
	// wants is the lowest count of members that any replica might want when the step began.
	wants int
	fits  bool     // the VM, as the replica saw it when the step began, matched the replica's last spec
	saw   []string // the members that worked, as the replica saw them when the step began
	// The fields of a step for disks: call is its current task; goesOn, whether an earlier task has ended; given, the disks that the stamp will
	// list; madeDisk, the disk just created; ready, the disks ready to be attached, by name; got, the disks that it attaches; deletes, whether
	// the spec lets it delete disks.
	call   diskCall
	goesOn bool
	given  string
	// attached: the disks are attached to the VM, and must still be bound.
	attached bool
	madeDisk *disk
	ready    map[string]*disk
	got      []*disk
	deletes  bool
	orphan   bool // no loop waits for its result: the replica was killed, or the reply was lost before the task ended
}

func (s *step) String() string {
	return fmt.Sprintf("#%d %s: %s %s %s", s.id, s.by.name, s.a.Op, s.a.Key, s.a.MoRef)
}

// How a step continues.
const (
	well    = iota
	refused // vCenter answers with a fault, and does nothing
	lost    // vCenter carries it out, and the reply is lost
	late    // the reply is lost now, and vCenter carries it out later
	ways
)

// advance advances a step by one call.
func (w *world) advance(s *step, how, which int) {
	if s.phase == running && s.failsAlways() {
		how, which = refused, w.set.trouble.fault
	}
	switch s.phase {
	case begun:
		switch {
		case s.by.paused:
		case how == refused:
			s.end(refusals[which%len(refusals)])
		case (s.a.Op == plan.Quarantine || s.detachesFirst()) && w.changesPower(s.a.MoRef, plan.PowerOn): // the step waits for the power-on to end
		default:
			if over, err := s.start(); over || err != nil {
				s.end(err)
				return
			}
			s.phase = running
			w.say("  %s is running", s)
		}
	case running:
		if s.overtakes() {
			return
		}
		if how == late && !s.orphan && !s.by.paused {
			w.say("  %s: its reply is lost, and it continues", s)
			s.orphan = true
			s.reply(replyLost)
			return
		}
		if s.err = refusals[which%len(refusals)]; how != refused {
			s.err = nil
			if err := s.effect(); err != nil {
				s.err = err
			}
		}
		w.say("  %s has ended: %v", s, s.err)
		if s.phase = answered; s.orphan {
			w.drop(s)
			return
		}
		if how == lost && s.err == nil {
			s.err = replyLost
		}
		if s.err == nil && s.continues() {
			s.phase, s.goesOn = begun, true
			return
		}
		s.finish()
	case answered:
		s.finish()
	}
}

func (w *world) drop(s *step) {
	w.steps = slices.DeleteFunc(w.steps, func(x *step) bool { return x == s })
}

// end returns the step's result to the replica.
func (s *step) end(err error) {
	if err != nil { // read the VM again: the plan may have been made from outdated facts
		if s.a.MoRef != "" {
			s.by.view.wanted[s.a.MoRef] = true
		}
		if s.a.Op == plan.Mark {
			s.by.view.want(s.ref.UID)
		}
	}
	s.drop(s)
	s.reply(err)
}

func (s *step) reply(err error) {
	s.say("  %s: Do returns %v", s, err)
	s.done <- err
	s.settle()
}

// want requests a read of all known members.
func (v *view) want(uid types.UID) {
	for _, m := range v.vcenter.vms {
		if g := v.vms[m.MoRef]; g != nil && !g.gone && g.uid == uid {
			v.wanted[m.MoRef] = true
		}
	}
}

// readMembers reads all known members.
func (v *view) readMembers(uid types.UID) {
	v.want(uid)
	for _, m := range v.vcenter.vms {
		if v.wanted[m.MoRef] && v.vms[m.MoRef] != nil { // the stream reports later what happened to VMs that the replica doesn't know
			v.read(m.MoRef)
		}
	}
}

// states returns, by moRef, the state of each known member as far as a plan depends on it and another replica can change it.
func (v *view) states(uid types.UID) map[string]string {
	states := map[string]string{}
	for moRef, g := range v.vms {
		if !g.gone && g.uid == uid {
			states[moRef] = fmt.Sprint(g.vm.ChangeVersion, g.vm.Power)
		}
	}
	return states
}

// finish makes the replica process the end of a task: it reads the VM before Do returns.
func (s *step) finish() {
	v, a := s.by.view, s.a
	if s.by.paused || s.err == nil && a.Op == plan.Unmark && (s.changesPower(a.MoRef, plan.PowerOff) || s.changesPower(a.MoRef, plan.Destroy)) {
		return
	}
	switch {
	case s.asks && s.err != nil:
		s.err = untried(s.err)
	case s.asks:
		s.err = s.ask()
	}
	if s.err != nil {
		s.end(s.err)
		return
	}
	v.read("")
	switch a.Op {
	case plan.Clone:
		s.end(s.settleName())
		return
	case plan.ConfirmGone:
		v.readAll()
		if slices.ContainsFunc(s.vc.vms, func(m *machine) bool {
			g := v.vms[m.MoRef]
			return g != nil && !m.stray && !m.IsTemplate && !g.gone && !g.blind && g.uid == s.ref.UID
		}) {
			s.end(removing)
			return
		}
	case plan.SetRules:
		s.noteBackInRule()
	case plan.Mark: // a replica that marks a member reads all of them afterwards
		v.readMembers(s.ref.UID)
		s.by.marks[a.MoRef] = v.vms[a.MoRef].vm.MarkedAt
	case plan.Quarantine:
		if m := s.vc.find(a.MoRef); !m.gone && m.Power == plan.PoweredOn { // powered on since the step was planned
			m.Quarantined = time.Time{}
			m.reconfigured()
			s.end(wrongPower)
			return
		}
	}
	if a.MoRef != "" {
		v.read(a.MoRef)
	}
	s.end(nil)
}

// settleName finds out which VM has a new member's name, and returns the matching fault if that VM isn't the new member.
func (s *step) settleName() error {
	v := s.by.view
	if s.holder == "" {
		v.read(s.made)
		return nil
	}
	v.read(s.holder)
	switch g := v.vms[s.holder]; {
	case g.gone, g.blind:
		return cloneRunning
	case g.uid == s.ref.UID && !g.vm.Quarantined.IsZero():
		return nameHeld
	case g.uid == s.ref.UID && g.vm.Ordinal == s.a.Ordinal:
		return nil
	}
	return nameConflict
}
