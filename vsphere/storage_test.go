package vsphere

import (
	"slices"
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestWithoutARecommendationTheReasonIsReported(t *testing.T) {
	pod := &namedObject{Candidate: naming.Candidate{Path: "/DC0/datastore/pod"}}
	drs := func(faults ...vim.BaseMethodFault) *vim.ClusterDrsFaults {
		by := &vim.ClusterDrsFaultsFaultsByVm{}
		for _, f := range faults {
			by.Fault = append(by.Fault, vim.LocalizedMethodFault{Fault: f, LocalizedMessage: "as vCenter says"})
		}
		return &vim.ClusterDrsFaults{Reason: "storagePlacement", FaultsByVm: []vim.BaseClusterDrsFaultsFaultsByVm{by}}
	}
	for _, c := range []struct {
		drs          *vim.ClusterDrsFaults
		reason, says string
	}{
		{nil, vcfault.ReasonDatastoreFull, "maintenance"},
		{drs(), vcfault.ReasonDatastoreFull, "maintenance"},
		{drs(&vim.InsufficientStorageSpace{}), vcfault.ReasonDatastoreFull, "too little free space"},
		{drs(&vim.NoDiskSpace{Datastore: "ds1"}), vcfault.ReasonDatastoreFull, `"ds1" is full`},
		{drs(&vim.NoCompatibleDatastore{}), vcfault.ReasonDatastoreNotFound, "No datastore fits"},
		{drs(&vim.SystemError{Reason: "odd"}), vcfault.ReasonDatastoreNotFound, "as vCenter says"},
	} {
		e := vctest.AsError(unrecommended(pod, c.drs))
		if e == nil || e.Reason != c.reason || !e.Person || !vctest.Mentions(e.Message, pod.Path, c.says) {
			t.Errorf("got %v, not %s with %q", e, c.reason, c.says)
		}
	}
}

func TestSharedAndEmptierDatastoresComeFirst(t *testing.T) {
	store := func(path string, shared bool, free int64) *namedObject {
		return &namedObject{Candidate: naming.Candidate{Path: path}, props: map[string]vim.AnyType{"summary.multipleHostAccess": shared, "summary.freeSpace": free}}
	}
	all := []*namedObject{store("local", false, 900), store("b", true, 100), store("full", true, 10), store("a", true, 100)}
	slices.SortFunc(all, best)
	var got []string
	for _, s := range all {
		got = append(got, s.Path)
	}
	if !slices.Equal(got, []string{"a", "b", "full", "local"}) {
		t.Errorf("got %q", got)
	}
}

func TestADatastoreInMaintenanceOrOutOfReachIsNotUsed(t *testing.T) {
	store := func(accessible bool, mode string) *namedObject {
		return &namedObject{Candidate: naming.Candidate{Ref: vim.ManagedObjectReference{Type: "Datastore"}}, props: map[string]vim.AnyType{"summary.accessible": accessible, "summary.maintenanceMode": mode}}
	}
	if !usable(store(true, "normal")) || usable(store(false, "normal")) || usable(store(true, "inMaintenance")) || usable(&namedObject{Candidate: naming.Candidate{Ref: vim.ManagedObjectReference{Type: "StoragePod"}}}) {
		t.Error("the wrong datastores are used")
	}
}
