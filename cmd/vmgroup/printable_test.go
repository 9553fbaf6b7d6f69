package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

const strange = "web\x1b[2J\r\n\u009b31m\u202eevil"

func printable(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q", what, line)
		}
	}
	if !strings.Contains(text, "u202e") {
		t.Errorf("%s leaves it out: %q; want %q in the text", what, text, "u202e")
	}
}

func TestLogLinesHaveNoUnprintableCharacters(t *testing.T) {
	for _, format := range []string{"json", "console"} {
		var out bytes.Buffer
		log, err := (&settings{logLevel: "info", logFormat: format}).logger(&out)
		must.Succeed(t, err)
		log.Info().Str("vm", strange).Msg(strange)
		printable(t, format, out.String())
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("%s: %d lines; want 1", format, n)
		}
		var line struct{ VM, Message string }
		if format == "json" && (json.Unmarshal(out.Bytes(), &line) != nil || line.VM != strange || line.Message != strange) {
			t.Errorf("%s is not what was logged", out.String())
		}
	}
}

func TestAPlanShowsNoUnprintableCharacters(t *testing.T) {
	var out bytes.Buffer
	answer := hook.PlanAnswer{Group: strange, Message: strange, Steps: []hook.PlanStep{{Round: 1, Op: "Clone", VM: strange, Reason: strange}}}
	must.Succeed(t, planTable(&out, []hook.PlanAnswer{answer}))
	printable(t, "the table", out.String())
	for what, write := range map[string]func(io.Writer, []hook.PlanAnswer) error{"json": planJSON, "yaml": planYAML} {
		out.Reset()
		must.Succeed(t, write(&out, []hook.PlanAnswer{answer}))
		printable(t, what, out.String())
		var read []hook.PlanAnswer
		if what == "json" && (json.Unmarshal(out.Bytes(), &read) != nil || read[0].Message != strange) {
			t.Errorf("%s is read as %+v", out.String(), read)
		}
	}
}
