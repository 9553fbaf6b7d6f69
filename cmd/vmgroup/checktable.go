package main

import (
	"fmt"
	"io"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/check"
)

// The widths of the table, in characters: of a line, and of the columns. A longer name of a check has a line of its own.
const (
	lineWidth  = 120
	checkWidth = 28
	seenAt     = checkWidth + 8
)

// findings writes results as they come, for people.
type findings struct {
	w      io.Writer
	colors bool
}

func newFindings(w io.Writer) *findings { return &findings{w, colorful(w)} }

func (t *findings) begin() {
	fmt.Fprintf(t.w, "%-*s  %-4s  %s\n", checkWidth, "CHECK", "", "DETAIL")
}

// write writes one finding: its check, its result, the detail, and below that the advice.
func (t *findings) write(f check.Finding) {
	f.Check, f.Seen, f.Advice = plan.Printable(f.Check), plan.Printable(f.Seen), plan.Printable(f.Advice)
	name := f.Check
	if len([]rune(name)) > checkWidth {
		fmt.Fprintln(t.w, name)
		name = ""
	}
	lines := fold(f.Seen, lineWidth-seenAt)
	for i, line := range fold(f.Advice, lineWidth-seenAt-2) {
		arrow := "  "
		if i == 0 {
			arrow = "→ "
		}
		lines = append(lines, arrow+line)
	}
	for i, line := range lines {
		if i == 0 {
			fmt.Fprintf(t.w, "%-*s  %s  %s\n", checkWidth, name, t.colored(f.Result), line)
			continue
		}
		// A word that is too long for the column, such as a thumbprint, stays whole, so that users can copy it.
		fmt.Fprintf(t.w, "%*s%s\n", max(0, min(seenAt, lineWidth-len([]rune(line)))), "", line)
	}
}

func (t *findings) colored(r check.Result) string {
	color := map[check.Result]int{check.OK: 32, check.Warn: 33, check.Fail: 31, check.Skip: 90}[r]
	if !t.colors {
		return fmt.Sprintf("%-4s", r)
	}
	return fmt.Sprintf("\x1b[%dm%-4s\x1b[0m", color, r)
}

func (t *findings) end(count map[check.Result]int) {
	fmt.Fprintf(t.w, "\nOK %d, WARN %d, FAIL %d, SKIP %d\n",
		count[check.OK], count[check.Warn], count[check.Fail], count[check.Skip])
}

// fold wraps a text into lines of at most width characters, between words; a longer word has a line of its own. An empty text has
// no lines.
func fold(text string, width int) (lines []string) {
	line := []rune(nil)
	for _, word := range strings.Fields(text) {
		next := []rune(word)
		if len(line) > 0 && len(line)+1+len(next) <= width {
			line = append(append(line, ' '), next...)
			continue
		}
		if len(line) > 0 {
			lines = append(lines, string(line))
		}
		line = next
	}
	if len(line) > 0 {
		lines = append(lines, string(line))
	}
	return lines
}
