package planner

import (
	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// NeedsOf returns what a group's members need, without what their template has and the spec doesn't set.
func NeedsOf(g *v1alpha1.VmGroup) plan.Needs {
	n := plan.Needs{CPU: g.Spec.CPU, MemoryGiB: g.Spec.Memory, Members: g.Replicas(), Standby: g.Spec.Standby}
	for i := range g.Spec.Disks {
		n.DisksGiB += g.Spec.Disks[i].SizeGiB
	}
	n.Extra = int32(PolicyOf(&g.Spec, int(n.Members)).Surge)
	return n
}
