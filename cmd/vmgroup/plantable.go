package main

import (
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

func planJSON(out io.Writer, answers []hook.PlanAnswer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(answers)
}

func planYAML(out io.Writer, answers []hook.PlanAnswer) error {
	text, err := yaml.Marshal(answers)
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

func planTable(out io.Writer, answers []hook.PlanAnswer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for i, a := range answers {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s is %s: %s\n", plan.Printable(a.Group), plan.Printable(string(a.Phase)), plan.Printable(a.Message))
		planVerdicts(w, &a)
		planSteps(w, &a)
		for _, b := range a.Blocked {
			where := strings.Join(strings.Fields(b.Op+" "+b.VM+" "+b.Part), " ")
			if where != "" {
				where = " at " + where
			}
			why := unsaid(a.Message, b.Message)
			if why != "" {
				why = ": " + why
			}
			fmt.Fprintf(w, "blocked%s%s (%s)\n", plan.Printable(where), plan.Printable(why), plan.Printable(b.Reason))
		}
	}
	return w.Flush()
}

// unsaid returns the parts of a text that the message of the phase, a line above, does not have.
func unsaid(message, text string) string {
	parts := slices.DeleteFunc(strings.Split(text, "; "), func(part string) bool {
		return strings.Contains(strings.ToLower(message), strings.ToLower(strings.TrimSuffix(part, ".")))
	})
	return strings.Join(parts, "; ")
}

// planVerdicts lists the verdicts, each with those that it is about.
func planVerdicts(w io.Writer, a *hook.PlanAnswer) {
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
	fmt.Fprintln(w, "VERDICT\tVM\tREASON")
	for _, d := range order {
		why := d.Reason
		if d.WaitsFor != "" {
			why = strings.TrimPrefix(why+"; waits for "+d.WaitsFor, "; ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", plan.Printable(string(d.Is)), plan.Printable(plan.AtMost(whom[d], 3)), plan.Printable(why))
	}
	fmt.Fprintln(w)
}

func planSteps(w io.Writer, a *hook.PlanAnswer) {
	if len(a.Steps) == 0 && len(a.Blocked) == 0 {
		fmt.Fprintln(w, "nothing to do")
	}
	if len(a.Steps) == 0 {
		return
	}
	fmt.Fprintln(w, "ROUND\tACTION\tVM\tREASON")
	for i, s := range a.Steps {
		if s.AfterSeconds > 0 && (i == 0 || a.Steps[i-1].Round != s.Round) {
			fmt.Fprintf(w, "%d\t-\t-\twait %s\n", s.Round, (time.Duration(s.AfterSeconds) * time.Second).Round(time.Second))
		}
		vm := s.VM
		if vm == "" {
			vm = "-"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", s.Round, plan.Printable(string(s.Op)), plan.Printable(vm), plan.Printable(s.Reason))
	}
	if a.More {
		fmt.Fprintln(w, "… and more")
	}
}
