package page

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// groupBody is what the template of a group's page shows.
type groupBody struct {
	plan.Report
	Health                   health
	State                    state
	InNamespace              string
	ReadyMembers, AllDesired int
	Elsewhere                bool
	Blocks                   []block
	Notes                    []block
	UnderWay                 []step
	Next                     plan.Outlook
	Members                  []member
	Pages                    pages
	Recent                   []deed
	// Ordinals are the verdicts about ordinals that no VM has.
	Ordinals []plan.Verdict
}

// block is what blocks a group, and what to do about it; a note says how its members are.
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

type member struct {
	v1alpha1.Member
	Key string
	Why reason
	// Verdict is what becomes of it; nil if it is kept as it is.
	Verdict *plan.Verdict
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
	if !seen.known {
		p.problem(w, r, http.StatusServiceUnavailable, fmt.Sprintf("This replica of the server was not called for a group %q, and vCenter's inventory is unknown.", namespace+"/"+name))
		return
	}
	p.problem(w, r, http.StatusNotFound, fmt.Sprintf("There is no group %q: this replica of the server was not called for it recently, and no VM in vCenter has its stamp.", namespace+"/"+name))
}

func (p *Page) bodyOf(seen *seen, g *plan.Report, page int) groupBody {
	b := groupBody{Report: *g, Health: p.healthOf(&seen.health), State: stateOf(g), InNamespace: filter{Namespace: g.Namespace}.link(1), ReadyMembers: readyOf(g), AllDesired: desiredOf(g), Elsewhere: !g.Lease}
	if g.Lease && g.Phase != v1alpha1.PhaseRunning {
		b.Next = p.next(g.UID)
	}
	for i := range g.Faults {
		f := g.Faults[i]
		list := &b.Notes
		if f.Blocks() {
			list = &b.Blocks
		}
		*list = append(*list, block{f, fmt.Sprintf("f-%s-%s-%s", f.Condition, f.VM, f.Reason), p.manual.reason(f.Reason)})
	}
	for i := range g.Pending {
		s := step{PendingReport: g.Pending[i], Key: "p-" + string(g.Pending[i].Op) + "-" + g.Pending[i].VM}
		if s.Fault != nil {
			why := p.manual.reason(s.Fault.Reason)
			s.Failed = &why
		}
		b.UnderWay = append(b.UnderWay, s)
	}
	b.Pages = pagesOf(len(g.Members), membersAtOnce, page, func(page int) string { return groupLink(g) + "?page=" + strconv.Itoa(page) + "#members" })
	for _, m := range g.Members[b.Pages.from:b.Pages.to] {
		b.Members = append(b.Members, member{m, "m-" + m.MoRef, p.manual.reason(m.Reason), verdictOf(g, m.MoRef)})
	}
	for _, d := range g.Verdicts {
		if d.MoRef == "" {
			b.Ordinals = append(b.Ordinals, d)
		}
	}
	for i := range g.Actions {
		b.Recent = append(b.Recent, deedOf(g, &g.Actions[i]))
	}
	return b
}

// verdictOf is the verdict about a VM; nil if it has none.
func verdictOf(g *plan.Report, moRef string) *plan.Verdict {
	for i := range g.Verdicts {
		if g.Verdicts[i].MoRef == moRef {
			return &g.Verdicts[i]
		}
	}
	return nil
}

// utc is a time as people read it; the script makes it relative. iso is the same for programs.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }
func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// after says how long the server waits before a step.
func after(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "after " + seconds(d.Seconds())
}

// seconds is a duration as people read it.
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
