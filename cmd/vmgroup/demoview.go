package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// demoView shows the demo: on a terminal it redraws one screen, otherwise it prints a line for each change.
type demoView struct {
	w        io.Writer
	terminal bool
	begun    bool
	colors   bool
	shown    map[string]string // the last line of each group, unless w is a terminal
	last     []string          // the latest lines, oldest first
	seen     map[plan.ActionReport]bool
	drawn    string
}

const demoLines = 8 // the latest events

// ECMA-48: home, clear to the end of a line, and below; the cursor off and on; clear all.
const (
	ansiHome, ansiEndOfLine, ansiBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	ansiCursorOff, ansiCursorOn        = "\x1b[?25l", "\x1b[?25h"
	ansiClear                          = "\x1b[2J"
)

func newDemoView(w io.Writer) *demoView {
	v := &demoView{w: w, terminal: isTerminal(w), colors: isTerminal(w) && colorful(w), shown: make(map[string]string), seen: make(map[plan.ActionReport]bool)}
	if v.terminal {
		fmt.Fprint(w, ansiCursorOff, ansiClear)
	}
	return v
}

func (v *demoView) end() {
	if v.terminal {
		fmt.Fprint(v.w, ansiCursorOn)
	}
}

// tell adds a line about an event.
func (v *demoView) tell(text string) {
	line := time.Now().Format("15:04:05") + "  " + plan.Printable(text)
	if v.last = append(v.last, line); len(v.last) > demoLines {
		v.last = v.last[len(v.last)-demoLines:]
	}
	if !v.terminal {
		fmt.Fprintln(v.w, line)
	}
}

func (v *demoView) show(d *demo) {
	if !v.terminal && !v.begun {
		v.begun = true
		for _, line := range v.head(d) {
			v.tell(line)
		}
	}
	for _, g := range d.sorted() {
		v.tellActions(g)
		if !v.terminal {
			v.tellState(g)
		}
	}
	if !v.terminal {
		if d.fault != "" && v.shown[""] != d.fault {
			v.tell(d.fault)
		}
		v.shown[""] = d.fault
		return
	}
	columns, rows := size(v.w)
	picture := v.picture(d, columns, rows)
	if picture == v.drawn {
		return
	}
	v.drawn = picture
	fmt.Fprint(v.w, ansiHome, strings.ReplaceAll(picture, "\n", ansiEndOfLine+"\n"), ansiBelow)
}

// tellActions adds the actions of a group that ended since the last time, oldest first.
func (v *demoView) tellActions(g *demoGroup) {
	name := g.Namespace + "/" + g.Name
	for _, a := range slices.Backward(g.report.Actions) {
		if v.seen[a] {
			continue
		}
		v.seen[a] = true
		said := fmt.Sprintf("%s %s, %.1f s: %s", a.Op, cmp.Or(a.VM, name), a.DurationSeconds, a.Reason)
		if a.Result != plan.ResultOK {
			said = fmt.Sprintf("%s %s failed: %s (%s)", a.Op, cmp.Or(a.VM, name), a.Message, a.Result)
		}
		v.tell(said)
	}
}

func (v *demoView) tellState(g *demoGroup) {
	name := g.Namespace + "/" + g.Name
	if line := v.headline(g); v.shown[name] != line {
		v.shown[name] = line
		v.tell(line)
	}
}

func (v *demoView) headline(g *demoGroup) string {
	message := g.Status.LastMessage
	if g.failed != "" {
		message = g.failed
	}
	return fmt.Sprintf("%s/%s  %s  %d of %d ready  %s", g.Namespace, g.Name, cmp.Or(string(g.Status.Phase), "PENDING"), g.Status.ReadyReplicas, g.Replicas(), message)
}

// colored returns a text in the color of its phase.
func (v *demoView) colored(phase v1alpha1.Phase, text string) string {
	if !v.colors {
		return text
	}
	color := 33
	switch phase {
	case v1alpha1.PhaseRunning:
		color = 32
	case v1alpha1.PhaseError:
		color = 31
	}
	return fmt.Sprintf("\x1b[1;%dm%s\x1b[0m", color, text)
}

// head returns the address of the demo, and what the user can do. On a terminal it is above each screen; otherwise it is printed once.
func (v *demoView) head(d *demo) []string {
	what := "Edit " + strings.Join(d.files, ", ") + " and save it; Ctrl-C deletes the groups and ends."
	if d.ending {
		what = "Deleting the groups. A second Ctrl-C ends at once."
	}
	return []string{"vmgroup demo, with an embedded vCenter. In a browser: " + d.url, what}
}

// picture returns the whole screen. If the terminal has too few rows, picture leaves out the events first, then members that are ready; it
// cuts lines that are too long. 0 columns or rows mean no limit.
func (v *demoView) picture(d *demo, columns, height int) string {
	var head []string
	for _, line := range v.head(d) {
		head = append(head, fold(line, columns)...)
	}
	for line := range strings.Lines(d.fault) {
		head = append(head, fold("! "+plan.Printable(strings.TrimSpace(line)), columns)...)
	}
	groups := d.sorted()
	headlines, members, fixed, total := make([][]string, len(groups)), make([][]demoRow, len(groups)), len(head)+1, 0
	for i, g := range groups {
		headlines[i], members[i] = fold(plan.Printable(v.headline(g)), columns), demoRows(g)
		fixed += len(headlines[i]) + 2
		total += len(members[i])
	}
	events, each := v.last, total
	if room := height - fixed; height > 0 {
		events = events[len(events)-max(0, min(len(events), room-total-2)):]
		if total > room {
			each = max(1, room/len(groups))
		}
	}
	lines := head
	for i, g := range groups {
		lines = append(lines, "", v.colored(g.Status.Phase, strings.Join(headlines[i], "\n")))
		lines = append(lines, cut(demoTable(members[i], each), columns)...)
	}
	if len(events) > 0 {
		lines = append(lines, "", "Lately")
		for _, event := range events {
			lines = append(lines, cut([]string{"  " + event}, columns)...)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// demoTable shows at most room members: those that are ready are left out first.
func demoTable(rows []demoRow, room int) []string {
	hidden := 0
	if len(rows) > room {
		hidden = len(rows) - room + 1
		for ready, left := true, hidden; left > 0; ready = false {
			for i := len(rows) - 1; i >= 0 && left > 0; i-- {
				if rows[i].ready || !ready {
					rows = slices.Delete(rows, i, i+1)
					left--
				}
			}
		}
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "  NAME\tVM\tPOWER\tADDRESS\tPROGRESS")
	for _, row := range rows {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", plan.Printable(row.name), row.moRef, row.power, plan.Printable(row.address), plan.Printable(row.progress))
	}
	_ = w.Flush()
	if hidden > 0 {
		fmt.Fprintf(&b, "  … and %d more\n", hidden)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// cut shortens lines to the width of the terminal.
func cut(lines []string, columns int) []string {
	short := slices.Clone(lines)
	for i, line := range lines {
		if text := []rune(line); columns > 0 && len(text) > columns {
			short[i] = string(text[:columns-1]) + "…"
		}
	}
	return short
}

// demoRow is a member, or one that is being created.
type demoRow struct {
	ordinal                               int32
	name, moRef, power, address, progress string
	ready                                 bool
}

// demoRows returns the members, the standby members, and those being created, by ordinal.
func demoRows(g *demoGroup) (rows []demoRow) {
	doing := make(map[string]plan.PendingReport)
	for _, p := range g.report.Pending {
		if p.VM != "" {
			doing[p.VM] = p
		}
	}
	add := func(m *v1alpha1.Member) {
		row := demoRow{ordinal: m.Ordinal, name: m.Name, moRef: m.MoRef, power: m.PowerState, progress: progressOf(m, doing[m.Name]), ready: m.Ready}
		if len(m.IPs) > 0 {
			row.address = m.IPs[0]
		}
		delete(doing, m.Name)
		rows = append(rows, row)
	}
	for i := range g.Status.Members {
		add(&g.Status.Members[i])
	}
	for _, m := range g.Status.Standby {
		row := demoRow{ordinal: m.Ordinal, name: m.Name, moRef: m.MoRef, power: string(plan.PoweredOff), progress: "■■□□ standby", ready: m.Ready}
		if p, is := doing[m.Name]; is {
			row.progress = progressOf(&v1alpha1.Member{MoRef: m.MoRef}, p)
		} else if !m.Ready && m.Message != "" {
			row.progress += ": " + m.Message
		}
		delete(doing, m.Name)
		rows = append(rows, row)
	}
	for name, p := range doing {
		if p.Op == plan.Clone || p.Op == plan.Adopt {
			rows = append(rows, demoRow{ordinal: 1 << 30, name: name, progress: progressOf(&v1alpha1.Member{}, p)})
		}
	}
	slices.SortFunc(rows, func(a, b demoRow) int {
		return cmp.Or(cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(len(a.name), len(b.name)), strings.Compare(a.name, b.name))
	})
	return rows
}

// progressOf shows a member's progress (cloned, powered on, booted, ready), and the step that runs for it.
func progressOf(m *v1alpha1.Member, p plan.PendingReport) string {
	steps := 0
	switch {
	case m.Ready:
		steps = 4
	case m.PowerState == string(plan.PoweredOn):
		steps = 3
	case m.MoRef != "":
		steps = 2
	case p.Op != "":
		steps = 1
	}
	said := "ready"
	switch {
	case p.Fault != nil:
		said = p.Fault.Message
	case p.Op != "":
		said = string(p.Op)
		if !p.Since.IsZero() {
			said = fmt.Sprintf("%s, %.0f s", p.Op, time.Since(p.Since).Seconds())
		}
	case !m.Ready || m.Message != "":
		said = m.Message
	}
	return strings.Repeat("■", steps) + strings.Repeat("□", 4-steps) + " " + said
}
