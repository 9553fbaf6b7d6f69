package world

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// phase says how far a step has come.
type phase int

const (
	begun    phase = iota // the replica has called Do; vCenter knows nothing of it
	underWay              // its task runs in vCenter, whatever becomes of the replica
	answered              // the task has ended, and the replica has not taken that in
)

// step is an action that a replica carries out, call by call as package vsphere does.
type step struct {
	*world
	by     *replica
	ref    plan.Ref
	a      plan.Action
	done   chan error
	id     int
	phase  phase
	guard  string    // the changeVersion that a reconfigure brings
	boot   time.Time // of a guest that was asked to halt
	made   string    // by a clone
	holder string    // who has the name that a clone was refused for
	err    error     // how the task ended
	// promised is the least that was promised when it began, as far as its replica could know.
	promised int
	saw      []string // the members that were at work, as its replica saw it when it began
	orphan   bool     // nobody awaits it: the replica was killed, or the reply came too early
}

func (s *step) String() string {
	return fmt.Sprintf("#%d %s: %s %s %s", s.id, s.by.name, s.a.Op, s.a.VM, s.a.MoRef)
}

// How a step goes on.
const (
	well    = iota
	refused // vCenter answers with a fault, and does nothing
	lost    // it is carried out, and the reply is lost
	late    // the reply is lost now, and it is carried out later
	ways
)

// advance takes a step one call further.
func (w *world) advance(s *step, how, which int) {
	switch s.phase {
	case begun:
		switch {
		case s.by.paused:
		case how == refused:
			s.end(refusals[which%len(refusals)])
		case s.a.Op == plan.Quarantine && w.changesPower(s.a.MoRef, plan.PowerOn): // it awaits that
		default:
			if over, err := s.start(); over || err != nil {
				s.end(err)
				return
			}
			s.phase = underWay
			w.say("  %s is under way", s)
		}
	case underWay:
		if s.overtakes() {
			return
		}
		if how == late && !s.orphan && !s.by.paused {
			w.say("  %s: its reply is lost, and it goes on", s)
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
		s.finish()
	case answered:
		s.finish()
	}
}

// overtakes: a clone that ends between the look into an empty folder and its removal a moment later would be taken off the
// inventory with it. No call can prevent that; it takes far longer than the removal.
func (s *step) overtakes() bool { return s.a.Op == plan.Clone && s.removesFolder() }

// changesPower reports whether such a task of a VM is under way.
func (w *world) changesPower(moRef string, op plan.Op) bool {
	return slices.ContainsFunc(w.steps, func(s *step) bool { return s.phase == underWay && s.a.Op == op && s.a.MoRef == moRef })
}

func (w *world) drop(s *step) {
	w.steps = slices.DeleteFunc(w.steps, func(x *step) bool { return x == s })
}

// end gives the replica its answer.
func (s *step) end(err error) {
	if err != nil { // what was planned from may be out of date
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

// want asks for a read of all members that are known.
func (v *view) want(uid types.UID) {
	for _, m := range v.vcenter.vms {
		if g := v.vms[m.MoRef]; g != nil && !g.gone && g.uid == uid {
			v.wanted[m.MoRef] = true
		}
	}
}

// start makes the calls before the task, and starts it. over: nothing is left to do.
func (s *step) start() (over bool, err error) {
	v, a := s.by.view, s.a
	switch a.Op {
	case plan.CreateFolder:
		over = v.folder != ""
	case plan.CreateQuarantine:
		over = v.quarantine != ""
	case plan.Clone, plan.ConfirmGone, plan.RemoveFolder, plan.Destroy:
	default:
		over, err = s.startOwn()
	}
	if over || err != nil {
		v.read("")
		return over, err
	}
	if !s.by.loop.Leased(s.ref.UID, a.VM) { // right before the calls
		return false, leaseOver
	}
	switch a.Op {
	case plan.ConfirmGone:
		return false, s.noCloneUnderWay()
	case plan.RemoveFolder:
		return s.startRemoveFolder()
	case plan.Destroy:
		err = s.look()
		if err == objectGone {
			v.read(a.MoRef)
			return true, nil
		}
		if m := s.vc.find(a.MoRef); err == nil && a.NeverOn && (m.Power != plan.PoweredOff || m.wasOn) {
			err = twin
		}
	case plan.PowerOn, plan.PowerOff, plan.ShutdownGuest:
		if g := v.vms[a.MoRef]; a.Marked || a.Op == plan.PowerOn && time.Since(g.read) > 100*time.Millisecond {
			if err = s.look(); err == nil {
				err = s.lookAtOthers()
			}
		}
	case plan.Quarantine, plan.Reset:
		err = s.look()
		if m := s.vc.find(a.MoRef); err == nil && m.ChangeVersion != s.guard {
			err = changed
		}
	}
	if err == nil {
		err = s.ask()
	}
	if err == nil {
		s.judge()
	}
	return false, err
}

// startOwn looks at what the replica knows of the member that the step is for.
func (s *step) startOwn() (over bool, err error) {
	a := s.a
	m, err := s.by.view.own(s.ref, a)
	if err != nil {
		return false, err
	}
	s.guard, s.boot = m.ChangeVersion, m.Boot
	unchanged := a.ChangeVersion == "" || a.ChangeVersion == m.ChangeVersion
	switch a.Op {
	case plan.Rename:
		return m.Name == a.NewName, nil
	case plan.Move:
		return m.Folder == a.Folder, nil
	case plan.Mark:
		over = m.Marked && (a.Why == "" || m.Why == a.Why) && m.Generation >= a.Generation
	case plan.Unmark:
		over = !m.Marked && m.Quarantined.IsZero() && m.Generation >= a.Generation
	case plan.Quarantine:
		over = !m.Quarantined.IsZero()
	case plan.Reconfigure:
		if on := m.Power == plan.PoweredOn; unchanged && on != a.Hot {
			return false, wrongPower
		}
	case plan.Reset:
		if unchanged && m.Marked {
			return false, changed
		}
	default:
		return false, nil
	}
	if !over && !unchanged {
		err = changed
	}
	return over, err
}

// look looks at the VM afresh.
func (s *step) look() error {
	m, a := s.vc.find(s.a.MoRef), s.a
	switch {
	case m == nil || m.gone:
		return objectGone
	case m.hidden:
		return unreadable
	case m.uid != s.ref.UID || m.Ordinal != a.Ordinal:
		return notOurs
	case a.Marked && !(m.Marked && (m.Why != plan.WhyPowerCycle || a.Op == plan.PowerOff || a.Op == plan.ShutdownGuest) || !m.Quarantined.IsZero() && m.Marked):
		return wantedAfterAll
	case a.Op == plan.PowerOn && m.Marked:
		return changed
	case a.Op == plan.Quarantine && m.Power != plan.PoweredOff, a.Op == plan.Reset && m.Power != plan.PoweredOn:
		return wrongPower
	}
	return nil
}

// lookAtOthers looks at those that are counted upon while the member is down.
func (s *step) lookAtOthers() error {
	n, gone := 0, false
	for _, o := range s.a.Others {
		m := s.vc.find(o.MoRef)
		gone = gone || m.gone
		if !m.hidden && m.Power == plan.PoweredOn && m.ChangeVersion == o.ChangeVersion && m.Boot.Equal(o.Boot) {
			n++
		}
	}
	if n >= s.a.Least && !gone {
		return nil
	}
	for _, o := range s.a.Others {
		s.by.view.wanted[o.MoRef] = true
	}
	return tooFew
}

// ask makes the call of a step that is two: a guest is asked to halt before the stamp says so, and the stamp says that a
// member is restarted before it is.
func (s *step) ask() error {
	m := s.vc.find(s.a.MoRef)
	switch s.a.Op {
	case plan.ShutdownGuest:
		switch {
		case m == nil || m.gone:
			return objectGone
		case m.hidden:
			return noPermission
		case m.Power != plan.PoweredOn:
			s.by.view.read(m.MoRef)
			return nil
		case !m.Tools:
			return noTools
		}
		m.asked, m.heeds = time.Now(), s.set.heeds
	case plan.Reset:
		s.vc.apply(m, plan.Action{Op: plan.Reset, MoRef: m.MoRef})
		m.Restarted = seconds(time.Now())
		m.reconfigured()
	}
	return nil
}

func (s *step) startRemoveFolder() (over bool, err error) {
	if err := s.noCloneUnderWay(); err != nil {
		return false, err
	}
	v := s.by.view
	if v.read(""); !s.vc.standing(s.a.MoRef) {
		return true, nil
	}
	foreign := false
	for _, m := range s.vc.vms {
		if m.gone || m.Folder != s.vc.folder && m.Folder != s.vc.quarantine {
			continue
		}
		v.read(m.MoRef)
		if g := v.vms[m.MoRef]; (g.blind || g.uid == s.ref.UID) && s.set.defect != removesBlindly {
			return false, removing
		}
		foreign = true
	}
	if foreign && s.set.defect != removesBlindly {
		return false, strangers
	}
	return false, nil
}

// noCloneUnderWay waits for the clones that ran when the replica first asked for this group.
func (s *step) noCloneUnderWay() error {
	var running []int
	for _, x := range s.steps {
		if x.a.Op == plan.Clone && x.phase == underWay {
			running = append(running, x.id)
		}
	}
	awaited, known := s.by.clones[s.ref.UID]
	if !known {
		awaited = running
	}
	awaited = slices.DeleteFunc(slices.Clone(awaited), func(id int) bool { return !slices.Contains(running, id) })
	s.by.clones[s.ref.UID] = awaited
	if len(awaited) > 0 {
		return cloneUnderWay
	}
	return nil
}

// effect is what the task does in vCenter.
func (s *step) effect() error {
	vc, a := s.vc, s.a
	switch a.Op {
	case plan.CreateFolder:
		if vc.folder == "" {
			vc.folder, vc.folders = vc.ref("group"), vc.folders+1
		}
		return nil
	case plan.CreateQuarantine:
		if a.Folder != vc.folder {
			return objectGone
		}
		if vc.quarantine == "" {
			vc.quarantine, vc.folders = vc.ref("group"), vc.folders+1
		}
		return nil
	case plan.Clone:
		return s.cloned()
	case plan.RemoveFolder:
		if a.MoRef == vc.folder {
			s.folderRemoved()
		}
		return nil
	case plan.ConfirmGone:
		return nil
	}
	m := vc.find(a.MoRef)
	switch {
	case m == nil || m.gone:
		if a.Op == plan.Destroy {
			return nil
		}
		return objectGone
	case m.hidden:
		return noPermission
	case m.uid != s.ref.UID:
		s.violated("2: %s is carried out on a VM that is not the group's", s)
	}
	return s.changes(m)
}

// changes is what the task does to one VM.
func (s *step) changes(m *machine) error {
	vc, a := s.vc, s.a
	switch a.Op {
	case plan.Mark, plan.Unmark, plan.Quarantine, plan.Reconfigure:
		if m.ChangeVersion != s.guard {
			return changed
		}
		if on := m.Power == plan.PoweredOn; a.Op == plan.Reconfigure && on != a.Hot {
			return wrongPower
		}
		vc.apply(m, a)
		m.reconfigured()
	case plan.PowerOn:
		if m.Power != plan.PoweredOn {
			vc.power(m, true)
		}
	case plan.PowerOff:
		if m.Power == plan.PoweredOn {
			vc.power(m, false)
		}
	case plan.ShutdownGuest:
		m.Shutdown = plan.Moment{At: seconds(time.Now().Add(time.Second)), Boot: s.boot}
		m.reconfigured()
	case plan.Reset:
		if m.Power != plan.PoweredOn {
			return wrongPower
		}
		m.Tools, m.IPs, m.asked = false, nil, time.Time{}
		m.changed()
	case plan.Rename, plan.Move:
		folder, name := m.Folder, a.NewName
		if a.Op == plan.Move {
			if folder, name = a.Folder, m.Name; !vc.standing(folder) {
				return objectGone
			}
		}
		if holder := vc.named(folder, name); holder != nil && holder != m {
			if holder.uid == s.ref.UID || holder.hidden {
				return nameHeld
			}
			return nameConflict
		}
		vc.apply(m, a)
		m.reconfigured()
	case plan.Destroy:
		if m.Power == plan.PoweredOn {
			return wrongPower
		}
		vc.removes(m)
	default:
		panic("the model does not know the step " + string(a.Op))
	}
	return nil
}

func (s *step) cloned() error {
	vc, a := s.vc, s.a
	if a.Folder != vc.folder {
		return objectGone
	}
	if holder := vc.named(a.Folder, a.VM); holder != nil {
		s.holder = holder.MoRef
		return nil // the replica looks whose it is
	}
	m := vc.add(s.ref.UID, a)
	s.made = m.MoRef
	s.arrives(m)
	return nil
}

func (s *step) folderRemoved() {
	vc := s.vc
	for _, m := range vc.vms {
		if !m.gone && (m.Folder == vc.folder || m.Folder == vc.quarantine) {
			s.violated("4: %s takes %s (%s) off the inventory with its folder", s, m.Name, m.MoRef)
		}
	}
	vc.folder, vc.quarantine, vc.folders = "", "", vc.folders+1
}

// finish takes in how a task ended: its VM is read before Do returns.
func (s *step) finish() {
	v, a := s.by.view, s.a
	if s.by.paused || s.err == nil && a.Op == plan.Unmark && s.changesPower(a.MoRef, plan.PowerOff) {
		return
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
			return g != nil && !g.gone && !g.blind && g.uid == s.ref.UID
		}) {
			s.end(removing)
			return
		}
	case plan.Mark: // who marks a member looks at all of them afterwards
		v.want(s.ref.UID)
		for _, m := range s.vc.vms {
			if v.wanted[m.MoRef] {
				v.read(m.MoRef)
			}
		}
	case plan.Quarantine:
		if m := s.vc.find(a.MoRef); !m.gone && m.Power == plan.PoweredOn { // it was powered on meanwhile
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

// settleName looks who has a new member's name.
func (s *step) settleName() error {
	v := s.by.view
	if s.holder == "" {
		v.read(s.made)
		return nil
	}
	v.read(s.holder)
	switch g := v.vms[s.holder]; {
	case g.gone, g.blind:
		return cloneUnderWay
	case g.uid == s.ref.UID && !g.vm.Quarantined.IsZero():
		return nameHeld
	case g.uid == s.ref.UID && g.vm.Ordinal == s.a.Ordinal:
		return nil
	}
	return nameConflict
}
