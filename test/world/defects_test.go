package world

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// defect is a defect that a test plants, to prove that lives find it.
type defect int

const (
	sound             defect = iota
	takesNoMark              // a member is powered off instead of marked
	clonesBeside             // a clone gets a name of its own, so that the name is no lock
	removesBlindly           // a folder is removed with its contents
	seesAllWell              // every VM that exists counts as working
	feelsNoPause             // a process that was paused doesn't notice
	hidesAsGone              // a VM that can't be read counts as gone
	awayIsGone               // a VM that left the inventory counts as destroyed
	endsUnselected           // a group that isn't selected counts as deleted
	takesByName              // a disk with the right name is attached, regardless of its owner
	attachesUsed             // a disk of another VM is attached
	makesAnother             // a disk is always created, without a search for an existing one
	startsWithout            // a member is powered on without a check of its disks
	deletesDisks             // a VM is destroyed with its disks
	countsUnconfirmed        // a member that the status lists and no replica sees counts as present (S1)
	hopeful                  // members are replaced though no successor can be made (S2)
	restless                 // a member that matches the spec counts as outdated
)

// twistCall applies the defect to a hook call of a replica.
func (d defect) twistCall(r *replica, c plan.Call) plan.Call {
	switch {
	case d == countsUnconfirmed && !c.Finalizing:
		g := c.Group.DeepCopy()
		for _, m := range c.Group.Status.Members {
			if seen := r.view.vms[m.MoRef]; seen != nil && seen.gone {
				*g.Spec.Replicas = max(0, *g.Spec.Replicas-1)
			}
		}
		c.Group = g
	case d == restless && len(c.Group.Status.Members) > 0:
		g := c.Group.DeepCopy()
		g.Spec.CPU++
		c.Group = g
	}
	if d == endsUnselected && c.Unselected() {
		g := *c.Group
		g.DeletionTimestamp = &metav1.Time{Time: seconds(time.Now())}
		c.Group = &g
	}
	return c
}

// twist applies the defect to an action of a replica.
func (d defect) twist(a plan.Action) plan.Action {
	switch {
	case d == takesNoMark && a.Op == plan.Mark:
		a.Op, a.Marked = plan.PowerOff, false
	case d == clonesBeside && a.Op == plan.Clone:
		a.Key += "-x"
	}
	return a
}
