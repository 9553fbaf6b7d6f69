// Package answers decides what answers mean for readiness: of a member, and of a group whose members' answers are not believed.
//
// A member with a probe is ready if it answers, as this replica of the server concluded. While nothing is concluded (the server has just
// started, or failures are not believed) it is as ready as its status says: nobody becomes unready without evidence. That it was down is
// evidence, until it answers: a status may not say so yet.
//
// Replicas ask by themselves, and may see different results. Each writes what it learned after the status was written, at once; what it
// knew before, only when the status has said otherwise for a minute (agreeAfter). So two that disagree change a status once a minute, and
// no time-out of healing passes meanwhile.
//
// It is as pure as the planner, its only user.
package answers

import (
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

const agreeAfter = time.Minute

// Verdict is what is known of a member.
type Verdict struct {
	Ready bool
	// Silence is why it may not be ready: nobody got an answer, or nothing was concluded.
	Silence string
	// Open: it is as ready as its status says, because nothing was concluded, or because another replica got no answer where this one did.
	// Refused: because the server may not ask it.
	Open, Refused bool
	// Asked is when the newest try began that it did not answer, if it counts as silent.
	Asked time.Time
	// Wake is when that changes by itself; zero if never.
	Wake time.Time
}

// Of judges a member at an address, whose stored status is record (nil if it has none).
func Of(r *v1alpha1.Readiness, all *plan.Answers, moRef string, address netip.Addr, record *v1alpha1.Member, now time.Time) (v Verdict) {
	a, was := all.Of[moRef], record != nil && record.Ready
	port := fmt.Sprintf("port %d of %s", portOf(r), address)
	switch {
	case a.Refused && a.Address == address || all.Nobody:
		return Verdict{Ready: was, Open: true, Refused: true, Silence: fmt.Sprintf("the server may not ask %s: it is not in --probe-networks", address)}
	case a.Address != address || a.Concluded == "":
		return Verdict{Ready: was && !a.Down, Open: true, Silence: "no conclusion yet from asking " + port}
	}
	v.Ready = a.Concluded == plan.Answering
	if record != nil && was != v.Ready && (was || record.Reason == plan.ReasonNotAnswering) {
		if v.Wake = overridden(record.LastTransitionTime.Time, a.Since); now.Before(v.Wake) {
			v.Ready, v.Open = was, !was
		}
	}
	if a.Concluded == plan.Silent {
		v.Asked = a.Asked
	}
	switch {
	case v.Ready:
	case a.Failure == "":
		v.Silence = port + ": another replica of the server got no answer"
	default:
		v.Silence = port + ": " + a.Failure
	}
	return v
}

// overridden returns when what a replica has known since a time overrides what a status has said since another; zero if at once.
func overridden(said, known time.Time) time.Time {
	if known.Truncate(time.Second).Before(said) {
		return said.Add(agreeAfter)
	}
	return time.Time{}
}

// Mistrust returns why the answers of a group's members are not believed; nil if they are. refused names those that the server may not ask, and
// open reports whether nothing is concluded of some that count as ready.
func Mistrust(g *v1alpha1.VmGroup, all *plan.Answers, refused []string, open bool, now time.Time) (f *plan.Fault, wake time.Time) {
	r := &g.Spec.Readiness
	stored := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReadinessDoubted)
	said := stored != nil && stored.Status == "True" && stored.Reason == plan.ReasonProbePathSuspected
	doubted := all.Doubted || said && open
	if stored != nil && said != doubted && len(all.Of) > 0 {
		if wake = overridden(stored.LastTransitionTime.Time, all.Since); now.Before(wake) {
			doubted = said
		}
	}
	const kept = "; meanwhile members stay as ready as they were, none is healed, and updates wait"
	switch {
	case all.Nobody:
		f = &plan.Fault{Reason: plan.ReasonProbeRefused, Person: true, Message: fmt.Sprintf(
			"the server may ask no member whether its service answers: name their networks in --probe-networks, or remove spec.readiness.%s%s", FieldOf(r), kept)}
	case len(refused) > 0:
		f = &plan.Fault{Reason: plan.ReasonProbeRefused, Person: true, Message: fmt.Sprintf(
			"the server may not ask %s: add their networks to --probe-networks, or remove spec.readiness.%s%s", plan.AtMost(refused, 3), FieldOf(r), kept)}
	case doubted:
		f = &plan.Fault{Reason: plan.ReasonProbePathSuspected, Person: true, Message: fmt.Sprintf(
			"all members that answered before fail at once on port %d: look whether the server reaches them (routes, firewalls, NetworkPolicy), and at the service itself%s",
			portOf(r), kept)}
	}
	return f, wake
}

func portOf(r *v1alpha1.Readiness) int32 {
	if r.HTTPGet != nil {
		return r.HTTPGet.Port
	}
	return r.TCPSocket.Port
}

// FieldOf names the field of spec.readiness by which members are asked.
func FieldOf(r *v1alpha1.Readiness) string {
	if r.HTTPGet != nil {
		return "httpGet"
	}
	return "tcpSocket"
}
