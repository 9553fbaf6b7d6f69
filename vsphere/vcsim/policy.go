package vcsim

import (
	"slices"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/pbm"
	"github.com/vmware/govmomi/pbm/methods"
	pbmsimulator "github.com/vmware/govmomi/pbm/simulator"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// storagePolicies is the storage policy service at /pbm. govmomi's simulator does not know which datastores satisfy a policy (v0.56.0,
// pbm/simulator/simulator.go:379), and all vCenters of the process share its policies, which each of them modifies (:123).
type storagePolicies struct {
	world    *world
	profiles *pbmsimulator.ProfileManager
	fitting  map[string][]types.ManagedObjectReference // the compatible datastores by policy; no entry: all
	// encrypting is the id of the policy that encrypts.
	encrypting string
}

// pbmContent are the managed objects of the service, named as in a real vCenter.
var pbmContent = pbmtypes.PbmServiceInstanceContent{
	AboutInfo:                 pbmtypes.PbmAboutInfo{Name: "PBM", Version: "2.0", InstanceUuid: uuid.Nil.String()},
	SessionManager:            types.ManagedObjectReference{Type: "PbmSessionManager", Value: "SessionManager"},
	CapabilityMetadataManager: types.ManagedObjectReference{Type: "PbmCapabilityMetadataManager", Value: "CapabilityMetadataManager"},
	ProfileManager:            types.ManagedObjectReference{Type: "PbmProfileProfileManager", Value: "ProfileManager"},
	ComplianceManager:         types.ManagedObjectReference{Type: "PbmComplianceManager", Value: "complianceManager"},
	PlacementSolver:           types.ManagedObjectReference{Type: "PbmPlacementSolver", Value: "placementSolver"},
}

// newPolicies returns a service with two policies that every new vCenter has.
func newPolicies(w *world) *storagePolicies {
	s := &storagePolicies{world: w, profiles: &pbmsimulator.ProfileManager{ManagedObjectReference: pbmContent.ProfileManager},
		fitting: make(map[string][]types.ManagedObjectReference)}
	s.add("vSAN Default Storage Policy")
	s.encrypting = s.add("VM Encryption Policy")
	return s
}

// service returns the API under /pbm. The caller handles its calls and sessions.
func (s *storagePolicies) service() *simulator.Registry {
	r := simulator.NewRegistry()
	r.Namespace, r.Path = pbm.Namespace, pbm.Path
	r.Put(&pbmsimulator.ServiceInstance{ManagedObjectReference: pbm.ServiceInstance, Content: pbmContent})
	r.Put(&profileManager{s.profiles, s})
	r.Put(&placementSolver{pbmContent.PlacementSolver, s})
	return r
}

// add creates a policy for these datastores or, without any, for all, and returns its id. The caller holds the world lock.
func (s *storagePolicies) add(name string, datastores ...types.ManagedObjectReference) string {
	made := s.profiles.PbmCreate(s.world.Context(), &pbmtypes.PbmCreate{CreateSpec: pbmtypes.PbmCapabilityProfileCreateSpec{
		Name: name, Category: string(pbmtypes.PbmProfileCategoryEnumREQUIREMENT), Constraints: new(pbmtypes.PbmCapabilitySubProfileConstraints),
		ResourceType: pbmtypes.PbmProfileResourceType{ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE)},
	}}).(*methods.PbmCreateBody)
	id := made.Res.Returnval.UniqueId
	if len(datastores) > 0 {
		s.fitting[id] = datastores
	}
	return id
}

// has reports whether a policy with this id exists.
func (s *storagePolicies) has(id string) bool {
	return s.profiles.PbmRetrieveContent(&pbmtypes.PbmRetrieveContent{ProfileIds: []pbmtypes.PbmProfileId{{UniqueId: id}}}).Fault() == nil
}

// fits reports whether a datastore, or one in a datastore cluster, satisfies a policy.
func (s *storagePolicies) fits(id string, ref types.ManagedObjectReference) bool {
	fitting, ok := s.fitting[id]
	return !ok || slices.ContainsFunc(fitting, func(ds types.ManagedObjectReference) bool { return s.world.Below(ds, ref) })
}

// profileManager knows the IO filters of all policies; the simulator knows only those of its own policies (v0.56.0,
// pbm/simulator/simulator.go:300).
type profileManager struct {
	*pbmsimulator.ProfileManager
	s *storagePolicies
}

// PbmQueryIOFiltersFromProfileId returns the filter of the policy that encrypts, and none of others.
func (m *profileManager) PbmQueryIOFiltersFromProfileId(req *pbmtypes.PbmQueryIOFiltersFromProfileId) soap.HasFault {
	res := new(pbmtypes.PbmQueryIOFiltersFromProfileIdResponse)
	for _, id := range req.ProfileIds {
		one := pbmtypes.PbmProfileToIofilterMap{Key: id}
		if id.UniqueId == m.s.encrypting {
			one.Iofilters = []pbmtypes.PbmIofilterInfo{{FilterType: string(pbmtypes.PbmIofilterInfoFilterTypeENCRYPTION)}}
		}
		res.Returnval = append(res.Returnval, one)
	}
	return &methods.PbmQueryIOFiltersFromProfileIdBody{Res: res}
}

type placementSolver struct {
	types.ManagedObjectReference
	s *storagePolicies
}

// PbmCheckRequirements reports which of the named datastores and datastore clusters satisfy all policies.
//
// [doc] PbmPlacementCompatibilityResult.error: "faults that prevent this datastore or storage pod from being compatible".
func (m *placementSolver) PbmCheckRequirements(req *pbmtypes.PbmCheckRequirements) soap.HasFault {
	var ids []string
	for _, r := range req.PlacementSubjectRequirement {
		if p, ok := r.(*pbmtypes.PbmPlacementCapabilityProfileRequirement); ok {
			ids = append(ids, p.ProfileId.UniqueId)
		}
	}
	res := new(pbmtypes.PbmCheckRequirementsResponse)
	for _, hub := range req.HubsToSearch {
		ref := types.ManagedObjectReference{Type: hub.HubType, Value: hub.HubId}
		if m.s.world.Objects.Get(ref) == nil {
			continue
		}
		one := pbmtypes.PbmPlacementCompatibilityResult{Hub: hub}
		if slices.ContainsFunc(ids, func(id string) bool { return !m.s.fits(id, ref) }) {
			one.Error = []types.LocalizedMethodFault{{
				Fault: &pbmtypes.PbmCompatibilityCheckFault{Hub: hub}, LocalizedMessage: "the datastore does not satisfy the policy",
			}}
		}
		res.Returnval = append(res.Returnval, one)
	}
	return &methods.PbmCheckRequirementsBody{Res: res}
}
