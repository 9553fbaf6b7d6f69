package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// experiment is one row of the deep check: it tests one assumption of the server about vCenter on the trial's VM. Experiments run in order,
// each on the results of the previous ones; they or the clean-up undo their changes.
type experiment struct {
	check string
	// needs are the privileges in the scratch folder required in addition to those without which the server does not work.
	needs []string
	// lacks returns another missing requirement, or "". It may be nil.
	lacks func(*trial, context.Context) string
	try   func(*trial, context.Context) outcome
	// base reports whether the following experiments depend on it.
	base bool
}

// experiments are all experiments between the creation of the scratch folder and the clean-up.
var experiments = []experiment{
	{check: "deep: session that ends", try: (*trial).endSession, base: true},
	{check: "deep: one name, one folder", try: (*trial).makeOther},
	{check: "deep: clone", try: (*trial).prepare, base: true},
	{check: "deep: stream of changes", try: (*trial).watch, base: true},
	{check: "deep: one name, one VM", try: (*trial).compete, base: true},
	{check: "deep: running clone", try: (*trial).runningClone},
	{check: "deep: name held by a clone", try: (*trial).nameHeld},
	{check: "deep: stamp at first sight", try: (*trial).stampAtFirstSight},
	{check: "deep: stamp", try: (*trial).readStamp, base: true},
	{check: "deep: disks of a clone", try: (*trial).disksOfClone},
	{check: "deep: order of adapters", lacks: twoNetworks, try: (*trial).orderOfAdapters},
	{check: "deep: linked clone", lacks: linked, try: (*trial).linkedClone},
	{check: "deep: guestinfo of a clone", lacks: guestinfo, try: (*trial).guestinfoOfClone},
	{check: "deep: new VM in view", try: (*trial).seen},
	{check: "deep: silent stream", try: (*trial).silence},
	{check: "deep: absent key", try: (*trial).absentKey},
	{check: "deep: changeVersion", try: (*trial).changeVersionGuards},
	{check: "deep: derived types", try: (*trial).derivedTypes},
	{check: "deep: hidden VM", lacks: hidden, try: (*trial).hiddenVM},
	{check: "deep: power-on", try: (*trial).powerOn},
	{check: "deep: host", lacks: running, try: (*trial).hosts},
	{check: "deep: bootTime", needs: []string{"VirtualMachine.Interact.Reset"}, lacks: running, try: (*trial).bootTime},
	{check: "deep: hot-add of CPUs", lacks: running, try: (*trial).hotAddCPUs},
	{check: "deep: hot-add of memory", lacks: running, try: (*trial).hotAddMemory},
	{check: "deep: guestinfo at first boot", lacks: all(guestinfo, tools), try: (*trial).firstBoot},
	{check: "deep: addresses by adapter", lacks: tools, try: (*trial).addresses},
	{check: "deep: guest shutdown", lacks: tools, try: (*trial).shutDown},
	{check: "deep: copy", needs: []string{"VirtualMachine.Provisioning.Clone"}, try: (*trial).copy},
	{check: "deep: taken name", needs: []string{"VirtualMachine.Config.Rename", "VirtualMachine.Inventory.Move"}, lacks: otherFolder, try: (*trial).takenName},
	{check: "deep: folder that is not empty", needs: []string{"VirtualMachine.Inventory.Move", "VirtualMachine.Inventory.Unregister", "VirtualMachine.Inventory.Register"},
		lacks: otherFolder, try: (*trial).fullFolder},
	{check: "deep: disk that says whose it is", needs: diskNeeds, lacks: manageable, try: (*trial).createDisk},
	{check: "deep: disk in one VM", lacks: hasDisk, try: (*trial).shareDisk},
	{check: "deep: disk that grows", lacks: hasDisk, try: (*trial).growDisk},
	{check: "deep: disk that outlives its VM", lacks: hasDisk, try: (*trial).outliveVM},
	{check: "deep: destroyed VM", try: (*trial).destroy},
	{check: "deep: events of a destroy", lacks: destroyed, try: (*trial).events},
}

// outcome is the result of an experiment; the zero value has nothing to report.
type outcome struct {
	result       Result
	seen, advice string
	err          error // instead of result: a call that the experiment needs failed
	facts        Facts
}

func confirmed(format string, args ...any) outcome {
	return outcome{result: OK, seen: fmt.Sprintf(format, args...)}
}

// refuted returns a failure: vCenter does not behave as the server assumes, with this consequence.
func refuted(seen, consequence string) outcome {
	return outcome{result: Fail, seen: seen, advice: consequence + ": report this to the project with vCenter's version (-o json)"}
}

func inconclusive(why, advice string) outcome {
	return outcome{result: Skip, seen: why, advice: advice}
}

func failedBy(err error) outcome { return outcome{err: err} }

func (v outcome) with(facts Facts) outcome {
	v.facts = facts
	return v
}

// attempt runs an experiment and reports whether the others can continue.
func (t *trial) attempt(ctx context.Context, x experiment) bool {
	if missing := slices.DeleteFunc(slices.Clone(x.needs), func(id string) bool { return t.held[id] }); len(missing) > 0 {
		advice := "grant it there to include this check"
		if slices.ContainsFunc(role.Trial(), func(p role.Privilege) bool { return slices.Contains(missing, p.ID) }) {
			advice += " for the duration of the check: the server does not need it"
		}
		t.report(Finding{Check: x.check, Result: Skip, Seen: "needs " + strings.Join(missing, ", ") + " in " + t.at.RootPath, Advice: advice, Reason: vcfault.ReasonMissingPrivilege})
		return true
	}
	if x.lacks != nil {
		if what := x.lacks(t, ctx); what != "" {
			t.add(x.check, Skip, what, "")
			return true
		}
	}
	v := x.try(t, ctx)
	switch {
	case v.err != nil:
		t.failed(x.check, v.err)
	case v.result != "":
		t.add(x.check, v.result, v.seen, v.advice)
	default:
		return true
	}
	if v.facts != nil {
		t.facts(v.facts)
	}
	return !x.base || v.err == nil && v.result != Fail
}

// all returns the first missing requirement.
func all(lacks ...func(*trial, context.Context) string) func(*trial, context.Context) string {
	return func(t *trial, ctx context.Context) string {
		for _, lack := range lacks {
			if what := lack(t, ctx); what != "" {
				return what
			}
		}
		return ""
	}
}
