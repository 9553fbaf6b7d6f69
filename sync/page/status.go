package page

import (
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Status is the content of a page, for a terminal and for programs: each page answers with it if a request accepts only JSON. It is made
// from the templates' data, so that the two can't differ.
type Status struct {
	Version string `json:"version"`
	// VCenter says whether the server knows its vCenter's state.
	VCenter VCenterStatus `json:"vCenter"`
	// Slots tells how many vCenter tasks run, of how many. Only an overview has it.
	Slots *plan.Slots `json:"slots,omitempty"`
	// Incomplete reports that groups may be missing: vCenter's inventory is unknown.
	Incomplete bool `json:"incomplete,omitempty"`
	// Called reports whether Metacontroller calls this replica of the server for one of the groups, and LastCall when it last called for any
	// group, since the server started.
	Called   bool      `json:"called"`
	LastCall time.Time `json:"lastCall,omitzero"`
	// Silent reports that no hook call comes although there are groups: the groups are as last known.
	Silent  bool      `json:"silent,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Of is the number of groups that match; Groups has the first of them.
	Of int `json:"of,omitempty"`
	// Hosts are the hosts on which vCenter can't reach members. Only an overview has them.
	Hosts []HostStatus `json:"hosts,omitempty"`
	// Groups are the groups that match, first those that wait for an operator; in the status of a group, that group with its Detail.
	Groups []GroupStatus `json:"groups"`
	// Recent are the latest actions that ended, the newest first.
	Recent []RecentAction `json:"recent,omitempty"`
}

// VCenterStatus says whether the server knows its vCenter's state.
type VCenterStatus struct {
	Address string    `json:"address,omitempty"`
	ID      string    `json:"id,omitempty"`
	Known   bool      `json:"known"`
	Since   time.Time `json:"since,omitzero"` // since when the state is not known
	Message string    `json:"message,omitempty"`
	Why     []Why     `json:"why,omitempty"`
}

// HostStatus is a host on which vCenter can't reach members: it may be down.
type HostStatus struct {
	Host    string    `json:"host,omitempty"` // empty if it isn't known
	Members int       `json:"members"`
	Groups  []string  `json:"groups"`         // the first of Of
	Of      int       `json:"of"`             // how many groups there are
	Since   time.Time `json:"since,omitzero"` // when the first of the members was no longer ready
}

// Why is a reason, and what to do about it; empty if the documents don't say.
type Why struct {
	Reason string `json:"reason"`
	Todo   string `json:"todo,omitempty"`
}

// GroupStatus is a group as in the overview.
type GroupStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Generation is that of the newest spec for which this replica was called. Only the status of one group has it.
	Generation int64        `json:"generation,omitempty"`
	State      string       `json:"state"`   // a word, such as Error
	Meaning    string       `json:"meaning"` // the state's meaning in a sentence
	Since      time.Time    `json:"since,omitzero"`
	Deleting   bool         `json:"deleting,omitempty"`
	Ready      int          `json:"ready"`
	Desired    int          `json:"desired"`
	VMs        int          `json:"vms,omitempty"` // the number of VMs, of a group that this replica isn't called for: whether these are ready isn't known
	Message    string       `json:"message"`
	Activity   string       `json:"activity,omitempty"`
	AsOf       time.Time    `json:"asOf,omitzero"` // when this replica was last called for the group, if it no longer is
	Why        []Why        `json:"why,omitempty"`
	Detail     *GroupDetail `json:"detail,omitempty"`
}

// GroupDetail is what only the page of a group shows.
type GroupDetail struct {
	Blocks  []BlockStatus  `json:"blocks,omitempty"`
	Notes   []BlockStatus  `json:"notes,omitempty"`
	Running []RunningStep  `json:"running,omitempty"`
	Next    []NextStep     `json:"next,omitempty"`
	More    bool           `json:"more,omitempty"`   // more steps follow
	NoNext  string         `json:"noNext,omitempty"` // why there is no next step
	Members []MemberStatus `json:"members,omitempty"`
	// Of is the number of members; Members has the first of them.
	Of      int                      `json:"of"`
	Standby []v1alpha1.StandbyMember `json:"standby,omitempty"`
	Kept    []v1alpha1.Quarantined   `json:"quarantined,omitempty"`
}

// BlockStatus is what blocks a group, or a note.
type BlockStatus struct {
	Why
	Condition string `json:"condition,omitempty"`
	VM        string `json:"vm,omitempty"`
	Message   string `json:"message"`
}

// RunningStep is a step that runs, or that failed and will be tried again.
type RunningStep struct {
	plan.PendingReport
	Todo string `json:"todo,omitempty"`
}

// NextStep is a step to come.
type NextStep struct {
	Round        int     `json:"round"`
	AfterSeconds float64 `json:"afterSeconds,omitempty"`
	Op           plan.Op `json:"op"`
	VM           string  `json:"vm,omitempty"`
	Reason       string  `json:"reason"`
}

// MemberStatus is a member, or one to be created.
type MemberStatus struct {
	Name    string   `json:"name"`
	MoRef   string   `json:"moRef,omitempty"`
	State   string   `json:"state"`
	Power   string   `json:"power,omitempty"`
	IPs     []string `json:"ips,omitempty"`
	Host    string   `json:"host,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Message string   `json:"message,omitempty"`
	Verdict string   `json:"verdict,omitempty"`
	// AsOf is when power, ips and host were last known, for a member that vCenter doesn't show.
	AsOf time.Time `json:"asOf,omitzero"`
}

// RecentAction is an action that ended.
type RecentAction struct {
	plan.ActionReport
	Group string `json:"group"`
}

// wantsJSON reports whether a request accepts only JSON.
func wantsJSON(r *http.Request) bool { return r.Header.Get("Accept") == "application/json" }

// sendStatus writes the body of a page as JSON.
func (p *Page) sendStatus(w http.ResponseWriter, code int, body any) {
	answer := any(p.status(body))
	if sentence, is := body.(string); is {
		answer = map[string]string{"message": sentence}
	}
	text, _ := json.Marshal(answer) // cannot fail: texts, numbers, times and flags
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(plan.PrintableJSON(text), '\n'))
}

func (p *Page) status(body any) Status {
	s := Status{Version: p.cfg.Version, Groups: []GroupStatus{}}
	switch b := body.(type) {
	case overviewBody:
		s.VCenter, s.Slots, s.Incomplete, s.Of = b.Health.status(), &b.Slots, !b.Known, b.Matches
		s.LastCall, s.Silent, s.Started = b.Calls.Last, b.Calls.Missing(), b.Calls.Began
		for i := range b.Rows {
			s.Groups = append(s.Groups, b.Rows[i].status())
		}
		seen := p.look()
		for i := range seen.groups {
			s.Called = s.Called || seen.groups[i].Lease
		}
		s.Recent = recentStatus(b.Recent)
		for _, h := range b.Hosts {
			is := HostStatus{Host: h.Name, Members: h.Members, Of: h.Of, Since: h.Since}
			for _, g := range h.Groups {
				is.Groups = append(is.Groups, g.Name)
			}
			s.Hosts = append(s.Hosts, is)
		}
	case groupBody:
		s.VCenter, s.Called = b.Health.status(), b.Report.Lease
		s.LastCall, s.Silent, s.Started = b.Calls.Last, b.Calls.Missing(), b.Calls.Began
		row := p.rowOf(&b.Report)
		g := row.status()
		g.Detail, g.Generation = b.detail(), b.Report.Generation
		s.Groups = append(s.Groups, g)
		s.Recent = recentStatus(b.Recent)
	}
	return s
}

func (h *health) status() VCenterStatus {
	return VCenterStatus{Address: h.Address, ID: h.ID, Known: h.Known, Since: h.Since, Message: h.Message, Why: whyOf(h.Reasons)}
}

func (r *row) status() GroupStatus {
	return GroupStatus{Namespace: r.Namespace, Name: r.Name, State: r.State.Word, Meaning: r.State.Meaning, Since: r.Since, Deleting: r.Deleting,
		Ready: r.Ready, Desired: r.Desired, VMs: r.VMs, Message: r.Message, Activity: r.Activity, AsOf: r.AsOf, Why: whyOf(r.Reasons)}
}

func (b *groupBody) detail() *GroupDetail {
	d := &GroupDetail{Blocks: blockStatus(b.Blocks), Notes: blockStatus(b.Notes), More: b.Next.More, NoNext: b.NoNext, Of: b.Pages.Of, Standby: b.Standby}
	if len(b.Next.Steps) > 0 {
		d.NoNext = ""
	}
	for _, s := range b.Running {
		step := RunningStep{PendingReport: s.PendingReport}
		if s.Failed != nil {
			step.Todo = s.Failed.text()
		}
		d.Running = append(d.Running, step)
	}
	for _, s := range b.Next.Steps {
		d.Next = append(d.Next, NextStep{s.Round, s.After.Seconds(), s.Op, s.MemberName(), s.Reason})
	}
	for i := range b.Members {
		m := &b.Members[i]
		is := MemberStatus{Name: m.Name, MoRef: m.MoRef, State: m.Word, Power: m.PowerState, IPs: m.IPs, Host: m.Host, Reason: m.Reason, Message: m.Message, AsOf: m.AsOf}
		if v := m.Verdict; v != nil {
			is.Verdict = fmt.Sprintf("%s: %s", v.Is, v.Reason)
			if v.WaitsFor != "" {
				is.Verdict += "; waits for " + plan.WithoutHelp(v.WaitsFor)
			}
		}
		d.Members = append(d.Members, is)
	}
	for i := range b.Kept {
		d.Kept = append(d.Kept, b.Kept[i].Quarantined)
	}
	return d
}

func blockStatus(blocks []block) (all []BlockStatus) {
	for _, b := range blocks {
		all = append(all, BlockStatus{Why{b.Why.Name, b.Why.text()}, b.Condition, b.VM, b.Message})
	}
	return all
}

func whyOf(reasons []reason) (all []Why) {
	for i := range reasons {
		all = append(all, Why{reasons[i].Name, reasons[i].text()})
	}
	return all
}

func recentStatus(actions []recentAction) (all []RecentAction) {
	for i := range actions {
		all = append(all, RecentAction{actions[i].ActionReport, actions[i].Group})
	}
	return all
}

// text returns what to do, without markup.
func (r *reason) text() string { return withoutMarkup(r.Todo) }

var (
	items = regexp.MustCompile(`<li>\s*`)
	marks = regexp.MustCompile(`<[^>]*>`)
	gaps  = regexp.MustCompile(`\s*\n\s*`)
)

func withoutMarkup(markup template.HTML) string {
	text := marks.ReplaceAllString(items.ReplaceAllString(string(markup), "\n- "), "")
	return html.UnescapeString(strings.TrimSpace(gaps.ReplaceAllStringFunc(text, func(gap string) string { return "\n" })))
}
