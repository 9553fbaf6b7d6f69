// This file is the step: one action for one group, and the checks that its VM is still the member that it was planned for.

package vsphere

import (
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// step carries out one action for one group.
type step struct {
	calls
	ref    plan.Ref
	action plan.Action
}

// own returns the member that the action is for, if it is still the group's. The server acts on no other VM.
func (st *step) own() (*inventory.Member, error) { return st.ownOf(st.ref, st.action) }

// vm returns the reference of the VM that the action is for.
func (st *step) vm() types.ManagedObjectReference { return inventory.VMRef(st.action.MoRef) }

// ownOf returns the member that an action is for, or that a preview says it is for.
func (v *parts) ownOf(ref plan.Ref, a plan.Action) (*inventory.Member, error) {
	m := v.inventory.Member(a.MoRef)
	if m == nil || m.Stamp.UID != ref.UID || m.Stamp.Ordinal != a.Ordinal {
		return nil, errNotOurs(a)
	}
	return m, nil
}

func errNotOurs(a plan.Action) *vcfault.Error {
	return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "The VM of %s no longer has this group's stamp, so the server does not touch it, and reads it again.", a.Key)
}

// unchanged checks that the member still has the configuration that the action was planned from.
func (st *step) unchanged(m *inventory.Member) error {
	if m.ChangeVersion == "" || st.action.ChangeVersion != "" && st.action.ChangeVersion != m.ChangeVersion {
		return errChanged()
	}
	return nil
}

func errChanged() *vcfault.Error {
	return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "The VM's configuration changed since the server read it; the server reads the VM and tries again.")
}
