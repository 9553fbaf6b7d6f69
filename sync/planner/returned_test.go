package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// returns is a group whose VMs leave vCenter's inventory and come back, planned by processes that remember nothing: a member is missing if a
// status records it and vCenter doesn't have it.
type returns struct {
	fatalf   func(string, ...any)
	o        plan.Observed
	away     []plan.VM
	came     map[string]bool          // the moRefs of VMs that came back, until the group has no member too many
	givenUp  map[string]bool          // the instanceUuids of VMs that were given up
	statuses []v1alpha1.VmGroupStatus // since the last edit: any of these may come with the next call
	used     map[string]bool          // moRefs
	diary    []string
}

func newReturns(t interface{ Fatalf(string, ...any) }, replicas int32) *returns {
	w := &returns{fatalf: t.Fatalf, o: observed(replicas), came: map[string]bool{}, givenUp: map[string]bool{}, used: map[string]bool{}}
	w.o.State.Folder = "group-v7"
	w.settle()
	return w
}

func (w *returns) say(format string, args ...any) {
	w.diary = append(w.diary, fmt.Sprintf(format, args...))
}

// edit changes the spec. A hook call with the new spec has the status that is stored now, or a newer one.
func (w *returns) edit(what string, f func(*v1alpha1.VmGroupSpec)) {
	w.o.Group = w.o.Group.DeepCopy()
	f(&w.o.Group.Spec)
	w.o.Group.Generation++
	w.statuses = w.statuses[max(0, len(w.statuses)-1):]
	w.say("edit: %s", what)
}

func (w *returns) scale(replicas int32) {
	w.edit(fmt.Sprintf("%d replicas", replicas), func(s *v1alpha1.VmGroupSpec) { s.Replicas = &replicas })
}

// leave removes the matching VMs from the inventory.
func (w *returns) leave(matches func(*plan.VM) bool) {
	w.o.State.VMs = slices.DeleteFunc(slices.Clone(w.o.State.VMs), func(vm plan.VM) bool {
		known := func(s v1alpha1.VmGroupStatus) bool { // one that vanishes before a status has it is forgotten (docs/design.md, known limits)
			return slices.ContainsFunc(s.Members, func(m v1alpha1.Member) bool { return m.InstanceUUID == vm.InstanceUUID && m.MoRef == vm.MoRef })
		}
		gone := matches(&vm) && !slices.ContainsFunc(w.statuses, func(s v1alpha1.VmGroupStatus) bool { return !known(s) })
		if gone {
			w.say("%s (%s) leaves", vm.Name, vm.MoRef)
			w.away = append(w.away, vm)
		}
		return gone
	})
}

// back returns the VMs that left to the inventory, with other moRefs unless keep is true. For VMs that keep their moRefs, only a status that was
// written while they were missing shows that.
func (w *returns) back(keep bool) {
	if keep {
		w.step(*w.status(), 0)
		w.statuses = w.statuses[len(w.statuses)-1:]
	}
	for _, vm := range w.away {
		if vm.Name += " (discovered)"; !keep {
			vm.MoRef = w.unused(vm.MoRef+"-back", "+")
		}
		w.say("%s (%s) is back", vm.Name, vm.MoRef)
		w.came[vm.MoRef] = true
		w.o.State.VMs = append(w.o.State.VMs, vm)
	}
	w.away = nil
}

// unused returns a moRef that no VM ever had.
func (w *returns) unused(moRef, more string) string {
	for w.used[moRef] {
		moRef += more
	}
	w.used[moRef] = true
	return moRef
}

// giveUp names a missing member in spec.replace.
func (w *returns) giveUp(ordinal int32) {
	for _, m := range w.status().Members {
		named := slices.ContainsFunc(w.o.Group.Spec.Replace, func(r v1alpha1.Replacement) bool { return r.MoRef == m.MoRef })
		if m.Ordinal == ordinal && m.Reason == plan.ReasonMemberVanished && !named {
			w.givenUp[m.InstanceUUID] = slices.ContainsFunc(w.away, func(vm plan.VM) bool { return vm.InstanceUUID == m.InstanceUUID })
			w.edit("give up "+m.Name+" "+m.MoRef, func(s *v1alpha1.VmGroupSpec) {
				s.Replace = append(slices.Clone(s.Replace), v1alpha1.Replacement{Name: m.Name, MoRef: m.MoRef})
			})
		}
	}
}

func (w *returns) status() *v1alpha1.VmGroupStatus {
	if len(w.statuses) == 0 {
		return &v1alpha1.VmGroupStatus{}
	}
	return &w.statuses[len(w.statuses)-1]
}

// step makes a plan with a status and carries out the first steps of it.
func (w *returns) step(status v1alpha1.VmGroupStatus, most int) (acted bool) {
	w.o.Now = w.o.Now.Add(time.Second)
	w.o.Called = w.o.Now
	w.o.Group = w.o.Group.DeepCopy()
	w.o.Group.Status = status
	w.o.State.Vanished = nil
	for _, vm := range w.away {
		if slices.ContainsFunc(status.Members, func(m v1alpha1.Member) bool { return m.InstanceUUID == vm.InstanceUUID && m.MoRef == vm.MoRef }) {
			w.o.State.Vanished = append(w.o.State.Vanished, plan.Vanished{MoRef: vm.MoRef, InstanceUUID: vm.InstanceUUID, Name: vm.Name, Ordinal: vm.Ordinal, How: hostRemoved})
		}
	}
	for _, m := range status.Members { // vCenter's events tell what became of one that has had another moRef since
		is := func(vm plan.VM) bool { return vm.InstanceUUID == m.InstanceUUID }
		if !slices.ContainsFunc(w.o.State.VMs, is) && !slices.ContainsFunc(w.away, is) && !w.o.State.IsGone(m.MoRef, m.InstanceUUID) {
			w.o.State.Gone = append(slices.Clone(w.o.State.Gone), plan.Gone{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID})
		}
	}
	w.settled()
	r := planner.Make(w.o)
	w.statuses = append(w.statuses, r.Status)
	for _, a := range r.Actions[:min(len(r.Actions), most)] {
		w.judge(a)
		w.say("%s %s %s: %s", a.Op, a.Key, a.MoRef, a.Reason)
		plan.Apply(&w.o, a)
		for i := range w.o.State.VMs {
			if vm := &w.o.State.VMs[i]; vm.InstanceUUID == "" {
				vm.MoRef = w.unused(vm.MoRef, "-again")
			}
		}
		identify(&w.o)
	}
	return len(r.Actions) > 0
}

// settled forgets which VMs came back once the group has no member too many: from then on, they are members like others.
func (w *returns) settled() {
	places := map[int32]bool{}
	for _, vm := range w.o.State.VMs {
		places[vm.Ordinal] = places[vm.Ordinal] || vm.Quarantined.IsZero()
	}
	for _, vm := range w.o.State.Vanished {
		places[vm.Ordinal] = true
	}
	maps.DeleteFunc(places, func(_ int32, is bool) bool { return !is })
	if len(places) <= int(w.o.Group.Replicas()) {
		for moRef := range w.came {
			delete(w.givenUp, find(&w.o, moRef).InstanceUUID)
		}
		clear(w.came)
	}
}

// judge fails if an action removes a member that was never missing while too few such members would be left, or destroys a VM that was given
// up.
func (w *returns) judge(a plan.Action) {
	vm := find(&w.o, a.MoRef)
	takes := a.Op == plan.Mark || a.Op == plan.ShutdownGuest || a.Op == plan.PowerOff || a.Op == plan.Destroy || a.Op == plan.Quarantine
	switch {
	case !takes || !vm.Quarantined.IsZero():
	case w.came[a.MoRef]:
		if a.Op == plan.Destroy && w.givenUp[vm.InstanceUUID] {
			w.fatalf("%s (%s) is destroyed, and was given up: %s\n%s", a.Key, a.MoRef, a.Reason, lines(w.diary))
		}
	case len(w.came) > 0 && vm.Power == plan.PoweredOn: // a clone that never ran yields to the VM that returns and runs
		stay := 0
		for _, x := range w.o.State.VMs {
			stay += isOne(x.MoRef != a.MoRef && x.Quarantined.IsZero() && !x.Marked && !w.came[x.MoRef])
		}
		if stay < int(w.o.Group.Replicas()) {
			w.fatalf("%s of %s (%s), which was there all the time, and %d stay of %d: %s\n%s", a.Op, a.Key, a.MoRef, stay, w.o.Group.Replicas(), a.Reason, lines(w.diary))
		}
	}
}

// settle plans until nothing is left to do.
func (w *returns) settle() {
	for range 200 {
		if !w.step(*w.status(), 100) {
			w.statuses = w.statuses[len(w.statuses)-1:]
			return
		}
	}
	w.fatalf("no end: %s\n%s", w.status().LastMessage, lines(w.diary))
}

// members are the moRefs of the members, and kept those of the VMs in quarantine, by ordinal.
func (w *returns) members() (members, kept []string) {
	for _, vm := range w.o.State.VMs {
		if vm.Quarantined.IsZero() {
			members = append(members, vm.MoRef)
		} else {
			kept = append(kept, vm.MoRef+" "+string(vm.MarkReason))
		}
	}
	slices.Sort(members)
	return members, kept
}

func (w *returns) want(members, kept string) {
	is, aside := w.members()
	if got := strings.Join(is, " "); got != members || strings.Join(aside, ", ") != kept {
		w.fatalf("members %s, kept %q; want %s, kept %q\n%s", got, strings.Join(aside, ", "), members, kept, lines(w.diary))
	}
}

func isOrdinal(ordinals ...int32) func(*plan.VM) bool {
	return func(vm *plan.VM) bool { return slices.Contains(ordinals, vm.Ordinal) }
}

// Found by hand, with a real control plane: web-0, which was given up, became a member again, and web-3, which had run all the time, was destroyed. (The
// groups are smaller here.)
func TestAMemberThatWasGivenUpAndComesBackIsKeptAndNoOtherGoes(t *testing.T) {
	for name, c := range map[string]struct {
		happens       func(w *returns)
		members, kept string
	}{
		"scaled in": {func(w *returns) {
			w.scale(3)
			w.giveUp(0)
		}, "new-web-1 new-web-2 new-web-3", "new-web-0-back Duplicate"},
		"scaled in, and the entry is taken out again": {func(w *returns) {
			w.scale(3)
			w.giveUp(0)
			w.settle()
			w.edit("no entry", func(s *v1alpha1.VmGroupSpec) { s.Replace = nil })
		}, "new-web-1 new-web-2 new-web-3", "new-web-0-back Duplicate"},
		"filled": {func(w *returns) {
			w.giveUp(0)
		}, "new-web-0-again new-web-1 new-web-2 new-web-3", "new-web-0-back Duplicate"},
		"filled, and scaled away": {func(w *returns) {
			w.giveUp(0)
			w.settle()
			w.edit("no entry, web-0 goes", func(s *v1alpha1.VmGroupSpec) { s.Replace, s.ScaleIn.Remove = nil, []string{"web-0"} })
			w.scale(3)
		}, "new-web-1 new-web-2 new-web-3", "new-web-0-back Duplicate"},
		"scaled in, and out again": {func(w *returns) {
			w.scale(2)
			w.giveUp(0)
			w.settle()
			w.scale(4)
		}, "new-web-0-again new-web-1 new-web-2 new-web-3-again", "new-web-0-back Duplicate"},
		"protected": {func(w *returns) {
			w.edit("protected", func(s *v1alpha1.VmGroupSpec) { s.ScaleIn.Protected = []string{"web-0"} })
			w.scale(3)
			w.giveUp(0)
		}, "new-web-1 new-web-2 new-web-3", "new-web-0-back Duplicate"},
		"not given up": {func(w *returns) {
			w.scale(3)
		}, "new-web-1 new-web-2 new-web-3", ""},
		"not given up, and protected": {func(w *returns) {
			w.edit("protected, web-3 named", func(s *v1alpha1.VmGroupSpec) {
				s.ScaleIn.Protected, s.ScaleIn.Remove = []string{"web-0"}, []string{"web-3"}
			})
			w.scale(3)
		}, "new-web-1 new-web-2 new-web-3", ""},
		"not given up, with quarantine": {func(w *returns) {
			w.edit("quarantine", func(s *v1alpha1.VmGroupSpec) { s.Deletion.QuarantineSeconds = 300 })
			w.scale(3)
		}, "new-web-1 new-web-2 new-web-3", "new-web-0-back ScaleIn"},
		"wanted": {func(*returns) {}, "new-web-0-back new-web-1 new-web-2 new-web-3", ""},
	} {
		for _, stale := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stale %t", name, stale), func(t *testing.T) {
				w := newReturns(t, 4)
				before := *w.status()
				w.leave(isOrdinal(0))
				w.settle()
				c.happens(w)
				if stale = stale && !strings.Contains(name, "fill") && !strings.Contains(name, "out again"); !stale { // else it was never recorded
					w.settle()
				} else {
					w.statuses = []v1alpha1.VmGroupStatus{before}
				}
				w.back(false)
				w.settle()
				w.want(c.members, c.kept)
				if n := len(w.status().GivenUp); n > 0 || w.status().Phase != v1alpha1.PhaseRunning {
					t.Errorf("%s: %d are listed as given up\n%s", w.status().LastMessage, n, lines(w.diary))
				}
			})
		}
	}
}

// Found by hand: the only member that had run was destroyed.
func TestTheOnlyMemberThatRanStaysWhenTheOthersComeBack(t *testing.T) {
	for _, stays := range []int32{0, 3, 5} {
		w := newReturns(t, 6)
		w.leave(func(vm *plan.VM) bool { return vm.Ordinal != stays })
		w.settle()
		w.scale(1)
		w.settle()
		w.back(stays == 3)
		w.settle()
		w.want(fmt.Sprint("new-web-", stays), "")
	}
}

// The VM that returns is one too many while the group is paused. Only a status that another process wrote says that it was missing.
func TestWhoCameBackGoesFirstHoweverLongThatWaits(t *testing.T) {
	for _, givenUp := range []bool{false, true} {
		w := newReturns(t, 3)
		w.leave(isOrdinal(0))
		w.settle()
		w.scale(2)
		if givenUp {
			w.giveUp(0)
		}
		w.settle()
		w.edit("paused", func(s *v1alpha1.VmGroupSpec) { s.Paused = true })
		w.back(false)
		for range 5 {
			w.settle()
			if m := w.status().Members[0]; m.MoRef != "new-web-0-back" || m.VanishedAt.IsZero() || len(w.status().GivenUp) != isOne(givenUp) {
				t.Fatalf("web-0 is not the VM that returned, or isn't listed as given up (%v): %+v", givenUp, w.status())
			}
		}
		w.edit("goes on", func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
		w.settle()
		kept := ""
		if givenUp {
			kept = "new-web-0-back Duplicate"
		}
		w.want("new-web-1 new-web-2", kept)
	}
}

// A member that the group needed when it came back is a member like others: a later scale-in removes members in the usual order.
func TestAMemberThatCameBackAndWasNeededIsAMemberLikeOthers(t *testing.T) {
	w := newReturns(t, 3)
	w.leave(isOrdinal(0))
	w.settle()
	w.back(false)
	w.settle()
	w.scale(2)
	w.settle()
	w.want("new-web-0-back new-web-1", "")
}

// Of two VMs with one ordinal that run, the newer one is the member. So the server must not bring back an older VM from quarantine for the
// ordinal of a member that was given up.
func TestNoVMFromQuarantineTakesThePlaceOfOneThatWasGivenUp(t *testing.T) {
	w := newReturns(t, 2)
	w.edit("quarantine", func(s *v1alpha1.VmGroupSpec) { s.Deletion.QuarantineSeconds = 36000 })
	w.settle()
	w.edit("replace web-0", func(s *v1alpha1.VmGroupSpec) {
		s.Update.MaxSurge, s.Update.MaxUnavailable = of(0), of(1)
		s.Template = "debian"
	})
	w.settle()
	w.leave(func(vm *plan.VM) bool { return vm.Ordinal == 0 && vm.Quarantined.IsZero() })
	w.settle()
	w.edit("back to ubuntu", func(s *v1alpha1.VmGroupSpec) { s.Template = "ubuntu" })
	w.settle()
	w.giveUp(0)
	w.settle()
	served := ""
	for _, vm := range w.o.State.VMs {
		if vm.Ordinal == 0 && vm.Quarantined.IsZero() {
			served = vm.MoRef
		}
	}
	w.back(false)
	w.settle()
	if m := find(&w.o, served); served == "" || !m.Quarantined.IsZero() || m.Power != plan.PoweredOn {
		t.Errorf("%q does not serve any more: %+v\n%s", served, m, lines(w.diary))
	}
}

// A member that spec.replace names is replaced, unless it was given up and came back with its former moRef.
func TestAMemberThatWasGivenUpAndComesBackWithItsMoRefIsKept(t *testing.T) {
	w := newReturns(t, 3)
	w.leave(isOrdinal(1))
	w.settle()
	w.scale(2)
	w.giveUp(1)
	w.settle()
	w.back(true)
	w.settle()
	w.want("new-web-0 new-web-2", "new-web-1 Duplicate")
}

// The VM has the ordinal's persistent disk, so it isn't kept in quarantine as a duplicate: it is removed as in a scale-in, which keeps the disk.
func TestAMemberWithPersistentDisksThatWasGivenUpGoesAsInAScaleIn(t *testing.T) {
	w := newReturns(t, 2)
	w.scale(0)
	w.settle()
	w.edit("disks", func(s *v1alpha1.VmGroupSpec) { s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}} })
	w.scale(3)
	w.settle()
	w.leave(isOrdinal(2))
	w.settle()
	w.scale(2)
	w.giveUp(2)
	clear(w.givenUp) // it may be destroyed
	w.settle()
	w.back(false)
	w.settle()
	if is, kept := w.members(); len(is) != 2 || len(kept) > 0 {
		t.Errorf("%v, kept %v\n%s", is, kept, lines(w.diary))
	}
}

func TestNoMemberThatServedAllTheTimeGoesInsteadOfOneThatCameBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newReturns(t, rapid.Int32Range(1, 6).Draw(t, "replicas"))
		w.edit("policies", func(s *v1alpha1.VmGroupSpec) {
			s.ScaleIn.Order = rapid.SampledFrom([]v1alpha1.ScaleInOrder{"", v1alpha1.ScaleInOldest, v1alpha1.ScaleInNewest}).Draw(t, "order")
			for i := range int32(6) {
				switch name := plan.MemberName("web", i); rapid.IntRange(0, 5).Draw(t, "listed") {
				case 0:
					s.ScaleIn.Protected = append(s.ScaleIn.Protected, name)
				case 1:
					s.ScaleIn.Remove = append(s.ScaleIn.Remove, name)
				}
			}
			s.Deletion.QuarantineSeconds = rapid.SampledFrom([]int32{0, 36000}).Draw(t, "quarantine")
			if rapid.IntRange(0, 3).Draw(t, "zones") == 0 {
				s.Placement.Zones = []string{"east", "west"}
			}
		})
		w.settle()
		for range rapid.IntRange(3, 25).Draw(t, "events") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				if len(w.came) == 0 { // it would be known neither as missing nor as back
					w.settle()
					share := rapid.IntRange(1, 5).Draw(t, "of five")
					w.leave(func(vm *plan.VM) bool { return vm.Quarantined.IsZero() && int(vm.Ordinal)%5 < share })
				}
			case 1:
				w.scale(rapid.Int32Range(0, 6).Draw(t, "replicas"))
			case 2:
				w.giveUp(rapid.Int32Range(0, 6).Draw(t, "who"))
			case 3:
				w.back(rapid.Bool().Draw(t, "keep their moRefs"))
			case 4:
				w.edit("no entries", func(s *v1alpha1.VmGroupSpec) { s.Replace = nil })
				for id := range w.givenUp { // not given up yet, unless a plan has carried that out
					if !slices.ContainsFunc(w.status().GivenUp, func(g v1alpha1.GivenUp) bool { return g.InstanceUUID == id }) &&
						!slices.ContainsFunc(w.o.State.VMs, func(vm plan.VM) bool { return vm.InstanceUUID == id && !vm.Quarantined.IsZero() }) {
						delete(w.givenUp, id)
					}
				}
			case 5:
				w.settle()
			default:
				w.step(w.statuses[rapid.IntRange(0, len(w.statuses)-1).Draw(t, "status")], rapid.IntRange(0, 3).Draw(t, "steps"))
			}
		}
		w.back(false)
		w.settle()
		if s := w.status(); s.Phase != v1alpha1.PhaseRunning || s.CurrentReplicas != w.o.Group.Replicas() {
			t.Fatalf("ended as %s\n%s", s.LastMessage, lines(w.diary))
		}
	})
}
