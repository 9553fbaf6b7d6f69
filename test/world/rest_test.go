package world

import (
	"encoding/json"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// atRest checks a group that matches its spec: all replicas report the same status (5), and no further step begins.
func (w *world) atRest() {
	if w.kube.group == nil {
		return
	}
	for _, r := range w.running() { // the first call of a replica can request reads
		w.says(r)
		w.update(r, 0, true)
	}
	first := ""
	for _, r := range w.running() {
		text, again := w.says(r), w.says(r)
		if text != again {
			w.violated("5: from the same facts %s reports %s, and then %s", r.name, text, again)
		}
		if slices.ContainsFunc(r.loop.Groups(), func(g plan.Report) bool { return g.UID == w.kube.uid() && len(g.Pending) > 0 }) {
			continue // a replica doesn't know the recent failures of another one, so their reports may differ
		}
		if first == "" {
			first = text
		}
		if text != first {
			w.violated("5: from the same facts %s reports %s, and another replica %s", r.name, text, first)
		}
	}
	before := w.present
	w.pass(20 * time.Second)
	if w.present > before && w.kube.group.Spec.Deletion.QuarantineSeconds == 0 {
		w.violated("a settled group changes: %s", w.off())
	}
	for n := 0; w.moves() && w.wrong == ""; n++ { // steps that remove VMs whose quarantine has ended
		if n == 100 {
			w.violated("a settled group is never done: %s", w.steps[0])
		}
		w.continueAll(n)
		w.pass(time.Second)
	}
}

// lastLook checks which VMs are left at the end of a life.
func (w *world) lastLook() {
	for _, m := range w.vc.vms {
		if m.uid != "" && m.uid != w.kube.uid() && !m.gone && !m.stray && !m.IsTemplate {
			w.violated("4: %s (%s) of %s is left behind", m.Name, m.MoRef, m.uid)
		}
		if m.uid == "" && !m.foreign {
			w.violated("2: %s (%s) has lost its stamp", m.Name, m.MoRef)
		}
	}
	w.look()
}

// says returns the status that a replica answers, and stores it as Metacontroller does. It must be stored before another replica is asked,
// because the times in it (such as lastTransitionTime) are this replica's until the others read them from the status.
func (w *world) says(r *replica) string {
	result := w.renew(r, waitingCall{call: plan.Call{Group: w.kube.group, Children: w.kube.children}})
	w.settle()
	text, err := json.Marshal(result.Status)
	if err != nil {
		w.violated("5: %v", err)
	}
	g := *w.kube.group
	g.Status, w.kube.group = result.Status, &g
	return string(text)
}

// rest is the end of a life: all disturbances stop, everything in progress continues, and the group must become as its spec says.
func (w *world) rest() {
	w.say("all disturbances stop")
	w.resting = true
	w.selectAgain()
	w.sleep()
	for w.wentBack && w.set.replicas > 1 && len(w.replicas) > 0 { // they answer in turns, so none of them notices: docs/upgrade.md says to restart them
		w.kill(w.replicas[0], false)
	}
	for len(w.replicas) < w.set.replicas {
		w.start()
	}
	sleepers := slices.Clone(w.replicas)
	if !w.set.deletes || len(w.running()) == 0 { // otherwise they resume after the group is deleted
		for _, r := range sleepers {
			w.resume(r, false)
		}
	}
	w.allComeBack()
	w.decideStrays()
	w.tendDisks()
	if w.untagged {
		w.tryAgain()
	}
	if g := w.kube.group; g != nil && g.Spec.Template == noTemplate {
		w.edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "ubuntu" })
	}
	for _, m := range w.vc.vms {
		if m.hidden {
			m.hidden = false
			m.changed()
		}
		if m.foreign && m.Folder != elsewhere && !m.gone { // a foreign VM in the group's folder can block a member by its name
			w.vc.removes(m)
		}
	}
	if w.endure(); w.troubled() {
		return
	}
	for range 2 { // the status may be older than the members
		if w.await("the members of the spec", w.off); w.wrong != "" {
			return
		}
		w.pass(time.Second)
	}
	w.atRest()
	if w.wrong == "" && w.set.deletes && w.kube.group != nil {
		w.delete()
		w.await("the end of the group", w.off)
	}
	for i, r := range sleepers {
		w.resume(r, i%2 == 0)
	}
	for n := range 4 {
		w.continueAll(n)
		w.pass(time.Second)
	}
	w.lastLook()
}

// await continues the world until off returns nothing and no step is left.
func (w *world) await(what string, off func() string) {
	idle, began := time.Second, time.Now()
	for n := 0; w.wrong == ""; n++ {
		w.giveUpForgotten()
		w.undoLost()
		if off() == "" && !w.moves() && !slices.ContainsFunc(w.running(), func(r *replica) bool { return !r.view.known || len(r.view.late()) > 0 }) {
			return
		}
		if n > 500 || time.Since(began) > time.Hour {
			w.violated("never reached %s: %s", what, off())
			return
		}
		if w.continueAll(n) {
			idle = time.Second
		}
		w.pass(idle)
		idle = min(2*idle, 25*time.Second)
	}
}

// running returns the replicas that are not paused.
func (w *world) running() []*replica {
	return slices.DeleteFunc(slices.Clone(w.replicas), func(r *replica) bool { return r.paused })
}

// moves reports whether a step can continue.
func (w *world) moves() bool {
	return slices.ContainsFunc(w.steps, func(s *step) bool { return s.phase == running || !s.by.paused })
}

// continueAll continues everything that can continue, and reports whether anything could.
func (w *world) continueAll(n int) (busy bool) {
	w.tendDisks()
	for _, m := range w.vc.vms {
		switch {
		case m.gone, m.stray:
		case m.halting(), m.Power == plan.PoweredOn && !m.Quarantined.IsZero(): // a VM in quarantine that an operator powered on is powered off again
			w.vc.power(m, false)
		case m.Power == plan.PoweredOn && !m.Tools && !m.halting():
			w.vc.boots(m)
		case m.Tools && !w.hasAilment(m, noService):
			m.serves = true
			if len(m.IPs) == 0 && !w.hasAilment(m, noAddress) {
				w.vc.boots(m)
			}
		}
	}
	w.call(one(w.running(), n), 0, false)
	for range 20 {
		for _, r := range w.running() {
			if len(r.view.late()) > 0 || !r.view.known {
				w.update(r, 0, true)
				busy = true
			}
		}
		if !w.moves() || w.wrong != "" {
			break
		}
		for _, s := range slices.Clone(w.steps) {
			if slices.Contains(w.steps, s) {
				w.advance(s, well, 0)
			}
		}
		busy = true
		w.look()
	}
	w.show()
	return busy
}
