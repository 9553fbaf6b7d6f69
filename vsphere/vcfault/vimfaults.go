package vcfault

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vmware/govmomi/fault"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// row says what one of vCenter's faults, or a family of them, means to a user.
type row struct {
	// words returns what to do, and whether the fault belongs to this row.
	words  func(types.BaseMethodFault) (string, bool)
	reason string
	// person reports whether an operator has to act.
	person bool
}

// on returns words for the faults of type T: a pointer for one fault, a Base… interface for a family.
func on[T any](words func(T) string) func(types.BaseMethodFault) (string, bool) {
	return func(f types.BaseMethodFault) (string, bool) {
		if t, ok := f.(T); ok {
			return words(t), true
		}
		return "", false
	}
}

// say is on with fixed words.
func say[T any](words string) func(types.BaseMethodFault) (string, bool) {
	return on(func(T) string { return words })
}

// rows are read from above; a family comes after its members. What vCenter lacks, an operator has to provide. (Every call is retried,
// so it does no harm if that passes by itself, as when another VM goes.)
var rows = []row{
	{say[*types.NotAuthenticated]("vCenter ended the session; the server logs in again."), ReasonNotAuthenticated, false},
	{say[*types.PasswordExpired]("The password of vCenter's user has expired: set a new one, in VC_PASS or its file, too."), ReasonInvalidLogin, true},
	{say[types.BaseInvalidLogin]("vCenter refuses the user name or password: correct VC_USER and VC_PASS, or the files they are in."), ReasonInvalidLogin, true},
	{on(privilege), ReasonMissingPrivilege, true},
	{say[*pbmtypes.PbmFaultNoPermission]("vCenter's user may not see storage policies: grant it the privilege StorageProfile.View."), ReasonMissingPrivilege, true},
	{on(func(f *types.DuplicateName) string {
		return fmt.Sprintf("The name %q is taken by an object that is not this group's: rename or remove it.", f.Name)
	}), ReasonNameConflict, true},
	{on(func(f *types.NoDiskSpace) string {
		return fmt.Sprintf("The datastore%s is full: free some space or add more.", quoted(f.Datastore))
	}), ReasonDatastoreFull, true},
	{say[*types.InsufficientStorageSpace]("The datastore has too little free space: free some or add more."), ReasonDatastoreFull, true},
	{say[*types.NoCompatibleDatastore]("No datastore fits the VM: check that they are not in maintenance mode, have free space and satisfy the storage policy."), ReasonNoCompatibleDatastore, true},
	{on(func(f types.BaseInvalidDatastore) string {
		return fmt.Sprintf("The datastore%s cannot be used now: look for the cause in vCenter.", quoted(f.GetInvalidDatastore().Name))
	}), ReasonDatastoreInaccessible, true},
	{on(func(f *types.InvalidDatastoreState) string {
		return fmt.Sprintf("The datastore%s is in maintenance, or in another state that does not allow this: end that in vCenter, or name another datastore in spec.placement.", quoted(f.DatastoreName))
	}), ReasonDatastoreInaccessible, true},
	{on(func(f types.BaseCannotAccessNetwork) string {
		return fmt.Sprintf("The hosts lack the network%s: connect them to it, or name another in spec.networks (or in the template).", quoted(f.GetCannotAccessNetwork().Backing))
	}), ReasonNetworkUnusable, true},
	{say[types.BaseSnapshotCopyNotSupported]("The template cannot be cloned from that snapshot: take another one, or set clone.mode: Full and remove spec.clone.snapshot."), ReasonSnapshotUnusable, true},
	{say[*types.NicSettingMismatch]("The customization specification is for another number of network adapters than the VM has: change one of them, or set spec.networks."), ReasonCustomizationSpecUnfit, true},
	{on(func(f *types.UncustomizableGuest) string {
		return fmt.Sprintf("vCenter cannot customize the guest operating system%s: remove spec.customizationSpec, or correct the template's guest operating system.", quoted(f.UncustomizableGuestOS))
	}), ReasonCustomizationFailed, true},
	{say[*types.CannotDecryptPasswords]("vCenter cannot decrypt the passwords in the customization specification: enter them in it again."), ReasonCustomizationSpecUnfit, true},
	{say[*types.MissingLinuxCustResources]("vCenter lacks its files for the customization of Linux guests: repair its installation."), ReasonCustomizationFailed, true},
	{say[*types.MissingWindowsCustResources]("vCenter lacks the Sysprep files for that Windows guest: install them on vCenter."), ReasonCustomizationFailed, true},
	{say[types.BaseInsufficientResourcesFault]("The hosts or the resource pool have too little CPU or memory left: free some, add hosts or raise the pool's limits."), ReasonResourceLimit, true},
	{ruleViolation, ReasonRuleViolation, true},
	{say[*types.NoCompatibleHost]("No host can run the VM: check whether hosts are in maintenance mode or lack the template's networks and datastores."), ReasonResourceLimit, true},
	{say[types.BaseNotEnoughLicenses]("vCenter's license does not allow it: assign another one."), ReasonLicense, true},
	{say[types.BaseTaskInProgress]("Another task is running on the same object; the server tries again."), ReasonTaskInProgress, false},
	{say[*types.ConcurrentAccess]("Somebody else changed the VM meanwhile; the server reads it and tries again."), ReasonConcurrentAccess, false},
	{say[*types.ManagedObjectNotFound]("The object is no longer in vCenter; the inventory is read again."), ReasonGone, false},
	{on(func(f *types.InvalidPowerState) string {
		return fmt.Sprintf("The VM is %s, so this cannot be done; its state is read again.", f.ExistingState)
	}), ReasonInvalidPowerState, false},
	{say[*types.ToolsUnavailable]("VMware Tools do not run in the guest, so it cannot be asked to shut down."), ReasonToolsUnavailable, false},
	{on(func(f *types.QuestionPending) string {
		return strings.TrimSpace("The VM waits for an answer in vCenter. " + Steady(f.Text))
	}), ReasonQuestionPending, true},
	{say[*types.MethodDisabled]("vCenter has temporarily disabled this for the VM, as it does during a backup; the server tries again."), ReasonMethodDisabled, false},
	{say[types.BaseHostCommunication]("vCenter cannot reach the host: check the host's connection."), ReasonHostNotConnected, false},
	{say[types.BaseHostConnectFault]("vCenter cannot reach the host: check the host's connection."), ReasonHostNotConnected, false},
	{say[types.BaseInvalidHostState]("The host is in maintenance mode, in standby or disconnected; the server tries again."), ReasonHostNotConnected, false},
	{say[*types.RequestCanceled]("Somebody cancelled the task in vCenter; the server tries again."), ReasonCancelled, false},
	{say[*types.TooManyConcurrentNativeClones]("The datastore clones too many disks at once; the server tries again, with fewer."), ReasonTooManyClones, false},
	{say[*types.Timedout]("vCenter timed out; the server tries again."), ReasonTimeout, false},
}

// ruleViolation finds a DRS rule among the reasons why no host can run a VM, or alone.
func ruleViolation(f types.BaseMethodFault) (string, bool) {
	const words = "A DRS rule keeps the VM off a host that could run it: add hosts to the cluster, or set spec.placement.antiAffinity to Preferred."
	if none, is := f.(*types.NoCompatibleHost); is {
		return words, slices.ContainsFunc(none.Error, func(why types.LocalizedMethodFault) bool {
			_, rule := why.Fault.(*types.RuleViolation)
			return rule
		})
	}
	_, is := f.(*types.RuleViolation)
	return words, is
}

// wordy are the families for which vCenter's own message says most. They are tried when no row fits.
var wordy = []row{
	{say[types.BaseFileFault]("a file of the VM cannot be used"), ReasonFileUnavailable, false},
	{say[types.BaseInvalidState]("the object's state does not allow it"), ReasonInvalidState, false},
	{say[types.BaseCustomizationFault]("the guest's customization is refused: check that its specification fits the template, which must have VMware Tools"), ReasonCustomizationFailed, true},
	{say[types.BaseSnapshotFault]("the snapshot cannot be used"), ReasonSnapshotUnusable, true},
	{say[types.BaseVmConfigFault]("the VM's configuration is refused"), ReasonInvalidConfiguration, true},
}

// vimFault classifies vCenter's faults: of calls, of tasks, and the causes inside them. The deepest fault that a row
// covers would often be more precise, but the outermost is what the operation is about, so it comes first.
func vimFault(err error) (plan.Fault, bool) {
	faults, message := faultsIn(err)
	if len(faults) == 0 {
		return plan.Fault{}, false
	}
	for _, f := range faults {
		for _, r := range rows {
			if words, ok := r.words(f); ok {
				return plan.Fault{Reason: r.reason, Message: words, Person: r.person}, true
			}
		}
	}
	for _, f := range faults {
		for _, r := range wordy {
			if words, ok := r.words(f); ok {
				if m := Steady(message); m != "" {
					words = m
				}
				return plan.Fault{Reason: r.reason, Message: "vCenter says: " + words, Person: r.person}, true
			}
		}
	}
	if message == "" {
		message = err.Error()
	}
	return internal(message), true
}

// Refused reports whether an error means that a call was not carried out: vCenter answered it with a fault, or it was not sent.
func Refused(err error) bool {
	faults, _ := faultsIn(err)
	var own *Error
	return len(faults) > 0 || errors.As(err, &own) && own.Err == nil
}

// faultsIn returns the faults in an error's tree from the outside in, and vCenter's own message: that of the
// outermost fault that has one, otherwise that of the error that carries the fault.
func faultsIn(err error) (faults []types.BaseMethodFault, message string) {
	carrier := carrierIn(err)
	if carrier == nil {
		return nil, ""
	}
	fault.In(carrier, func(f types.BaseMethodFault, localized string, _ []types.LocalizableMessage) bool {
		faults = append(faults, f)
		if message == "" {
			message = localized
		}
		if n, ok := f.(*types.NoCompatibleHost); ok {
			for _, e := range n.Error {
				if e.Fault != nil {
					faults = append(faults, e.Fault)
				}
			}
		}
		return false
	})
	// The hosts' reasons say more than that no host was left.
	if len(faults) > 1 {
		if _, ok := faults[0].(*types.NoCompatibleHost); ok {
			faults = append(faults[1:], faults[0])
		}
	}
	if message == "" {
		message = carrier.Error()
	}
	return faults, message
}

// carrierIn finds the error in the tree that carries a vCenter fault, or nil. (fault.In would do that too, but
// panics if Unwrap returns nil, as a net.DNSError's may.)
func carrierIn(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case interface{ Fault() types.BaseMethodFault }:
		return err
	case interface{ Unwrap() error }:
		return carrierIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if carrier := carrierIn(one); carrier != nil {
				return carrier
			}
		}
	}
	return nil
}

// privilege says which privilege is missing, as vCenter names it.
func privilege(f types.BaseNoPermission) string {
	var texts []string
	for _, l := range lacksOf(f) {
		texts = append(texts, l.Text(""))
	}
	return LackMessage(texts)
}

func quoted(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" %q", name)
}

// passing are the ids in vCenter's messages that differ from try to try.
var passing = regexp.MustCompile(`(?i)\b(task|session|op(eration)?id)[-=:\[ ]+['"]?[0-9][0-9a-z-]*\]?['"]?|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)

// messageMax bounds a message in a status, in bytes.
const messageMax = 600

// Steady makes a message of vCenter's fit for a status: equal failures give equal bytes, in one line.
func Steady(message string) string {
	message = strings.Join(strings.Fields(passing.ReplaceAllString(message, "…")), " ")
	if len(message) > messageMax {
		message = strings.ToValidUTF8(message[:messageMax], "") + "…"
	}
	return message
}
