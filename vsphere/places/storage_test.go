package places

import (
	"slices"
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

func TestSharedAndEmptierDatastoresComeFirst(t *testing.T) {
	store := func(path string, shared bool, free int64) *Object {
		return &Object{Candidate: naming.Candidate{Path: path}, props: map[string]vim.AnyType{"summary.multipleHostAccess": shared, "summary.freeSpace": free}}
	}
	all := []*Object{store("local", false, 900), store("b", true, 100), store("full", true, 10), store("a", true, 100)}
	slices.SortFunc(all, Best)
	var got []string
	for _, s := range all {
		got = append(got, s.Path)
	}
	if !slices.Equal(got, []string{"a", "b", "full", "local"}) {
		t.Errorf("got %q; want %q", got, []string{"a", "b", "full", "local"})
	}
}

func TestADatastoreInMaintenanceOrOutOfReachIsNotUsed(t *testing.T) {
	store := func(accessible bool, mode string) *Object {
		return &Object{Candidate: naming.Candidate{Ref: vim.ManagedObjectReference{Type: "Datastore"}}, props: map[string]vim.AnyType{"summary.accessible": accessible, "summary.maintenanceMode": mode}}
	}
	if !Usable(store(true, "normal")) || Usable(store(false, "normal")) || Usable(store(true, "inMaintenance")) || Usable(&Object{Candidate: naming.Candidate{Ref: vim.ManagedObjectReference{Type: "StoragePod"}}}) {
		t.Error("a datastore in maintenance mode or out of reach counts as usable, or one that is neither as unusable")
	}
}
