package world

import (
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A lasting trouble begins with an edit of the spec that replaces all members: one kind of step fails each time, or the guests of new
// members never become ready. A trouble lasts for hours, in some lives to the end. Whatever the trouble is, and whatever maxUnavailable
// allows, at most one serving member may be taken down; and if the trouble ends, the group must come to match its spec.

// trouble is a lasting trouble of a life. It is part of the setting, so it is not shrunk.
type trouble struct {
	fails  plan.Op // the steps of this kind fail; empty: none
	fault  int     // the index in refusals of the fault that these steps return
	guests ailment // what keeps new guests from being ready; empty: nothing
	lasts  time.Duration
	ends   bool // otherwise the trouble lasts to the end of the life
	edit   string
}

// ailment is what new guests lack.
type ailment string

const (
	noTool          ailment = "their Tools never run"
	noAddress       ailment = "they report no address"
	noService       ailment = "their service never answers"
	noCustomization ailment = "their customization fails"
)

// The edits that a trouble begins with.
const (
	editTemplate = "the template"
	editSize     = "the size"
	editReplace  = "spec.replace"
)

// troubledSettingOf returns the setting of a life with a lasting trouble. Apart from the trouble, only the server's replicas act.
func troubledSettingOf(seed uint64) setting {
	s, r := settingOf(seed), rand.New(rand.NewPCG(seed, 4))
	s.peaceful, s.up, s.typos, s.holds = true, true, false, false
	s.spec.Deletion.HoldTimeoutSeconds = 0
	n := 2 + int32(r.IntN(5))
	s.spec.Replicas = &n
	percent := func(text string) *intstr.IntOrString { v := intstr.FromString(text); return &v }
	switch one, none := intstr.FromInt32(1), intstr.FromInt32(0); r.IntN(4) {
	case 0:
		s.spec.Update.MaxUnavailable, s.spec.Update.MaxSurge = percent("50%"), &none
	case 1:
		s.spec.Update.MaxUnavailable, s.spec.Update.MaxSurge = percent("50%"), &one
	}
	switch r.IntN(4) {
	case 0:
		s.spec.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop"}}
	case 1:
		s.spec.Hardware.Version = 19
	case 2:
		s.spec.Hardware.Version, s.spec.Hardware.VTPM = 19, true
	}
	s.spec.Update.Resize = v1alpha1.ResizeReplace // a power cycle needs no successor
	t := trouble{fault: r.IntN(len(refusals)), lasts: time.Duration(20+r.IntN(160)) * time.Minute, ends: r.IntN(2) == 0,
		edit: []string{editTemplate, editTemplate, editSize, editReplace}[r.IntN(4)]}
	if r.IntN(2) == 0 {
		t.fails = []plan.Op{plan.Clone, plan.Prepare, plan.PowerOn}[r.IntN(3)]
		if s.disks && r.IntN(2) == 0 {
			t.fails = plan.SetDisks
		}
		s.trouble = t
		return s
	}
	t.guests = []ailment{noTool, noAddress, noService, noCustomization}[r.IntN(4)]
	s.tools, s.spec.Readiness = true, v1alpha1.Readiness{Check: v1alpha1.ReadyToolsRunning}
	switch t.guests {
	case noAddress:
		s.spec.Readiness.Check = v1alpha1.ReadyGuestIP
	case noService:
		s.spec.Readiness.TCPSocket = &v1alpha1.TCPSocket{Port: 22}
	case noCustomization:
		s.spec.CustomizationSpec = "linux"
	}
	s.trouble = t
	return s
}

func (t *trouble) any() bool { return t.edit != "" }

// troubles is the event with which a lasting trouble begins.
var troubles = []kind{{"a lasting trouble begins with an edit", 1, false, func(w *world, _, _ int) { w.trouble() }}}

// troubledScript returns the events of a life with a lasting trouble, before the hours that endure passes.
func troubledScript(r *rand.Rand, from []kind, total int) []event {
	events := make([]event, 20+r.IntN(60))
	begins := r.IntN(20)
	for i := range events {
		n := r.IntN(total)
		at := slices.IndexFunc(from, func(k kind) bool { n -= k.weight; return n < 0 })
		if events[i] = (event{at: i, kind: from[at], a: r.IntN(840), b: r.IntN(840)}); i == begins {
			events[i].kind = troubles[0]
		}
	}
	return events
}

// trouble begins the life's trouble.
func (w *world) trouble() {
	if w.kube.group == nil || !w.troubledSince.IsZero() {
		return
	}
	w.pass(2 * time.Second) // a status has whole seconds: within one, nothing tells whether a member was powered on before the group became unready
	w.say("trouble: %+v", w.set.trouble)
	w.troubledSince = time.Now()
	for _, m := range w.vc.vms {
		if m.member(w.kube.uid()) && !m.Standby {
			w.before = append(w.before, m.MoRef)
		}
	}
	w.edit(func(s *v1alpha1.VmGroupSpec) {
		switch w.set.trouble.edit {
		case editTemplate:
			s.Template = "debian"
		case editSize:
			s.CPU++
		case editReplace:
			for _, ref := range w.before {
				s.Replace = append(s.Replace, v1alpha1.Replacement{Name: plan.MemberName("web", w.vc.find(ref).Ordinal), MoRef: ref})
			}
		}
	})
}

// troubled reports whether the life's trouble lasts.
func (w *world) troubled() bool {
	return w.set.trouble.any() && !w.troubledSince.IsZero() && !(w.set.trouble.ends && w.resting && time.Since(w.troubledSince) >= w.set.trouble.lasts)
}

// hasAilment reports whether a guest has this ailment, which all VMs have that were powered on since the trouble began.
func (w *world) hasAilment(m *machine, a ailment) bool {
	return w.set.trouble.guests == a && w.troubled() && !m.BootTime.Before(w.troubledSince)
}

// failsAlways reports whether vCenter refuses the task of a step because of the life's trouble.
func (s *step) failsAlways() bool { return s.a.Op == s.set.trouble.fails && s.troubled() }

// checkTrouble checks that at most one serving member is taken down during a trouble. More may be taken down once a new member serves: a
// trouble that doesn't affect the group, such as a failing preparation that no member needs, doesn't stop the update.
func (s *step) checkTrouble(m *machine) {
	if s.troubledSince.IsZero() || !s.works(m) || !slices.Contains(s.before, m.MoRef) || slices.Contains(s.lost, m.MoRef) || !s.troubled() {
		return
	}
	ready := slices.ContainsFunc(s.vc.vms, func(x *machine) bool { return !slices.Contains(s.before, x.MoRef) && s.works(x) })
	if s.lost = append(s.lost, m.MoRef); len(s.lost) > 1 && !ready {
		s.violated("13: %s takes down a second member that serves (%v), and no successor is ready: %+v", s, s.lost, s.set.trouble)
	}
}

// endure passes the hours of a trouble, during which everything else continues, and then ends the trouble.
func (w *world) endure() {
	for n := 0; time.Since(w.troubledSince) < w.set.trouble.lasts && w.wrong == ""; n++ {
		w.continueAll(n)
		w.pass(25 * time.Second)
	}
	if w.troubled() {
		return
	}
	w.say("the trouble ends")
	for _, m := range w.vc.vms {
		if m.Customization.State != "" {
			m.Customization = plan.Customization{}
			m.changed()
		}
	}
}
