package check

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// Row is a finding that a user can send to support: without names, addresses, paths, moRefs and secrets. It contains only words of this
// program and of vSphere's API, numbers and booleans.
type Row struct {
	Check  string   `json:"check"`
	Result Result   `json:"result"`
	Reason string   `json:"reason,omitempty"`
	Faults []string `json:"faults,omitempty"`
	Facts  Facts    `json:"facts,omitempty"`
}

// Report returns the findings as rows.
func Report(found []Finding) []Row {
	rows := make([]Row, 0, len(found))
	for _, f := range found {
		row := Row{Check: f.Check, Result: f.Result, Reason: f.Reason, Faults: f.Faults, Facts: f.Facts}
		if f.Row != "" {
			row.Check = f.Row
		}
		rows = append(rows, row)
	}
	return rows
}

// Facts are the counts and measurements of a check.
type Facts map[string]Fact

// Fact is a count or measurement. Its only texts are words of vSphere's API, because other text from vCenter may be a name.
type Fact struct{ value any }

// MarshalJSON implements json.Marshaler.
func (f Fact) MarshalJSON() ([]byte, error) { return json.Marshal(f.value) }

func count[N int | int32 | int64](n N) Fact { return Fact{int64(n)} }

func yes(is bool) Fact { return Fact{is} }

// millis returns a duration in milliseconds; the names of such facts end in "Ms".
func millis(d time.Duration) Fact { return Fact{d.Milliseconds()} }

// UnmarshalJSON implements json.Unmarshaler.
func (f *Fact) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &f.value) }

// numbered matches versions: of vCenter (8.0.3), of its build, of virtual hardware (vmx-21).
var numbered = regexp.MustCompile(`^(vmx-)?[0-9]+(\.[0-9]+)*$`)

func version(v string) Fact {
	if !numbered.MatchString(v) {
		v = "other"
	}
	return Fact{v}
}

// words are the words of vSphere's API in findings.
var words = slices.Concat(
	types.DrsBehavior("").Strings(), types.VirtualMachineToolsVersionStatus("").Strings(), types.VirtualMachinePowerState("").Strings(),
	[]string{"", propertyWithheld, callRefused, leftOut, notFound, readable},
)

func word[S ~string](s S) Fact {
	if !slices.Contains(words, string(s)) {
		s = "other"
	}
	return Fact{string(s)}
}
