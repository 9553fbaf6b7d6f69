package test

import (
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Somebody's script gives each new VM a size of its own, so that no clone is as the spec says. Two replicas of the server, which are called in turns, and
// one that starts, agree that another clone would be no better.
func TestAnUpdateStopsWhoseClonesSomebodyElseChanges(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		servers := []*serverReplica{r.serve(), r.serve()}
		g := servers[0].group("web", 3)
		g.Spec.Update.Resize = v1alpha1.ResizeReplace
		up(t, g)
		first := refs(r.members())
		defer r.onChange(func() {
			for _, vm := range r.members() {
				if vm.CPUs == 4 {
					r.must(r.Reconfigure(vm.Path, types.VirtualMachineConfigSpec{NumCPUs: 3}))
				}
			}
		})()
		g.Edit(func(s *spec) { s.CPU = 4 })
		for n := range 120 {
			if n == 60 {
				servers = append(servers, r.serve())
			}
			g.URL = servers[n%len(servers)].url
			_, err := g.Sync(within(t))
			r.must(err)
			time.Sleep(30 * time.Second)
		}
		held := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionUpdateHeld)
		if held == nil || held.Reason != plan.ReasonSuccessorDiffers || !strings.Contains(held.Message, "web-3 was cloned for the present spec, and differs from it: it has 3 CPUs instead of 4") {
			t.Errorf("%s: %s; UpdateHeld is %+v; want SuccessorDiffers of web-3, and in what", g.Status.Phase, g.Status.LastMessage, held)
		}
		if is, destroyed := len(r.members()), r.Calls()["Destroy_Task"]; is != 4 || destroyed > 0 {
			t.Errorf("%d members, and %d were destroyed; want an extra one, and none destroyed", is, destroyed)
		}
		for name, moRef := range first {
			if refs(r.members())[name] != moRef {
				t.Errorf("%s was replaced", name)
			}
		}
	})
}
