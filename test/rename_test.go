package test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Users copy a member's name from the status to the spec or to an annotation, even if its VM has another name in vCenter.
func TestListsTakeTheNameThatTheStatusShowsAfterARenameInVCenter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask     func(g *metacontroller.Group, m *v1alpha1.Member) // asks for one member, by the name that the status shows
		goes    bool
		ordinal int32
	}{
		"replace": {func(g *metacontroller.Group, m *v1alpha1.Member) {
			g.Edit(func(s *spec) { s.Replace = []v1alpha1.Replacement{{Name: m.Name, MoRef: m.MoRef}} })
		}, true, 1},
		"remove": {func(g *metacontroller.Group, m *v1alpha1.Member) {
			g.Edit(func(s *spec) { s.ScaleIn.Remove, s.Replicas = []string{m.Name}, new(int32(2)) })
		}, true, 1},
		"protected": {func(g *metacontroller.Group, m *v1alpha1.Member) {
			g.Edit(func(s *spec) { s.ScaleIn.Protected, s.Replicas = []string{m.Name}, new(int32(1)) })
		}, false, 2},
		"a hold": {func(g *metacontroller.Group, m *v1alpha1.Member) {
			g.Annotations = map[string]string{v1alpha1.AnnotationHold + "test": m.Name + "/" + m.MoRef}
			g.Edit(func(s *spec) { s.Replicas, s.Deletion.HoldTimeoutSeconds = new(int32(0)), 3600 })
		}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{Tools: true})
				g := r.serve().group("web", 3)
				was := refsByMember(up(t, g).Status)
				for _, m := range []string{"web-0", "web-1", "web-2"} {
					r.must(r.Rename(web+"/"+m, "mine-"+m))
				}
				is := until(t, g, "the status shows the new names", func(a metacontroller.Answer) bool {
					return !slices.ContainsFunc(a.Status.Members, func(m v1alpha1.Member) bool { return m.VMName != "mine-"+m.Name })
				}).Status
				if now := refsByMember(is); len(now) != 3 || now["web-0"] != was["web-0"] || now["web-1"] != was["web-1"] || now["web-2"] != was["web-2"] {
					t.Fatalf("members %v, and before the rename %v", now, was)
				}
				m := &is.Members[c.ordinal]
				c.ask(g, m)
				after := until(t, g, "the server has done what it can", func(a metacontroller.Answer) bool {
					return len(a.Status.Members) == int(max(1, *g.Spec.Replicas)) && a.Status.Phase == v1alpha1.PhaseRunning == (name != "a hold") &&
						a.Status.ObservedGeneration == g.Generation && (name != "replace" || !isMember(a.Status, m.MoRef))
				}).Status
				if stays := isMember(after, m.MoRef); stays == c.goes {
					t.Errorf("%s (%s) stays: %t; members %v", m.Name, m.MoRef, stays, refsByMember(after))
				}
			})
		})
	}
}

// The status, the ConfigMap, /sd and Events name a member the same way, and say what its VM is called in vCenter where that differs.
func TestAMemberHasOneNameEverywhereAfterARenameInVCenter(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		s := r.serve()
		g := s.group("web", 2)
		g.Spec.Standby = 1
		until(t, g, "the standby member is ready", func(a metacontroller.Answer) bool {
			return a.Status.Phase == v1alpha1.PhaseRunning && len(a.Status.Standby) == 1 && a.Status.Standby[0].Ready
		})
		r.must(r.Rename(web+"/web-1", "mine"))
		r.must(r.Rename(web+"/web-2", "spare"))
		a := until(t, g, "the status shows the new names", func(a metacontroller.Answer) bool {
			return a.Status.Members[1].VMName == "mine" && a.Status.Standby[0].VMName == "spare"
		})
		if a.Status.Members[1].Name != "web-1" || a.Status.Members[0].VMName != "" || a.Status.Standby[0].Name != "web-2" {
			t.Errorf("the members or standby members have other names: %+v, %+v", a.Status.Members, a.Status.Standby)
		}
		configMap := func(a metacontroller.Answer) string {
			var all strings.Builder
			for _, raw := range a.Children {
				var child struct{ Data map[string]string }
				r.must(json.Unmarshal(raw, &child))
				all.WriteString(child.Data["members.json"])
			}
			return all.String()
		}
		if text := configMap(a); !strings.Contains(text, `{"name":"web-1","ordinal":1,"vmName":"mine",`) || !strings.Contains(text, `{"name":"web-0","ordinal"`) {
			t.Errorf("the ConfigMap has %s; want %q and %q in the text", text, `{"name":"web-1","ordinal":1,"vmName":"mine",`, `{"name":"web-0","ordinal"`)
		}
		r.must(r.PowerOff(web + "/mine"))
		r.must(r.Destroy(web + "/mine"))
		until(t, g, "an Event tells", func(a metacontroller.Answer) bool {
			return slices.ContainsFunc(a.Children, func(raw json.RawMessage) bool {
				return strings.Contains(string(raw), "MemberGone") && strings.Contains(string(raw), "web-1 (now mine; vm-")
			})
		})
		up(t, g)
	})
}

// If a renamed member vanishes from vCenter, vCenter's events have the VM's name, not the member's. A server finds the events by the VM's name, even if
// the server never saw the VM.
func TestARenamedMemberThatVanishesIsNamedAsTheSpecTakesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newVanishRig(t)
		s := r.serve()
		g := s.group("web", 4)
		up(t, g)
		r.must(r.Rename(web+"/web-0", "mine"))
		until(t, g, "the status shows the new name", func(a metacontroller.Answer) bool { return a.Status.Members[0].VMName == "mine" })
		s.stop()
		host, n := r.removeHostOf(web + "/mine")
		g.URL = r.serve().url
		a := hasVanished(t, g, n, "its host "+host+" was removed from the inventory by ")
		for _, m := range a.Status.Members {
			if !m.VanishedAt.IsZero() {
				g.Edit(func(s *spec) { s.Replace = append(s.Replace, v1alpha1.Replacement{Name: m.Name, MoRef: m.MoRef}) })
			}
		}
		up(t, g)
	})
}

// refsByMember returns the moRefs of the members in a status, by the members' names.
func refsByMember(s v1alpha1.VmGroupStatus) map[string]string {
	all := map[string]string{}
	for _, m := range s.Members {
		all[m.Name] = m.MoRef
	}
	return all
}

func isMember(s v1alpha1.VmGroupStatus, moRef string) bool {
	return slices.ContainsFunc(s.Members, func(m v1alpha1.Member) bool { return m.MoRef == moRef })
}
