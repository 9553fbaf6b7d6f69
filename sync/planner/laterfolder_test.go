package planner_test

import (
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// A replica's lease may last longer than its group. Then a new folder with the group's name belongs to another group.
func TestAFolderThatCameAfterTheNewestCallIsLeftAlone(t *testing.T) {
	t.Parallel()
	o := observed(2)
	o.Group.Spec.Adopt = []string{"/DC0/vm/old/db"}
	o.State.Candidates = []plan.Candidate{{Entry: "/DC0/vm/old/db", MoRef: "vm-700", Name: "db", Folder: "group-v9", Ordinal: -1}}
	o.State.Folder, o.State.Quarantine = "group-v8", "group-v10"
	if r := planner.Make(o); len(r.Actions) > 0 || !r.InProgress {
		t.Errorf("it does %+v, and is in progress: %v", r.Actions, r.InProgress)
	}
	uses := func(what string, change func(o *plan.Observed)) {
		t.Helper()
		used := o
		change(&used)
		if r := planner.Make(used); !slices.ContainsFunc(r.Actions, func(a plan.Action) bool { return a.Op == plan.Clone && a.Folder() == "group-v8" }) {
			t.Errorf("%s: it does %+v", what, r.Actions)
		}
	}
	uses("a call came since", func(o *plan.Observed) { o.OwnFolders = []string{"group-v7", "group-v8"} })
	uses("a member is in it", func(o *plan.Observed) {
		m := vm(o, 0)
		m.Folder, o.Group.Spec.Adopt = "group-v8", nil
		o.State.VMs, o.State.Candidates = []plan.VM{m}, nil
	})
}

// From a hook call during which vCenter was unknown, the server can't tell which folders were created or removed since.
func TestAFolderIsNotCreatedForACallThatCameWhileVCenterWasUnknown(t *testing.T) {
	t.Parallel()
	o := observed(2)
	if r := planner.Make(o); !r.Wants(plan.FolderKey, plan.CreateFolder) {
		t.Fatalf("it does %+v", r.Actions)
	}
	o.Blind = true
	if r := planner.Make(o); len(r.Actions) > 0 {
		t.Errorf("it does %+v", r.Actions)
	}
}
