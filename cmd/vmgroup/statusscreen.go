package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/page"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// brevity is what a status leaves out to fit on a screen. Each step also leaves out what the ones before it do.
type brevity int

const (
	whole brevity = iota
	withoutRecent
	withoutRunning // groups that run as their specs say are only counted
	oneLineEach    // each group's text has one line
	briefest
)

const (
	// namesAtOnce is how many groups are named that have the same fault.
	namesAtOnce = 10
	// runningAtOnce is how many groups that run as their specs say are listed beside others, as on the page.
	runningAtOnce = 10
)

// statusScreen writes a status in as many rows as the screen has; 0: in as many as it takes. The worst comes first, and what doesn't fit is
// left out at the end.
func statusScreen(out io.Writer, s *page.Status, expired time.Time, columns, rows int) error {
	for less := whole; ; less++ {
		var text bytes.Buffer
		if !expired.IsZero() {
			for _, line := range fold(fmt.Sprintf("The server's certificate expired at %s UTC: Metacontroller can't call the hooks, and the server does nothing.", expired.UTC().Format(time.DateTime)), columns) {
				fmt.Fprintln(&text, line)
			}
			fmt.Fprintln(&text, "What to do: Renew it (SECURITY.md#change-keys).")
		}
		statusTable(&text, s, columns, less)
		lines := strings.SplitAfter(strings.TrimRight(text.String(), "\n")+"\n", "\n")
		lines = lines[:len(lines)-1]
		if rows > 2 && len(lines) >= rows { // the cursor needs the last row
			if less < briefest {
				continue
			}
			left := len(lines) - (rows - 2)
			lines = append(lines[:rows-2], fmt.Sprintf("… and %d more lines\n", left))
		}
		_, err := io.WriteString(out, strings.Join(lines, ""))
		return err
	}
}

// statusGroups writes the table of groups. Those to which the same happens have one row.
func statusGroups(w io.Writer, s *page.Status, columns int, less brevity) {
	type kind struct {
		state, what string
		deleting    bool
	}
	type alike struct {
		kind
		whom           []string
		ready, desired int
		vms            int // of groups that this replica isn't called for
		since          time.Time
	}
	var all []*alike
	running, hidden := 0, s.Of-len(s.Groups)
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.State == "Running" && !g.Deleting && g.Detail == nil {
			if running++; less >= withoutRunning || running > runningAtOnce {
				continue
			}
		}
		what := g.Message
		if g.Activity != "" {
			what += " (" + g.Activity + ")"
		}
		k := kind{g.State, what, g.Deleting}
		at := slices.IndexFunc(all, func(a *alike) bool { return a.kind == k && g.State != "Running" })
		if at < 0 {
			at = len(all)
			all = append(all, &alike{kind: k, since: g.Since})
		}
		a := all[at]
		a.whom, a.ready, a.desired = append(a.whom, g.Namespace+"/"+g.Name), a.ready+g.Ready, a.desired+g.Desired
		a.vms += g.VMs
		if g.Since.Before(a.since) {
			a.since = g.Since
		}
	}
	rows := [][]string{{"STATE", "GROUP", "READY", "WHAT HAPPENS"}}
	for _, a := range all {
		state := a.state + since(a.since)
		if a.deleting {
			state += ", deleting"
		}
		most, what := 3, a.what // the fault names more of them below
		if less >= oneLineEach {
			most, what = 1, plan.Bounded(what, max(20, columns/3))
		}
		ready := fmt.Sprintf("%d of %d", a.ready, a.desired)
		if a.vms > 0 {
			ready = plan.Count(a.vms, "VM")
		}
		rows = append(rows, []string{state, plan.AtMost(a.whom, most), ready, what})
	}
	if len(rows) > 1 {
		table(w, rows, columns)
	}
	if listed := min(running, runningAtOnce); less >= withoutRunning && running > 0 {
		fmt.Fprintf(w, "%s as the spec says\n", plan.Count(running, "group")+map[bool]string{true: " runs", false: " run"}[running == 1])
	} else if running > listed {
		fmt.Fprintf(w, "… and %d more that run as their specs say\n", running-listed)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "… and %d more groups, none worse than these: -n names a namespace\n", hidden)
	}
}

// fault is a reason with what to do, and whom it concerns.
type fault struct {
	page.Why
	whom []string
}

// faultsOf returns the reasons of an overview for which there is something to do, each once.
func faultsOf(s *page.Status) (all []*fault) {
	for i := range s.Groups {
		g := &s.Groups[i]
		for _, why := range g.Why {
			if why.Todo == "" || g.Detail != nil {
				continue
			}
			at := slices.IndexFunc(all, func(f *fault) bool { return f.Why == why })
			if at < 0 {
				at = len(all)
				all = append(all, &fault{Why: why})
			}
			all[at].whom = append(all[at].whom, g.Namespace+"/"+g.Name)
		}
	}
	return all
}
