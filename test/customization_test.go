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

func TestAFailedCustomizationIsReportedAndOnlyTheSpecReplacesTheMember(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true, Boot: 30 * time.Second, IP: time.Minute}}, func(t *testing.T, r *rig) {
		r.must(r.AddCustomizationSpec("linux", false))
		r.Behave(func(b *vcsim.Behavior) {
			b.FailCustomizations, b.CustomizationError = func(vm vcsim.VM) bool { return vm.Name == "web-1" }, "NicSettingMismatch in the guest"
		})
		g := r.serve().group("web", 2)
		g.Spec.CustomizationSpec = "linux"
		g.Spec.Readiness.TimeoutSeconds = new(int32(120))
		failed := func(status string) bool {
			c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionCustomizationFailed)
			return c != nil && string(c.Status) == status && (status == "False" || strings.Contains(c.Message, "web-1") && strings.Contains(c.Message, "NicSettingMismatch in the guest"))
		}
		customizing := false
		_, err := g.Until(within(t), func(metacontroller.Answer) bool {
			customizing = customizing || slices.ContainsFunc(g.Status.Members, func(m v1alpha1.Member) bool { return m.Reason == "Customizing" && !m.Ready })
			return failed("True")
		})
		r.must(err)
		if !customizing || g.Status.Phase != v1alpha1.PhaseError || g.Status.ReadyReplicas > 1 {
			t.Errorf("customizing: %t; %s %s", customizing, g.Status.Phase, g.Status.LastMessage)
		}
		was := refs(r.members())
		_, err = g.Until(within(t), func(metacontroller.Answer) bool { return g.Status.ReadyReplicas == 1 })
		r.must(err)
		r.Behave(func(b *vcsim.Behavior) { b.FailCustomizations, b.CustomizationError = nil, "" })
		time.Sleep(time.Hour) // long enough that healing would have replaced web-1
		r.sameVMs(was)
		g.Edit(func(s *spec) { s.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: was["web-1"]}} })
		up(t, g)
		if failed("True") {
			t.Errorf("the failed customization is still reported: %+v", g.Status.Conditions)
		}
	})
}

func TestWithoutCustomizationInfoFromVCenterMembersStillBecomeReady(t *testing.T) {
	inRig(t, vcsim.Config{APIVersion: "7.0.1.0", Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		r.must(r.AddCustomizationSpec("linux", false))
		r.Behave(func(b *vcsim.Behavior) {
			b.FailCustomizations, b.CustomizationError = func(vcsim.VM) bool { return true }, ""
		})
		g := r.serve().group("web", 1)
		g.Spec.CustomizationSpec = "linux"
		up(t, g)
	})
}
