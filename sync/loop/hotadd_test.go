package loop

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// After vCenter refuses a hot add, the next step is the mark. Its success clears the record of the refusal, so the mark itself says that the member
// is to be power-cycled, however long the member drains first.
func TestAMemberWhoseHotAddIsRefusedIsPowerCycledOnce(t *testing.T) {
	m := newModel(0)
	m.fault = func(_ plan.Ref, a plan.Action) error {
		if a.Op == plan.Reconfigure && plan.ArgsOf[plan.ResizeArgs](a.Args).Hot {
			return fault{Reason: "HotAddRefused", Message: "it has no licence for that"}
		}
		return nil
	}
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		group := func(generation int64, cpu int32) plan.Call {
			c := call("web", 2)
			c.Group.Generation, c.Group.Spec.CPU = generation, cpu
			c.Group.Spec.Service = &v1alpha1.Service{DrainSeconds: 90}
			one, none := intstr.FromInt32(1), intstr.FromInt32(0)
			c.Group.Spec.Update.MaxUnavailable, c.Group.Spec.Update.MaxSurge = &one, &none
			return c
		}
		c := group(1, 2)
		m.bringUp(t, c)
		m.change(c.Ref(), func(s *plan.VCenterState) {
			for i := range s.VMs {
				s.VMs[i].CPUHotAdd, s.VMs[i].MemoryHotAdd = true, true
			}
		})
		c = group(2, 4)
		sized := func() bool {
			status := l.Sync(c).Status
			c = group(2, 4) // the loop keeps the call
			c.Group.Status = status
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, vm := range m.world(c.Ref()).State.VMs {
				if vm.CPU != 4 || vm.Power != plan.PoweredOn {
					return false
				}
			}
			return true
		}
		before := len(m.begun())
		until(t, 10*time.Minute, "both have their size", sized)
		marks := 0
		for _, line := range m.begun()[before:] {
			if strings.HasPrefix(line, string(plan.Mark)+" ") {
				marks++
			}
			if strings.HasPrefix(line, string(plan.Unmark)+" ") {
				t.Error("a mark is removed:", line)
			}
		}
		if marks != 2 {
			t.Errorf("%d marks for two members: %v", marks, m.begun()[before:])
		}
	})
}
