package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// How many rows a page of a table has.
const (
	groupsAtOnce  = 50
	membersAtOnce = 100
	recentAtOnce  = 12
	// runningAtOnce groups that run as their specs say are listed beside the others; more are only counted.
	runningAtOnce = 10
	nextAtOnce    = 20
)

// overviewBody is what the template of the overview shows.
type overviewBody struct {
	Health  health
	Calls   calls
	Slots   plan.Slots
	Filter  filter
	Tiles   []tile
	All     int
	Known   bool
	Rows    []row
	Pages   pages
	Recent  []recentAction
	Matches int
	// Folded is how many groups that run aren't listed, because nothing is to be said of them.
	Folded int
	// NotCalled: it lists groups that this replica isn't called for, or was asked for them.
	NotCalled bool
}

// filter is what is asked of the overview.
type filter struct {
	// Text is in the name or namespace, ignoring case.
	Text      string
	Namespace string
	// State is a state's Key; empty for all.
	State string
	page  int
}

func parseFilter(query url.Values) filter {
	page, _ := strconv.Atoi(query.Get("page"))
	return filter{Text: strings.TrimSpace(query.Get("q")), Namespace: query.Get("namespace"), State: query.Get("state"), page: page}
}

// link is the address of the overview with that filter.
func (f filter) link(page int) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": f.Text, "namespace": f.Namespace, "state": f.State} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	if len(q) == 0 {
		return "/"
	}
	return "/?" + q.Encode()
}

func (f filter) matches(r *plan.Report) bool {
	text := strings.ToLower(f.Text)
	return (f.Namespace == "" || f.Namespace == r.Namespace) && (f.State == "" || f.State == stateOf(r).Key) &&
		(text == "" || strings.Contains(strings.ToLower(r.Namespace+"/"+r.Name), text))
}

// state is what a group's phase and conditions come to for people.
type state struct{ Key, Word, Meaning string }

var (
	stateError     = state{"error", "Error", "waits for an operator"}
	statePending   = state{"pending", "Pending", "in progress"}
	stateHeld      = state{"held", "Update held", "runs; members differ from the spec"}
	statePaused    = state{"paused", "Paused", "spec.paused: nothing is changed"}
	stateNotCalled = state{"other", "Not called", "this replica isn't called for it"}
	stateRunning   = state{"running", "Running", "as the spec says"}

	// states has them in the order in which groups are listed: those first that wait for an operator.
	states = []state{stateError, statePending, stateHeld, statePaused, stateNotCalled, stateRunning}
)

func stateOf(r *plan.Report) state {
	has := func(condition string) bool {
		return slices.ContainsFunc(r.Faults, func(f plan.FaultReport) bool { return f.Condition == condition })
	}
	phase := cmp.Or(r.PhaseBefore, r.Phase)
	switch {
	case r.Phase == "", !r.Lease && !r.LastKnown:
		return stateNotCalled
	case phase == v1alpha1.PhaseError:
		return stateError
	case has(v1alpha1.ConditionPaused):
		return statePaused
	case phase == v1alpha1.PhasePending:
		return statePending
	case has(v1alpha1.ConditionUpdateHeld):
		return stateHeld
	}
	return stateRunning
}

// tile counts the groups of a state, and leads to them.
type tile struct {
	state
	Count    int
	Link     string
	Selected bool
}

// row is a group in the overview.
type row struct {
	Key, Namespace, Name, Link, InNamespace string
	State                                   state
	Since                                   time.Time
	Deleting                                bool
	Ready, Desired                          int
	Message                                 string
	Reasons                                 []reason
	// VMs says how many VMs there are, where more is not known.
	VMs string
	// Activity sums up what is running.
	Activity string
	// AsOf is when this replica was called for the group last, if it isn't any more.
	AsOf time.Time
}

func (p *Page) overview(w http.ResponseWriter, r *http.Request) {
	seen, f := p.look(), parseFilter(r.URL.Query())
	shown, counts := f.choose(seen.groups)
	folded := 0
	if n := counts[stateRunning.Key]; n > runningAtOnce && f == (filter{page: f.page}) && !wantsJSON(r) {
		shown, folded = shown[:len(shown)-n], n // they are the last ones
	}
	body := overviewBody{Folded: folded, Health: p.healthOf(&seen.health), Calls: p.callsOf(&seen), Slots: seen.slots, Filter: f, Tiles: f.tiles(counts), All: len(seen.groups), Known: seen.known,
		Matches: len(shown), Pages: pagesOf(len(shown), groupsAtOnce, f.page, f.link), Recent: seen.recent,
		NotCalled: counts[stateNotCalled.Key] > 0 || f.State == stateNotCalled.Key}
	for _, g := range shown[body.Pages.from:body.Pages.to] {
		body.Rows = append(body.Rows, p.rowOf(g))
	}
	title := "Groups"
	if n := counts["error"]; n > 0 {
		title = fmt.Sprintf("(%d) Groups", n)
	}
	p.send(w, r, http.StatusOK, "overview", frame{Title: title, Live: true, Section: "groups", Body: body})
}

// choose returns the groups that match, those first that wait for an operator, and how many match in each state.
func (f filter) choose(groups []plan.Report) (shown []*plan.Report, counts map[string]int) {
	ofAll := f
	ofAll.State = ""
	counts = map[string]int{}
	for i := range groups {
		g := &groups[i]
		if !ofAll.matches(g) {
			continue
		}
		key := stateOf(g).Key
		counts[key]++
		if f.State == "" || f.State == key {
			shown = append(shown, g)
		}
	}
	slices.SortStableFunc(shown, func(a, b *plan.Report) int {
		return cmp.Compare(slices.Index(states, stateOf(a)), slices.Index(states, stateOf(b)))
	})
	return shown, counts
}

// tiles lead to the groups of each state, and from the one that is shown back to all.
func (f filter) tiles(counts map[string]int) (all []tile) {
	for _, s := range states {
		selected := f.State == s.Key
		if counts[s.Key] == 0 && !selected && !slices.Contains([]state{stateError, statePending, stateRunning}, s) {
			continue
		}
		to := f
		if to.State = s.Key; selected {
			to.State = ""
		}
		all = append(all, tile{s, counts[s.Key], to.link(1), selected})
	}
	return all
}

func (p *Page) rowOf(g *plan.Report) row {
	r := row{Key: "g-" + string(g.UID), Namespace: g.Namespace, Name: g.Name, Link: groupLink(g), InNamespace: filter{Namespace: g.Namespace}.link(1),
		State: stateOf(g), Since: g.Since, Deleting: g.Finalizing, Desired: desiredOf(g), Ready: readyOf(g), Message: plan.WithoutHelp(g.Message), Activity: activityOf(g)}
	if !g.Lease {
		r.AsOf = g.LastCall
	}
	if g.Phase == "" {
		r.VMs = plan.Count(r.Desired, "VM")
	}
	for i := range g.Faults {
		name := g.Faults[i].Reason
		if g.PhaseBefore != "" && g.Faults[i].Condition == v1alpha1.ConditionVCenterReachable {
			continue // that is said above all groups
		}
		if g.Faults[i].Blocks() && !slices.ContainsFunc(r.Reasons, func(other reason) bool { return other.Name == name }) && len(r.Reasons) < 3 {
			r.Reasons = append(r.Reasons, p.manual.reasonOf(name, g.Finalizing))
		}
	}
	return r
}

// activityOf sums up what is running.
func activityOf(g *plan.Report) string {
	var running, failed int
	for i := range g.Pending {
		if g.Pending[i].State == plan.Running {
			running++
		} else {
			failed++
		}
	}
	var parts []string
	if running > 0 {
		parts = append(parts, fmt.Sprintf("%d in progress", running))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d to be tried again", failed))
	}
	if g.WaitsForSlot {
		parts = append(parts, "waits for a slot")
	}
	return strings.Join(parts, " · ")
}

// groupLink leads to the page of a group.
func groupLink(g *plan.Report) string {
	return groupPath + url.PathEscape(g.Namespace) + "/" + url.PathEscape(g.Name)
}

func readyOf(g *plan.Report) (n int) {
	for i := range g.Members {
		if g.Members[i].Ready {
			n++
		}
	}
	return n
}

// desiredOf is the number of members that are wanted, or, where this replica does not know that, that there are.
func desiredOf(g *plan.Report) int {
	if g.Phase == "" {
		return len(g.Members)
	}
	return int(g.DesiredReplicas)
}

// health is vCenter's, as it is shown.
type health struct {
	// Address is vCenter's, and ID its instanceUuid, as far as they are known.
	Address, ID string
	Known       bool
	Since       time.Time
	Reasons     []reason
	Message     string
}

func (p *Page) healthOf(h *plan.Health) health {
	shown := health{Address: p.cfg.VCenter, ID: h.VCenter, Known: h.Known, Since: h.UnknownSince}
	fault := h.Fault
	if fault == nil {
		fault = h.Unfit
	}
	switch {
	case fault != nil:
		shown.Reasons, shown.Message = []reason{p.manual.reason(fault.Reason)}, fault.Message
	case !h.Known:
		shown.Reasons, shown.Message = []reason{p.manual.reason("InventoryNotRead")}, "its inventory is being read"
	}
	return shown
}

// recentAction is an action that ended, of any group.
type recentAction struct {
	plan.ActionReport
	Key, Group, Link string
	Failed           bool
}

func recentOf(g *plan.Report, a *plan.ActionReport) recentAction {
	return recentAction{*a, fmt.Sprintf("a-%s-%s-%s-%d", g.UID, a.Op, a.VM, a.Time.UnixMilli()), g.Namespace + "/" + g.Name, groupLink(g), a.Result != plan.ResultOK}
}

// newest are the actions of all groups that ended last, the newest first. Those of a group are in that order.
func newest(groups []plan.Report) []recentAction {
	var all []recentAction
	for i := range groups {
		g := &groups[i]
		for j := range g.Actions {
			a := &g.Actions[j]
			if len(all) == recentAtOnce && !a.Time.After(all[recentAtOnce-1].Time) {
				break
			}
			at, _ := slices.BinarySearchFunc(all, a.Time, func(d recentAction, t time.Time) int { return t.Compare(d.Time) })
			all = slices.Insert(all, at, recentOf(g, a))
			all = all[:min(len(all), recentAtOnce)]
		}
	}
	return all
}

// pages leads through a long table.
type pages struct {
	From, To, Of   int // rows, counted from 1
	Page, Last     int
	Previous, Next string
	from, to       int
}

func pagesOf(rows, atOnce, page int, link func(page int) string) pages {
	last := max(1, (rows+atOnce-1)/atOnce)
	page = min(max(page, 1), last)
	p := pages{Of: rows, Page: page, Last: last, from: (page - 1) * atOnce, to: min(page*atOnce, rows)}
	p.From, p.To = min(p.from+1, p.to), p.to
	if page > 1 {
		p.Previous = link(page - 1)
	}
	if page < last {
		p.Next = link(page + 1)
	}
	return p
}
