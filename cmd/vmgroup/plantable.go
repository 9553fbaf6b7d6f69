package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func planJSON(out io.Writer, answers []hook.PlanAnswer) error { return writeJSON(out, answers) }

func planYAML(out io.Writer, answers []hook.PlanAnswer) error {
	text, err := json.Marshal(answers)
	if err == nil {
		text, err = yaml.JSONToYAML(plan.PrintableJSON(text)) // whose reader refuses control characters that aren't escaped
	}
	for line := range strings.Lines(string(text)) { // YAML takes some control characters for printable, such as U+0085 and U+202E
		if err == nil {
			_, err = fmt.Fprintln(out, plan.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	return err
}

// planTable writes the steps as a table, as wide as the terminal.
func planTable(out io.Writer, answers []hook.PlanAnswer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	columns := width(out)
	say := func(format string, args ...any) {
		lines := fold(plan.Printable(fmt.Sprintf(format, args...)), columns)
		fmt.Fprintln(w, strings.Join(lines, "\n"))
	}
	for i, a := range answers {
		if i > 0 {
			fmt.Fprintln(w)
		}
		phase := string(a.Phase)
		if a.New {
			phase = "new"
		}
		if slices.ContainsFunc(a.Blocked, func(b hook.PlanBlock) bool { return b.Reason == plan.ReasonInvalidSpec }) {
			say("%s is %s:", a.Group, phase)
			for field := range strings.SplitSeq(a.Message, "; ") {
				say("%s", field)
			}
		} else {
			say("%s is %s: %s", a.Group, phase, a.Message)
		}
		for _, c := range a.Changes {
			say("change: %s", c)
		}
		if n := a.Needs; n != nil && len(a.Steps)+len(a.Blocked) > 0 {
			say("each: %s", n.Each())
			for _, p := range n.Parts {
				say("  %s: %s", p.Part, p.Is)
			}
			say("%s", n.All())
		}
		for _, warning := range a.Warnings {
			say("warning: %s", warning)
		}
		planVerdicts(w, &a, columns)
		planSteps(w, &a, columns)
		said := a.Message
		for _, v := range a.Verdicts {
			said += "; " + v.WaitsFor
		}
		for _, b := range a.Blocked {
			where := strings.Join(strings.Fields(b.Op+" "+b.VM+" "+b.Part), " ")
			if where != "" {
				where = " at " + where
			}
			why := unsaid(said, b.Message)
			if why != "" {
				why = ": " + why
			}
			say("blocked%s%s (%s)", where, why, b.Reason)
		}
	}
	fmt.Fprintln(w)
	say("%s", summary(answers))
	return w.Flush()
}

// unsaid returns the parts of a text that the message of the phase, a line above, doesn't contain.
func unsaid(message, text string) string {
	parts := slices.DeleteFunc(strings.Split(text, "; "), func(part string) bool {
		return strings.Contains(strings.ToLower(message), strings.ToLower(strings.TrimSuffix(part, ".")))
	})
	return strings.Join(parts, "; ")
}

// planVerdicts lists the verdicts, each with its members.
func planVerdicts(w io.Writer, a *hook.PlanAnswer, columns int) {
	if len(a.Verdicts) == 0 {
		return
	}
	var order []plan.Verdict
	whom := map[plan.Verdict][]string{}
	for _, d := range a.Verdicts {
		same := plan.Verdict{Is: d.Is, Reason: d.Reason, WaitsFor: d.WaitsFor}
		if whom[same] == nil {
			order = append(order, same)
		}
		whom[same] = append(whom[same], d.VM)
	}
	rows := [][]string{{"VERDICT", "VM", "REASON"}}
	for _, d := range order {
		why := d.Reason
		if waits := unsaid(a.Message, d.WaitsFor); waits != "" {
			why = strings.TrimPrefix(why+"; waits for "+waits, "; ")
		}
		rows = append(rows, []string{string(d.Is), plan.AtMost(whom[d], 3), why})
	}
	table(w, rows, columns)
	fmt.Fprintln(w)
}

// planSteps lists the steps: those of one round that do the same, for the same reason, in one line.
func planSteps(w io.Writer, a *hook.PlanAnswer, columns int) {
	if len(a.Steps) == 0 && len(a.Blocked) == 0 {
		fmt.Fprintln(w, "nothing to do")
	}
	if len(a.Steps) == 0 {
		return
	}
	rows := [][]string{{"ROUND", "ACTION", "VM", "REASON"}}
	for all := stepRows(a.Steps); len(all) > 0; {
		block, times := repeated(all)
		for _, r := range all[:block] {
			rows = append(rows, []string{fmt.Sprint(r.round), r.action, plan.AtMost(r.vms, 3), r.reason})
		}
		if all = all[block:]; times == 0 {
			continue
		}
		same := all[:block*times]
		all = all[len(same):]
		rows = append(rows, []string{fmt.Sprintf("%d-%d", same[0].round, same[len(same)-1].round), "the same", plan.AtMost(vmsOf(same), 3), "as in the rounds before"})
	}
	table(w, rows, columns)
	if a.More {
		fmt.Fprintln(w, "… and more")
	}
}

// stepRow is what one round does of one kind, for one reason.
type stepRow struct {
	round          int
	action, reason string
	vms            []string
}

func stepRows(steps []hook.PlanStep) (rows []stepRow) {
	for i := 0; i < len(steps); {
		s := steps[i]
		if s.AfterSeconds > 0 && (i == 0 || steps[i-1].Round != s.Round) {
			rows = append(rows, stepRow{s.Round, "-", fmt.Sprintf("wait %s", (time.Duration(s.AfterSeconds) * time.Second).Round(time.Second)), []string{"-"}})
		}
		row := stepRow{round: s.Round, action: s.Op, reason: s.Reason}
		for ; i < len(steps) && steps[i].Round == s.Round && steps[i].Op == s.Op && steps[i].Reason == s.Reason; i++ {
			row.vms = append(row.vms, cmp.Or(steps[i].VM, "-"))
		}
		rows = append(rows, row)
	}
	return rows
}

// repeated returns how many rows are to be shown next, and how many times the rows after them do the same, for other VMs: twice or more.
func repeated(rows []stepRow) (block, times int) {
	alike := func(a, b *stepRow) bool { return a.action == b.action && a.reason == b.reason }
	for block = 1; 3*block <= len(rows); block++ {
		if rows[block-1].round == rows[block].round { // a round isn't cut
			continue
		}
		n := 0
		for n+block < len(rows) && alike(&rows[n], &rows[n+block]) {
			n++
		}
		if times = n / block; times >= 2 {
			return block, times
		}
	}
	return 1, 0
}

// vmsOf returns the VMs of rows, each once.
func vmsOf(rows []stepRow) (all []string) {
	seen := map[string]bool{}
	for _, r := range rows {
		for _, vm := range r.vms {
			if vm != "-" && !seen[vm] {
				seen[vm] = true
				all = append(all, vm)
			}
		}
	}
	return all
}

// table writes rows of cells, and folds them to the terminal's width: the last cell, and the others if they take more than half of the
// width.
func table(w io.Writer, rows [][]string, columns int) {
	last := len(rows[0]) - 1
	folded, room := make([][][]string, len(rows)), columns
	for i := range rows {
		folded[i] = make([][]string, last+1)
	}
	for column := range last + 1 {
		widest, most := 0, columns/2
		if column == last {
			most = room
		}
		if most < 10 { // too narrow to read, or no terminal
			most = 0
		}
		for i, row := range rows {
			folded[i][column] = fold(plan.Printable(row[column]), most)
			for _, line := range folded[i][column] {
				widest = max(widest, len([]rune(line)))
			}
		}
		room -= widest + 2
	}
	for _, cells := range folded {
		height := 1
		for _, cell := range cells {
			height = max(height, len(cell))
		}
		for line := range height {
			texts := make([]string, last+1)
			for column, cell := range cells {
				if line < len(cell) {
					texts[column] = cell[line]
				}
			}
			fmt.Fprintln(w, strings.Join(texts, "\t"))
		}
	}
}

// summary counts the VMs that the steps create, change and remove: one that is recreated counts twice, as in Terraform's plans.
func summary(answers []hook.PlanAnswer) string {
	created, removed, released, touched := make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]bool)
	least := ""
	var blocked []string
	for _, a := range answers {
		if len(a.Blocked) > 0 {
			blocked = append(blocked, a.Group)
		}
		if a.More {
			least = " at least"
		}
		for _, s := range a.Steps {
			if s.VM == "" {
				continue
			}
			vm := a.Group + "/" + s.VM
			touched[vm] = true
			switch plan.Op(s.Op) {
			case plan.Clone, plan.Adopt:
				created[vm] = true
			case plan.Destroy:
				removed[vm] = true
			case plan.Release:
				released[vm] = true
			}
		}
	}
	changed := 0
	for vm := range touched {
		if !created[vm] && !removed[vm] && !released[vm] {
			changed++
		}
	}
	text := fmt.Sprintf("%d to create, %d to change, %d to remove", len(created), changed, len(removed))
	if len(released) > 0 {
		text += fmt.Sprintf(", %d to release", len(released))
	}
	switch {
	case len(blocked) > 0 && len(touched) == 0:
		return "Plan: blocked: " + plan.AtMost(blocked, 3)
	case len(blocked) > 0:
		return "Plan: blocked: " + plan.AtMost(blocked, 3) + "; otherwise" + least + " " + text
	}
	return "Plan:" + least + " " + text
}
