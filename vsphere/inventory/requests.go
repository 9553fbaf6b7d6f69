package inventory

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// requests has what groups asked for since the last rescan, and what they need from vCenter for it. forgetRequests drops requests that are not
// repeated.
type requests struct {
	mu sync.Mutex
	// requesters are the groups that asked for a folder since the last forgetRequesters, by namespace and name; formerRequesters are those that
	// asked in the period before.
	requesters, formerRequesters map[placeKey]requester
	placements                   map[plan.Home]*GroupFolder // without that of the settings
	awaited                      map[string]awaited         // VMs that the reader was asked to read
	unreported                   map[string]bool            // objects that the stream may not have reported: see unwatched
	missing                      missingSet
	evidence                     evidence
	adoptions                    map[types.UID]*adoption
	adoptCandidates              map[string]*adoptCandidate // unmanaged VMs that a group wants to adopt
	previews                     map[string]previewReading  // VMs that were read for a preview, by moRef
	ruleRequests                 map[types.UID]bool         // groups that asked for DRS rules since the last rescan
	ruleChecks                   map[types.UID]ruleCheck    // whether a group's rules are off
}

func (q *requests) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requesters, q.formerRequesters = map[placeKey]requester{}, map[placeKey]requester{}
	q.placements, q.awaited, q.unreported = map[plan.Home]*GroupFolder{}, map[string]awaited{}, map[string]bool{}
	q.evidence = newEvidence()
	q.missing = missingSet{destroyed: map[string]bool{}, all: map[plan.VMID]*Missing{}, byMoRef: map[string][]*Missing{}, by: map[string]plan.Actor{}, removed: map[types.UID]plan.Removed{}}
	q.adoptions, q.adoptCandidates = map[types.UID]*adoption{}, map[string]*adoptCandidate{}
	q.previews = map[string]previewReading{}
	q.ruleRequests, q.ruleChecks = map[types.UID]bool{}, map[types.UID]ruleCheck{}
}

// expectReport notes objects that the stream should report. unwatched returns those that it does not.
func (q *requests) expectReport(moRefs ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, moRef := range moRefs {
		q.unreported[moRef] = true
	}
}

// dropUnasked drops the requests that groups have not repeated. Groups that still exist ask again at their next hook call. The caller holds
// Inventory.mu.
func (q *requests) dropUnasked() {
	q.forgetRequesters()
	q.forgetAdoptCandidates()
	q.forgetMissing()
}
