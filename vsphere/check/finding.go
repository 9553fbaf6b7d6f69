package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
