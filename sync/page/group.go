package page

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// groupBody is the data of the template of a group's page.
type groupBody struct {
	plan.Report
	Health                   health
	State                    state
	InNamespace              string
	ReadyMembers, AllDesired int
	Calls                    calls
	Blocks                   []block
	Notes                    []block
	Progress                 *progress
	Running                  []step
	Next                     plan.Outlook
	NoNext                   string
	Members                  []member
	Kept                     []kept
	Pages                    pages
	Recent                   []recentAction
}

// block is what blocks a group, and what to do about it; or a note on the state of its members.
type block struct {
	plan.FaultReport
	Key string
	Why reason
}

type step struct {
	plan.PendingReport
	Key    string
	Failed *reason
}

// member is an existing member, or one to be created, without a moRef.
type member struct {
	v1alpha1.Member
	Key, Class, Word string
	Why              reason
	// AsOf is when power, addresses and host were last known; zero if they are current.
	AsOf time.Time
	// Verdict says what the server does with the member; nil if it is kept as it is.
	Verdict *plan.Verdict
}

// kept is a VM in quarantine. Until is zero if the server keeps it until an operator deletes it.
type kept struct {
	v1alpha1.Quarantined
	Until time.Time
	Why   reason
}

// progress is the progress of an update.
type progress struct {
	Updated, Of, Available int32
	// From are the templates that members were cloned from.
	From []string
	To   string
	// Since is when another member became available.
	Since time.Time
}

func (p *Page) group(w http.ResponseWriter, r *http.Request) {
	seen := p.look()
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	for i := range seen.groups {
		g := &seen.groups[i]
		if g.Namespace == namespace && g.Name == name {
			page, _ := strconv.Atoi(r.URL.Query().Get("page"))
			p.send(w, r, http.StatusOK, "group", frame{Title: g.Namespace + "/" + g.Name, Live: true, Section: "groups", Body: p.bodyOf(&seen, g, page)})
			return
		}
	}
	// The page of an unknown group reloads, too: after a restart, the server knows a group once Metacontroller calls for it.
	f := frame{Title: namespace + "/" + name, Live: true, Section: "groups", Body: p.unknownGroup(&seen, namespace+"/"+name)}
	code := http.StatusNotFound
	if !seen.known {
		code = http.StatusServiceUnavailable
	}
	p.send(w, r, code, "problem", f)
}

// unknownGroup says why a group isn't listed.
func (p *Page) unknownGroup(seen *seen, group string) string {
	c := p.callsOf(seen)
	switch {
	case !seen.known:
		return fmt.Sprintf("This replica of the server was not called for a group %q, and vCenter's inventory is unknown.", group)
	case c.Silent || c.Last.IsZero():
		return fmt.Sprintf("The group %q is not known: no VM in vCenter has its stamp, and Metacontroller has called for no group %s. If the group exists, it is shown here as soon as Metacontroller calls for it.", group, c.since())
	case time.Since(c.Began) < 2*time.Minute:
		return fmt.Sprintf("The group %q is not known yet: no VM in vCenter has its stamp, and Metacontroller has not called for it since this server started at %s. If the group exists, it is shown here as soon as Metacontroller calls for it.", group, utc(c.Began))
	}
	return fmt.Sprintf("There is no group %q: this replica of the server was not called for it within the last hour, and no VM in vCenter has its stamp.", group)
}

func (p *Page) bodyOf(seen *seen, g *plan.Report, page int) groupBody {
	b := groupBody{Report: *g, Progress: progressOf(g), Health: p.healthOf(&seen.health), State: stateOf(g), InNamespace: filter{Namespace: g.Namespace}.link(1), ReadyMembers: readyOf(g), AllDesired: desiredOf(g), Calls: p.callsOf(seen)}
	b.Message = plan.WithoutHelp(g.Message)
	if g.Lease && g.Phase != v1alpha1.PhaseRunning {
		b.Next = notRunning(p.next(g.UID), g.Pending)
	}
	for i := range g.Faults {
		f := g.Faults[i]
		f.Message = plan.WithoutHelp(f.Message)
		list := &b.Notes
		if f.Blocks() {
			list = &b.Blocks
		}
		*list = append(*list, block{f, fmt.Sprintf("f-%s-%s-%s", f.Condition, f.VM, f.Reason), p.manual.reasonOf(f.Reason, g.Finalizing)})
	}
	for i := range g.Pending {
		s := step{PendingReport: g.Pending[i], Key: "p-" + string(g.Pending[i].Op) + "-" + g.Pending[i].VM}
		if s.Fault != nil {
			why := p.manual.reasonOf(s.Fault.Reason, g.Finalizing)
			s.Failed = &why
		}
		b.Running = append(b.Running, s)
	}
	b.NoNext = b.noNext()
	members := p.membersOf(g)
	b.Pages = pagesOf(len(members), membersAtOnce, page, func(page int) string { return groupLink(g) + "?page=" + strconv.Itoa(page) + "#members" })
	b.Members = members[b.Pages.from:b.Pages.to]
	for _, q := range g.Quarantined {
		k := kept{Quarantined: q, Why: p.manual.reason(q.Reason)}
		if g.Spec != nil && q.Reason != string(plan.MarkReasonDuplicate) {
			k.Until = q.Since.Add(time.Duration(g.Spec.QuarantineSeconds) * time.Second)
		}
		b.Kept = append(b.Kept, k)
	}
	for i := range g.Actions {
		b.Recent = append(b.Recent, recentOf(g, &g.Actions[i]))
	}
	return b
}

// verdictOf returns the verdict about a VM; nil if it has none.
func verdictOf(g *plan.Report, moRef string) *plan.Verdict {
	for i := range g.Verdicts {
		if g.Verdicts[i].MoRef == moRef {
			return &g.Verdicts[i]
		}
	}
	return nil
}

// notRunning returns the forecast without the steps that already run.
func notRunning(next plan.Outlook, pending []plan.PendingReport) plan.Outlook {
	var steps []plan.Step
	running := map[string]plan.Op{}
	for i := range pending {
		if pending[i].State == plan.Running {
			running[pending[i].VM] = pending[i].Op
		}
	}
	for _, s := range next.Steps {
		if name := s.MemberName(); running[name] == s.Op {
			delete(running, name) // the same step may come again later
			continue
		}
		steps = append(steps, s)
	}
	for i := len(steps) - 1; i >= 0; i-- {
		steps[i].Round -= steps[0].Round - 1
	}
	next.Steps = steps
	return next
}

// noNext says why there is no next step.
func (b *groupBody) noNext() string {
	if b.LastKnown {
		return "None until Metacontroller calls for the group."
	}
	if b.PhaseBefore != "" {
		return "None while vCenter's state is unknown."
	}
	switch b.State {
	case stateNotCalled:
		return "Not known: this replica of the server isn't called for the group."
	case statePaused:
		return "None while the group is paused (spec.paused)."
	case stateHeld:
		for i := range b.Faults {
			if b.Faults[i].Condition == v1alpha1.ConditionUpdateHeld {
				return "None: " + b.Faults[i].Message + "."
			}
		}
	case stateRunning, stateSilent:
		if len(b.Running) == 0 && b.waitsFor() == "" {
			return "None: the group is as its spec says."
		}
	}
	none := "None"
	if len(b.Running) > 0 {
		none = "None beyond the steps in progress"
	}
	if why := b.waitsFor(); why != "" {
		return none + ": the group waits because of the above " + why + "."
	}
	return none + "."
}

// waitsFor returns the reason of the first problem for which the group waits. It waits for no stray as such: a member that waits for one has a
// problem of its own.
func (b *groupBody) waitsFor() string {
	for i := range b.Blocks {
		if b.Blocks[i].Condition != v1alpha1.ConditionStrayVMs {
			return b.Blocks[i].Reason
		}
	}
	return ""
}

// progressOf returns the progress of the update; nil if there is none.
func progressOf(g *plan.Report) *progress {
	held := slices.ContainsFunc(g.Faults, func(f plan.FaultReport) bool { return f.Condition == v1alpha1.ConditionUpdateHeld })
	if g.Spec == nil || g.Finalizing || g.Update == nil && !held {
		return nil
	}
	u := progress{Updated: g.UpdatedReplicas, Of: max(g.DesiredReplicas, g.UpdatedReplicas), From: g.FormerTemplates, To: g.Spec.Template}
	if g.Update != nil {
		u.Available, u.Since = g.Update.Available, g.Update.LastProgressTime.Time
	}
	return &u
}

// membersOf returns a group's members, and those to be created. Members that need attention come first.
func (p *Page) membersOf(g *plan.Report) []member {
	all := make([]member, 0, len(g.Members))
	for _, m := range g.Members {
		m.Message = plan.WithoutHelp(strings.TrimSuffix(m.Message, "; "+plan.AsLastKnown)) // the row says it with the time
		verdict := verdictOf(g, m.MoRef)
		if verdict != nil && m.Message != "" && strings.HasSuffix(verdict.Reason, m.Message) {
			said := *verdict
			said.Reason, verdict = "", &said
		}
		class, word := memberState(&m)
		all = append(all, member{Member: m, Key: "m-" + m.MoRef, Class: class, Word: word, Why: p.manual.reasonOf(m.Reason, g.Finalizing), AsOf: lastSeen(&m), Verdict: verdict})
	}
	for i := range g.Verdicts {
		if d := &g.Verdicts[i]; d.MoRef == "" { // about an ordinal without a VM
			all = append(all, member{Member: v1alpha1.Member{Name: d.VM}, Key: "o-" + d.VM, Class: "pending", Word: "Not there yet", Verdict: d})
		}
	}
	urgency := map[string]int{"error": 0, "pending": 1, "other": 2, "running": 4}
	rank := func(m *member) int {
		if m.Ready && m.Reason != "" {
			return 3 // it has a verdict: it differs from the spec, is to be removed, and so on
		}
		return urgency[m.Class]
	}
	slices.SortStableFunc(all, func(a, b member) int { return cmp.Compare(rank(&a), rank(&b)) })
	return all
}

// lastSeen returns when the server missed a member that vCenter doesn't show or reach; zero for others.
func lastSeen(m *v1alpha1.Member) time.Time {
	switch m.Reason {
	case plan.ReasonMemberVanished, plan.ReasonMemberNotSeen, plan.ReasonMemberGivenUp, plan.ReasonUnreachable:
		if !m.VanishedAt.IsZero() {
			return m.VanishedAt.Time
		}
		return m.LastTransitionTime.Time
	}
	return time.Time{}
}

// memberState returns a member's state as a CSS class and a word.
func memberState(m *v1alpha1.Member) (class, word string) {
	switch m.Reason {
	case plan.ReasonMemberVanished:
		return "error", "Missing"
	case plan.ReasonMemberNotSeen:
		return "error", "Not seen"
	case plan.ReasonUnreachable:
		return "error", "Unreachable"
	case plan.ReasonMemberGivenUp:
		return "pending", "Given up"
	case "NoLease":
		return "other", "Not known"
	}
	switch {
	case m.Ready && m.Reason == plan.ReasonToolsSilent:
		return "pending", "Ready, silent"
	case m.Ready:
		return "running", "Ready"
	}
	return "pending", "Not ready"
}

// utc formats a time for users; the script makes it relative. iso formats it for programs.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }
func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// memory formats a size for users.
func memory(mb int64) string {
	if mb%1024 != 0 {
		return fmt.Sprintf("%d MiB", mb)
	}
	return fmt.Sprintf("%d GiB", mb/1024)
}

// after says how long the server waits before a step.
func after(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "after " + seconds(d.Seconds())
}

// seconds formats a duration for users.
func seconds(s float64) string {
	switch whole := int(s + .5); {
	case s < 10:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case whole < 60:
		return fmt.Sprintf("%d s", whole)
	default:
		return fmt.Sprintf("%d min %d s", whole/60, whole%60)
	}
}
