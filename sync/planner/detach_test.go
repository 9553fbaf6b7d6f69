package planner

import (
	"reflect"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestDisksAreRememberedOrDeletedBeforeTheirVMGoes(t *testing.T) {
	t.Parallel()
	has := []plan.MemberDisk{{Name: "data", ID: "fcd-1"}}
	deleted := []plan.MemberDisk{{Name: "data", ID: "fcd-1", Parted: plan.PartedDeleted}}
	listed := []v1alpha1.PersistentDisk{{Name: "data", ID: "fcd-1", MoRef: "vm-7"}}
	elsewhere := []v1alpha1.PersistentDisk{{Name: "data", ID: "fcd-1", MoRef: "vm-8"}}
	wait, del := detachStep{AwaitStatus: true}, detachStep{Delete: []string{"fcd-1"}}
	for what, c := range map[string]struct {
		listed  []v1alpha1.PersistentDisk
		has     []plan.MemberDisk
		becomes v1alpha1.Retention
		gone    bool
		want    detachStep
	}{
		"no disks":                                   {nil, nil, v1alpha1.RetentionRetain, false, detachStep{}},
		"has it, not listed":                         {nil, has, v1alpha1.RetentionRetain, false, wait},
		"has it, listed":                             {listed, has, v1alpha1.RetentionRetain, false, detachStep{}},
		"has it, listed, to be deleted":              {listed, has, v1alpha1.RetentionDelete, false, del},
		"has it, listed with another, to be deleted": {elsewhere, has, v1alpha1.RetentionDelete, false, wait},
		"lacks it, listed":                           {listed, nil, v1alpha1.RetentionRetain, false, wait},
		"it was deleted, listed":                     {listed, deleted, v1alpha1.RetentionRetain, false, wait},
		"it was deleted, not listed":                 {nil, deleted, v1alpha1.RetentionRetain, false, detachStep{}},
		"group deleted, not listed":                  {nil, has, v1alpha1.RetentionRetain, true, detachStep{}},
		"group deleted, with its disk":               {elsewhere, has, v1alpha1.RetentionDelete, true, del},
	} {
		got := beforeDetach(c.listed, "vm-7", c.has, func(string) v1alpha1.Retention { return c.becomes }, c.gone)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}
