package vsphere

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// asRecorded returns a VM as a group's status records it.
func asRecorded(vm plan.VM) v1alpha1.Member {
	return v1alpha1.Member{Name: vm.Name, Ordinal: vm.Ordinal, MoRef: vm.MoRef, InstanceUUID: vm.InstanceUUID, PowerState: string(vm.Power), Host: vm.Host}
}

// of returns the state for a group whose status has those members.
func (p *process) of(members ...v1alpha1.Member) plan.VCenterState {
	return p.State(web, plan.Query{Template: "ubuntu", Recorded: members})
}

// vanished waits until the inventory says how a member vanished, and fails if it reports the member as gone.
func (p *process) vanished(m v1alpha1.Member) plan.Vanished {
	p.t.Helper()
	p.until("the cause of the member's vanishing is known", func() bool {
		s := p.of(m)
		if len(s.Gone) > 0 {
			p.t.Fatalf("%s counts as gone; want it vanished", m.Name)
		}
		return len(s.Vanished) == 1 && s.Vanished[0].How != ""
	})
	return p.of(m).Vanished[0]
}

// gone waits until a member is known to be gone.
func (p *process) gone(m v1alpha1.Member) {
	p.t.Helper()
	p.until("the member is gone", func() bool {
		s := p.of(m)
		return len(s.Gone) == 1 && s.IsGone(m.MoRef, m.InstanceUUID)
	})
}

// inTwoHosts runs a test in a bubble, in a world of two hosts with a member 0; on says whether it runs.
func inTwoHosts(t *testing.T, on bool, run func(*testing.T, *world, *process, v1alpha1.Member)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p, m := twoHosts(t, on)
		run(t, w, p, m)
	})
}

// twoHosts is a world with a process that has a member 0; on says whether it runs.
func twoHosts(t *testing.T, on bool) (*world, *process, v1alpha1.Member) {
	w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Hosts: 2})
	p := w.start()
	vm := p.member(0)
	if on {
		p.do(actionOn(plan.PowerOn, vm))
		vm = p.state().VMs[0]
	}
	return w, p, asRecorded(vm)
}

// The member was promoted, so it ran, and may be running elsewhere.
func TestAMemberVanishesThoughTheLastKnownStatusCallsItAStandbyOne(t *testing.T) {
	inTwoHosts(t, true, func(t *testing.T, w *world, p *process, m v1alpha1.Member) {
		d, err := w.Details("web-0")
		w.must(err)
		w.must(w.RemoveHost(d.Host))
		late := plan.Query{Template: "ubuntu", Kept: 1, Recorded: []v1alpha1.Member{{Name: m.Name, MoRef: m.MoRef}}}
		p.until("the member is gone to a query that has no instance UUID", func() bool { s := p.State(web, late); return s.IsGone(m.MoRef, "") })
		if s := p.State(web, late); s.IsGone(m.MoRef, m.InstanceUUID) || len(s.Vanished) != 1 || !s.Vanished[0].Is(&m) {
			t.Errorf("the vanished are %+v, and the gone %+v; want the member vanished, and not gone by its instance UUID", s.Vanished, s.Gone)
		}
	})
}

func TestAMemberThatIsUnregisteredHasVanishedAndOneThatIsDestroyedIsGone(t *testing.T) {
	inTwoHosts(t, false, func(t *testing.T, w *world, p *process, m v1alpha1.Member) {
		w.must(w.Unregister("web-0"))
		if how := p.vanished(m).How; !strings.HasPrefix(how, "it was unregistered by ") {
			t.Errorf("the member vanished because %q; want that it was unregistered", how)
		}
		w.must(w.Register(m.InstanceUUID))
		p.until("the member is back", func() bool { return len(p.of(m).VMs) == 1 && len(p.of(m).Vanished) == 0 })
		back := asRecorded(p.of(m).VMs[0])
		w.must(w.Destroy("web-0"))
		p.gone(back)
		w.start().gone(back)
	})
}

// A replica that gets no calls for the group forgets how its members vanished, and reads that from vCenter's events again.
func TestAMemberThatVanishedIsLookedIntoAgainAfterItWasForgotten(t *testing.T) {
	inTwoHosts(t, false, func(_ *testing.T, w *world, p *process, m v1alpha1.Member) {
		w.must(w.Unregister("web-0"))
		how := p.vanished(m).How
		for range 2 {
			w.must(p.reader.Scan(w.t.Context()))
		}
		if again := p.vanished(m).How; again != how {
			t.Errorf("the member vanished because %q, and after two scans because %q; want the same cause", how, again)
		}
	})
}

func TestAMemberThatIsDestroyedWithItsFolderIsGone(t *testing.T) {
	inTwoHosts(t, false, func(t *testing.T, w *world, p *process, m v1alpha1.Member) {
		folder, err := w.Find("/DC0/vm/vm-operator/shop/web")
		w.must(err)
		w.Done(object.NewFolder(w.Admin().Client, folder).Destroy(t.Context()))
		p.gone(m)
	})
}

// A status may be older than a member's quarantine and destruction.
func TestAMemberThatWasRenamedBeforeItWasDestroyedIsGoneToAProcessThatNeverSawIt(t *testing.T) {
	inTwoHosts(t, false, func(t *testing.T, w *world, p *process, m v1alpha1.Member) {
		w.must(w.Rename("web-0", "web-0-"+m.MoRef))
		w.must(w.Rename("web-0-"+m.MoRef, "old"))
		w.must(w.Destroy("old"))
		p.gone(m)
		w.start().gone(m)
	})
}

func TestEventsThatComeLateAreWaitedFor(t *testing.T) {
	inTwoHosts(t, true, func(t *testing.T, w *world, p *process, m v1alpha1.Member) {
		w.Behave(func(b *vcsim.Behavior) { b.DelayEvents = 10 * time.Second })
		began := time.Now()
		w.must(w.Destroy("web-0"))
		p.gone(m)
		if took := time.Since(began); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("the destroyed VM was gone after %s; want from 10s, when its events come, to 20s", took)
		}
	})
}

func TestAMemberHasVanishedUntilAnEventSaysThatItWasDestroyed(t *testing.T) {
	inTwoHosts(t, false, func(t *testing.T, w *world, p *process, m v1alpha1.Member) {
		w.Behave(func(b *vcsim.Behavior) { b.DelayEvents = 10 * time.Minute })
		began := time.Now()
		w.must(w.Destroy("web-0"))
		if how := p.vanished(m).How; !strings.HasPrefix(how, "vCenter has no event that says why") || time.Since(began) < time.Minute {
			t.Errorf("after %s, the member vanished because %q; want no event that says why, after at least 1m", time.Since(began), how)
		}
		p.gone(m)
	})
}

func TestAMemberThatARestoredVCenterDoesNotKnowHasVanishedWhetherOnOrOff(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Hosts: 2})
				p := w.start()
				p.do(plan.Action{Op: plan.CreateFolder})
				backup := w.Backup()
				p.do(p.cloning(0))
				if on {
					p.do(actionOn(plan.PowerOn, p.state().VMs[0]))
				}
				time.Sleep(10 * time.Minute)
				m := asRecorded(p.state().VMs[0])
				w.must(w.Restore(backup))
				if how := p.vanished(m).How; !strings.Contains(how, "restore from a backup") {
					t.Errorf("the member vanished because %q; want a restore from a backup", how)
				}
				w.must(w.Register(m.InstanceUUID))
				p.until("the member is back", func() bool { return len(p.of(m).VMs) == 1 && len(p.of(m).Vanished) == 0 })
			})
		})
	}
}

func TestAMoRefThatNamesAnotherVMAfterARestoreIsNotTheMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Hosts: 2})
		p := w.start()
		p.do(plan.Action{Op: plan.CreateFolder})
		backup := w.Backup()
		p.do(p.cloning(0))
		p.do(actionOn(plan.PowerOn, p.state().VMs[0]))
		m := asRecorded(p.state().VMs[0])
		w.must(w.Restore(backup))
		w.must(w.CloneVM("ubuntu", "/DC0/vm", "other"))
		if vms := w.VMs(); !slices.ContainsFunc(vms, func(vm vcsim.VM) bool { return vm.Name == "other" && vm.Ref.Value == m.MoRef }) {
			t.Fatalf("the moRef %s was not reused: %+v", m.MoRef, vms)
		}
		late := w.start()
		for _, p := range []*process{p, late} {
			if how := p.vanished(m).How; !strings.Contains(how, "restore from a backup") {
				t.Errorf("the member vanished because %q; want a restore from a backup", how)
			}
		}
		w.must(w.Destroy("other")) // its events say nothing of the member
		time.Sleep(10 * time.Minute)
		p.vanished(m)
		w.start().vanished(m)
		w.must(w.Register(m.InstanceUUID))
		p.until("the member is back", func() bool { return len(p.of(m).VMs) == 1 && len(p.of(m).Vanished) == 0 })
	})
}

// Events that can't be read say no more than events that there are not: the member has vanished, and vCenter is spared.
func TestAMemberWhoseEventsCannotBeReadHasVanished(t *testing.T) {
	inTwoHosts(t, false, func(t *testing.T, w *world, p *process, m v1alpha1.Member) {
		w.FailCall("ReadNextEvents", &types.SystemError{Reason: "vpxd"}, 0)
		w.must(w.Unregister("web-0"))
		p.of(m)
		time.Sleep(2 * time.Minute)
		if v := p.vanished(m); !strings.HasPrefix(v.How, "vCenter's events cannot be read (") {
			t.Errorf("after two minutes, got %+v; want that the events cannot be read", v)
		}
		before := w.Calls()["ReadNextEvents"]
		time.Sleep(time.Hour)
		if n := w.Calls()["ReadNextEvents"] - before; n > 15 {
			t.Errorf("%d queries in an hour; want one in five minutes", n)
		}
		w.Heal()
		time.Sleep(6 * time.Minute)
		if v := p.vanished(m); !strings.Contains(v.How, "unregistered") {
			t.Errorf("once the events can be read, got %+v; want that it was unregistered", v)
		}
	})
}
