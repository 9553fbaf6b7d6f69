package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Result is the result of a check.
type Result string

// The results of a check. Warn affects only some uses, or none; Skip means not checked.
const (
	OK   Result = "OK"
	Warn Result = "WARN"
	Fail Result = "FAIL"
	Skip Result = "SKIP"
)

// Finding is the result of one check with details.
type Finding struct {
	// Check is the short name of the check.
	Check  string
	Result Result
	// Seen is what the check found.
	Seen string
	// Advice is what to do about it; "" if nothing.
	Advice string
	// Row is Check without names from vCenter; "" if Check has none.
	Row string
	// Facts are counts and measurements.
	Facts Facts
	// Reason and Faults describe a failure of vCenter: the reason as in a status, and the types of the faults.
	Reason string
	Faults []string
}

func (f Finding) failed() bool { return f.Result == Fail }

func (c *checker) add(check string, result Result, seen, advice string) {
	c.report(Finding{Check: check, Result: result, Seen: seen, Advice: advice})
}

func (c *checker) report(f Finding) {
	c.findings = append(c.findings, f)
	if c.Found != nil {
		c.Found(f)
	}
}

// facts sets the facts of the last finding.
func (c *checker) facts(all Facts) { c.findings[len(c.findings)-1].Facts = all }

func (c *checker) ok(check, format string, args ...any) {
	c.add(check, OK, fmt.Sprintf(format, args...), "")
}

func (c *checker) failed(check string, err error) { c.report(failure(check, err)) }

// failure returns a finding with the message and advice of a group's status for this error. A stop by the user is not a failure.
func failure(check string, err error) Finding {
	if errors.Is(err, context.Canceled) {
		return Finding{Check: check, Result: Skip, Seen: "stopped"}
	}
	e := vcfault.Classify("", err)
	seen, advice, _ := strings.Cut(e.Message, ": ")
	if advice == "" {
		advice = "see docs/troubleshooting.md, " + e.Reason
	}
	return Finding{Check: check, Result: Fail, Seen: fmt.Sprintf("%s (%s)", strings.TrimSuffix(seen, "."), e.Reason), Advice: advice,
		Reason: e.Reason, Faults: vcfault.Types(err)}
}

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

// UnmarshalJSON implements json.Unmarshaler.
func (f *Fact) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &f.value) }

func count[N int | int32 | int64](n N) Fact { return Fact{int64(n)} }

func yes(is bool) Fact { return Fact{is} }

// millis returns a duration in milliseconds; the names of such facts end in "Ms".
func millis(d time.Duration) Fact { return Fact{d.Milliseconds()} }

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
	types.DrsBehavior("").Strings(), types.VirtualMachineToolsVersionStatus("").Strings(),
	[]string{"", propertyWithheld, callRefused, leftOut, notFound, readable},
)

func word[S ~string](s S) Fact {
	if !slices.Contains(words, string(s)) {
		s = "other"
	}
	return Fact{string(s)}
}
