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

// The numbers of rows of a table's page.
const (
	groupsAtOnce  = 50
	membersAtOnce = 100
	recentAtOnce  = 12
	// runningAtOnce is how many groups that run as their specs say the overview lists beside the others; it only counts more of them.
	runningAtOnce = 10
	nextAtOnce    = 20
)

// overviewBody is the data of the overview's template.
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
	// Hosts are those on which vCenter can't reach members, of all groups.
	Hosts []lostHost
	// Folded is how many running groups aren't listed, because there is nothing to report about them.
	Folded int
	// NotCalled reports whether the overview lists, or was asked for, groups that this replica isn't called for.
	NotCalled bool
}

// filter selects groups of the overview.
type filter struct {
	// Text is contained in the name or namespace, ignoring case.
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

// link returns the address of the overview with that filter.
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

// state sums up a group's phase and conditions for users.
type state struct{ Key, Word, Meaning string }

var (
	stateError     = state{"error", "Error", "waits for an operator"}
	stateLost      = state{"lost", "Unreachable", "vCenter can't reach members"}
	statePending   = state{"pending", "Pending", "in progress"}
	stateHeld      = state{"held", "Update held", "runs; members differ from the spec"}
	statePaused    = state{"paused", "Paused", "spec.paused: nothing is changed"}
	stateSilent    = state{"silent", "Tools silent", "runs; guests may hang"}
	stateNotCalled = state{"other", "Not called", "this replica isn't called for it"}
	stateRunning   = state{"running", "Running", "as the spec says"}

	// states are in the order in which groups are listed: first those that wait for an operator.
	states = []state{stateError, stateLost, statePending, stateSilent, stateHeld, statePaused, stateNotCalled, stateRunning}
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
	case phase == v1alpha1.PhasePending && has(v1alpha1.ConditionMembersUnreachable):
		return stateLost
	case phase == v1alpha1.PhasePending:
		return statePending
	case has(v1alpha1.ConditionToolsSilent):
		return stateSilent
	case has(v1alpha1.ConditionUpdateHeld):
		return stateHeld
	}
	return stateRunning
}

// tile shows the number of groups in a state, and links to them.
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
	// VMs is how many VMs the group has, if this replica knows nothing else about it.
	VMs int
	// Activity summarizes the running steps.
	Activity string
	// AsOf is when this replica was last called for the group, if it no longer is.
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
		Matches: len(shown), Hosts: seen.hosts, Pages: pagesOf(len(shown), groupsAtOnce, f.page, f.link), Recent: seen.recent,
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

// choose returns the groups that match, first those that wait for an operator, and of each state those that serve least, and how many match in each state.
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
		return cmp.Or(cmp.Compare(slices.Index(states, stateOf(a)), slices.Index(states, stateOf(b))), cmp.Compare(served(a), served(b)))
	})
	return shown, counts
}

// tiles returns a link to the groups of each state. The link of the state that is shown leads back to all groups.
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
		r.VMs, r.Ready, r.Desired = len(g.Members), 0, 0 // whether they are ready isn't known
	}
	for i := range g.Faults {
		name := g.Faults[i].Reason
		if g.PhaseBefore != "" && g.Faults[i].Condition == v1alpha1.ConditionVCenterReachable {
			continue // the page says that above all groups
		}
		if (g.Faults[i].Blocks() || g.Faults[i].Condition == v1alpha1.ConditionToolsSilent) && !slices.ContainsFunc(r.Reasons, func(other reason) bool { return other.Name == name }) && len(r.Reasons) < 3 {
			r.Reasons = append(r.Reasons, p.manual.reasonOf(name, g.Finalizing))
		}
	}
	return r
}

// activityOf summarizes the running steps.
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

// groupLink returns the path of a group's page.
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

// desiredOf returns the desired number of members, or, if this replica doesn't know it, the present number.
func desiredOf(g *plan.Report) int {
	if g.Phase == "" {
		return len(g.Members)
	}
	return int(g.DesiredReplicas)
}

// health is vCenter's health, as the page shows it.
type health struct {
	// Address is vCenter's address, and ID its instanceUuid, as far as they are known.
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

// newest returns the actions of all groups that ended last, the newest first. The reports already have that order.
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

// pages are the links between the pages of a long table.
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
