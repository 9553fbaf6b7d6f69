// This file powers members on where DRS finds no host that none of the others is on, although spec.placement.antiAffinity only prefers that.

package vsphere

import (
	"context"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Sources disagree whether DRS heeds a rule that isn't mandatory when it powers a VM on (docs/vcenter.md). Where it does, the rule must not name the
// member until that is on; then the rule names it again, and DRS moves it when it has room ([doc] ClusterRuleInfo: "If the existing cluster configuration
// violates the rule, the Server attempts to correct the situation"). The other members stay apart all the time, which they would not if the rule were
// disabled for a moment.
//
//	DRS refuses a power-on     the member's stamp says that the rule leaves it out
//	SetRules                   the rule leaves it out (inventory.Member.outOfRule)
//	PowerOn                    DRS chooses any host
//	SetRules                   the rule names it, because it is on, and the stamp says no more of it
//
// The stamp tells all replicas the same, also after a restart: otherwise one would put the member back into the rule before another powers it on.

// isKeptOff reports whether DRS refused to power a member on because of the group's own rule, which is optional.
func (p power) isKeptOff(m *inventory.Member, refused error) bool {
	ours := func(rule string) bool { return stamp.RuleOwner(rule) == m.Stamp.UID }
	return p.action.Op == plan.PowerOn && !m.Stamp.OutOfRule && vcfault.BreaksRule(refused, ours) && p.inventory.InOptionalRule(m)
}

// noteBackInRule removes that note from the stamps of members that are on. If it fails, the rule leaves such a member out when it is off again, and names it
// once it is on.
func (r rules) noteBackInRule(ctx context.Context) {
	for _, m := range r.inventory.BackInRule(r.ref.UID) {
		_ = r.restamp(ctx, m, func(s *stamp.Stamp) { s.OutOfRule = false })
	}
}

// leaveRule notes in a member's stamp that the group's rule leaves it out.
func (p power) leaveRule(ctx context.Context) error {
	m, err := p.own()
	if err != nil {
		return err
	}
	if err := p.restamp(ctx, m, func(s *stamp.Stamp) { s.OutOfRule = true }); err != nil {
		return err
	}
	return vcfault.ForRetry(vcfault.ReasonNoHostApart,
		"DRS has no host for it that no other member is on (antiAffinity: Preferred); the server leaves it out of the group's DRS rule until it is on.")
}
