package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// world is a vCenter and a loop with random faults: actions begin from the current plan and end later, in any order. Some fail, and some report
// a fault although vCenter carried them out.
type world struct {
	*rapid.T
	o       plan.Observed
	running map[string]plan.Action
	since   map[string]time.Time // when a VM became ready, in truth
	due     map[string]time.Time // since when a failed action can be tried again
	broken  map[string]bool      // revisions whose guests never come up
	diary   []string
}

func (w *world) one(label string, n int) bool { return rapid.IntRange(0, n-1).Draw(w.T, label) == 0 }

func (w *world) say(format string, args ...any) {
	w.diary = append(w.diary, fmt.Sprintf("%5ds ", int(w.o.Now.Sub(now).Seconds()))+fmt.Sprintf(format, args...))
}

// begin makes the plan and begins a random part of it. It fails if an action takes down a serving member while too few others serve.
func (w *world) begin(all bool) {
	w.o.Called = w.o.Now
	w.look()
	r := planner.Make(w.o)
	store(w.T, &w.o, &r)
	for _, a := range r.Actions {
		if !all && w.one("is not begun", 3) {
			continue
		}
		before := w.serving()
		w.running[a.Key] = a
		w.o.Pending[a.Key] = plan.Pending{Op: a.Op, Ordinal: a.Ordinal, MoRef: a.MoRef, State: plan.Running, Standby: a.Standby()}
		_, least := limits(&w.o)
		if after := w.serving(); after < before && after < least {
			w.Fatalf("%s %s: %d serve, %d would; %d are promised\n%s", a.Op, a.Key, before, after, least, lines(w.diary))
		}
		w.say("%s %s: %s", a.Op, a.Key, a.Reason)
	}
}

// look notes which VMs are ready now, and since when.
func (w *world) look() {
	for _, m := range w.o.State.VMs {
		if _, was := w.since[m.MoRef]; !was && ready(&w.o, m) {
			w.since[m.MoRef] = w.o.Now
		} else if !ready(&w.o, m) {
			delete(w.since, m.MoRef)
		}
	}
}

// serving counts the VMs that are really available, and that no running action takes down.
func (w *world) serving() (n int) {
	for _, m := range w.o.State.VMs {
		taken := halting(&w.o, m)
		for _, a := range w.running {
			switch a.Op {
			case plan.ShutdownGuest, plan.PowerOff, plan.Reset, plan.Destroy:
				taken = taken || a.MoRef == m.MoRef
			}
		}
		since, is := w.since[m.MoRef]
		if is && !taken && w.o.Now.Sub(since) >= time.Duration(w.o.Group.Spec.Update.MinReadySeconds)*time.Second {
			n++
		}
	}
	return n
}

// end ends an action that is running.
func (w *world) end(name string, calm bool) {
	a := w.running[name]
	delete(w.running, name)
	delete(w.o.Pending, name)
	outcome := 0
	if !calm {
		outcome = rapid.IntRange(0, 7).Draw(w.T, "outcome")
	}
	if outcome < 7 {
		w.apply(a)
	}
	if outcome >= 6 {
		w.say("%s %s fails (carried out: %v)", a.Op, name, outcome == 6)
		w.o.Pending[name] = plan.Pending{Op: a.Op, Ordinal: a.Ordinal, MoRef: a.MoRef, State: plan.BackingOff, Standby: a.Standby(),
			Fault: plan.Fault{Reason: "Trouble", Message: "it failed"}}
	}
}

// apply carries out an action. A Clone whose name is taken creates nothing. Guests boot later, and can ignore a request to halt.
func (w *world) apply(a plan.Action) {
	if a.Op == plan.Clone && slices.ContainsFunc(w.o.State.VMs, func(m plan.VM) bool { return m.Name == a.Key && m.Folder == a.Folder() }) {
		return
	}
	if m := w.vm(a.MoRef); a.Op == plan.ShutdownGuest && m != nil && w.one("guest ignores it", 4) {
		m.Shutdown = plan.Moment{At: w.o.Now, Boot: m.BootTime}
		return
	}
	plan.Apply(&w.o, a)
	if m := w.vm(a.MoRef); m != nil && (a.Op == plan.PowerOn || a.Op == plan.Reset) {
		m.Tools, m.IPs = false, nil
	}
}

func (w *world) vm(moRef string) *plan.VM {
	if i := slices.IndexFunc(w.o.State.VMs, func(m plan.VM) bool { return m.MoRef == moRef }); i >= 0 {
		return &w.o.State.VMs[i]
	}
	return nil
}

// pass lets time pass: guests boot, and actions that back off become due.
func (w *world) pass(d time.Duration, calm bool) {
	w.o.Now = w.o.Now.Add(d)
	for name, p := range w.o.Pending {
		switch {
		case p.State == plan.BackingOff:
			p.State = plan.Due
			w.o.Pending[name], w.due[name] = p, w.o.Now
		case p.State == plan.Due && w.o.Now.Sub(w.due[name]) > time.Minute: // so does the loop
			delete(w.o.Pending, name)
		}
	}
	for i := range w.o.State.VMs {
		m := &w.o.State.VMs[i]
		if m.Power == plan.PoweredOn && !w.broken[m.Revision] && (calm || w.one("boots", 2)) {
			m.Tools, m.IPs = true, []string{"192.0.2.1"}
		}
	}
	w.ask(calm)
}

// ask makes members that run answer their probes, sooner or later.
func (w *world) ask(calm bool) {
	of := maps.Clone(w.o.Answers.Of)
	if w.o.Answers.Suppressed = w.o.Answers.Suppressed && !calm; of == nil {
		of = map[string]plan.Answer{}
	}
	for i := range w.o.State.VMs {
		m := &w.o.State.VMs[i]
		if len(m.IPs) == 0 {
			delete(of, m.MoRef)
		} else if a := of[m.MoRef]; (a.Concluded != plan.Answering || a.Address != plan.AskedAddress(m.IPs)) && w.o.Group.Spec.Readiness.Probes() && (calm || w.one("answers", 2)) {
			of[m.MoRef] = plan.Answer{Address: plan.AskedAddress(m.IPs), Concluded: plan.Answering}
		}
	}
	w.o.Answers.Of = of
}

// meddle does what operators do in vCenter, and what happens by accident.
func (w *world) meddle() {
	if len(w.o.State.VMs) == 0 {
		return
	}
	m := &w.o.State.VMs[rapid.IntRange(0, len(w.o.State.VMs)-1).Draw(w.T, "victim")]
	if !m.Quarantined.IsZero() {
		return
	}
	event := rapid.SampledFrom([]string{"power off", "power on", "destroy", "cut off", "unhealthy", "silent", "suspect"}).Draw(w.T, "event")
	w.say("%s: %s (%s)", event, m.Name, m.MoRef)
	wasStandby := m.Standby
	switch event {
	case "power on":
		plan.Apply(&w.o, plan.Action{Op: plan.PowerOn, MoRef: m.MoRef})
		m.Standby = wasStandby
	case "power off":
		plan.Apply(&w.o, plan.Action{Op: plan.PowerOff, MoRef: m.MoRef})
	case "destroy":
		plan.Apply(&w.o, plan.Action{Op: plan.Destroy, MoRef: m.MoRef})
	case "cut off":
		m.Reachable, m.Unreachable = !m.Reachable, "disconnected"
	case "unhealthy":
		m.Tools, m.IPs = false, nil
	case "silent":
		w.o.Answers.Of = maps.Clone(w.o.Answers.Of)
		if _, asked := w.o.Answers.Of[m.MoRef]; asked {
			w.o.Answers.Of[m.MoRef] = plan.Answer{Address: plan.AskedAddress(m.IPs), Concluded: plan.Silent, Failure: "no answer"}
		}
	case "suspect":
		w.o.Answers.Suppressed = !w.o.Answers.Suppressed
	}
}

// edit changes the spec, as users do.
func (w *world) edit() {
	w.o.Group = w.o.Group.DeepCopy()
	spec := &w.o.Group.Spec
	w.o.Group.Generation++
	switch rapid.IntRange(0, 10).Draw(w.T, "edit") {
	case 10:
		if standby := rapid.Int32Range(0, 3).Draw(w.T, "standby members"); !spec.HasPersistentDisks() { // they exclude each other
			spec.Standby = standby
		}
	case 0:
		n := rapid.Int32Range(0, 6).Draw(w.T, "replicas")
		spec.Replicas = &n
	case 1:
		spec.Template = rapid.SampledFrom([]string{"ubuntu", "debian", "broken"}).Draw(w.T, "template")
	case 2:
		spec.CPU = rapid.Int32Range(1, 3).Draw(w.T, "cpu")
	case 3:
		spec.Update.Canary = number(w.T, "canary", 0)
	case 4:
		spec.Update.Paused = !spec.Update.Paused
	case 5:
		w.o.Related.Digest = rapid.SampledFrom([]string{"0a1b", "2c3d"}).Draw(w.T, "user data")
	case 6:
		spec.Tags = []v1alpha1.Tag{{Category: "team", Name: rapid.SampledFrom([]string{"shop", "bank"}).Draw(w.T, "tag")}}
	case 7:
		spec.Placement.Zones = []string{"east", "west", "north"}[:rapid.IntRange(0, 3).Draw(w.T, "zones")]
	case 8:
		closed(&w.o)
	case 9:
		for _, m := range w.o.State.VMs {
			annotate(m.MoRef, m.Name+"/"+m.MoRef)(&w.o)
		}
	}
	w.say("edit: %s replicas, %s, %d CPUs, canary %v, paused %v", fmt.Sprint(*spec.Replicas), spec.Template, spec.CPU, spec.Update.Canary, spec.Update.Paused)
}

// No step that takes down a serving member begins if fewer members than maxUnavailable allows would then serve. Once the faults are over, the
// group becomes as its spec says.
func TestThePromiseIsKeptThroughFaultsAndInterleavings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, o: observed(rapid.Int32Range(1, 6).Draw(t, "replicas")), running: map[string]plan.Action{}, since: map[string]time.Time{}, due: map[string]time.Time{}}
		policies(t, &w.o.Group.Spec)
		features(t, &w.o)
		w.o.Group.Spec.Update.Strategy, w.o.Group.Spec.Deletion.Policy = "", ""
		w.o.State.Folder, w.o.Pending = "group-v7", map[string]plan.Pending{}
		w.broken = map[string]bool{plan.Revision(&v1alpha1.VmGroupSpec{Template: "broken"}): true}
		for range 60 {
			switch rapid.IntRange(0, 11).Draw(t, "what") {
			case 0:
				w.meddle()
			case 1:
				w.edit()
			case 2, 3, 4:
				w.pass(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds"))*time.Second, false)
			case 5, 6, 7:
				for _, name := range slices.Sorted(maps.Keys(w.running)) {
					if w.one("ends", 2) {
						w.end(name, false)
					}
				}
			default:
				w.begin(false)
			}
		}
		w.calm()
	})
}

// calm ends all faults, and waits until nothing is left to do.
func (w *world) calm() {
	w.say("calm")
	w.o.Group = w.o.Group.DeepCopy()
	w.o.Group.Generation++
	spec := &w.o.Group.Spec
	spec.Update.Canary, spec.Update.Paused, spec.Update.Windows, w.broken, spec.Healing = nil, false, nil, nil, v1alpha1.Healing{}
	for i := range w.o.State.VMs {
		w.o.State.VMs[i].Reachable, w.o.State.VMs[i].Unreachable = true, ""
	}
	var r plan.Result
	for range 1500 {
		w.begin(true)
		for name := range w.running {
			w.end(name, true)
		}
		w.pass(2*time.Second, true)
		r = planner.Make(w.o)
		if goal(&w.o, &r) == "" && len(r.Actions) == 0 {
			return
		}
	}
	w.Fatalf("never at the goal: %s\n%s\n%s", goal(&w.o, &r), asJSON(w.T, r.Status), lines(w.diary))
}

func lines(diary []string) (text string) {
	for _, line := range diary {
		text += line + "\n"
	}
	return text
}
