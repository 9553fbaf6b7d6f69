package test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func oneSlot(_ *vsphere.Config, l *loop.Config) { l.Slots = 1 }

func TestAQuestionIsReportedAtOnceAndDelaysNoOtherGroup(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		r.Behave(func(b *vcsim.Behavior) {
			b.AskAtPowerOn, b.Question = func(vm vcsim.VM) bool { return strings.HasPrefix(vm.Name, "moved") }, vcsim.MovedOrCopied
		})
		s := r.serve(oneSlot)
		moved := s.group("moved", 2) // more members than the server has slots
		asked := func(g *metacontroller.Group) bool {
			c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionQuestionPending)
			return c != nil && c.Status == "True" && strings.Contains(c.Message, "might have been moved or copied") && strings.Contains(c.Message, "I Moved It")
		}
		_, err := moved.Until(within(t), func(metacontroller.Answer) bool { return len(r.Asking()) > 0 })
		r.must(err)
		began := time.Now()
		_, err = moved.Until(within(t), func(metacontroller.Answer) bool { return asked(moved) })
		r.must(err)
		if took := time.Since(began); took > 10*time.Second || moved.Status.Phase != v1alpha1.PhaseError {
			t.Errorf("reported after %s: %s %s", took, moved.Status.Phase, moved.Status.LastMessage)
		}
		other := s.group("web", 3)
		up(t, other)
		_, err = moved.Until(within(t), func(metacontroller.Answer) bool { return len(r.Asking()) == 2 })
		r.must(err)
		for _, vm := range r.VMs() {
			if strings.HasPrefix(vm.Name, "moved") && isOn(vm) {
				t.Errorf("%s is on without an answer", vm.Path)
			}
		}
		if n := r.Calls()["AnswerVM"]; n > 0 {
			t.Errorf("the server answered %d questions, want none", n)
		}
		for _, vm := range r.Asking() {
			r.must(r.Answer(vm, "I Moved It"))
		}
		up(t, moved)
		if meta.IsStatusConditionTrue(moved.Status.Conditions, v1alpha1.ConditionQuestionPending) {
			t.Errorf("QuestionPending is still True: %+v", moved.Status.Conditions)
		}
		remove(t, moved)
		remove(t, other)
	})
}

func TestADeletionWaitsForTheAnswerToAMembersQuestion(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		up(t, g)
		r.must(r.Ask("web-0", vcsim.MovedOrCopied))
		time.AfterFunc(10*time.Minute, func() {
			equal(t, r.names(web), []string{"web-0+"})
			r.must(r.Answer("web-0", "I Moved It"))
		})
		remove(t, g)
	})
}
