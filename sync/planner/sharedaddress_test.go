package planner_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestMembersThatShareAnAddressAreReportedAndOtherwiseLeftAlone(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(vms []plan.VM)
		says   string // nothing: no address is shared
	}{
		"each its own":             {func([]plan.VM) {}, ""},
		"two the same":             {func(vms []plan.VM) { vms[2].IPs[0] = vms[0].IPs[0] }, "10.0.0.1 (web-0, web-2)"},
		"all the same":             {func(vms []plan.VM) { vms[1].IPs[0], vms[2].IPs[0] = vms[0].IPs[0], vms[0].IPs[0] }, "10.0.0.1 (web-0, web-1, web-2)"},
		"the same in another form": {func(vms []plan.VM) { vms[1].IPs = []string{"::ffff:10.0.0.1"} }, "10.0.0.1 (web-0, web-1)"},
		"only of IPv6":             {func(vms []plan.VM) { vms[0].IPs[1], vms[1].IPs[1] = "fd00::9", "fd00::9" }, "fd00::9 (web-0, web-1)"},
		"one that no client is led to": {func(vms []plan.VM) {
			vms[0].IPs, vms[1].IPs = append(vms[0].IPs, "10.0.9.9"), append(vms[1].IPs, "10.0.9.9")
		}, ""},
		"link-local": {func(vms []plan.VM) { vms[0].IPs, vms[1].IPs = []string{"169.254.1.1"}, []string{"169.254.1.1"} }, ""},
		"one is off": {func(vms []plan.VM) { vms[2].IPs, vms[2].Power = vms[0].IPs, plan.PoweredOff }, ""},
		"one has reported none since its power-on": {func(vms []plan.VM) { vms[2].IPs, vms[2].Tools = nil, false }, ""},
		"one that cannot be reached": {func(vms []plan.VM) {
			vms[2].IPs, vms[2].Reachable, vms[2].Unreachable = vms[0].IPs, false, "disconnected"
		}, ""},
	} {
		o := observed(3)
		addMembers(&o, 3)
		for i := range o.State.VMs {
			o.State.VMs[i].Tools, o.State.VMs[i].IPs = true, []string{"10.0.0." + string(rune('1'+i)), "fd00::" + string(rune('1'+i))}
		}
		before := planner.Make(o)
		o.Group = o.Group.DeepCopy()
		o.Group.Status = before.Status
		c.change(o.State.VMs)
		r := planner.Make(o)
		is := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDuplicateAddress)
		if shown := is != nil && is.Status == metav1.ConditionTrue; shown != (c.says != "") || shown && is.Message != c.says {
			t.Errorf("%s: %+v", what, is)
		}
		notes := 0
		for _, n := range r.Events {
			if n.Reason == plan.ReasonDuplicateAddress && n.Warning && strings.Contains(n.What, c.says) {
				notes++
			}
		}
		if (notes == 1) != (c.says != "") {
			t.Errorf("%s: %d Events", what, notes)
		}
		if c.says == "" {
			continue
		}
		if len(r.Actions) > 0 || r.Status.ReadyReplicas != 3 || r.Status.Phase != v1alpha1.PhaseRunning {
			t.Errorf("%s: %v, %d are ready, %s", what, r.Actions, r.Status.ReadyReplicas, r.Status.Phase)
		}
		o.Group = o.Group.DeepCopy()
		o.Group.Status, o.Now = r.Status, o.Now.Add(time.Minute)
		if again := planner.Make(o); len(again.Events) > 0 {
			t.Errorf("%s: reported again: %+v", what, again.Events)
		}
		for i := range o.State.VMs {
			o.State.VMs[i].IPs = []string{"10.0.0." + string(rune('1'+i))}
		}
		if r := planner.Make(o); statusOf(&r.Status, v1alpha1.ConditionDuplicateAddress) != "" {
			t.Errorf("%s: it stays", what)
		}
	}
}
