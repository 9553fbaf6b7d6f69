package vcsim

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/pbm"
	"github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Policies is the storage policy service at /pbm, as far as placement needs it. In govmomi's simulator of it, all vCenters of a process
// share and modify the policies, and all datastores are compatible with each.
type storagePolicies struct {
	world *world

	mu       sync.Mutex // guards what follows
	profiles []*pbmtypes.PbmCapabilityProfile
	fitting  map[string][]types.ManagedObjectReference // the compatible datastores by policy; no entry: all
}

// The managed objects of the service, named as in a real vCenter.
var (
	pbmProfiles = types.ManagedObjectReference{Type: "PbmProfileProfileManager", Value: "ProfileManager"}
	pbmSolver   = types.ManagedObjectReference{Type: "PbmPlacementSolver", Value: "placementSolver"}
)

var storageResource = pbmtypes.PbmProfileResourceType{ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE)}

// New returns a service with the policies of every new vCenter.
func newPolicies(w *world) *storagePolicies {
	s := &storagePolicies{world: w, fitting: make(map[string][]types.ManagedObjectReference)}
	s.Add("aa6d5a82-1c88-45da-85d3-3d74b91a5bad", "vSAN Default Storage Policy")
	s.Add("4d5f673c-536f-11e6-beb8-9e71128cae77", "VM Encryption Policy")
	return s
}

// vms are the policies of VMs.
type vms interface {
	// PoliciesOfHome lists the ids of the policies of a VM home. The caller holds the world lock.
	PoliciesOfHome(vm types.ManagedObjectReference) []string
}

// Service returns the API under /pbm. The caller handles its calls and sessions.
func (s *storagePolicies) Service(given vms) *simulator.Registry {
	r := simulator.NewRegistry()
	r.Namespace, r.Path = pbm.Namespace, pbm.Path
	r.Put(&pbmService{ManagedObjectReference: pbm.ServiceInstance})
	r.Put(&pbmProfileManager{pbmProfiles, s, given})
	r.Put(&pbmPlacementSolver{pbmSolver, s})
	return r
}

// Add creates a policy for these datastores or, without any, for all.
func (s *storagePolicies) Add(id, name string, datastores ...types.ManagedObjectReference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.profiles = append(s.profiles, &pbmtypes.PbmCapabilityProfile{
		PbmProfile: pbmtypes.PbmProfile{
			ProfileId: pbmtypes.PbmProfileId{UniqueId: id}, Name: name,
			CreationTime: now, CreatedBy: "Temporary user handle", LastUpdatedTime: now, LastUpdatedBy: "Temporary user handle",
		},
		ProfileCategory: string(pbmtypes.PbmProfileCategoryEnumREQUIREMENT), ResourceType: storageResource,
		Constraints: new(pbmtypes.PbmCapabilitySubProfileConstraints),
	})
	if len(datastores) > 0 {
		s.fitting[id] = datastores
	}
}

// Has reports whether a policy with this id exists.
func (s *storagePolicies) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.profiles, func(p *pbmtypes.PbmCapabilityProfile) bool { return p.ProfileId.UniqueId == id })
}

// fits reports whether a datastore, or one in a datastore cluster, satisfies a policy.
func (s *storagePolicies) fits(id string, ref types.ManagedObjectReference) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	fitting, ok := s.fitting[id]
	return !ok || slices.ContainsFunc(fitting, func(ds types.ManagedObjectReference) bool { return s.world.Below(ds, ref) })
}

type pbmService struct{ types.ManagedObjectReference }

// PbmRetrieveServiceContent lists the managed objects of the service.
func (*pbmService) PbmRetrieveServiceContent(*pbmtypes.PbmRetrieveServiceContent) soap.HasFault {
	return &methods.PbmRetrieveServiceContentBody{Res: &pbmtypes.PbmRetrieveServiceContentResponse{
		Returnval: pbmtypes.PbmServiceInstanceContent{
			AboutInfo:                 pbmtypes.PbmAboutInfo{Name: "PBM", Version: "2.0", InstanceUuid: uuid.Nil.String()},
			SessionManager:            types.ManagedObjectReference{Type: "PbmSessionManager", Value: "SessionManager"},
			CapabilityMetadataManager: types.ManagedObjectReference{Type: "PbmCapabilityMetadataManager", Value: "CapabilityMetadataManager"},
			ProfileManager:            pbmProfiles,
			ComplianceManager:         types.ManagedObjectReference{Type: "PbmComplianceManager", Value: "complianceManager"},
			PlacementSolver:           pbmSolver,
		},
	}}
}

type pbmProfileManager struct {
	types.ManagedObjectReference
	s     *storagePolicies
	given vms
}

// PbmQueryProfile lists the ids of the policies for a resource type and, if given, a category.
func (m *pbmProfileManager) PbmQueryProfile(req *pbmtypes.PbmQueryProfile) soap.HasFault {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	res := new(pbmtypes.PbmQueryProfileResponse)
	for _, p := range m.s.profiles {
		if p.ResourceType == req.ResourceType && (req.ProfileCategory == "" || req.ProfileCategory == p.ProfileCategory) {
			res.Returnval = append(res.Returnval, p.ProfileId)
		}
	}
	return &methods.PbmQueryProfileBody{Res: res}
}

// PbmRetrieveContent returns policies by id. An unknown id is an InvalidArgument, as in govmomi's simulator.
func (m *pbmProfileManager) PbmRetrieveContent(req *pbmtypes.PbmRetrieveContent) soap.HasFault {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	res := new(pbmtypes.PbmRetrieveContentResponse)
	for _, id := range req.ProfileIds {
		i := slices.IndexFunc(m.s.profiles, func(p *pbmtypes.PbmCapabilityProfile) bool { return p.ProfileId == id })
		if i < 0 {
			return &methods.PbmRetrieveContentBody{Fault_: simulator.Fault("", &types.InvalidArgument{InvalidProperty: "profileIds"})}
		}
		copied := *m.s.profiles[i]
		res.Returnval = append(res.Returnval, &copied)
	}
	return &methods.PbmRetrieveContentBody{Res: res}
}

// PbmQueryAssociatedProfile lists the policies of a VM home.
func (m *pbmProfileManager) PbmQueryAssociatedProfile(req *pbmtypes.PbmQueryAssociatedProfile) soap.HasFault {
	m.s.world.RLock()
	defer m.s.world.RUnlock()
	res := new(pbmtypes.PbmQueryAssociatedProfileResponse)
	for _, id := range m.given.PoliciesOfHome(types.ManagedObjectReference{Type: "VirtualMachine", Value: req.Entity.Key}) {
		res.Returnval = append(res.Returnval, pbmtypes.PbmProfileId{UniqueId: id})
	}
	return &methods.PbmQueryAssociatedProfileBody{Res: res}
}

type pbmPlacementSolver struct {
	types.ManagedObjectReference
	s *storagePolicies
}

// PbmCheckRequirements reports which datastores and datastore clusters satisfy all policies.
//
// [doc] PbmCheckRequirements, hubsToSearch: "If this parameter is not specified, the Server uses all of the datastores
// and storage pods"; PbmPlacementCompatibilityResult.error: "faults that prevent this datastore or storage pod from
// being compatible".
func (m *pbmPlacementSolver) PbmCheckRequirements(req *pbmtypes.PbmCheckRequirements) soap.HasFault {
	var ids []string
	for _, r := range req.PlacementSubjectRequirement {
		if p, ok := r.(*pbmtypes.PbmPlacementCapabilityProfileRequirement); ok {
			ids = append(ids, p.ProfileId.UniqueId)
		}
	}
	res, fault := m.check(req.HubsToSearch, ids)
	if fault != nil {
		return &methods.PbmCheckRequirementsBody{Fault_: fault}
	}
	return &methods.PbmCheckRequirementsBody{Res: &pbmtypes.PbmCheckRequirementsResponse{Returnval: res}}
}

// PbmCheckCompatibility does the same for one policy.
func (m *pbmPlacementSolver) PbmCheckCompatibility(req *pbmtypes.PbmCheckCompatibility) soap.HasFault {
	res, fault := m.check(req.HubsToSearch, []string{req.Profile.UniqueId})
	if fault != nil {
		return &methods.PbmCheckCompatibilityBody{Fault_: fault}
	}
	return &methods.PbmCheckCompatibilityBody{Res: &pbmtypes.PbmCheckCompatibilityResponse{Returnval: res}}
}

func (m *pbmPlacementSolver) check(hubs []pbmtypes.PbmPlacementHub, ids []string) ([]pbmtypes.PbmPlacementCompatibilityResult, *soap.Fault) {
	w := m.s.world
	w.RLock()
	defer w.RUnlock()
	for _, id := range ids {
		if !m.s.Has(id) {
			return nil, simulator.Fault("", &types.InvalidArgument{InvalidProperty: "profile"})
		}
	}
	if len(hubs) == 0 {
		for _, kind := range []string{"Datastore", "StoragePod"} {
			for _, e := range w.Objects.All(kind) {
				hubs = append(hubs, pbmtypes.PbmPlacementHub{HubType: kind, HubId: e.Reference().Value})
			}
		}
	}
	var results []pbmtypes.PbmPlacementCompatibilityResult
	for _, hub := range hubs {
		ref := types.ManagedObjectReference{Type: hub.HubType, Value: hub.HubId}
		if w.Objects.Get(ref) == nil {
			continue
		}
		one := pbmtypes.PbmPlacementCompatibilityResult{Hub: hub}
		if slices.ContainsFunc(ids, func(id string) bool { return !m.s.fits(id, ref) }) {
			one.Error = []types.LocalizedMethodFault{{
				Fault: &pbmtypes.PbmCompatibilityCheckFault{Hub: hub}, LocalizedMessage: "the datastore does not satisfy the policy",
			}}
		}
		results = append(results, one)
	}
	return results, nil
}
