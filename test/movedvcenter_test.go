package test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// discovered is the folder of the VMs that come to another vCenter.
const discovered = "/DC0/vm/Discovered virtual machine"

// movingRigs are two vCenters with hosts, datastores and networks of the same names. In the second, VMs of a stranger have the moRefs that the first
// gives to a group's VMs.
type movingRigs struct {
	first, second *rig
	strangers     []*untouched
}

func newMovingRigs(t *testing.T) *movingRigs {
	t.Helper()
	cfg := vcsim.Config{Hosts: 3, Datastores: 2, Guest: vcsim.Guest{Tools: true}}
	m := &movingRigs{first: newRig(t, cfg), second: newRig(t, cfg)}
	for _, folder := range []string{discovered, strangersFolder} {
		_, err := m.second.MakeFolder(folder)
		m.second.must(err)
	}
	return m
}

// leave ends a group's server, makes the strangers' VMs, and has the group called at the second vCenter.
func (m *movingRigs) leave(t *testing.T, s *serverReplica, g *metacontroller.Group) {
	t.Helper()
	s.stop()
	taken := map[string]bool{}
	for _, vm := range m.first.members() {
		taken[vm.Ref.Value] = true
	}
	for n := 0; len(m.strangers) < len(taken) && n < 40; n++ {
		ref, err := m.second.AddVM(strangersFolder, fmt.Sprintf("own-%d", n))
		m.second.must(err)
		if taken[ref.Value] {
			m.strangers = append(m.strangers, m.second.untouched(ref))
		}
	}
	if len(m.strangers) == 0 {
		t.Fatal("no moRef of the first vCenter is another VM's in the second")
	}
	g.URL, g.Client = m.second.serve(adopting).url, m.second.client()
}

// take takes a group's VM, by its path in the first vCenter, to the second.
func (m *movingRigs) take(where string, how vcsim.Coming) {
	m.second.t.Helper()
	m.second.must(m.second.Take(m.first.VCenter, where, discovered, how))
}

func (m *movingRigs) say(g *metacontroller.Group) {
	g.Annotations = map[string]string{v1alpha1.AnnotationMovedTo: m.second.InstanceUUID()}
}

// changesNothing syncs a group for a while, and checks that the server changes nothing in the second vCenter.
func (m *movingRigs) changesNothing(t *testing.T, g *metacontroller.Group, text string) {
	t.Helper()
	says(t, g, v1alpha1.PhaseError, text)
	before := m.second.Calls()
	m.second.stays(g, 10*time.Minute)
	after := m.second.Calls()
	for _, call := range []string{"CloneVM_Task", "ReconfigVM_Task", "PowerOffVM_Task", "Destroy_Task", "Rename_Task", "MoveIntoFolder_Task"} {
		if n := after[call] - before[call]; n > 0 {
			t.Errorf("%d calls of %s; want none", n, call)
		}
	}
	says(t, g, v1alpha1.PhaseError, text)
}

func (m *movingRigs) ends(t *testing.T, g *metacontroller.Group) {
	t.Helper()
	remove(t, g)
	if left := tally(slices.Concat(m.second.AllVMs()), isOfGroup(g)); left > 0 {
		t.Errorf("%d VMs are left in the second vCenter", left)
	}
	for _, u := range m.strangers {
		u.check()
	}
}

// A vCenter was built anew, or the VMs were migrated to another one. With an operator's word, the server takes back the VMs that it can verify, in any
// order, whatever their moRefs are, with their persistent disks; it clones nothing for those that have not come.
func TestAGroupGoesOnInAnotherVCenterThatAnOperatorNames(t *testing.T) {
	t.Parallel()
	for _, how := range []vcsim.Coming{vcsim.ByHost, vcsim.ByRegister, vcsim.ByVMotion} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMovingRigs(t)
				s := m.first.serve()
				g := s.group("web", 3)
				g.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 2, Persistent: true}}
				g.Spec.Healing.ReplaceVanishedAfterSeconds = new(int32(600))
				g.Spec.Tags = []v1alpha1.Tag{{Category: "env", Name: "prod"}}
				for _, r := range []*rig{m.first, m.second} {
					_, err := r.AddTag("env", "prod")
					r.must(err)
				}
				was := up(t, g).Status
				m.leave(t, s, g)
				m.changesNothing(t, g, v1alpha1.AnnotationMovedTo+"="+m.second.InstanceUUID())
				for n := range 2 {
					m.take(fmt.Sprintf("%sweb-%d", webFolder, n), how)
				}
				m.changesNothing(t, g, "were created in vCenter "+m.first.InstanceUUID())
				g.Annotations = map[string]string{v1alpha1.AnnotationMovedTo: m.first.InstanceUUID()}
				m.changesNothing(t, g, "were created in vCenter "+m.first.InstanceUUID())
				m.say(g)
				back := func(a metacontroller.Answer) bool { return a.Status.ReadyReplicas == 2 && tallyVanished(a.Status) == 1 }
				until(t, g, "two members are back, and one is missing", back)
				missing := was.Members[2].MoRef + ":" + m.first.InstanceUUID()
				check := func(when string) {
					t.Helper()
					m.second.stays(g, 30*time.Minute)
					a := until(t, g, "two members are back, and one is missing", back)
					if x := a.Status.Members[2]; x.MoRef != missing || x.InstanceUUID != was.Members[2].InstanceUUID || x.VMPathName != was.Members[2].VMPathName || a.Status.VCenterUUID != m.second.InstanceUUID() {
						t.Errorf("%s, the status has %+v in vCenter %s; want %s", when, x, a.Status.VCenterUUID, missing)
					}
				}
				check("at first")
				g.URL = m.second.serve(adopting).url
				check("after a restart")
				g.Annotations = nil
				check("without the annotation")
				m.say(g)
				m.take(webFolder+"web-2", how)
				up(t, g)
				for _, vm := range m.second.VMs() {
					if s, err := stampOf(vm); err == nil && (s.VCenter != m.second.InstanceUUID() || !isOn(vm)) {
						t.Errorf("the stamp of %s names the vCenter %s, or the VM is off", vm.Name, s.VCenter)
					} else if err == nil {
						tags, err := m.second.TagsOf(vm.Path)
						m.second.must(err)
						equal(t, tags, []string{"env/prod"})
					}
				}
				if n := m.second.Calls()["CloneVM_Task"]; n > 0 || len(g.Status.Disks) != 3 {
					t.Errorf("%d clones, and the status has the disks %+v; want none, and three", n, g.Status.Disks)
				}
				g.Annotations = nil
				g.Edit(func(s *v1alpha1.VmGroupSpec) {
					s.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: g.Status.Members[1].MoRef}}
				})
				up(t, g)
				m.second.disksAre("after a replacement", "default/web-0/data 2 1 "+discovered+"/web-0", "default/web-1/data 2 2 web-1", "default/web-2/data 2 1 "+discovered+"/web-2")
				m.ends(t, g)
			})
		})
	}
}

// What is in quarantine, on standby or adopted goes along.
func TestOtherVMsOfAGroupGoToAnotherVCenterToo(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} { // whether the annotation is removed before they come
		t.Run(fmt.Sprintf("too early %t", early), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMovingRigs(t)
				m.first.legacyVMs("db-a")
				s := m.first.serve(adopting)
				g := s.group("web", 3)
				g.Spec.Adopt, g.Spec.Update.Strategy = []string{legacy + "/db-a"}, v1alpha1.UpdateOnDelete
				g.Spec.Standby, g.Spec.Deletion.QuarantineSeconds = 1, 24*3600
				stocked(t, g)
				g.Scale(2)
				until(t, g, "one is in quarantine", func(a metacontroller.Answer) bool {
					return metacontroller.Running(a) && len(a.Status.Quarantined) == 1 && m.first.named(a.Status.Quarantined[0].Name).Path == web+"/quarantine/"+a.Status.Quarantined[0].Name
				})
				was := stocked(t, g).Status
				m.leave(t, s, g)
				m.say(g)
				until(t, g, "both members are missing", func(a metacontroller.Answer) bool { return tallyVanished(a.Status) == 2 })
				paths := []string{}
				for _, vm := range m.first.members() {
					paths = append(paths, vm.Path)
				}
				for _, q := range was.Quarantined {
					if path := web + "/quarantine/" + q.Name; !slices.Contains(paths, path) {
						paths = append(paths, path)
					}
				}
				if early {
					g.Annotations = nil
					syncFor(t, g, 10*time.Minute, "no member is cloned", func(metacontroller.Answer) bool { return m.second.Calls()["CloneVM_Task"] <= 1 }) // a standby member
				}
				for _, path := range paths {
					m.take(path, vcsim.ByHost)
				}
				up(t, g)
				m.second.stays(g, 10*time.Minute)
				a := up(t, g)
				switch {
				case early && len(a.Status.Strays) != 2, !early && (len(a.Status.Strays) > 0 || len(a.Status.Quarantined) != 1 || len(a.Status.Standby) != 1 ||
					a.Status.Quarantined[0].InstanceUUID != was.Quarantined[0].InstanceUUID || a.Status.Standby[0].InstanceUUID != was.Standby[0].InstanceUUID):
					t.Errorf("in quarantine and on standby are %+v and %+v; strays: %+v", a.Status.Quarantined, a.Status.Standby, a.Status.Strays)
				case early:
					remove(t, g) // but for the strays
				default:
					m.ends(t, g)
				}
			})
		})
	}
}

// A VM that was restored in the other vCenter has a member's stamp and instanceUuid, and other files: the member stays missing, until an operator says
// that it is to be replaced. Then the one that comes after all is kept, off.
func TestOnlyWhatIsVerifiedBecomesAMemberInAnotherVCenter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMovingRigs(t)
		s := m.first.serve()
		g := s.group("web", 2)
		was := up(t, g).Status
		saved, err := m.first.Save(webFolder + "web-1")
		m.first.must(err)
		stampText := m.first.details(webFolder + "web-1").ExtraConfig[stamp.Key]
		m.leave(t, s, g)
		m.say(g)
		m.take(webFolder+"web-0", vcsim.ByHost)
		until(t, g, "one is back", func(a metacontroller.Answer) bool { return a.Status.ReadyReplicas == 1 })
		vm := m.second.restore(saved, restoredVM{by: registerVM, as: m.second.as(false), folder: discovered, name: "web-1-restored", stamp: stampText, on: staysOff})
		a := until(t, g, "it is a stray", func(a metacontroller.Answer) bool { return len(a.Status.Strays) == 1 })
		if tallyVanished(a.Status) != 1 || !strings.Contains(a.Status.LastMessage, "it was in vCenter "+m.first.InstanceUUID()) {
			t.Errorf("the message is %q", a.Status.LastMessage)
		}
		m.second.stays(g, 30*time.Minute)
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: was.Members[1].MoRef + ":" + m.first.InstanceUUID()}}
		})
		up(t, g)
		if n := m.second.Calls()["CloneVM_Task"]; n != 1 || len(g.Status.GivenUp) != 1 {
			t.Errorf("%d clones, and %+v was given up", n, g.Status.GivenUp)
		}
		vm.check()
		m.second.must(m.second.Destroy(discovered + "/web-1-restored")) // vCenter has one VM with an instanceUuid
		m.take(webFolder+"web-1", vcsim.ByHost)
		until(t, g, "the one that was given up is kept, off", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && len(a.Status.Quarantined) == 1 && a.Status.Quarantined[0].InstanceUUID == was.Members[1].InstanceUUID
		})
		m.ends(t, g)
	})
}

// The moRefs that a spec has are those of the former vCenter: they could name any VM of the other.
func TestAGroupWithMoRefsInItsSpecDoesNotGoToAnotherVCenter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMovingRigs(t)
		s := m.first.serve()
		g := s.group("web", 3)
		was := up(t, g).Status.Members[0]
		m.leave(t, s, g)
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Replace = []v1alpha1.Replacement{{Name: "web-0", MoRef: was.MoRef}}
		})
		m.say(g)
		for n := range 3 {
			m.take(fmt.Sprintf("%sweb-%d", webFolder, n), vcsim.ByHost)
		}
		m.changesNothing(t, g, "remove those in spec.replace")
		if c := condition(metacontroller.Answer{Status: g.Status}, v1alpha1.ConditionVCenterChanged); c.Status != metav1.ConditionTrue || g.Status.Members[0].MoRef != was.MoRef {
			t.Errorf("%+v; the member is %+v", c, g.Status.Members[0])
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Replace = nil })
		up(t, g)
		m.ends(t, g)
	})
}

// The word was given for the wrong vCenter: the server goes back to the former one, which has all VMs as they were.
func TestAGroupGoesBackToItsVCenter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMovingRigs(t)
		s := m.first.serve()
		g := s.group("web", 2)
		was := up(t, g).Status
		refs := refs(m.first.members())
		m.leave(t, s, g)
		m.say(g)
		until(t, g, "both are missing", func(a metacontroller.Answer) bool { return tallyVanished(a.Status) == 2 })
		g.URL, g.Client = m.first.serve().url, m.first.client()
		says(t, g, v1alpha1.PhaseError, "were created in vCenter "+m.second.InstanceUUID())
		g.Annotations = map[string]string{v1alpha1.AnnotationMovedTo: m.first.InstanceUUID()}
		a := up(t, g)
		if is := map[string]string{a.Status.Members[0].Name: a.Status.Members[0].MoRef, a.Status.Members[1].Name: a.Status.Members[1].MoRef}; !maps.Equal(is, refs) || a.Status.VCenterUUID != was.VCenterUUID {
			t.Errorf("the members are %v in %s; want %v", is, a.Status.VCenterUUID, refs)
		}
		if n := m.first.Calls()["CloneVM_Task"] + m.second.Calls()["CloneVM_Task"]; n != 2 {
			t.Errorf("%d clones; want 2", n)
		}
	})
}

var (
	movedSeed  = flag.Uint64("moved.seed", 1, "the seed of the first life that moves to another vCenter")
	movedSeeds = flag.Int("moved.seeds", 0, "how many such lives run; 0: 20, or 2 in a thin run")
)

// In whatever order, way and intervals VMs come to another vCenter, and whenever the server restarts, the group is there what it was: nothing is cloned.
func TestLivesThatMoveToAnotherVCenter(t *testing.T) {
	t.Parallel()
	lives := uint64(*movedSeeds)
	if lives == 0 {
		lives = thin.Of(uint64(20), 10)
	}
	for seed := *movedSeed; seed < *movedSeed+lives; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { liveThatMoves(t, rand.New(rand.NewPCG(seed, 61))) })
		})
	}
}

func liveThatMoves(t *testing.T, random *rand.Rand) {
	m := newMovingRigs(t)
	m.second.neverTwo()
	s := m.first.serve()
	g := s.group("web", 4)
	if random.IntN(2) == 0 {
		g.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 2, Persistent: true}}
	} else {
		g.Spec.Standby, g.Spec.Deletion.QuarantineSeconds = int32(random.IntN(3)), 24*3600
	}
	stocked(t, g)
	g.Scale(3)
	was := stocked(t, g).Status
	time.Sleep(2 * time.Minute) // the one that left is in its folder
	m.leave(t, s, g)
	m.say(g)
	away := slices.DeleteFunc(m.first.VMs(), func(vm vcsim.VM) bool { return !isOfGroup(g)(vm) })
	random.Shuffle(len(away), func(i, j int) { away[i], away[j] = away[j], away[i] })
	for _, vm := range away {
		how := []vcsim.Coming{vcsim.ByHost, vcsim.ByRegister, vcsim.ByVMotion}[random.IntN(3)]
		if !isOn(vm) && how == vcsim.ByRegister {
			how = vcsim.ByHost // one that was off and out of use must come with a host
		}
		m.take(vm.Path, how)
		if random.IntN(3) == 0 {
			g.URL = m.second.serve().url
		}
		for range random.IntN(5) {
			mustSync(t, g)
			time.Sleep(time.Duration(random.IntN(30)) * time.Second)
		}
	}
	until(t, g, "the status is of the second vCenter", func(a metacontroller.Answer) bool { return a.Status.VCenterUUID == m.second.InstanceUUID() })
	is := stocked(t, g).Status
	if n := m.second.Calls()["CloneVM_Task"]; n > 0 || len(is.Strays) > 0 || !maps.Equal(identities(&is), identities(&was)) {
		t.Errorf("%d clones and %+v; the group has %v, and had %v", n, is.Strays, identities(&is), identities(&was))
	}
	g.Annotations = nil
	of := is.Members[random.IntN(3)]
	g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Replace = []v1alpha1.Replacement{{Name: of.Name, MoRef: of.MoRef}} })
	stocked(t, g)
	m.ends(t, g)
}

// identities are the instanceUuids of a group's VMs, and what they are.
func identities(s *v1alpha1.VmGroupStatus) map[string]string {
	all := map[string]string{}
	for _, m := range s.Members {
		all[m.InstanceUUID] = m.Name
	}
	for _, m := range s.Standby {
		all[m.InstanceUUID] = m.Name + ", on standby"
	}
	for _, q := range s.Quarantined {
		all[q.InstanceUUID] = q.Name
	}
	return all
}
