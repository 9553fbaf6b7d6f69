package planner_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestTheStatusSaysWhichMembersAreOnOneHost(t *testing.T) {
	for _, c := range []struct {
		what   string
		apart  v1alpha1.AntiAffinity
		change func(vms []plan.VM)
		want   string
	}{
		{"each on its own", v1alpha1.AntiAffinityPreferred, func(vms []plan.VM) { vms[2].Host = "esx-3" }, ""},
		{"two on one", v1alpha1.AntiAffinityPreferred, func([]plan.VM) {}, "esx-2 (web-1, web-2)"},
		{"two on one, though they must be apart", v1alpha1.AntiAffinityRequired, func([]plan.VM) {}, "esx-2 (web-1, web-2)"},
		{"two pairs", v1alpha1.AntiAffinityPreferred, func(vms []plan.VM) { vms[3].Host = "esx-1" }, "esx-1 (web-0, web-3), esx-2 (web-1, web-2)"},
		{"nobody asked", "", func([]plan.VM) {}, ""},
		{"one is off", v1alpha1.AntiAffinityPreferred, func(vms []plan.VM) { vms[2].Power = plan.PoweredOff }, ""},
		{"one is out of reach", v1alpha1.AntiAffinityPreferred, func(vms []plan.VM) { vms[2].Reachable = false }, ""},
		{"the hosts are hidden", v1alpha1.AntiAffinityPreferred, func(vms []plan.VM) { vms[1].Host, vms[2].Host = "", "" }, ""},
	} {
		o := atWork(4)
		o.Group.Spec.Placement.AntiAffinity = c.apart
		for i, host := range []string{"esx-1", "esx-2", "esx-2", "esx-4"} {
			o.State.VMs[i].Host = host
		}
		c.change(o.State.VMs)
		r, got := planner.Make(o), ""
		if is := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionMembersShareHost); is != nil {
			got = is.Message
		}
		if got != c.want {
			t.Errorf("%s: the condition says %q; want %q", c.what, got, c.want)
		}
	}
}
