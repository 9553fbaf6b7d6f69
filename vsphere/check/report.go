package check

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// Row is a finding as a user can send it to whoever helps: without names, addresses, paths, moRefs and secrets. It has nothing but words
// of this program and of vSphere's API, numbers, and yes or no.
type Row struct {
	Check  string   `json:"check"`
	Result Result   `json:"result"`
	Reason string   `json:"reason,omitempty"`
	Faults []string `json:"faults,omitempty"`
	Facts  Facts    `json:"facts,omitempty"`
}

// Report is what was found, in that form.
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

// Facts are what a check counted and measured.
type Facts map[string]Fact

// Fact is one of them. No text gets in but a word of vSphere's API: whatever else vCenter says may be a name.
type Fact struct{ value any }

// MarshalJSON implements json.Marshaler.
func (f Fact) MarshalJSON() ([]byte, error) { return json.Marshal(f.value) }

func count[N int | int32 | int64](n N) Fact { return Fact{int64(n)} }

func yes(is bool) Fact { return Fact{is} }

// millis are milliseconds; their fact's name ends in "Ms".
func millis(d time.Duration) Fact { return Fact{d.Milliseconds()} }

// UnmarshalJSON implements json.Unmarshaler.
func (f *Fact) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &f.value) }

// numbered is a version: of vCenter (8.0.3), of its build, of a VM's hardware (vmx-21).
var numbered = regexp.MustCompile(`^(vmx-)?[0-9]+(\.[0-9]+)*$`)

func version(v string) Fact {
	if !numbered.MatchString(v) {
		v = "other"
	}
	return Fact{v}
}

// words are those of vSphere's API that findings have.
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
