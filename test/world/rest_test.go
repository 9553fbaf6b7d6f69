package world

import (
	"encoding/json"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// atRest looks at a group that is as it is wanted: all replicas say the same of it (5), nobody does anything more, and it
// stays so.
func (w *world) atRest() {
	if w.kube.group == nil {
		return
	}
	for _, r := range w.atWork() { // who is called for the first time may have something to look up
		w.says(r)
		w.tell(r, 0, true)
	}
	first := ""
	for _, r := range w.atWork() {
		text, again := w.says(r), w.says(r)
		if text != again {
			w.violated("5: of the same facts %s says %s, and then %s", r.name, text, again)
		}
		if reports := r.loop.Groups(); len(reports) > 0 && len(reports[0].Pending) > 0 {
			continue // what failed a moment ago is a fact that others do not know
		}
		if first == "" {
			first = text
		}
		if text != first {
			w.violated("5: of the same facts %s says %s, and another one %s", r.name, text, first)
		}
	}
	before := w.present
	w.pass(20 * time.Second)
	if w.present > before && w.kube.group.Spec.Deletion.QuarantineSeconds == 0 {
		w.violated("a group at rest is not left alone: %s", w.off())
	}
	for n := 0; w.moves() && w.wrong == ""; n++ { // of a quarantine that is over
		if n == 100 {
			w.violated("a group at rest is never done: %s", w.steps[0])
		}
		w.goOn(n)
		w.pass(time.Second)
	}
}

// lastLook looks at what is left of everything.
func (w *world) lastLook() {
	for _, m := range w.vc.vms {
		if m.uid != "" && m.uid != w.kube.uid() && !m.gone {
			w.violated("4: %s (%s) of %s is left", m.Name, m.MoRef, m.uid)
		}
		if m.uid == "" && !m.foreign {
			w.violated("2: %s (%s) has lost its stamp", m.Name, m.MoRef)
		}
	}
	w.look()
}

// says is the status that a replica answers.
func (w *world) says(r *replica) string {
	result := w.renew(r, waitingCall{call: plan.Call{Group: w.kube.group, Children: w.kube.children}})
	w.settle()
	text, err := json.Marshal(result.Status)
	if err != nil {
		w.violated("5: %v", err)
	}
	return string(text)
}
