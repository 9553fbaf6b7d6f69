package main

import (
	"fmt"
	"io"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/check"
)

// The widths of the table, in characters: of a line without a terminal, the minimum of a line, and of the columns. The name of a check that
// is longer than its column has a line of its own.
const (
	lineWidth  = 120
	leastWidth = 60
	checkWidth = 28
	seenAt     = checkWidth + 8
)

// findings writes results as a table, as they come.
type findings struct {
	w      io.Writer
	colors bool
	width  int
}

func newFindings(w io.Writer) *findings {
	t := &findings{w: w, colors: colorful(w), width: lineWidth}
	if columns := width(w); columns > 0 {
		t.width = max(columns, leastWidth)
	}
	return t
}

func (t *findings) begin() {
	fmt.Fprintf(t.w, "%-*s  %-4s  %s\n", checkWidth, "CHECK", "", "DETAIL")
}

// write writes one finding: its check, its result, the detail, and the advice below the detail.
func (t *findings) write(f check.Finding) {
	f.Check, f.Seen, f.Advice = plan.Printable(f.Check), plan.Printable(f.Seen), plan.Printable(f.Advice)
	name := f.Check
	if len([]rune(name)) > checkWidth {
		fmt.Fprintln(t.w, name)
		name = ""
	}
	lines := fold(f.Seen, t.width-seenAt)
	for i, line := range fold(f.Advice, t.width-seenAt-2) {
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
		// A word that is too long for the column, such as a thumbprint, isn't split, so that users can copy it.
		fmt.Fprintf(t.w, "%*s%s\n", max(0, min(seenAt, t.width-len([]rune(line)))), "", line)
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
// no lines, and without a width any text is one.
func fold(text string, width int) (lines []string) {
	if text != "" && (width <= 0 || len([]rune(text)) <= width) {
		return []string{text}
	}
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
