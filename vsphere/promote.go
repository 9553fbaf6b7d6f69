package vsphere

import (
	"context"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
)

// promote records in a standby member's stamp that it is a member like any other, guarded by the changeVersion that the plan saw: of
// two replicas one promotes it, and none removes it as a standby member any more. It leaves
// the generation: a replica that knows only an older spec would take it for one too many. (Found by the model checker.) It returns the member as it is then.
func (v *VCenter) promote(ctx context.Context, ref plan.Ref, a plan.Action, m *inventory.Member) (*inventory.Member, error) {
	if !m.Stamp.Standby {
		return m, nil // nothing to do, and published
	}
	if err := unchanged(m, a); err != nil {
		return nil, err
	}
	next := m.Stamp
	next.Standby, next.Generation = false, max(next.Generation, a.Generation)
	if err := v.writeStamp(ctx, m.MoRef, m.ChangeVersion, next.Encode()); err != nil {
		return nil, err
	}
	return v.own(ref, a)
}
