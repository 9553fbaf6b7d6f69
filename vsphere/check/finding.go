package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Result says how a check ended.
type Result string

// The results of a check. A Warn keeps nothing from working, or something that not everybody uses; Skip: it could not, or
// need not, be looked at.
const (
	OK   Result = "OK"
	Warn Result = "WARN"
	Fail Result = "FAIL"
	Skip Result = "SKIP"
)

// Finding is what one check found.
type Finding struct {
	// Check names it, in a few words.
	Check  string
	Result Result
	// Seen is what there is.
	Seen string
	// Advice says what to do about it; empty if nothing is.
	Advice string
	// Row is Check without the names in it; empty: as Check.
	Row string
	// Facts are what was counted and measured.
	Facts Facts
	// Reason and Faults are those of a failure of vCenter's: the reason that a status would have, and the types of its faults.
	Reason string
	Faults []string
}

func (c *checker) add(check string, result Result, seen, advice string) {
	c.tell(Finding{Check: check, Result: result, Seen: seen, Advice: advice})
}

func (c *checker) tell(f Finding) {
	c.findings = append(c.findings, f)
	if c.Found != nil {
		c.Found(f)
	}
}

// facts adds some to the last finding.
func (c *checker) facts(all Facts) { c.findings[len(c.findings)-1].Facts = all }

func (c *checker) ok(check, format string, args ...any) {
	c.add(check, OK, fmt.Sprintf(format, args...), "")
}

func (c *checker) failed(check string, err error) { c.tell(failure(check, err)) }

// failure tells an error in the words that a group's status would have for it: what is wrong, and what to do.
// That the user stopped the check is no failure of vCenter's.
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
