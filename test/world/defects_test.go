package world

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// defect is a fault that a test plants, to prove that it is found.
type defect int

const (
	sound          defect = iota
	takesNoMark           // a member is powered off instead of marked
	clonesBeside          // a clone gets a name of its own, so that the name is no lock
	removesBlindly        // a folder is removed with what is in it
	seesAllWell           // whatever exists is taken for being at work
	feelsNoPause          // a process that stood still does not notice
	hidesAsGone           // a VM that cannot be read is taken for gone
	awayIsGone            // a VM that vCenter does not have is taken for destroyed
	endsUnselected        // a group that is not selected is taken for one that is deleted
)

// twistCall changes what a replica is called with.
func (d defect) twistCall(c plan.Call) plan.Call {
	if d == endsUnselected && c.Unselected() {
		g := *c.Group
		g.DeletionTimestamp = &metav1.Time{Time: seconds(time.Now())}
		c.Group = &g
	}
	return c
}

// twist changes what a replica does as the defect has it.
func (d defect) twist(a plan.Action) plan.Action {
	switch {
	case d == takesNoMark && a.Op == plan.Mark:
		a.Op, a.Marked = plan.PowerOff, false
	case d == clonesBeside && a.Op == plan.Clone:
		a.VM += "-x"
	}
	return a
}
