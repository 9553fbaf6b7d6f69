package planner

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A member with a probe is ready if it answers, as the kubelet has it for a container: successThreshold answers in a row make it ready,
// failureThreshold failures make it unready (package probe counts them). Until one of these is reached it is as ready as its status says:
// the server has just started, or the network path to all members is suspected (Answers.Suppressed), and no member becomes unready without
// evidence.

// isAnswering reports whether a member whose readiness.check is satisfied counts as one that answers.
func (f *facts) isAnswering(m *member, i int) (ready bool) {
	r := &f.Group.Spec.Readiness
	if !r.Probes() {
		return true
	}
	address := plan.AskedAddress(m.IPs)
	if !address.IsValid() {
		return false
	}
	a, port := f.Answers.Of[m.MoRef], fmt.Sprintf("port %d of %s", r.ProbePort(), address)
	switch {
	case a.Refused && a.Address == address || f.Answers.NoneAllowed:
		m.answer = answer{silence: refusal(address), open: true, refused: true}
		return f.wasReady(m, i)
	case a.Address != address || a.Concluded == "":
		m.answer = answer{silence: "no result yet from probing " + port, open: true}
		return f.wasReady(m, i) && !a.Down
	case a.Concluded == plan.Silent:
		m.answer = answer{silence: port + ": " + a.Failure}
		return false
	}
	return true
}

// refusal says why a member is not asked at an address.
func refusal(address netip.Addr) string {
	return fmt.Sprintf("the server is not allowed to ask %s: it is not in --probe-networks, or is an address that is never probed", address)
}

// wasReady reports whether the stored status says that a member is ready, and speaks of the present boot.
func (f *facts) wasReady(m *member, i int) bool {
	r := f.Record(m.MoRef, i)
	return r != nil && r.Ready && (r.BootTime.IsZero() || plan.SameBoot(r.BootTime.Time, m.BootTime))
}

// findSuppressed finds why the answers of the members are not believed.
func (s *sets) findSuppressed() {
	r := &s.facts.Group.Spec.Readiness
	if !r.Probes() || s.facts.Finalizing {
		return
	}
	refused, open := s.facts.Answers.NoneAllowed, false
	for i := range s.members {
		m := &s.members[i]
		refused = refused || m.answer.refused
		open = open || m.answer.open && m.ready
	}
	said := meta.FindStatusCondition(s.facts.Group.Status.Conditions, v1alpha1.ConditionProbesSuppressed)
	suppressed := s.facts.Answers.Suppressed || open && said != nil && said.Status == "True" && said.Reason == plan.ReasonProbePathSuspected
	switch fault := needsOperator(plan.ReasonProbeRefused); {
	case refused:
		s.suppressed = &fault
	case suppressed:
		fault.Reason = plan.ReasonProbePathSuspected
		s.suppressed = &fault
	}
}
