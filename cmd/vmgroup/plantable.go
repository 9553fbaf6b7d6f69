package main

import (
	"encoding/json"
	"fmt"
	"io"
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
		planSteps(w, &a)
		for _, b := range a.Blocked {
			where := strings.Join(strings.Fields(b.Op+" "+b.VM+" "+b.Part), " ")
			if where != "" {
				where = " at " + where
			}
			why := ": " + b.Message
			if says(a.Message, b.Message) {
				why = "" // it is in the line of the phase
			}
			fmt.Fprintf(w, "blocked%s%s (%s)\n", plan.Printable(where), plan.Printable(why), plan.Printable(b.Reason))
		}
	}
	return w.Flush()
}

// says reports whether a message has a sentence in it, which may be a part of a longer one there.
func says(message, sentence string) bool {
	return strings.Contains(strings.ToLower(message), strings.ToLower(strings.TrimSuffix(sentence, ".")))
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
