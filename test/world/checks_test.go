package world

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// These checks are the invariants, with the numbers of docs/design.md. They run after each event, and when a step begins, reaches vCenter,
// and ends.

// least is how many members a spec promises to keep working.
func least(s *v1alpha1.VmGroupSpec) int {
	count := func(v *intstr.IntOrString, otherwise string, up bool) int {
		d := intstr.FromString(otherwise)
		if v == nil {
			v = &d
		}
		n, _ := intstr.GetScaledValueFromIntOrPercent(v, int(*s.Replicas), up)
		return n
	}
	unavailable := count(s.Update.MaxUnavailable, v1alpha1.DefaultMaxUnavailable, false)
	if unavailable == 0 && count(s.Update.MaxSurge, v1alpha1.DefaultMaxSurge, true) == 0 {
		unavailable = 1
	}
	if s.HasPersistentDisks() { // groups with persistent disks have no surge
		unavailable = max(1, unavailable)
	}
	return max(0, int(*s.Replicas)-unavailable)
}

// works reports whether a member works: it is on and healthy, and no step that takes it down has begun, except for a step that was
// planned while the member did not work. (A Destroy doesn't count, because vCenter refuses to destroy a VM that is on.)
func (w *world) works(m *machine) bool {
	return w.runs(m) && (!w.set.spec.Readiness.Probes() || m.heard)
}

// mayWork is like works, and includes a member whose service has answered one replica but not another one (seeds 1200003041 and 1200004132:
// a replica counts on a member whose service answers it, whatever the other replicas know).
func (w *world) mayWork(m *machine) bool {
	return w.works(m) || w.runs(m) && m.serves && slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.concluded[m.MoRef].Concluded == plan.Answering })
}

// isWell reports whether a running guest is ready, regardless of its service.
func (s *setting) isWell(vm *plan.VM) bool {
	return !s.tools || vm.Tools && (s.spec.Readiness.Check != v1alpha1.ReadyGuestIP || len(vm.IPs) > 0) && vm.Customization.State == ""
}

// runs is like works, whether or not the member's service answers.
func (w *world) runs(m *machine) bool {
	if !m.member(w.kube.uid()) || m.Power != plan.PoweredOn || m.halting() || !w.set.isWell(&m.VM) {
		return false
	}
	return !slices.ContainsFunc(w.steps, func(s *step) bool {
		return s.a.MoRef == m.MoRef && takesDown(s.a.Op) && s.a.Op != plan.Destroy && !s.isOvertaken(m) &&
			(s.phase == running || m.Marked && !s.by.paused && !slices.Contains(s.saw, m.MoRef))
	})
}

// isOvertaken reports whether a step will not ask its guest to halt: the reconfigure that comes before the request is running, and vCenter
// will refuse it because the VM has changed since.
//
// [doc] VirtualMachineConfigSpec.changeVersion: "the changes are only applied if the current changeVersion matches".
func (s *step) isOvertaken(m *machine) bool {
	return s.asks && s.phase == running && s.guard != m.ChangeVersion
}

func takesDown(op plan.Op) bool {
	return op == plan.PowerOff || op == plan.ShutdownGuest || op == plan.Reset || op == plan.Destroy
}

func (w *world) working() (n int) { return w.count(w.works) }

// count counts the members for which work is true, and those that a cause other than a step took down.
func (w *world) count(work func(*machine) bool) (n int) {
	w.hear()
	for _, m := range w.vc.vms {
		if work(m) || m.faulty && m.member(w.kube.uid()) {
			n++
		}
	}
	return n
}

// look checks vCenter after an event.
func (w *world) look() {
	uid := w.kube.uid()
	w.lookAtDisks()
	for i, m := range w.vc.vms {
		if m.gone && !m.away() || m.uid == "" || m.stray {
			continue
		}
		if slices.Contains(w.kube.finalized, m.uid) && !m.IsTemplate {
			w.violated("4: %s (%s) belongs to %s, which was finalized", m.Name, m.MoRef, m.uid)
		}
		for _, x := range w.vc.vms[:i] {
			if m.claims(m.uid) && x.claims(m.uid) && x.Ordinal == m.Ordinal && !m.tampered && !x.tampered {
				w.violated("1: %s (%s) and %s (%s) have one ordinal", x.Name, x.MoRef, m.Name, m.MoRef)
			}
		}
	}
	if w.kube.group == nil || w.kube.deleting() || uid == "" {
		return
	}
	// 10: in a peaceful life, only the server's steps take members down.
	floor := w.floor()
	if w.working() >= floor {
		w.promise = floor
	} else if n := w.count(w.mayWork); w.set.peaceful && n < min(floor, w.promise) {
		w.violated("10: %d members work; %d are promised", n, w.promise)
	}
}

// floor is the lowest promise of any spec that may be in use: each replica may use the spec of its last call until its lease ends, and
// completes the steps that it has begun.
func (w *world) floor() int {
	if w.deleted(w.kube.uid()) {
		return 0
	}
	floor := least(&w.kube.group.Spec)
	for _, r := range w.replicas {
		if time.Since(r.called) <= lease {
			floor = min(floor, w.promisedBy(r))
		}
	}
	for _, s := range w.steps {
		if s.ref.UID == w.kube.uid() {
			floor = min(floor, s.promised)
		}
	}
	return floor
}

// checkBegun checks a step that a loop has begun.
func (w *world) checkBegun(s *step) {
	s.promised, s.wants = w.promisedBy(s.by), w.wantedBy(s.by)
	s.ends = w.deleted(s.ref.UID) || s.by.last != nil && s.by.last.UID == s.ref.UID && s.by.last.DeletionTimestamp != nil
	s.checkKnowledge()
	if g := s.by.view.vms[s.a.MoRef]; g != nil && s.by.last != nil {
		s.fits = fits(&g.vm, &s.by.last.Spec)
	}
	for _, m := range w.vc.vms {
		if g := s.by.view.vms[m.MoRef]; g != nil && !g.gone && g.uid == s.ref.UID && g.vm.Reachable && g.vm.Power == plan.PoweredOn && w.set.isWell(&g.vm) &&
			(!w.set.spec.Readiness.Probes() || s.by.concluded[m.MoRef].Concluded == plan.Answering) {
			s.saw = append(s.saw, m.MoRef)
		}
	}
	s.checkStray()
	w.checkHeld(s)
	w.checkReason(s)
	s.deletes = s.mayDelete()
	if !s.by.view.known {
		w.violated("3: %s begins while the inventory is unknown", s)
	}
	if slices.ContainsFunc(w.steps, func(x *step) bool {
		return x != s && !x.orphan && x.by == s.by && x.ref == s.ref && x.a.Key == s.a.Key
	}) {
		w.violated("1: %s begins while another step of its member is running", s)
	}
	if g := s.by.view.vms[s.a.MoRef]; g != nil && !g.vm.Reachable {
		w.violated("3: %s begins for an unreachable VM", s)
	}
	for _, m := range w.vc.vms {
		if g := s.by.view.vms[m.MoRef]; s.a.Op == plan.Clone && m.member(s.ref.UID) && m.Ordinal == s.a.Ordinal && m.hidden && g != nil && !g.blind {
			w.violated("3: %s begins for %s, which is hidden", s, m.MoRef)
		}
	}
	if (takesDown(s.a.Op) && s.a.Op != plan.Reset || s.a.Op == plan.Quarantine) && !s.a.Marked && !plan.ArgsOf[plan.DestroyArgs](s.a.Args).NeverOn && !s.ends {
		w.violated("7: %s takes down a member without requiring its mark", s)
	}
}

// fits reports whether a VM matches a spec.
func fits(vm *plan.VM, spec *v1alpha1.VmGroupSpec) bool {
	return vm.Revision == plan.Revision(spec) && vm.CPU == spec.CPU
}

// checkReason checks that the spec of the replica's last call is a reason to take down the member that a step marks, and that a successor
// can be made.
func (w *world) checkReason(s *step) {
	seen, group := s.by.view.vms[s.a.MoRef], s.by.last
	if s.a.Op != plan.Mark || seen == nil || group == nil || group.UID != s.ref.UID || w.deleted(s.ref.UID) || group.DeletionTimestamp != nil {
		return
	}
	switch plan.ArgsOf[plan.MarkArgs](s.a.Args).Reason {
	case plan.MarkReasonUpdate, plan.MarkReasonResize, plan.MarkReasonPowerCycle:
		if s.fits {
			w.violated("13: %s begins for %s, and it is as the spec says", s, plan.ArgsOf[plan.MarkArgs](s.a.Args).Reason)
		}
	case plan.MarkReasonHealing:
		if slices.Contains(s.saw, s.a.MoRef) {
			w.violated("13: %s begins, and it works", s)
		}
	case plan.MarkReasonScaleIn, plan.MarkReasonReplace:
	case plan.MarkReasonDuplicate: // by the replica's view, which may be out of date
		for moRef, g := range s.by.view.vms {
			if moRef != s.a.MoRef && !g.gone && g.uid == s.ref.UID && g.vm.Ordinal == seen.vm.Ordinal {
				return
			}
		}
		w.violated("13: %s begins, and it has its ordinal alone", s)
	default:
		w.violated("13: %s begins for no reason", s)
	}
	if group.Spec.Template == noTemplate && slices.Contains([]plan.MarkReason{plan.MarkReasonUpdate, plan.MarkReasonResize, plan.MarkReasonReplace, plan.MarkReasonHealing}, plan.ArgsOf[plan.MarkArgs](s.a.Args).Reason) {
		w.violated("13: %s begins for %s while no successor can be made", s, plan.ArgsOf[plan.MarkArgs](s.a.Args).Reason)
	}
}

// checkHeld checks that a replica takes down no member that it knows to be held. A VM in quarantine can't be held, even if an operator powers
// it on (seed 4013013).
func (w *world) checkHeld(s *step) {
	g := s.by.view.vms[s.a.MoRef]
	if g == nil || !takesDown(s.a.Op) || s.a.Op == plan.Reset || s.by.holds[v1alpha1.AnnotationHold+s.a.MoRef] == "" || s.ends {
		return
	}
	vm := &g.vm
	if slices.ContainsFunc(w.vc.vms, func(m *machine) bool { return m.MoRef != vm.MoRef && m.claims(s.ref.UID) && m.Ordinal == vm.Ordinal }) {
		return // a duplicate
	}
	if vm.Power == plan.PoweredOn && vm.Shutdown.At.IsZero() && vm.Marked && vm.Quarantined.IsZero() && time.Since(vm.MarkedAt) < holdTimeout*time.Second {
		w.violated("%s begins for %s, which is held and was marked %s ago", s, vm.MoRef, time.Since(vm.MarkedAt))
	}
}

func (w *world) deleted(uid types.UID) bool {
	return w.kube.group == nil || uid != w.kube.uid() || w.kube.deleting()
}

// check checks a step whose call is about to reach vCenter.
func (s *step) check() {
	if !takesDown(s.a.Op) || s.ends || s.deleted(s.ref.UID) {
		return
	}
	m := s.vc.find(s.a.MoRef)
	if m == nil || m.gone || m.uid != s.ref.UID {
		return
	}
	if s.a.Op != plan.Reset && !plan.ArgsOf[plan.DestroyArgs](s.a.Args).NeverOn && !m.Marked {
		s.violated("7: %s takes down a member that is not marked", s)
	}
	m.takenFor = s.wants
	s.checkScaleIn(m)
	if !s.asks {
		s.checkPromise(m)
		s.checkTrouble(m)
	}
}

// checkScaleIn checks that a scale-in leaves as many members as the spec wants: the lowest count of any spec that may be in use. These VMs
// count as members that are left:
//   - members that failed or vanished without a step, because the replica may not have seen that;
//   - members that another step takes down for a spec that wanted fewer, because a begun step is completed (seed 1200004646);
//   - standby members that an operator powered on (seed 784176732);
//   - for a Destroy, members that are only powered off, because the server powers them on again if they stay (seed 11547).
func (s *step) checkScaleIn(m *machine) {
	if m.MarkReason != plan.MarkReasonScaleIn || m.IsStandby() || !m.Quarantined.IsZero() || !s.fits || !fits(&m.VM, &s.kube.group.Spec) {
		return // a member that differs from the spec may be replaced although its mark names the scale-in
	}
	if s.set.disks && int(m.Ordinal) >= s.wants {
		return // with persistent disks, the lowest ordinals stay: higher ones are removed even before all lower ones are made
	}
	stay := 0
	for _, x := range s.vc.vms {
		taken := !x.claims(m.uid) && !(x.gone && x.faulty) || s.isTaken(x, s.a.Op)
		if x != m && !x.stray && x.uid == m.uid && !x.IsStandby() && (!taken || x.takenFor < s.wants && x.MarkReason == plan.MarkReasonScaleIn) {
			stay++
		}
	}
	if stay < s.wants {
		s.violated("14: %s leaves %d members of %d", s, stay, s.wants)
	}
}

// isTaken reports whether a scale-in has taken a member down. If the other step is a Destroy, only a member that is being destroyed counts.
func (w *world) isTaken(m *machine, beside plan.Op) bool {
	down := beside != plan.Destroy && (m.Power == plan.PoweredOff || m.halting())
	return m.Marked && m.MarkReason == plan.MarkReasonScaleIn && (down || slices.ContainsFunc(w.steps, func(s *step) bool {
		return s.a.MoRef == m.MoRef && takesDown(s.a.Op) && (s.a.Op == plan.Destroy || beside != plan.Destroy) && s.phase == running
	}))
}

// checkPromise checks how many members remain when a step takes one down.
func (s *step) checkPromise(m *machine) {
	s.hear()
	if s.ends || s.deleted(s.ref.UID) || s.a.Op == plan.Destroy || !m.member(s.ref.UID) || !s.works(m) || !slices.Contains(s.saw, m.MoRef) {
		return
	}
	// 10: a member that failed or vanished without a step counts if it worked when the replica planned the step; so does a member whose
	// service has answered a replica. Two VMs of one ordinal count once.
	left := map[int32]bool{}
	for _, x := range s.vc.vms {
		if x != m && (s.works(x) || (x.faulty || x.hidden || x.gone || s.mayWork(x)) && slices.Contains(s.saw, x.MoRef)) {
			left[x.Ordinal] = true
		}
	}
	if promised := s.floor(); len(left) < promised && !left[m.Ordinal] {
		s.violated("10: %s leaves %d working members; %d are promised", s, len(left), promised)
	}
}

// promisedBy returns the lowest promise of the newest spec that a replica was called with and of all specs stored since.
func (w *world) promisedBy(r *replica) int {
	if w.deleted(w.kube.uid()) {
		return 0
	}
	return slices.Min(w.kube.promises[max(1, r.spec[w.kube.uid()])-1:])
}

// wantedBy returns the lowest count of members in the specs that a replica, or another one with a lease, may use, and in all specs stored since.
func (w *world) wantedBy(r *replica) int {
	if w.kube.group == nil {
		return 0
	}
	n := int(*w.kube.group.Spec.Replicas)
	for _, s := range w.kube.specs[max(1, r.spec[w.kube.uid()])-1:] {
		n = min(n, int(*s.Replicas))
	}
	for _, x := range w.replicas {
		for _, s := range w.kube.specs[max(1, x.spec[w.kube.uid()])-1:] {
			if time.Since(x.called) <= lease {
				n = min(n, int(*s.Replicas))
			}
		}
	}
	return n
}

// arrives checks that the VM that a clone has made is the only one of its ordinal.
func (s *step) arrives(m *machine) {
	for _, x := range s.vc.vms {
		if x != m && x.claims(m.uid) && x.Ordinal == m.Ordinal && !x.tampered {
			s.violated("1: %s makes %s beside %s (%s)", s, m.MoRef, x.Name, x.MoRef)
		}
	}
}

// checkFinalized checks vCenter when a replica reports that a group is finalized.
func (w *world) checkFinalized(uid types.UID) {
	for _, m := range w.vc.vms {
		if (!m.gone || m.away()) && m.uid == uid && !m.stray && !m.IsTemplate {
			w.violated("4: %s is finalized, but %s (%s) exists", uid, m.Name, m.MoRef)
		}
	}
	for _, s := range w.steps {
		if s.a.Op == plan.Clone && s.phase == running && s.ref.UID == uid && s.a.Folder() == w.vc.folder {
			w.violated("4: %s is finalized, but %s is running", uid, s)
		}
	}
}

// off returns how the group differs from its spec; empty if it doesn't.
func (w *world) off() string {
	g := w.kube.group
	if w.kube.deleting() {
		return "the group is not finalized"
	}
	if g == nil {
		return ""
	}
	revision, seen, standby := plan.Revision(&g.Spec), map[int32]bool{}, int32(0)
	for _, m := range w.vc.vms {
		if m.gone || m.uid != g.UID || m.stray {
			continue
		}
		if m.Renumbered != "" {
			return fmt.Sprintf("the stamp of %s (%s) lacks its instanceUuid %s", m.Name, m.MoRef, m.Renumbered)
		}
		keep := time.Duration(g.Spec.Deletion.QuarantineSeconds) * time.Second
		asked := plan.TryAgainOf(g) // empty also after etcd went back to before the operator asked
		if m.Quarantined.IsZero() && plan.HasTags(&g.Spec) && (!m.tagged || asked != "" && m.Tagged.Asked != asked) {
			return fmt.Sprintf("%s (%s) has lost its tags, or they were not compared since the last try-again", m.Name, m.MoRef)
		}
		switch {
		case !m.Quarantined.IsZero():
			if m.MarkReason != plan.MarkReasonDuplicate && m.Power == plan.PoweredOff && time.Since(m.Quarantined) > keep+20*time.Second {
				return m.MoRef + " is still in quarantine"
			}
		case m.IsStandby() && !m.Marked && m.Revision == revision && m.CPU == g.Spec.CPU && !seen[m.Ordinal]:
			seen[m.Ordinal] = true
			standby++
		case m.Marked || m.Power != plan.PoweredOn || m.Standby || seen[m.Ordinal]:
			return fmt.Sprintf("%s (%s) is %s, marked: %v %s", m.Name, m.MoRef, m.Power, m.Marked, m.MarkReason)
		case m.Revision != revision || m.CPU != g.Spec.CPU:
			return fmt.Sprintf("%s (%s) has %d CPUs and revision %s", m.Name, m.MoRef, m.CPU, m.Revision)
		default:
			if off := w.disksOff(m); off != "" {
				return off
			}
			seen[m.Ordinal] = true
		}
	}
	if standby != g.Spec.Standby || g.Status.StandbyReplicas != standby {
		return fmt.Sprintf("%d standby members (status: %d), want %d", standby, g.Status.StandbyReplicas, g.Spec.Standby)
	}
	if len(seen) != int(*g.Spec.Replicas+standby) {
		return fmt.Sprintf("%d members and standby ones, want %d and %d", len(seen), *g.Spec.Replicas, standby)
	}
	if off := w.ruleIsOff(g.UID); off != "" {
		return off
	}
	if stale := w.stale(); len(stale) > 0 {
		return fmt.Sprintf("the status lists %s, which %s has deleted", stale[0].id, stale[0].by.name)
	}
	if s := &g.Status; s.Phase != v1alpha1.PhaseRunning || s.ReadyReplicas != *g.Spec.Replicas {
		return fmt.Sprintf("status: %s, %d ready: %s", s.Phase, s.ReadyReplicas, s.LastMessage)
	}
	return ""
}
