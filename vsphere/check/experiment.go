package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// experiment is one row of the deep check: it shows on the trial's VM one thing that the server believes of vCenter. They are tried in
// their order, each on what those before it have left; what one of them changes it puts back itself, or the clean-up does.
type experiment struct {
	check string
	// needs are the privileges in the scratch folder that it needs beyond those without which the server is of no use.
	needs []string
	// lacks says what else is missing for it; "" if nothing is. It may be nil.
	lacks func(*trial, context.Context) string
	try   func(*trial, context.Context) verdict
	// base reports whether those after it are built upon it.
	base bool
}

// experiments are all of them, but for the scratch folder before and the clean-up after them.
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
	{check: "deep: destroyed VM", try: (*trial).destroy},
	{check: "deep: events of a destroy", lacks: destroyed, try: (*trial).events},
}

// verdict is what came of an experiment; the zero value, nothing to tell.
type verdict struct {
	result       Result
	seen, advice string
	err          error // instead of these: vCenter refused what the experiment needs
	facts        Facts
}

func held(format string, args ...any) verdict {
	return verdict{result: OK, seen: fmt.Sprintf(format, args...)}
}

// broken says that vCenter is not as the server believes, and what comes of that.
func broken(seen, consequence string) verdict {
	return verdict{result: Fail, seen: seen, advice: consequence + ": tell the project, with the vCenter's version (-o json)"}
}

func untold(why, advice string) verdict { return verdict{result: Skip, seen: why, advice: advice} }

func refused(err error) verdict { return verdict{err: err} }

func (v verdict) with(facts Facts) verdict {
	v.facts = facts
	return v
}

// attempt tries one, and reports whether the others can go on.
func (t *trial) attempt(ctx context.Context, x experiment) bool {
	if missing := slices.DeleteFunc(slices.Clone(x.needs), func(id string) bool { return t.held[id] }); len(missing) > 0 {
		advice := "grant it there to see this, too"
		if slices.ContainsFunc(role.Trial(), func(p role.Privilege) bool { return slices.Contains(missing, p.ID) }) {
			advice += ", for the time of the check: the server does not need it"
		}
		t.tell(Finding{Check: x.check, Result: Skip, Seen: "needs " + strings.Join(missing, ", ") + " in " + t.at.RootPath, Advice: advice, Reason: vcfault.ReasonMissingPrivilege})
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

// all lacks what the first of some lacks.
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
