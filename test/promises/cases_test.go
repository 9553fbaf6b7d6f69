//go:build unix

package promises

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/process"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// scripted starts a stage for a scripted case, with a fixed seed, so that each run makes the same choices.
func scripted(t *testing.T, replicas int) *stage {
	t.Helper()
	thin.NotThin(t, "it starts processes")
	t.Parallel()
	return newStage(t, 1, replicas)
}

func (s *stage) settled(t testing.TB, name string, spec v1alpha1.VmGroupSpec, with ...func(*group)) *watchedGroup {
	t.Helper()
	m := s.apply(t, rand.New(rand.NewPCG(1, 100)), name, spec, with...)
	t.Cleanup(m.verdict)
	m.settle(false)
	return m
}

func TestAScaleInDestroysNoMoreThanItSaysWhenTheServerIsKilledInItsMidst(t *testing.T) {
	s := scripted(t, 1)
	half := intstr.FromString("50%")
	for round := range 3 {
		spec := spec(12)
		spec.Update.MaxUnavailable = &half
		m := s.settled(t, fmt.Sprintf("ox%d", round), spec)
		before := m.refs(true)
		m.edit("scale from 12 to 6", func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(6)) })
		m.until("two VMs are gone", func(_ v1alpha1.VmGroup, all inventory) bool {
			members, _ := m.members(all)
			return len(members) <= 10
		})
		s.kill(0)
		s.serve(0)
		m.settle(false)
		if m.exactly(before, 6); t.Failed() || m.broken() {
			return
		}
		m.end()
	}
}

func TestAScaleInDestroysNoMoreThanItSaysInARolloutOfTheServer(t *testing.T) {
	s := scripted(t, 2)
	m := s.settled(t, "ox", spec(10))
	before := m.refs(true)
	m.edit("scale from 10 to 3", func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(3)) })
	m.until("one VM is gone", func(_ v1alpha1.VmGroup, all inventory) bool {
		members, _ := m.members(all)
		return len(members) <= 9
	})
	for i := range s.servers {
		s.terminate(i)
		s.serve(i)
	}
	m.settle(false)
	m.exactly(before, 3)
	m.end()
}

func TestAReplicaThatDoesNotKnowOfAScaleInClonesNoMemberInItsPlace(t *testing.T) {
	s := scripted(t, 2)
	s.service.prefer(0)
	six := spec(6)
	six.Standby = 1
	m := s.settled(t, "ox", six)
	before := m.refs(false)
	s.links[0].cut() // replica 0 may act until its lease ends, but sees no change of vCenter
	s.service.prefer(1)
	m.edit("scale from 6 to 2", func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(2)) })
	m.until("four are gone", func(_ v1alpha1.VmGroup, all inventory) bool {
		members, _ := m.members(all)
		return len(members) <= 3
	})
	s.links[0].mend()
	time.Sleep(5 * time.Second) // for the clone that replica 0 must not make
	m.settle(false)
	after := m.refs(false)
	for name, ref := range after {
		if before[name] != ref {
			t.Errorf("%s (%s) was made during the scale-in; the VMs before it were %v", name, ref, before)
		}
	}
	m.end()
}

// One replica is called before the deletion and may still act on that call. If the deletion didn't wait for that replica's lease to end, the
// replica would power on the VMs that the other one powers off to detach their disks.
func TestADeletionTakesNoDiskOfARunningVMBesideAReplicaThatDoesNotKnowOfIt(t *testing.T) {
	s := scripted(t, 2)
	for round := range 4 {
		s.service.prefer(1)
		spec := spec(5)
		spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
		m := s.settled(t, fmt.Sprintf("ox%d", round), spec)
		s.service.prefer(0)
		if m.end(); m.broken() {
			return
		}
	}
}

// exactly checks that the group has just the members with the n lowest ordinals, each with the VM that it had before.
func (m *watchedGroup) exactly(before map[string]string, n int) {
	m.t.Helper()
	after := m.refs(false)
	if len(after) != n {
		m.t.Errorf("the members are %v, want %d", after, n)
	}
	for ordinal := range n {
		if name := fmt.Sprintf("%s-%d", m.name, ordinal); after[name] != before[name] {
			m.t.Errorf("%s has the VM %q, want %s as before", name, after[name], before[name])
		}
	}
}

func TestAnEditThatCannotSucceedTakesNoMemberDown(t *testing.T) {
	s := scripted(t, 1)
	none, two := intstr.FromInt32(0), intstr.FromInt32(2)
	for name, edit := range map[string]func(*v1alpha1.VmGroupSpec){
		"template":  func(s *v1alpha1.VmGroupSpec) { s.Template = "nonesuch" },
		"datastore": func(s *v1alpha1.VmGroupSpec) { s.Placement.Datastore = "nonesuch" },
		"pool":      func(s *v1alpha1.VmGroupSpec) { s.Placement.Pool = "nonesuch" },
		"nosurge": func(s *v1alpha1.VmGroupSpec) {
			s.Template, s.Update.MaxSurge, s.Update.MaxUnavailable = "nonesuch", &none, &two
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.settled(t, name, spec(4)).blocked("a typo in "+name, edit)
		})
	}
}

// blocked makes an edit that cannot succeed, and reverts it: no member is taken down.
func (m *watchedGroup) blocked(why string, edit func(*v1alpha1.VmGroupSpec)) {
	m.t.Helper()
	before, was := m.refs(false), m.now().Spec
	m.edit(why, edit)
	m.until("the status says that clones are blocked", func(o v1alpha1.VmGroup, _ inventory) bool {
		return o.Status.ObservedGeneration == o.Generation && meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionCloneBlocked)
	})
	time.Sleep(3 * time.Second) // for the removals that must not begin (on a slow machine, the test may miss one)
	m.kept(before, 0)
	m.edit("take it back", func(s *v1alpha1.VmGroupSpec) { *s = was })
	m.settle(false)
	m.kept(before, 0)
}

// TestACanaryIsRolledBackAsTheDocumentsSay follows "Try a change on one member" in docs/day-to-day.md.
func TestACanaryIsRolledBackAsTheDocumentsSay(t *testing.T) {
	s := scripted(t, 1)
	m := s.settled(t, "web", spec(4))
	one := intstr.FromInt32(1)
	m.edit("1. a canary", func(s *v1alpha1.VmGroupSpec) { s.Template, s.Update.Canary = "vm-operator-template-2", &one })
	m.until("one member is of the new template, and the update holds", func(o v1alpha1.VmGroup, all inventory) bool {
		return m.made("vm-operator-template-2", all) == 1 && meta.IsStatusConditionTrue(o.Status.Conditions, "UpdateHeld") &&
			o.Status.ObservedGeneration == o.Generation && o.Status.Phase == v1alpha1.PhaseRunning
	})
	m.settle(true)
	m.edit("3. put the template back", func(s *v1alpha1.VmGroupSpec) { s.Template = "vm-operator-template" })
	m.settle(false)
	if n := m.made("vm-operator-template-2", m.vc.now()); n > 0 {
		t.Errorf("the canary is still there")
	}
}

// made returns how many of the running members were cloned from a template.
func (m *watchedGroup) made(template string, all inventory) (n int) {
	members, _ := m.members(all)
	for _, v := range members {
		if v.on && v.from == templates[template] {
			n++
		}
	}
	return n
}

func TestTheEventsOfADeletionSayWhichDisksStay(t *testing.T) {
	s := scripted(t, 1)
	for name, pace := range map[string]time.Duration{"often": 0, "seldom": 4 * time.Second} {
		t.Run(name, func(t *testing.T) {
			withDisks := spec(2)
			withDisks.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
			m := s.settled(t, name, withDisks, func(g *group) { g.pace = pace })
			m.end()
			m.told("MemberRemoved", slices.Collect(maps.Keys(m.disks))...)
			m.told("DisksKept", slices.Collect(maps.Keys(m.owner))...)
			warnsOfNothingAbout(t, s.servers[0], "default/"+name)
		})
	}
}

// warnsOfNothingAbout checks that a server logged no warning about a group whose user asked for all that happened.
func warnsOfNothingAbout(t *testing.T, p *process.Process, group string) {
	t.Helper()
	for _, line := range p.Log() {
		if strings.Contains(line, `"level":"warn"`) && strings.Contains(line, `"`+group+`"`) {
			t.Errorf("the log of %s: %s", p.Name, line)
		}
	}
}

// told checks that Events with this reason arrived, and that each of these texts is in one of them.
func (m *watchedGroup) told(reason string, about ...string) {
	m.t.Helper()
	m.mu().Lock()
	defer m.mu().Unlock()
	var all []string
	for _, e := range m.events {
		if e.Reason == reason {
			all = append(all, e.Message)
		}
	}
	for _, one := range about {
		if !slices.ContainsFunc(all, func(message string) bool { return strings.Contains(message, one) }) {
			m.t.Errorf("got the Events %s %q; want one about %s", reason, all, one)
		}
	}
}

func TestMembersThatAScaleInRemovedAreNoUsersDoing(t *testing.T) {
	s := scripted(t, 1)
	m := s.settled(t, "web", spec(8))
	m.edit("scale from 8 to 1", func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(1)) })
	m.until("the scale-in has begun", func(o v1alpha1.VmGroup, _ inventory) bool { return o.Status.ObservedGeneration == o.Generation })
	s.service.set(0, "") // no further call stores which members are chosen; the server continues until its lease ends
	for began := time.Now(); time.Since(began) < lease && len(m.refs(false)) == 8; {
		time.Sleep(20 * time.Millisecond)
	}
	s.kill(0)
	s.serve(0)
	for gone := 2; gone < 7; gone += 2 {
		m.until(fmt.Sprintf("%d VMs are gone", gone), func(_ v1alpha1.VmGroup, all inventory) bool {
			members, _ := m.members(all)
			return len(members) <= 8-gone
		})
		s.kill(0)
		s.serve(0)
	}
	m.settle(false)
}

// TestAMemberThatComesBackBesideItsReplacementIsKept follows "A member has vanished" in docs/troubleshooting.md: a VM that comes back, running
// or not, is only destroyed by the group's deletion.
func TestAMemberThatComesBackBesideItsReplacementIsKept(t *testing.T) {
	s := scripted(t, 1)
	for name, runs := range map[string]bool{"off": false, "on": true} {
		m := s.settled(t, name, spec(2))
		member := name + "-1"
		ref := m.refs(true)[member]
		first := m.vc.now().vms[ref]
		vm := m.vc.vm(ref)
		var files mo.VirtualMachine
		m.vc.must(vm.Properties(m.vc.ctx, vm.Reference(), []string{"config.files"}, &files))
		m.edit("pause", func(s *v1alpha1.VmGroupSpec) { s.Paused = true })
		m.until("the pause is observed", func(o v1alpha1.VmGroup, _ inventory) bool { return o.Status.ObservedGeneration == o.Generation })
		m.history.touch(ref)
		m.vc.task(vm.PowerOff(m.vc.ctx))
		m.vc.must(vm.Unregister(m.vc.ctx))
		m.edit("go on", func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
		m.until("the status says that the member vanished", func(o v1alpha1.VmGroup, _ inventory) bool {
			return meta.IsStatusConditionTrue(o.Status.Conditions, "MembersVanished") && m.refs(true)[member] == ""
		})
		m.edit("give it up", func(s *v1alpha1.VmGroupSpec) { s.Replace = []v1alpha1.Replacement{{Name: member, MoRef: ref}} })
		m.settle(false)
		replaced := m.refs(true)
		back := m.vc.register(files.Config.Files.VmPathName, "back-"+member)
		m.history.touch(back)
		if runs {
			m.vc.task(m.vc.vm(back).PowerOn(m.vc.ctx))
		}
		kept := func() bool {
			var is mo.VirtualMachine
			err := m.vc.vm(back).Properties(m.vc.ctx, m.vc.vm(back).Reference(), []string{"runtime.powerState", "config.instanceUuid"}, &is)
			return err == nil && is.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff && is.Config.InstanceUuid == first.uuid
		}
		m.until("the VM that came back is kept, and the status says so", func(o v1alpha1.VmGroup, _ inventory) bool {
			return kept() && o.Status.Phase == v1alpha1.PhaseRunning && meta.IsStatusConditionTrue(o.Status.Conditions, "DuplicateMember") &&
				slices.ContainsFunc(o.Status.Quarantined, func(q v1alpha1.Quarantined) bool { return q.MoRef == back })
		})
		m.told("MemberQuarantined", back)
		time.Sleep(5 * time.Second)
		if !kept() || !maps.Equal(replaced, m.refs(true)) {
			t.Errorf("%s was not kept, or its replacement was removed: the members were %v, and are %v", back, replaced, m.refs(true))
		}
		m.end()
		if kept() {
			t.Errorf("the group is gone, but %s is left", back)
		}
	}
}
