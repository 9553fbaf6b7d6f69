package places

import (
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestWithoutARecommendationTheReasonIsReported(t *testing.T) {
	const pod = "/DC0/datastore/pod"
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
		e := vctest.AsError(noRecommendation(pod, c.drs))
		if e == nil || e.Reason != c.reason || !e.NeedsOperator || !vctest.Mentions(e.Message, pod, c.says) {
			t.Errorf("got the error %v; want %s with %q, for an operator", e, c.reason, c.says)
		}
	}
}
