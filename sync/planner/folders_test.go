package planner_test

import (
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestAGroupsFoldersAreInItsStatusAndReadOnlyInItsDeletion(t *testing.T) {
	t.Parallel()
	o := observed(0)
	o.Group.Status.VCenterUUID, o.Group.Status.Folders = vcenter, []string{"group-v7"}
	if ask := o.Query(); !slices.Equal(ask.Folders, o.Group.Status.Folders) {
		t.Errorf("the query does not ask for them: %v", ask.Folders)
	}
	o.State.Folders = []string{"group-v7", "group-v9"}
	if r := planner.Make(o); !slices.Equal(r.Status.Folders, o.State.Folders) {
		t.Errorf("the status names %v", r.Status.Folders)
	}
	confirms := func(o plan.Observed) []string {
		r := planner.Make(o)
		i := slices.IndexFunc(r.Actions, func(a plan.Action) bool { return a.Op == plan.ConfirmGone })
		if i < 0 {
			t.Fatalf("it does %+v", r.Actions)
		}
		return r.Actions[i].Folders
	}
	let := o
	unselect(&let)
	if folders := confirms(let); len(folders) > 0 {
		t.Errorf("a group that is no longer selected loses %v", folders)
	}
	remove(&o)
	o.State.Folder = ""
	if folders := confirms(o); !slices.Equal(folders, o.State.Folders) {
		t.Errorf("its deletion looks at %v", folders)
	}
	o.State = plan.VCenterState{}
	if r := planner.Make(o); !slices.Equal(r.Status.Folders, o.Group.Status.Folders) {
		t.Errorf("while vCenter's state is unknown, the status names %v", r.Status.Folders)
	}
}
