package test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// A member that an admin turned into a template is nothing that the server can power on, reconfigure or destroy. The group must say what it is, its ordinal
// must wait, nothing must be tried again and again, and a deletion must keep it.
func TestAMemberThatBecameATemplateIsNamedAndKept(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.VmGroupSpec){
		"at rest":    nil,
		"scaled in":  func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(1)) },
		"scaled out": func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(3)) },
		"updated":    func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate },
		"resized":    func(s *v1alpha1.VmGroupSpec) { s.CPU = 3 },
		"replaced":   func(s *v1alpha1.VmGroupSpec) { s.Replace = []v1alpha1.Replacement{{Name: "web-1"}} },
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}, Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
				g := r.serve().group("web", 2)
				up(t, g)
				g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = true })
				mustSync(t, g)
				r.must(r.PowerOff(webFolder + "web-1"))
				r.must(r.ToTemplate(webFolder + "web-1"))
				is := r.untouched(r.details(webFolder + "web-1").Ref)
				if edit != nil {
					g.Edit(edit)
				}
				for i := range g.Spec.Replace {
					g.Spec.Replace[i].MoRef = is.ref.Value
				}
				g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
				a := until(t, g, "the group says that web-1 is a template", func(a metacontroller.Answer) bool {
					return strings.Contains(a.Status.LastMessage, "template") && strings.Contains(a.Status.LastMessage, "web-1")
				})
				syncFor(t, g, 10*time.Minute, "without a word about a step that can't be done", func(a metacontroller.Answer) bool {
					return !strings.Contains(a.Status.LastMessage, "NotSupported") && !strings.Contains(a.Status.LastMessage, "InvalidState")
				})
				is.check()
				if name == "at rest" && (r.Calls()["CloneVM_Task"] != 3 || slices.ContainsFunc(g.Status.Members, func(m v1alpha1.Member) bool { return m.Name == "web-1" })) {
					t.Errorf("%d clones, and the members %+v; want one clone more, of another ordinal, because that of the template waits", r.Calls()["CloneVM_Task"], g.Status.Members)
				}
				before := r.Calls()
				syncFor(t, g, 30*time.Minute, "with the template", func(metacontroller.Answer) bool { return true })
				for _, method := range []string{"CloneVM_Task", "PowerOnMultiVM_Task", "ReconfigVM_Task", "Destroy_Task", "MarkAsVirtualMachine"} {
					if n := r.Calls()[method] - before[method]; n > 0 {
						t.Errorf("%d calls of %s in half an hour; want none: %s", n, method, g.Status.LastMessage)
					}
				}
				if c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady); c == nil {
					t.Error("there is no condition Ready")
				}
				remove(t, g)
				is.check()
				if left := tally(r.VMs(), isStamped); left != 1 {
					t.Errorf("%d VMs are left of the group; want the template", left)
				}
			})
		})
	}
}

// A member that was a template for a while, and is a VM again, is the member again.
func TestAMemberThatWasATemplateForAWhileIsTheMemberAgain(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		up(t, g)
		was := refs(r.members())
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = true })
		mustSync(t, g)
		r.must(r.PowerOff(webFolder + "web-1"))
		r.must(r.ToTemplate(webFolder + "web-1"))
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
		until(t, g, "the group says that web-1 is a template", func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, "template") && strings.Contains(a.Status.LastMessage, "web-1")
		})
		r.must(r.ToVM(webFolder + "web-1"))
		up(t, g)
		r.sameVMs(was)
		remove(t, g)
	})
}
