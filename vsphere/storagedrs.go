// This file reads what Storage DRS recommends for a clone, and why it recommends nothing. It makes no calls.

package vsphere

import (
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// recommendedDatastores returns the datastores that Storage DRS recommends, the best first.
func recommendedDatastores(all []types.ClusterRecommendation) (to []types.ManagedObjectReference) {
	for _, r := range all {
		for _, action := range r.Action {
			if place, is := action.(*types.StoragePlacementAction); is && place.Destination.Value != "" {
				to = append(to, place.Destination)
				break
			}
		}
	}
	return to
}

// noRecommendation says why there is no recommendation, in vCenter's words. Space may come back.
func noRecommendation(pod string, drs *types.ClusterDrsFaults) error {
	var first error
	if drs != nil {
		for _, by := range drs.FaultsByVm {
			if by == nil { // of an unknown type
				continue
			}
			for _, f := range by.GetClusterDrsFaultsFaultsByVm().Fault {
				if first == nil && f.Fault != nil {
					first = &drsError{f}
				}
			}
		}
	}
	if first == nil {
		return vcfault.New(vcfault.ReasonDatastoreFull, true, "Storage DRS recommends no datastore of the datastore cluster %s: check that it has datastores that are not in maintenance mode, have free space, and are mounted on the hosts.", pod)
	}
	why := vcfault.Classify("", first)
	reason := vcfault.ReasonDatastoreNotFound
	if why.Reason == vcfault.ReasonDatastoreFull {
		reason = why.Reason
	}
	e := vcfault.New(reason, true, "Storage DRS recommends no datastore of the datastore cluster %s. %s", pod, why.Message)
	e.Err = first
	return e
}

// drsError is a fault of Storage DRS as an error.
type drsError struct{ types.LocalizedMethodFault }

func (e *drsError) Error() string                { return e.LocalizedMessage }
func (e *drsError) Fault() types.BaseMethodFault { return e.LocalizedMethodFault.Fault }
