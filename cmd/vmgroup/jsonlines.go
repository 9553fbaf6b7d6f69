package main

import (
	"encoding/json"
	"io"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// jsonLines makes JSON safe for a terminal, such as zerolog's lines (plan.PrintableJSON).
type jsonLines struct{ io.Writer }

func (w jsonLines) Write(line []byte) (int, error) {
	if _, err := w.Writer.Write(plan.PrintableJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// writeJSON writes the output of a command in JSON.
func writeJSON(out io.Writer, value any) error {
	e := json.NewEncoder(jsonLines{out})
	e.SetIndent("", "  ")
	return e.Encode(value)
}
