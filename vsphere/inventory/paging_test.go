package inventory

import (
	"fmt"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// govmomi's vcsim gives each page but the first the version "P".
func TestAnAnswerCanHaveManyPagesOfOneVersionButNoneTwice(t *testing.T) {
	page := func(version string, objects ...string) *types.UpdateSet {
		set := &types.UpdateSet{Version: version, Truncated: types.NewBool(true), FilterSet: []types.PropertyFilterUpdate{{}, {}}}
		for _, o := range objects {
			set.FilterSet[1].ObjectSet = append(set.FilterSet[1].ObjectSet, types.ObjectUpdate{Obj: types.ManagedObjectReference{Type: "VirtualMachine", Value: o}})
		}
		return set
	}
	var answer paging
	for i := range 50 {
		if more, err := answer.hasMore(page("P", fmt.Sprint("vm-", i), "vm-x")); !more || err != nil {
			t.Fatalf("page %d: %t, %v", i, more, err)
		}
	}
	last := page("P", "vm-99")
	last.Truncated = nil
	if more, err := answer.hasMore(last); more || err != nil {
		t.Errorf("after the last page: more is %t, the error is %v, want false and none", more, err)
	}
	for name, pages := range map[string][]*types.UpdateSet{
		"the same page again":     {page("P", "vm-1", "vm-2"), page("P", "vm-1", "vm-2")},
		"nothing, and more of it": {page("2")},
		"nothing after something": {page("1", "vm-1"), page("2")},
		"no end":                  nil,
	} {
		var answer paging
		var err error
		for i := 0; err == nil && i <= session.PagesMost; i++ {
			next := page(fmt.Sprint(i), fmt.Sprint("vm-", i))
			if i < len(pages) {
				next = pages[i]
			}
			_, err = answer.hasMore(next)
		}
		if vctest.ReasonOf(t, err) != vcfault.ReasonNotVCenterAPI {
			t.Errorf("%s: %v", name, err)
		}
	}
}
