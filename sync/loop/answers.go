package loop

import (
	"slices"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/api/equality"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// answers are what the group's calls were answered, and when calls showed that Metacontroller wrote it.
type answers struct {
	status         v1alpha1.VmGroupStatus      // the last answer's
	trouble        plan.Trouble                // why that isn't RUNNING
	finalized      bool                        // a call was answered with finalized: true
	awaited        map[plan.ChildKey]time.Time // since when children have been answered but not seen
	lastLine       string                      // the last transition that was logged
	statusWritten  time.Time                   // when a call first showed its present status, since it is finalizing
	membersWritten time.Time                   // when a call first showed the present ConfigMap of members
}

// answered remembers the answer, and logs a line if the group's state changed. It reports whether the status differs from that of the
// answer before.
func (x *answers) answered(log zerolog.Logger, ref plan.Ref, o *plan.Observed, r *plan.Result) (news bool) {
	x.finalized = x.finalized || r.Finalized
	if r.Status.Phase != "" {
		news = !equality.Semantic.DeepEqual(&x.status, &r.Status)
		x.status = r.Status
		x.trouble = plan.TroubleOf(&r.Status, &o.State, o.Finalizing)
	}
	if o.State.Known {
		for key := range x.awaited {
			if _, seen := o.Children[key]; seen || !wanted(r.Children, key) {
				delete(x.awaited, key)
			}
		}
		for _, c := range r.Children {
			if _, seen := o.Children[c.Key]; !seen && x.awaited[c.Key].IsZero() {
				x.awaited[c.Key] = o.Now
			}
		}
	}
	if line := string(r.Status.Phase) + r.Status.LastMessage; line != x.lastLine {
		x.lastLine = line
		log.Info().Stringer("group", ref).Str("phase", string(r.Status.Phase)).
			Int32("current", r.Status.CurrentReplicas).Int32("desired", r.Status.DesiredReplicas).
			Str("status", r.Status.LastMessage).Msg("status changed")
	}
	return news
}

func wanted(children []plan.Child, key plan.ChildKey) bool {
	for i := range children {
		if children[i].Key == key {
			return true
		}
	}
	return false
}

// unready counts the members that exist and are not ready, by their reasons.
func (x *answers) unready() map[string]int {
	n := map[string]int{}
	for i := range x.status.Members {
		if m := &x.status.Members[i]; !m.Ready {
			n[m.Reason]++
		}
	}
	return n
}

// healedFor is for how long a healing is counted.
const healedFor = 2 * time.Hour

// healed are the members that were healed (reset, or chosen to be replaced), and when, the oldest first.
type healed []healing

type healing struct {
	member string
	at     time.Time
}

func (x *healed) acted(a *plan.Action, now time.Time) {
	if a.Op == plan.Reset || a.Op == plan.Mark && plan.ArgsOf[plan.MarkArgs](a.Args).Reason == plan.MarkReasonHealing {
		*x = append(slices.DeleteFunc(*x, func(h healing) bool { return now.Sub(h.at) >= healedFor }), healing{a.Key, now})
	}
}

// most is how often the member that was healed most was.
func (x healed) most(now time.Time) (most int) {
	n := map[string]int{}
	for _, h := range x {
		if now.Sub(h.at) < healedFor {
			n[h.member]++
			most = max(most, n[h.member])
		}
	}
	return most
}
