package vsphere

import (
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/memo"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/policies"
)

const knownFor = memo.KnownFor

// lookups keep what clones look up, so that fifty of them need one answer. They hold for one session: with the next,
// or when an object turns out to be gone, everything is asked for again.
type lookups struct {
	sources    memo.Memo[sourceKey, *source]
	computes   memo.Memo[string, *places.Computes]
	reach      memo.Memo[string, *places.Reach]
	hosts      memo.Memo[string, []hosts.Host]
	storage    memo.Memo[string, *places.Storage]
	networks   memo.Memo[string, *places.Networks]
	policies   memo.Memo[string, *policies.Book]
	compatible memo.Memo[compatibleKey, map[string]bool]
	customs    memo.Memo[string, *types.CustomizationSpec]
	extensions memo.Memo[string, *types.Extension]
}

// forget drops all answers.
func (l *lookups) forget() {
	l.sources.Forget()
	l.computes.Forget()
	l.reach.Forget()
	l.hosts.Forget()
	l.storage.Forget()
	l.networks.Forget()
	l.policies.Forget()
	l.compatible.Forget()
	l.customs.Forget()
	l.extensions.Forget()
}
