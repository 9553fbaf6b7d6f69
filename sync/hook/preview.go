package hook

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// PlanAnswer is the answer of POST /plan: what the server would do for a group, and why.
type PlanAnswer struct {
	// Group is namespace/name.
	Group string `json:"group"`
	// New reports that the group doesn't exist yet, as far as the server knows.
	New bool `json:"new,omitempty"`
	// Phase and Message are those of the status that a sync would return now. If the server would refuse the call, Message says why, and Phase
	// is that of the stored status.
	Phase   v1alpha1.Phase `json:"phase"`
	Message string         `json:"message"`
	// Needs is what the members need, by the spec; nil if the spec is refused, or the group is being deleted. Changes are how the spec differs from
	// the one that the server has been called with. Warnings say what looks like a mistake, or finds too little room.
	Needs    *plan.Needs    `json:"needs,omitempty"`
	Changes  []plan.Change  `json:"changes,omitempty"`
	Warnings []plan.Warning `json:"warnings,omitempty"`
	// Verdicts say what the server would do with each VM now. A VM without a verdict is kept as it is.
	Verdicts []plan.Verdict `json:"verdicts,omitempty"`
	// Steps lead to the desired state, or to what blocks the group, if each step succeeds.
	Steps []PlanStep `json:"steps"`
	// More reports that there are more steps than listed.
	More bool `json:"more,omitempty"`
	// Blocked says why the group would not reach its spec.
	Blocked []PlanBlock `json:"blocked,omitempty"`
}

// PlanStep is one action. Steps of one round can run in parallel.
type PlanStep struct {
	Round int `json:"round"`
	// AfterSeconds is how long the server waits before the round, in seconds.
	AfterSeconds float64 `json:"afterSeconds,omitempty"`
	Op           string  `json:"op"`
	VM           string  `json:"vm,omitempty"`
	Reason       string  `json:"reason"`
}

// PlanBlock is what blocks a group or will block it: vCenter lacks something that a step needs, or the group waits for an operator.
type PlanBlock struct {
	// Op and VM are those of the step that would fail, and Part is the part of the step that fails; empty if the whole group waits.
	Op   string `json:"op,omitempty"`
	VM   string `json:"vm,omitempty"`
	Part string `json:"part,omitempty"`
	// Reason is the reason that the status would have.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Preflight finds out in vCenter, without changes, what a step would fail on.
type Preflight interface {
	// Resolve waits until the server knows which template spec.template names.
	Resolve(context.Context, *v1alpha1.VmGroup)
	// Preflight returns what a Clone, Prepare or SetDisks with Details, or a Reconfigure, would meet. The zone of the member has so many members in the
	// end, and gets so many VMs more than it has.
	Preflight(ctx context.Context, of plan.Ref, a plan.Action, members, more int) plan.Preflight
}

// preflightTime bounds the reads of vCenter for a preview. With backlogWait it is below the 30 s within which an answer must come.
const preflightTime = 20 * time.Second

func (s *server) plan(w http.ResponseWriter, r *http.Request) {
	call, ok := s.decodeAnd(w, r, asCreated)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), preflightTime)
	defer cancel()
	if s.Preflight != nil {
		s.Preflight.Resolve(ctx, call.Group)
	}
	result, outlook, err := s.Controller.Preview(call.Call)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	write(w, Answer(ctx, s.Preflight, call.Ref(), &result, &outlook))
}

// asCreated completes the group of a request for a plan: the group can be a manifest that was never applied, and the body can be the
// manifest alone instead of a hook request.
func asCreated(req *Request, body []byte) {
	if req.Parent == nil {
		alone := &v1alpha1.VmGroup{}
		if json.Unmarshal(body, alone) != nil || alone.Kind != v1alpha1.Kind {
			return
		}
		req.Parent = alone
	}
	plan.AsCreated(req.Parent, "default")
}

// Answer turns a preview into the answer of POST /plan. preflight checks the first clone of each zone or, if the plan has no clone, the
// first Prepare and SetDisks, and the first Reconfigure of each zone. It can be nil.
func Answer(ctx context.Context, preflight Preflight, ref plan.Ref, r *plan.Result, outlook *plan.Outlook) PlanAnswer {
	a := PlanAnswer{Group: ref.String(), New: outlook.New, Phase: r.Status.Phase, Message: r.Status.LastMessage, Verdicts: r.Verdicts, More: outlook.More,
		Needs: outlook.Needs, Changes: outlook.Changes, Warnings: outlook.Warnings, Steps: make([]PlanStep, len(outlook.Steps))}
	if r.Refusal != nil {
		a.Message = r.Refusal.Message
		a.Blocked = []PlanBlock{{Reason: "Refused", Message: a.Message}}
	}
	type look struct{ op, zone string }
	looked, cloned := make(map[look]bool), false
	for i, s := range outlook.Steps {
		a.Steps[i] = PlanStep{Round: s.Round, AfterSeconds: s.After.Seconds(), Op: string(s.Op), VM: s.MemberName(), Reason: s.Reason}
		if preflight == nil || outlook.Spec == nil {
			continue
		}
		at, zone := look{string(s.Op), ""}, plan.ZoneOf(outlook.Spec, s.Ordinal)
		switch {
		case s.Op == plan.Reconfigure && !cloned, s.Op == plan.Clone && s.Details() != nil && s.Details().Spec != nil:
			at.zone, cloned = zone, cloned || s.Op == plan.Clone
		case s.Op == plan.Prepare && !cloned, s.Op == plan.SetDisks && !cloned: // the preflight of a clone checks the same, and more
			if s.Details() == nil || s.Details().Spec == nil {
				continue
			}
		default:
			continue
		}
		if looked[at] {
			continue
		}
		looked[at] = true
		members, more := membersAt(outlook, zone)
		found := preflight.Preflight(ctx, ref, s.Action, members, more)
		for _, o := range found.Obstacles {
			a.block(PlanBlock{Op: string(o.Op), VM: o.VM, Part: o.Part, Reason: o.Reason, Message: o.Message})
		}
		for _, w := range found.Warnings {
			if !slices.Contains(a.Warnings, w) {
				a.Warnings = append(a.Warnings, w)
			}
		}
		if a.Needs != nil {
			a.Needs.TemplateDisksGiB = max(a.Needs.TemplateDisksGiB, found.TemplateDisksGiB)
		}
	}
	if f := outlook.Blocked; f.Reason != "" {
		a.block(PlanBlock{Reason: f.Reason, Message: f.Message})
	}
	return a
}

// membersAt counts, in a zone, the members that a group has in the end, and the most VMs that it gets until then beyond those that it has.
func membersAt(outlook *plan.Outlook, zone string) (members, more int) {
	now := 0
	for i := range outlook.Steps {
		s := &outlook.Steps[i]
		if plan.ZoneOf(outlook.Spec, s.Ordinal) != zone {
			continue
		}
		switch s.Op {
		case plan.Clone:
			now++
		case plan.Destroy:
			now--
		}
		more = max(more, now)
	}
	return plan.MembersIn(outlook.Spec, zone), more
}

// block adds what blocks the group, unless it is listed: clones in several zones can fail for the same reason, and the group may already
// wait for it.
func (a *PlanAnswer) block(b PlanBlock) {
	if !slices.ContainsFunc(a.Blocked, func(known PlanBlock) bool {
		return known.Reason == b.Reason && strings.TrimSuffix(known.Message, ".") == strings.TrimSuffix(b.Message, ".")
	}) {
		a.Blocked = append(a.Blocked, b)
	}
}
