package planner_test

import (
	"strings"
	"testing"
	"unicode"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

const strange = "web\x1b[2J\r\n\u009b31m\u202eevil\x00\xff"

func TestUnprintableCharactersAreEscapedAndOthersStay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"web-0":          "web-0",
		"Grüße 東京 🙂 a b": "Grüße 東京 🙂 a b",
		`a\b "c"`:        `a\b "c"`,
		strange:          `web\x1b[2J\r\n\u009b31m\u202eevil\x00\xff`,
		"\u200b\u2028":   `\u200b\u2028`,
	} {
		if got := plan.Printable(text); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
}

func TestNoStatusHasAnUnprintableCharacter(t *testing.T) {
	t.Parallel()
	o := served(2, v1alpha1.Service{})
	for i := range o.State.VMs {
		o.State.VMs[i].Name, o.State.VMs[i].Host, o.State.VMs[i].Unreachable = strange, strange, strange
	}
	o.State.VMs[0].Reachable = false
	o.Pending = map[string]plan.Pending{"web-1": {Op: plan.PowerOn, Ordinal: 1, State: plan.BackingOff, Fault: plan.Fault{Reason: "X", Message: strange, NeedsOperator: true}}}
	r := planner.Make(o)
	texts := []string{r.Status.LastMessage}
	for _, c := range r.Status.Conditions {
		texts = append(texts, c.Message)
	}
	for _, m := range r.Status.Members {
		texts = append(texts, m.Name, m.Host, m.Message)
	}
	o.State.Known, o.State.Fault = false, &plan.Fault{Reason: "X", Message: strange}
	r = planner.Make(o)
	texts = append(texts, r.Status.LastMessage, r.Status.Conditions[0].Message)
	shown := 0
	for _, text := range texts {
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", text)
		}
		if strings.Contains(text, `\u202e`) {
			shown++
		}
	}
	if shown < 5 {
		t.Errorf("only %d of %q show it", shown, texts)
	}
}
