package vsphere

import (
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

const knownFor = session.KnownFor

// lookups keep what clones look up, so that fifty of them need one answer. They hold for one session: with the next,
// or when an object turns out to be gone, everything is asked for again.
type lookups struct {
	sources    session.Cache[sourceKey, *source]
	computes   session.Cache[string, *places.Computes]
	reach      session.Cache[string, *places.Reach]
	hosts      session.Cache[string, []cloneHost]
	storage    session.Cache[string, *places.Storage]
	networks   session.Cache[string, *places.Networks]
	policies   session.Cache[string, *storagePolicies]
	compatible session.Cache[compatibleKey, map[string]bool]
	customs    session.Cache[string, *types.CustomizationSpec]
	extensions session.Cache[string, *types.Extension]
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
