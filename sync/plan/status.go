package plan

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// status is what was observed. While vCenter's facts are not known, the figures that are stored stay as they are.
func (v *view) status(message string) v1alpha1.VmGroupStatus {
	s := v1alpha1.VmGroupStatus{VCenterUUID: v.Sight.VCenter}
	if v.sighted {
		s.Members = v.memberStatuses()
		s.CurrentReplicas = int32(len(v.members) + len(v.unseen))
		s.ReadyReplicas = int32(v.countReady())
		for i := range v.members {
			if v.members[i].Revision == v.revision {
				s.UpdatedReplicas++
			}
		}
	} else {
		was := &v.Group.Status
		s.VCenterUUID, s.Members = was.VCenterUUID, was.Members
		s.CurrentReplicas, s.ReadyReplicas, s.UpdatedReplicas = was.CurrentReplicas, was.ReadyReplicas, was.UpdatedReplicas
	}
	s.ObservedGeneration = v.Group.Generation
	s.DesiredReplicas = v.Group.Replicas()
	s.Selector = "controller-uid=" + string(v.Group.UID)
	s.Phase = v.phase()
	s.LastMessage = message
	s.Conditions = v.conditions(s.Phase, message)
	return s
}

func (v *view) countReady() int {
	n := 0
	for i := range v.members {
		if v.members[i].ready() {
			n++
		}
	}
	return n
}

func (v *view) memberStatuses() []v1alpha1.Member {
	if len(v.members)+len(v.unseen) == 0 {
		return nil
	}
	all := make([]v1alpha1.Member, 0, len(v.members)+len(v.unseen))
	for i := range v.members {
		m := &v.members[i]
		reason, message := v.why(m)
		all = append(all, v1alpha1.Member{
			Name: m.VM.Name, Ordinal: m.Ordinal, MoRef: m.MoRef, PowerState: string(m.Power), IPs: m.IPs, Host: m.Host,
			Revision: m.Revision, Ready: m.ready(), Reason: reason, Message: message,
		})
	}
	for _, m := range v.unseen {
		m.Ready, m.Reason = false, ReasonMemberNotSeen
		m.Message = "vCenter does not show this VM and has not said that it is gone: a privilege may have been lost"
		all = append(all, m)
	}
	return all
}

// why says why a member is not ready, or how it differs.
func (v *view) why(m *member) (reason, message string) {
	pending := v.Pending[m.name]
	switch {
	case m.duplicate:
		return ReasonDuplicateMember, "several VMs claim to be this member"
	case !m.Reachable:
		return ReasonUnreachable, fmt.Sprintf("the VM is %s: it is left alone", m.Unreachable)
	case pending.Fault.Reason != "":
		return pending.Fault.Reason, pending.Fault.Message
	case m.Marked:
		return ReasonRemoving, "chosen to be removed"
	case m.Power == PoweredOff:
		return "PoweredOff", "the VM is powered off"
	case m.Power == Suspended:
		return "Suspended", "the VM is suspended"
	case m.differs != "":
		return ReasonDiffers, m.differs
	}
	return "", ""
}

// conditions are Ready, Progressing and VCenterReachable always, and the others while they are true. A
// condition's time is carried over from the stored status unless its status changed.
func (v *view) conditions(phase v1alpha1.Phase, message string) []metav1.Condition {
	c := conditionList{stored: v.Group.Status.Conditions, generation: v.Group.Generation, now: metav1.NewTime(v.Now.UTC().Truncate(1e9))}
	reason := v.reason(phase)
	switch {
	case phase == v1alpha1.PhaseRunning:
		c.add(v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message)
	case !v.sighted:
		c.add(v1alpha1.ConditionReady, metav1.ConditionUnknown, reason, message)
	default:
		c.add(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	}
	if phase == v1alpha1.PhasePending && v.hold == nil && v.busy() {
		c.add(v1alpha1.ConditionProgressing, metav1.ConditionTrue, reason, message)
	} else {
		c.add(v1alpha1.ConditionProgressing, metav1.ConditionFalse, reason, message)
	}
	if v.Sight.Known {
		c.add(v1alpha1.ConditionVCenterReachable, metav1.ConditionTrue, ReasonConnected, "the inventory is known and fresh")
	} else {
		c.add(v1alpha1.ConditionVCenterReachable, metav1.ConditionFalse, reason, message)
	}
	v.exceptions(&c)
	return c.list
}

// reason is one word for why the group is in its phase.
func (v *view) reason(phase v1alpha1.Phase) string {
	switch {
	case v.hold != nil:
		return v.hold.Reason
	case phase == v1alpha1.PhaseRunning:
		return ReasonReconciled
	}
	for _, f := range v.faults {
		if f.Person || phase == v1alpha1.PhasePending {
			return f.Reason
		}
	}
	if v.Finalizing {
		return ReasonFinalizing
	}
	if len(v.unreachable()) > 0 && !v.busy() {
		return ReasonUnreachable
	}
	return ReasonReconciling
}

// exceptions adds the conditions that stand only while they are true.
func (v *view) exceptions(c *conditionList) {
	if v.hold != nil {
		switch v.hold.Reason {
		case ReasonInvalidSpec:
			c.add(v1alpha1.ConditionSpecInvalid, metav1.ConditionTrue, v.hold.Reason, v.hold.Message)
		case ReasonVCenterChanged:
			c.add(v1alpha1.ConditionVCenterChanged, metav1.ConditionTrue, v.hold.Reason, v.hold.Message)
		}
	}
	for _, e := range [][2]string{
		{ReasonNameConflict, v1alpha1.ConditionNameConflict},
		{ReasonDuplicateMember, v1alpha1.ConditionDuplicateMember},
	} {
		var messages []string
		for _, f := range v.faults {
			if f.Reason == e[0] {
				messages = append(messages, f.who+": "+f.Message)
			}
		}
		if len(messages) > 0 {
			c.add(e[1], metav1.ConditionTrue, e[0], atMost(messages, 10))
		}
	}
	if names := v.unreachable(); len(names) > 0 {
		c.add(v1alpha1.ConditionMembersUnreachable, metav1.ConditionTrue, ReasonUnreachable, atMost(names, 10))
	}
	var differ []string
	for i := range v.members {
		if m := &v.members[i]; m.differs != "" {
			differ = append(differ, m.name+" has "+m.differs)
		}
	}
	if len(differ) > 0 && !v.Finalizing && v.hold == nil {
		c.add(v1alpha1.ConditionMembersDiffer, metav1.ConditionTrue, ReasonDiffers, atMost(differ, 10))
	}
	if names := v.conflictingChildren(); len(names) > 0 {
		c.add(v1alpha1.ConditionChildConflict, metav1.ConditionTrue, ReasonForeignObject,
			"a foreign object has the name of "+strings.Join(names, ", ")+": remove or rename it")
	}
}

type conditionList struct {
	stored     []metav1.Condition
	list       []metav1.Condition
	generation int64
	now        metav1.Time
}

func (c *conditionList) add(kind string, status metav1.ConditionStatus, reason, message string) {
	since := c.now
	for i := range c.stored {
		if c.stored[i].Type == kind && c.stored[i].Status == status && !c.stored[i].LastTransitionTime.IsZero() {
			since = c.stored[i].LastTransitionTime
		}
	}
	if c.list == nil {
		c.list = make([]metav1.Condition, 0, 4)
	}
	c.list = append(c.list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: since, ObservedGeneration: c.generation,
	})
}
