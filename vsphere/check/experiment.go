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
	// lacks returns another missing requirement, or "". It can be nil.
	lacks func(*trial, context.Context) string
	try   func(*trial, context.Context) outcome
	// proves is the beginning of the row of docs/vcenter.md that the experiment confirms or refutes; "" if it only prepares others.
	proves string
	// base reports whether the following experiments depend on it.
	base bool
}

// experiments are all experiments between the creation of the scratch folder and the clean-up.
var experiments = []experiment{
	{check: "deep: session that ends", try: (*trial).endSession, base: true,
		proves: "answers NotAuthenticated when a session has ended"},
	{check: "deep: one name, one folder", try: (*trial).makeOther,
		proves: "does the same for folders"},
	{check: "deep: clone", try: (*trial).prepare, base: true},
	{check: "deep: stream of changes", try: (*trial).watch, base: true},
	{check: "deep: one name, one VM", try: (*trial).compete, base: true,
		proves: "allows one object of a name in a folder"},
	{check: "deep: running clone", try: (*trial).runningClone,
		proves: "lists a clone that is queued or running in TaskManager.recentTask"},
	{check: "deep: name held by a clone", try: (*trial).nameHeld,
		proves: "allows one object of a name in a folder"},
	{check: "deep: stamp at first sight", try: (*trial).stampAtFirstSight,
		proves: "writes a clone's `spec.config.extraConfig` into the VM before the VM is visible"},
	{check: "deep: stamp", try: (*trial).readStamp, base: true,
		proves: "reads one entry of extraConfig by its key"},
	{check: "deep: disks of a clone", try: (*trial).disksOfClone,
		proves: "gives a clone's disks the keys of its source's"},
	{check: "deep: order of adapters", lacks: twoNetworks, try: (*trial).orderOfAdapters,
		proves: "gives adapters MAC addresses as it clones"},
	{check: "deep: linked clone", lacks: linked, try: (*trial).linkedClone,
		proves: "clones linked only from a snapshot"},
	{check: "deep: guestinfo of a clone", lacks: guestinfo, try: (*trial).guestinfoOfClone,
		proves: "takes at most 64 KiB for one guestinfo value"},
	{check: "deep: new VM in view", try: (*trial).seen,
		proves: "reports with WaitForUpdatesEx which objects entered"},
	{check: "deep: absent key", try: (*trial).absentKey,
		proves: "returns neither a value nor a fault for a key of extraConfig that is absent"},
	{check: "deep: changeVersion", try: (*trial).changeVersionGuards,
		proves: "refuses a reconfigure whose changeVersion is not the VM's"},
	{check: "deep: hidden VM", lacks: hidden, try: (*trial).hiddenVM,
		proves: "answers ManagedObjectNotFound for the moRef of an object that is gone, and NoPermission"},
	{check: "deep: power-on", try: (*trial).powerOn,
		proves: "chooses a host in a DRS cluster with Datacenter.PowerOnMultiVM_Task"},
	{check: "deep: bootTime", needs: []string{"VirtualMachine.Interact.Reset"}, lacks: running, try: (*trial).bootTime,
		proves: "sets runtime.bootTime at power-on"},
	{check: "deep: shares of a running VM", needs: []string{"VirtualMachine.Config.Resource"}, lacks: running, try: (*trial).allocate,
		proves: "changes reservations, limits and shares of a running VM"},
	{check: "deep: guestinfo at first boot", lacks: all(guestinfo, tools), try: (*trial).firstBoot,
		proves: "finds at its first boot the guestinfo that its clone's spec had"},
	{check: "deep: addresses by adapter", lacks: tools, try: (*trial).addresses,
		proves: "may report docker0's address"},
	{check: "deep: guest shutdown", lacks: tools, try: (*trial).shutDown,
		proves: "returns from ShutdownGuest at once"},
	{check: "deep: copy", needs: []string{"VirtualMachine.Provisioning.Clone"}, try: (*trial).copy,
		proves: "takes the instanceUuid of the clone's spec, and gives a copy another one"},
	{check: "deep: optional rule", lacks: twoVMs, try: (*trial).optionalRule,
		proves: "may refuse to power a VM on where it breaks an anti-affinity rule that isn't mandatory"},
	{check: "deep: taken name", needs: []string{"VirtualMachine.Config.Rename", "VirtualMachine.Inventory.Move"}, lacks: otherFolder, try: (*trial).takenName,
		proves: "refuses to rename or move a VM onto a name that is taken"},
	{check: "deep: folder that is not empty", needs: []string{"VirtualMachine.Inventory.Move", "VirtualMachine.Inventory.Unregister", "VirtualMachine.Inventory.Register"},
		lacks: otherFolder, try: (*trial).fullFolder,
		proves: "destroys a folder with its content, but leaves the VMs' files with UnregisterAndDestroy_Task"},
	{check: "deep: disk that records its owner", needs: []string{"VirtualMachine.Config.AddExistingDisk", "VirtualMachine.Config.RemoveDisk"},
		lacks: manageable, try: (*trial).createDisk,
		proves: "creates a disk with the metadata of its spec or not at all"},
	{check: "deep: disk in one VM", lacks: hasDisk, try: (*trial).shareDisk,
		proves: "refuses a disk to a second VM"},
	{check: "deep: disk that outlives its VM", lacks: hasDisk, try: (*trial).outliveVM,
		proves: "keeps a disk with keepAfterDeleteVm"},
	{check: "deep: vTPM", needs: []string{"VirtualMachine.Config.AddRemoveDevice", "Cryptographer.Encrypt"}, lacks: wantsTPM, try: (*trial).addTPM,
		proves: "gives a VM that is off a virtual TPM with secrets of its own"},
	{check: "deep: encryption", needs: []string{"VirtualMachine.Config.EditDevice", "Cryptographer.Encrypt"}, lacks: wantsEncryption, try: (*trial).encrypt,
		proves: "encrypts a VM that is off when a reconfigure assigns a storage policy that encrypts"},
	{check: "deep: DRS VM group", lacks: drsCluster, try: (*trial).addVMGroup,
		proves: "keeps a DRS VM group as it was added"},
	{check: "deep: destroyed VM", try: (*trial).destroy,
		proves: "has removed an object when the task that removes it ends in success"},
	{check: "deep: events of a destroy", lacks: destroyed, try: (*trial).events,
		proves: "gives the `VmRemovedEvent` of a VM that was destroyed one chain"},
}

// outcome is the result of an experiment; the zero value has nothing to report.
type outcome struct {
	result       Result
	seen, advice string
	err          error // set instead of result if a call that the experiment needs failed
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
	t.begin(x.check)
	v := x.try(t, ctx)
	f := Finding{Check: x.check, Result: v.result, Seen: v.seen, Advice: v.advice}
	if v.err != nil {
		f = failure(x.check, v.err)
	}
	if f.Facts = v.facts; f.Result != "" {
		t.report(f)
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
