//go:build unix

package promises

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// TestTheProceduresOfTheDocumentsDoWhatTheySay follows the procedures of docs/day-to-day.md step by step.
func TestTheProceduresOfTheDocumentsDoWhatTheySay(t *testing.T) {
	s := scripted(t, 1)
	for name, follow := range map[string]func(*testing.T, *stage){
		"a canary continues":                 canaryGoesOn,
		"roll back out of quarantine":        rollBackOutOfQuarantine,
		"scale in and out of quarantine":     scaleOutOfQuarantine,
		"take a member out permanently":      takeOutForGood,
		"replace a member":                   replaceAMember,
		"keep a member":                      keepAMember,
		"hold a member":                      holdAMember,
		"pause":                              pause,
		"pause an update":                    pauseAnUpdate,
		"standby members":                    standbyMembers,
		"delete and apply again, with disks": applyAgainWithDisks,
		"delete and retain":                  deleteAndRetain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			follow(t, s)
		})
	}
}

// expect checks that each member has the wanted VM.
func (m *watchedGroup) expect(what string, want map[string]string) {
	m.t.Helper()
	if got := m.refs(true); !maps.Equal(got, want) && !m.broken() {
		m.t.Errorf("%s: the members are %v, want %v", what, got, want)
	}
}

func canaryGoesOn(t *testing.T, s *stage) {
	m := s.settled(t, "canary", spec(4))
	before, one, half := m.refs(true), intstr.FromInt32(1), intstr.FromString("50%")
	for _, step := range []struct {
		canary *intstr.IntOrString
		made   int
	}{{&one, 1}, {&half, 2}, {nil, 4}} {
		m.edit("canary", func(s *v1alpha1.VmGroupSpec) { s.Template, s.Update.Canary = "vm-operator-template-2", step.canary })
		m.settle(step.canary != nil)
		stay := 0
		for _, ref := range m.refs(true) {
			if slices.Contains(slices.Collect(maps.Values(before)), ref) {
				stay++
			}
		}
		if made := m.made("vm-operator-template-2", m.vc.now()); made != step.made || stay != 4-step.made {
			t.Errorf("canary %v: %d members are new, %d kept their VMs; want %d and %d", step.canary, made, stay, step.made, 4-step.made)
		}
	}
	m.end()
}

// withQuarantine returns a spec that keeps removed members for an hour.
func withQuarantine(replicas int32) v1alpha1.VmGroupSpec {
	s := spec(replicas)
	s.Deletion.QuarantineSeconds = 3600
	return s
}

func rollBackOutOfQuarantine(t *testing.T, s *stage) {
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	kept := withQuarantine(3)
	kept.Update.MaxSurge, kept.Update.MaxUnavailable = &none, &one // without surge, so that each member's name is free when its VM is to return
	m := s.settled(t, "rollback", kept)
	before := slices.Sorted(maps.Values(m.refs(true)))
	m.edit("roll", func(s *v1alpha1.VmGroupSpec) { s.Template = "vm-operator-template-2" })
	m.settle(false)
	m.edit("roll back", func(s *v1alpha1.VmGroupSpec) { s.Template = "vm-operator-template" })
	m.settle(false)
	if after := slices.Sorted(maps.Values(m.refs(true))); !slices.Equal(before, after) {
		t.Errorf("the VMs are %v, want those from quarantine: %v", after, before)
	}
	m.end()
}

func scaleOutOfQuarantine(t *testing.T, s *stage) {
	m := s.settled(t, "quarantine", withQuarantine(4))
	before := m.refs(true)
	m.edit("scale in", func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(2)) })
	m.settle(false)
	m.edit("scale out", func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(4)) })
	m.settle(false)
	m.expect("within the time of the quarantine", before)
	m.end()
}

func takeOutForGood(t *testing.T, s *stage) {
	m := s.settled(t, "out", spec(5))
	want := m.refs(true)
	m.edit("take out-2 out", func(s *v1alpha1.VmGroupSpec) {
		s.Replicas, s.ScaleIn.Remove = new(int32(4)), []string{"out-2"}
	})
	m.settle(false)
	delete(want, "out-2")
	m.expect("without out-2", want)
	m.end()
}

func replaceAMember(t *testing.T, s *stage) {
	m := s.settled(t, "replace", spec(3))
	want := m.refs(true)
	ref := want["replace-1"]
	m.edit("replace replace-1", func(s *v1alpha1.VmGroupSpec) {
		s.Replace = []v1alpha1.Replacement{{Name: "replace-1", MoRef: ref}}
	})
	m.until("the replaced VM is gone", func(_ v1alpha1.VmGroup, all inventory) bool { return all.vms[ref].ref == "" })
	m.settle(false)
	after := m.refs(true)
	for name, was := range want {
		if name != "replace-1" && after[name] != was || slices.Contains(slices.Collect(maps.Values(after)), ref) || len(after) != 3 {
			t.Errorf("the members are %v, want %v with another VM for replace-1", after, want)
		}
	}
	m.end()
}

func keepAMember(t *testing.T, s *stage) {
	m := s.settled(t, "keep", spec(4))
	want := m.refs(true)
	m.edit("keep keep-3", func(s *v1alpha1.VmGroupSpec) {
		s.Replicas, s.ScaleIn.Protected = new(int32(2)), []string{"keep-3"}
	})
	m.settle(false)
	delete(want, "keep-1")
	delete(want, "keep-2")
	m.expect("protected is keep-3", want)
	m.end()
}

func holdAMember(t *testing.T, s *stage) {
	holding := spec(3)
	holding.Deletion.HoldTimeoutSeconds = 3600
	m := s.settled(t, "hold", holding)
	want := m.refs(true)
	const key = "hold.vm.codeconnect.vmworld.com/handover-0"
	m.annotate(key, "hold-2/"+want["hold-2"])
	m.edit("scale in", func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(2)) })
	m.until("hold-2 is held", func(o v1alpha1.VmGroup, _ inventory) bool {
		return slices.ContainsFunc(o.Status.Members, func(m v1alpha1.Member) bool { return m.Name == "hold-2" && !m.HeldUntil.IsZero() })
	})
	time.Sleep(2 * time.Second) // for the removal that must not happen
	m.expect("hold-2 is held", want)
	m.annotate(key, "")
	m.settle(false)
	delete(want, "hold-2")
	m.expect("it can go", want)
	m.end()
}

func pause(t *testing.T, s *stage) {
	m := s.settled(t, "pause", spec(2))
	want := m.refs(true)
	m.edit("pause", func(s *v1alpha1.VmGroupSpec) {
		s.Paused, s.Replicas, s.Template = true, new(int32(1)), "vm-operator-template-2"
	})
	m.until("the status says that the group is paused", func(o v1alpha1.VmGroup, _ inventory) bool {
		return meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionPaused) && o.Status.ObservedGeneration == o.Generation
	})
	time.Sleep(2 * time.Second) // for the changes that must not happen
	m.expect("paused", want)
	m.edit("go on as before", func(s *v1alpha1.VmGroupSpec) {
		s.Paused, s.Replicas, s.Template = false, new(int32(2)), "vm-operator-template"
	})
	m.settle(false)
	m.expect("taken back", want)
	m.end()
}

func pauseAnUpdate(t *testing.T, s *stage) {
	m := s.settled(t, "hold-update", spec(2))
	want := m.refs(true)
	m.edit("pause updates", func(s *v1alpha1.VmGroupSpec) { s.Update.Paused, s.Template = true, "vm-operator-template-2" })
	m.settle(true)
	m.expect("update.paused", want)
	m.edit("scale out", func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(3)) })
	m.settle(true)
	want["hold-update-2"] = m.refs(true)["hold-update-2"]
	m.expect("update.paused, and scaled", want)
	m.edit("go on", func(s *v1alpha1.VmGroupSpec) { s.Update.Paused = false })
	m.settle(false)
	m.end()
}

func standbyMembers(t *testing.T, s *stage) {
	ready := spec(2)
	ready.Standby = 2
	m := s.settled(t, "standby", ready)
	before := m.refs(false)
	m.edit("scale out", func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(3)) })
	m.settle(false)
	for name, ref := range m.refs(true) {
		if before[name] != ref {
			t.Errorf("%s (%s) was not a standby member before: %v", name, ref, before)
		}
	}
	m.end()
}

func applyAgainWithDisks(t *testing.T, s *stage) {
	withDisks := spec(2)
	withDisks.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
	m := s.settled(t, "db", withDisks)
	disks, uid := maps.Clone(m.disks), m.now().UID
	m.end()
	m.told("DisksKept", slices.Collect(maps.Keys(m.owner))...)
	again := s.settled(t, "db", withDisks, func(g *group) {
		g.revisions[0].Annotations = map[string]string{v1alpha1.AnnotationTakeDisksOf: string(uid)}
	})
	if !maps.EqualFunc(disks, again.disks, slices.Equal) {
		t.Errorf("the disks are %v, want %v as before", again.disks, disks)
	}
	again.end()
}

func deleteAndRetain(t *testing.T, s *stage) {
	retained := spec(2)
	retained.Standby, retained.Deletion.Policy = 1, v1alpha1.DeletionRetain
	m := s.settled(t, "retain", retained)
	m.end()
}
