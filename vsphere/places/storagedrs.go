// This file asks Storage DRS for a datastore.

package places

import (
	"context"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// RecommendDatastores asks Storage DRS which datastores of a datastore cluster it recommends, the best first.
func RecommendDatastores(ctx context.Context, s *session.Session, pod *Object, spec types.StoragePlacementSpec) (to []types.ManagedObjectReference, err error) {
	spec.PodSelectionSpec = types.StorageDrsPodSelectionSpec{StoragePod: &pod.Ref}
	req := types.RecommendDatastores{This: *s.Vim.ServiceContent.StorageResourceManager, StorageSpec: spec}
	res, err := methods.RecommendDatastores(ctx, s.Vim, &req)
	if err == nil && len(res.Returnval.Recommendations) == 0 && res.Returnval.DrsFault == nil {
		// An answer without a recommendation and without a reason: govmomi's vcsim wants the datastore cluster in InitialVmConfig, too.
		req.StorageSpec.PodSelectionSpec.InitialVmConfig = []types.VmPodConfigForPlacement{{StoragePod: pod.Ref}}
		res, err = methods.RecommendDatastores(ctx, s.Vim, &req)
	}
	if err != nil {
		return nil, err
	}
	for _, r := range res.Returnval.Recommendations {
		for _, action := range r.Action {
			if place, is := action.(*types.StoragePlacementAction); is && place.Destination.Value != "" {
				to = append(to, place.Destination)
				break
			}
		}
	}
	if len(to) == 0 {
		return nil, noRecommendation(pod.Path, res.Returnval.DrsFault)
	}
	return to, nil
}

// noRecommendation returns the fault for no recommendation, with vCenter's reason.
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
		return vcfault.ForOperator(vcfault.ReasonDatastoreFull, "Storage DRS recommends no datastore of the datastore cluster %s: check that it has datastores that are not in maintenance mode, have free space, and are mounted on the hosts.", pod)
	}
	why := vcfault.Classify("", first)
	reason := vcfault.ReasonDatastoreNotFound
	if why.Reason == vcfault.ReasonDatastoreFull {
		reason = why.Reason
	}
	e := vcfault.ForOperator(reason, "Storage DRS recommends no datastore of the datastore cluster %s. %s", pod, why.Message)
	e.Err = first
	return e
}

// drsError is a fault of Storage DRS as an error.
type drsError struct{ types.LocalizedMethodFault }

func (e *drsError) Error() string { return e.LocalizedMessage }

func (e *drsError) Fault() types.BaseMethodFault { return e.LocalizedMethodFault.Fault }
