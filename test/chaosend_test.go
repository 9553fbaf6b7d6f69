package test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// converge ends all troubles, and waits until the group is as its spec says.
func (l *life) converge() {
	l.say("converge")
	l.Up()
	l.Heal()
	for _, c := range l.replicas {
		c.repair()
	}
	if l.wentBack && l.profile.replicas > 1 {
		l.restartAll()
	}
	l.complete()
	l.bringBack()
	l.untemplate()
	l.settleStrays()
	l.repair()
	l.reach()
}

// seldom is the time between two hook calls of a life that only waits. The server works without hook calls, and Metacontroller's usual calls, every two
// seconds, would take more processor time than the rest of a life.
const seldom = 15 * time.Second

// reach makes hook calls until the group is as its spec says and all replicas report that. From then on, the watch checks the promised availability.
func (l *life) reach() {
	for began := time.Now(); l.off() != ""; time.Sleep(seldom) { // a replica may report RUNNING before another replica has corrected a step of the first
		if l.watch.still(began) {
			l.t.Fatalf("never as the spec says: %s; last: %s %s", l.off(), l.group.Status.Phase, l.group.Status.LastMessage)
		}
		l.helpWith(l.call(l.any()))
	}
	for agreed := false; !agreed; {
		l.reap()
		agreed = true
		for _, c := range slices.Clone(l.replicas) {
			// A replica without a session hasn't read vCenter, so its answer only repeats the stored status.
			for began, a := time.Now(), l.call(c); !c.dead.Load() && (!metacontroller.Running(a) || l.sessionsOf(c) == 0); a = l.call(c) {
				l.helpWith(a) // a replica that was disconnected may still wait for a VM that, as the other replicas know, is permanently gone
				time.Sleep(3 * time.Second)
				if l.watch.still(began) {
					l.t.Fatalf("never RUNNING: %s %s", l.group.Status.Phase, l.group.Status.LastMessage)
				}
			}
			agreed = agreed && !c.dead.Load() // if the replica was killed, the loop also asks the replica that takes its place
		}
	}
	// A replica that saw fewer members a moment ago may have marked one member too many. It then withdraws the mark, or the group gets another standby
	// member instead of the removed one.
	for began := time.Now(); l.off() != "" && !l.watch.still(began); {
		time.Sleep(time.Second)
	}
	if off := l.off(); off != "" {
		l.t.Errorf("RUNNING, but not as the spec says: %s", off)
	}
	l.countSessions()
	l.watch.promised(l.leastOf(&l.group.Spec))
	l.watch.wants(*l.group.Spec.Replicas, false)
}

// repair makes all guests healthy, removes snapshots, answers questions, restores hidden objects and the Secret, and ends a pause.
func (l *life) repair() {
	l.show()
	l.answer()
	l.Rewrite(nil)
	l.Behave(func(b *vcsim.Behavior) { b.FailCustomizations, b.CustomizationError, b.BreakGuests = nil, "", nil })
	l.AddKeyProvider()
	for _, template := range []string{"vm-operator-template", otherTemplate} {
		l.must(l.ShowContentIDs("/DC0/vm/"+template, true))
	}
	for _, host := range chaosHosts {
		l.must(l.FillHost(host, false))
	}
	if plan.RulesOf(&l.group.Spec).Wanted() { // without wanted rules, a group doesn't need DRS, which may stay off
		for i := range 2 {
			d := vcsim.DRS{Level: pick(l.rand, []types.DrsBehavior{"", types.DrsBehaviorManual}), HeedsRules: l.rand.IntN(2) == 0}
			if l.group.Spec.Placement.AntiAffinity == v1alpha1.AntiAffinityRequired { // there may be fewer hosts than members
				d.HeedsRules = false
			}
			l.must(l.SetDRS(fmt.Sprintf("/DC0/host/DC0_C%d", i), d))
		}
	}
	l.Behave(func(b *vcsim.Behavior) { b.HangShutdown = nil })
	l.CutGuests(false)
	for _, vm := range l.ours() {
		l.StopService(vm.Ref.Value, false)
		_ = l.SetHealth(vm.Path, vcsim.Healthy) // fails if the VM was removed after the listing
		_ = l.RemoveSnapshots(vm.Path)
	}
	l.restore()
	if l.group.Spec.Template == noTemplate {
		l.group.Spec.Template = otherTemplate
	}
	l.group.Spec.Paused, l.group.Spec.Update.Windows, l.group.Spec.Update.MaxAgeSeconds = false, nil, nil
	l.edited("repaired")
}

// helpWith acts for an operator who does what a status asks for.
func (l *life) helpWith(a metacontroller.Answer) {
	l.emptyQuarantine(a)
	l.correctGuests(a)
	l.giveUp(a)
	l.undoes(a)
	l.identify(a)
}

// renamedClone is a clone of which vCenter changed the instanceUuid.
var renamedClone = regexp.MustCompile(`the name is taken by (\S+), which has the group's stamp, but not the instanceUuid (\S+) in that stamp`)

// identify acts for an operator who shows the server which VM is the group's: one that was cloned, but is in no status (any more), when somebody moved or
// renamed the group's folder, or when vCenter changed its instanceUuid.
func (l *life) identify(a metacontroller.Answer) {
	for _, s := range a.Status.Strays {
		for _, vm := range l.ours() {
			if vm.Ref.Value == s.MoRef && strings.HasSuffix(s.Message, "it was cloned by user, and it is not in the group's folder") {
				_, err := l.MakeFolder(web)
				l.must(err)
				l.say("an operator moves %s into the group's folder: %v", vm.Path, l.Move(vm.Path, web))
			}
		}
	}
	if m := renamedClone.FindStringSubmatch(a.Status.LastMessage); m != nil {
		l.say("an operator sets the instanceUuid of %s back: %v", m[1], l.Reconfigure(m[1], types.VirtualMachineConfigSpec{InstanceUuid: m[2]}))
	}
}

// correctGuests acts for an operator who corrects a guest whose customization failed and powers it off; the server powers it on.
func (l *life) correctGuests(a metacontroller.Answer) {
	for _, m := range a.Status.Members {
		for _, vm := range l.ours() {
			if m.Reason == plan.ReasonCustomizationFailed && vm.Ref.Value == m.MoRef && isOn(vm) {
				l.touches(vm)
				l.say("an operator corrects %s, and powers it off: %v", vm.Path, l.PowerOff(vm.Path))
			}
		}
	}
}

// emptyQuarantine acts for an operator who, as the message asks, powers off VMs in quarantine that were powered on there.
func (l *life) emptyQuarantine(a metacontroller.Answer) {
	for _, q := range a.Status.Quarantined {
		for _, vm := range l.ours() {
			if stamp, _ := stampOf(vm); vm.Ref.Value == q.MoRef && isOn(vm) && !stamp.Quarantined.IsZero() {
				l.touches(vm)
				l.say("an operator powers off %s in quarantine: %v", vm.Path, l.PowerOff(vm.Path))
			}
		}
	}
}

// countSessions checks that each replica has one session. It allows for additional sessions that a replica can't know because a wire broke.
func (l *life) countSessions() {
	for _, c := range l.replicas {
		c.mu.Lock()
		most := 1 + c.strays
		c.mu.Unlock()
		if n := l.sessionsOf(c); n < 1 || n > most {
			l.t.Errorf("%s has %d sessions, want 1 to %d", c.agent, n, most)
		}
	}
}

func (l *life) sessionsOf(c *chaosReplica) (n int) {
	var m mo.SessionManager
	l.must(l.Admin().RetrieveOne(context.Background(), *l.Admin().ServiceContent.SessionManager, []string{"sessionList"}, &m))
	for _, s := range m.SessionList {
		if s.UserAgent == c.agent {
			n++
		}
	}
	return n
}

// end deletes the group, and checks which VMs are left: none, or, if the policy is Retain, as many VMs without a stamp as there were members.
func (l *life) end(retain bool) {
	left := 0
	if retain {
		l.group.Spec.Deletion.Policy = v1alpha1.DeletionRetain
		left = int(*l.group.Spec.Replicas)
	}
	l.deleting, l.ending = true, true
	l.promises()
	existed, members, disks := refsOf(l.VMs()), refsOf(l.mine()), l.group.Status.Disks
	duplicates := refsOf(slices.DeleteFunc(l.VMs(), func(vm vcsim.VM) bool { // duplicates are powered off, and a deletion with Retain releases them like members
		stamp, err := stampOf(vm)
		return err != nil || stamp.Why != plan.MarkReasonDuplicate || stamp.Quarantined.IsZero()
	}))
	ask, one := l.any, l.rand.IntN(2) == 0 && l.faults == nil // only one replica is called, so that it can report its own steps; another replica might finish the deletion before it
	if only := l.any(); one {
		ask = func() *chaosReplica { return only }
	}
	l.say("%s is deleted, generation %d, %d VMs are retained", l.group.UID, l.group.Generation+1, left)
	for began, a := time.Now(), l.call(ask()); !a.Finalized; a = l.call(ask()) {
		l.undoes(a)
		l.giveUp(a)
		time.Sleep(seldom)
		if l.watch.still(began) {
			l.t.Fatalf("never gone: %s %s", l.group.Status.Phase, l.group.Status.LastMessage)
		}
	}
	if one && !retain && l.profile.replicas == 1 { // another one may still remove a member or a standby member that is one too many
		l.checkLastEvents(members, disks)
	}
	l.missingStay()
	l.rulesStay()
	l.watch.finalized(l.group.UID)
	l.watch.look(l)
	l.untouched()
	retained := slices.DeleteFunc(l.leftBehind(), func(vm vcsim.VM) bool {
		// Two kinds of VMs are no errors: a surplus clone that appeared during the deletion and never ran, and a member that was missing when its former group
		// ended, and was released later.
		return !isOn(vm) && (!slices.Contains(existed, vm.Ref.Value) || slices.Contains(duplicates, vm.Ref.Value)) || l.stayed[vm.First]
	})
	if len(retained) != left || tally(retained, isOn) != left {
		l.t.Errorf("%d VMs are left behind, %d of them on, want %d: %v", len(retained), tally(retained, isOn), left, refs(retained))
	}
	inside := func(vm vcsim.VM) bool { return len(vm.Path) > len(web) && vm.Path[:len(web)+1] == web+"/" }
	if _, err := l.Find(web); err == nil && !slices.ContainsFunc(l.VMs(), inside) {
		l.t.Error("the group's folder is left behind, empty")
	}
	for i := range 2 {
		if rules, err := l.Rules(fmt.Sprintf("/DC0/host/DC0_C%d", i)); err != nil || len(l.withoutOrphans(rules)) > 0 {
			l.t.Errorf("rules are left behind: %+v, %v", rules, err)
		}
	}
}

// untouched checks that the unmanaged VMs have not changed.
func (l *life) untouched() {
	now := map[string]vcsim.VM{}
	for _, vm := range l.VMs() {
		now[vm.Ref.Value] = vm
	}
	for ref, was := range l.unmanaged {
		is, there := now[ref]
		switch {
		case !there:
			l.t.Errorf("the unmanaged VM %s (%s) is gone", was.Path, ref)
		case is.Name != was.Name || is.Power != was.Power || is.CPUs != was.CPUs || is.MemoryMB != was.MemoryMB ||
			is.InstanceUUID != was.InstanceUUID || !maps.Equal(is.ExtraConfig, was.ExtraConfig):
			l.t.Errorf("the unmanaged VM %+v was %+v before", is, was)
		}
	}
	made := 0
	for _, was := range l.unmanaged {
		if was.Template {
			made++
		}
	}
	if n := tally(l.VMs(), func(vm vcsim.VM) bool { return vm.Template && !isDeployed(vm) }); n != 5+made {
		l.t.Errorf("there are %d templates; want %d", n, 5+made)
	}
}
