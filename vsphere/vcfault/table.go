package vcfault

import (
	"fmt"
	"reflect"
	"strings"

	pbm "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// row classifies some of vCenter's faults.
type row struct {
	reason string
	who    who
	words  words
	// faults are the types of the row. The row also applies to types that are derived from these and have no row of their own.
	faults []any
}

// who says who ends a fault.
type who bool

const (
	// retry: the server, which tries again.
	retry who = false
	// operator: an operator, in vCenter or by editing the spec. The server still retries, in case the fault ends by itself, for example
	// because another VM is removed.
	operator who = true
)

// words make the message: what a fault means and what to do.
type words struct {
	about func(types.BaseMethodFault) string
	// fallback: vCenter's message says more, so these words are used only if the fault has no message.
	fallback bool
	// depends says what the refusal depends on. Zero means unknown, so that the refusal is not applied to other groups.
	depends plan.FaultScope
}

// dependsOn declares what the refusal depends on: the parts of the spec that are equal in all groups that the same cause affects.
func (w words) dependsOn(d plan.FaultScope) words {
	w.depends = d
	return w
}

// say returns words with a fixed text.
func say(text string) words {
	return words{about: func(types.BaseMethodFault) string { return text }}
}

// keptOff says, for users, that a DRS rule keeps a VM off each host that could run it. name is the rule's, or empty if the fault doesn't say it.
func keptOff(name string) string {
	return fmt.Sprintf("A DRS rule%s keeps the VM off a host that could run it: add hosts to the cluster. If the rule is the group's own, you can also set spec.placement.antiAffinity, or hostGroup.rule, to Preferred; otherwise, change the rule in vCenter.", quoted(name))
}

// on returns words for a fault of type T: a pointer for one type, a Base… interface for a family of types.
func on[T any](text func(T) string) words {
	return words{about: func(f types.BaseMethodFault) string { return text(f.(T)) }}
}

// fallback marks words as those for a fault without a message of vCenter's.
func fallback(w words) words {
	w.fallback = true
	return w
}

// table has all faults of vim25 and of the policy service (TestEachFaultOfVCenterIsClassified). A fault has the row of its own type, or that of the
// nearest type that it is derived from. The order of the rows does not matter. A fault that is due to the spec, to the template or to a disabled
// feature needs an operator, whichever call it ends; only a fault about a temporary state is retried.
var table = []row{
	// Login and privileges.
	{ReasonNotAuthenticated, retry, say("vCenter ended the session; the server logs in again."), all(types.NotAuthenticated{})},
	{ReasonInvalidLogin, operator, say("The password of vCenter's user has expired: set a new one in vCenter, and update VC_PASS or its file."), all(types.PasswordExpired{})},
	{ReasonInvalidLogin, operator, say("vCenter refuses the user name or password: correct VC_USER and VC_PASS, or the files they are in."),
		all(types.InvalidLogin{}, pbm.PbmFaultInvalidLogin{})},
	{ReasonMissingPrivilege, operator, on(privilege).dependsOn(plan.OnFolder), all(types.NoPermission{})},
	{ReasonMissingPrivilege, operator, say("vCenter's user cannot see storage policies: grant it the privilege StorageProfile.View.").dependsOn(plan.OnVCenter), all(pbm.PbmFaultNoPermission{})},
	{ReasonLicense, operator, say("vCenter's license does not include this operation: assign another license.").dependsOn(plan.OnVCenter),
		all(types.NotEnoughLicenses{}, types.LicenseAssignmentFailed{}, types.ThirdPartyLicenseAssignmentFailed{}, types.RestrictedVersion{},
			types.InvalidLicense{}, types.LicenseEntityNotFound{}, types.LicenseServerUnavailable{}, types.VMotionNotLicensed{}, types.FaultToleranceNotLicensed{})},

	// Placement of a VM.
	{ReasonNameConflict, operator, on(func(f *types.DuplicateName) string {
		return fmt.Sprintf("The name %q is taken by an object that is not this group's: rename or remove it.", f.Name)
	}), all(types.DuplicateName{})},
	{ReasonDatastoreFull, operator, on(func(f *types.NoDiskSpace) string {
		return fmt.Sprintf("The datastore%s is full: free some space or add more.", quoted(f.Datastore))
	}).dependsOn(plan.OnStorage | plan.OnSize), all(types.NoDiskSpace{})},
	{ReasonDatastoreFull, operator, say("The datastore has too little free space: free some or add more.").dependsOn(plan.OnStorage | plan.OnSize), all(types.InsufficientStorageSpace{})},
	{ReasonNoCompatibleDatastore, operator, say("No datastore fits the VM: check that they are not in maintenance mode, have free space and satisfy the storage policy.").dependsOn(plan.OnPool | plan.OnStorage | plan.OnSize),
		all(types.NoCompatibleDatastore{}, types.NoConnectedDatastore{})},
	{ReasonNoCompatibleDatastore, operator, fallback(say("Storage DRS cannot place or move the VM")),
		all(types.StorageDrsCannotMoveDiskInMultiWriterMode{}, types.StorageDrsCannotMoveFTVm{}, types.StorageDrsCannotMoveIndependentDisk{},
			types.StorageDrsCannotMoveManuallyPlacedSwapFile{}, types.StorageDrsCannotMoveManuallyPlacedVm{}, types.StorageDrsCannotMoveSharedDisk{},
			types.StorageDrsCannotMoveTemplate{}, types.StorageDrsCannotMoveVmInUserFolder{}, types.StorageDrsCannotMoveVmWithMountedCDROM{},
			types.StorageDrsCannotMoveVmWithNoFilesInLayout{}, types.StorageDrsDatacentersCannotShareDatastore{}, types.StorageDrsDisabledOnVm{},
			types.StorageDrsHbrDiskNotMovable{}, types.StorageDrsHmsUnreachable{}, types.StorageDrsIolbDisabledInternally{}, types.StorageDrsRelocateDisabled{},
			types.StorageDrsStaleHmsCollection{}, types.StorageDrsUnableToMoveFiles{}, types.IORMNotSupportedHostOnDatastore{}, types.CannotPlaceWithoutPrerequisiteMoves{})},
	{ReasonDatastoreInaccessible, operator, on(func(f types.BaseInvalidDatastore) string {
		return fmt.Sprintf("The datastore%s cannot be used now: look for the cause in vCenter.", quoted(f.GetInvalidDatastore().Name))
	}).dependsOn(plan.OnPool | plan.OnStorage | plan.OfClones), all(types.InvalidDatastore{})},
	{ReasonDatastoreInaccessible, operator, on(func(f *types.InvalidDatastoreState) string {
		return fmt.Sprintf("The datastore%s is in maintenance, or in another state that does not allow this: end that in vCenter, or name another datastore in spec.placement.", quoted(f.DatastoreName))
	}).dependsOn(plan.OnStorage | plan.OfClones), all(types.InvalidDatastoreState{})},
	{ReasonNetworkUnusable, operator, on(func(f types.BaseCannotAccessNetwork) string {
		return fmt.Sprintf("The hosts lack the network%s: connect them to it, or name another in spec.networks (or in the template).", quoted(f.GetCannotAccessNetwork().Backing))
	}).dependsOn(plan.OnPool | plan.OnNetworks | plan.OnTemplate | plan.OfClones), all(types.CannotAccessNetwork{})},
	{ReasonNetworkUnusable, operator, fallback(say("the network cannot be used")), all(types.CannotUseNetwork{}, types.DvsFault{}, types.MismatchedNetworkPolicies{},
		types.MismatchedVMotionNetworkNames{}, types.NetworksMayNotBeTheSame{}, types.NetworkDisruptedAndConfigRolledBack{})},
	{ReasonResourceLimit, operator, say("The hosts or the resource pool have too little CPU or memory left: free some, add hosts or raise the pool's limits.").dependsOn(plan.OnPool | plan.OnSize),
		all(types.InsufficientResourcesFault{})},
	{ReasonFailoverCapacity, operator, say("vSphere HA's admission control lets no more VMs be on, so that the other hosts could run them all if one fails: add hosts to the cluster, free CPU and memory, or change its admission control.").
		dependsOn(plan.OnPool | plan.OnSize), all(types.InsufficientFailoverResourcesFault{})},
	{ReasonResourceLimit, operator, say("No host can run the VM: check whether hosts are in maintenance mode or lack the template's networks and datastores.").
		dependsOn(plan.OnPool | plan.OnSize | plan.OnStorage | plan.OnNetworks),
		all(types.NoCompatibleHost{})},
	{ReasonResourceLimit, operator, fallback(say("a resource is exhausted, or no host is left")).dependsOn(plan.OnPool | plan.OnSize | plan.OnStorage | plan.OnNetworks), all(types.GenericDrsFault{}, types.InsufficientStorageIops{}, types.LimitExceeded{},
		types.ResourceNotAvailable{}, types.NoActiveHostInCluster{}, types.TooManyConsecutiveOverrides{})},
	{ReasonRuleViolation, operator, on(func(f *types.RuleViolation) string {
		name := ""
		if f.Rule != nil {
			name = f.Rule.GetClusterRuleInfo().Name
		}
		return keptOff(name)
	}), all(types.RuleViolation{})},
	{ReasonRuleViolation, operator, say(keptOff("")),
		all(types.VmHostAffinityRuleViolation{}, types.NoCompatibleHardAffinityHost{}, types.NoCompatibleSoftAffinityHost{},
			types.SoftRuleVioCorrectionDisallowed{}, types.SoftRuleVioCorrectionImpact{})},

	// Source and configuration of a VM.
	{ReasonSnapshotUnusable, operator, say("The template cannot be cloned from that snapshot: take another one, or set clone.mode: Full and remove spec.clone.snapshot.").dependsOn(plan.OnTemplate),
		all(types.SnapshotCopyNotSupported{}, types.CloneFromSnapshotNotSupported{})},
	{ReasonSnapshotUnusable, operator, fallback(say("the snapshot cannot be used")), all(types.SnapshotFault{}, types.SnapshotRevertIssue{}, types.CannotDisableSnapshot{}, types.InvalidSnapshotFormat{})},
	{ReasonCustomizationSpecUnfit, operator, say("The customization specification is for another number of network adapters than the VM has: change one of them, or set spec.networks."),
		all(types.NicSettingMismatch{})},
	{ReasonCustomizationSpecUnfit, operator, say("vCenter cannot decrypt the passwords in the customization specification: enter them in it again.").dependsOn(plan.OnGuest), all(types.CannotDecryptPasswords{})},
	{ReasonCustomizationFailed, operator, on(func(f *types.UncustomizableGuest) string {
		return fmt.Sprintf("vCenter cannot customize the guest operating system%s: remove spec.customizationSpec, or correct the template's guest operating system.", quoted(f.UncustomizableGuestOS))
	}), all(types.UncustomizableGuest{})},
	{ReasonCustomizationFailed, operator, say("vCenter lacks its files for the customization of Linux guests: repair its installation."), all(types.MissingLinuxCustResources{})},
	{ReasonCustomizationFailed, operator, say("vCenter lacks the Sysprep files for that Windows guest: install them on vCenter."), all(types.MissingWindowsCustResources{})},
	{ReasonCustomizationFailed, operator, fallback(say("the guest's customization is refused: check that its specification fits the template, which must have VMware Tools")), all(types.CustomizationFault{})},
	{ReasonStoragePolicyIncompatible, operator, fallback(say("the storage policy does not fit")).dependsOn(plan.OnPool | plan.OnStorage | plan.OfClones), all(pbm.PbmFault{})},
	{ReasonInvalidConfiguration, operator, fallback(say("the VM's configuration is refused")), all(types.VmConfigFault{}, types.VAppConfigFault{}, types.VmValidateMaxDevice{},
		types.InvalidName{}, types.OutOfBounds{})},
	{ReasonInvalidConfiguration, operator, fallback(on(func(f types.BaseInvalidArgument) string {
		if p := f.GetInvalidArgument().InvalidProperty; p != "" {
			return "the argument " + p + " is not valid"
		}
		return "an argument is not valid"
	})), all(types.InvalidArgument{})},
	{ReasonNotSupported, operator, fallback(say("this is not supported for that object, by that host or by this version of vSphere")), all(types.NotSupported{}, types.NotImplemented{},
		types.OperationDisallowedOnHost{}, types.UnsupportedVimApiVersion{}, types.InvalidRequest{}, types.InvalidProperty{}, types.MigrationFault{}, types.VmFaultToleranceIssue{},
		types.VmMonitorIncompatibleForFaultTolerance{}, types.HostIncompatibleForRecordReplay{}, types.RecordReplayDisabled{}, types.NotSupportedHostForChecksum{},
		types.VFlashModuleVersionIncompatible{}, types.InaccessibleVFlashSource{})},
	{ReasonFileUnavailable, operator, fallback(say("a file of the VM cannot be used")).dependsOn(plan.OnPool | plan.OnStorage | plan.OnTemplate | plan.OfClones), all(types.FileFault{})},
	{ReasonFileUnavailable, retry, fallback(say("a file of the VM is in use, or could not be copied")), all(types.FileLocked{}, types.NetworkCopyFault{})},

	// Temporary states of an object.
	{ReasonTaskInProgress, retry, say("Another task is running on the same object; the server tries again."),
		all(types.TaskInProgress{}, types.VAppOperationInProgress{}, types.MigrationNotReady{}, types.ToolsInstallationInProgress{}, types.ReplicationVmInProgressFault{}, types.StorageDrsHmsMoveInProgress{})},
	{ReasonConcurrentAccess, retry, say("The VM's configuration changed since the server read it; the server reads the VM and tries again."), all(types.ConcurrentAccess{})},
	{ReasonGone, retry, say("The object is no longer in vCenter; the inventory is read again."), all(types.ManagedObjectNotFound{})},
	{ReasonInvalidPowerState, retry, on(func(f *types.InvalidPowerState) string {
		return fmt.Sprintf("The VM is %s, so this cannot be done; its state is read again.", f.ExistingState)
	}), all(types.InvalidPowerState{})},
	{ReasonToolsUnavailable, retry, say("VMware Tools do not run in the guest, so it cannot be asked to shut down."), all(types.ToolsUnavailable{})},
	{ReasonQuestionPending, operator, on(func(f *types.QuestionPending) string {
		return strings.TrimSpace("The VM waits for an answer in vCenter. " + Steady(f.Text))
	}), all(types.QuestionPending{})},
	{ReasonMethodDisabled, retry, say("vCenter has temporarily disabled this for the VM, as it does during a backup; the server tries again."),
		all(types.MethodDisabled{}, types.MethodAlreadyDisabledFault{})},
	{ReasonInvalidState, retry, fallback(say("the object's state does not allow it")), all(types.InvalidState{}, types.ResourceInUse{}, pbm.PbmResourceInUse{})},
	{ReasonHostNotConnected, retry, say("vCenter cannot reach the host: check the host's connection."), all(types.HostCommunication{}, types.HostConnectFault{})},
	{ReasonHostNotConnected, operator, fallback(say("vCenter does not accept the host as it is: connect it again in vCenter")),
		all(types.AgentInstallFailed{}, types.AlreadyBeingManaged{}, types.CannotAddHostWithFTVmAsStandalone{}, types.CannotAddHostWithFTVmToDifferentCluster{},
			types.CannotAddHostWithFTVmToNonHACluster{}, types.GatewayOperationRefused{}, types.GatewayToHostAuthFault{}, types.GatewayToHostTrustVerifyFault{},
			types.MultipleCertificatesVerifyFault{}, types.NoPermissionOnHost{}, types.NotSupportedHost{}, types.SSLDisabledFault{}, types.SSLVerifyFault{}, types.TooManyHosts{})},
	{ReasonHostNotConnected, retry, say("The host is in maintenance mode, in standby or disconnected; the server tries again."), all(types.InvalidHostState{})},
	{ReasonCancelled, retry, say("The task was cancelled in vCenter; the server tries again."), all(types.RequestCanceled{})},
	{ReasonTooManyClones, retry, say("The datastore clones too many disks at once; the server tries again, with fewer."), all(types.TooManyConcurrentNativeClones{})},
	{ReasonTimeout, retry, say("vCenter timed out; the server tries again."), all(types.Timedout{})},
	{ReasonInternal, retry, fallback(say("vCenter reports a failure of its own; its task list may say more")), all(types.SystemError{}, types.UnexpectedFault{}, types.DatabaseError{},
		types.HttpFault{}, types.InvalidCollectorVersion{})},

	// Faults that an operator must look into in vCenter: an object is not found, a feature is disabled or forbidden, or the fault belongs to a
	// part of vCenter that the server never calls.
	{ReasonRefused, operator, fallback(say("vCenter refuses the operation; its task list may give the reason")), all(
		types.NotFound{}, types.AlreadyExists{}, types.NoDiskFound{}, types.InvalidFolder{}, types.ExtendedFault{}, types.EncryptionKeyRequired{},
		types.CannotPowerOffVmInCluster{}, types.VmPowerOnDisabled{}, types.MksConnectionLimitReached{}, types.DrsDisabledOnVm{}, types.InvalidAffinitySettingFault{},
		types.DisallowedChangeByService{}, types.DisallowedOperationOnFailoverHost{}, types.RestrictedByAdministrator{}, types.SecurityError{}, types.InvalidToken{},
		types.InvalidPrivilege{}, types.InvalidLocale{}, types.UserNotFound{}, types.KeyNotFound{}, types.ActiveDirectoryFault{}, types.AuthMinimumAdminPermission{},
		types.HostConfigFault{}, types.VsanFault{}, types.ReplicationFault{}, types.VmToolsUpgradeFault{}, types.VmMetadataManagerFault{}, types.OvfFault{},
		types.CannotDisableDrsOnClustersWithVApps{}, types.ConflictingDatastoreFound{}, types.FailToLockFaultToleranceVMs{}, types.InvalidProfileReferenceHost{},
		types.InvalidScheduledTask{}, types.AlreadyUpgraded{}, types.AnswerFileUpdateFailed{}, types.CannotAccessLocalSource{},
		types.CannotDisconnectHostWithFaultToleranceVm{}, types.CannotEnableVmcpForCluster{}, types.CannotMoveFaultToleranceVm{},
		types.CannotMoveHostWithFaultToleranceVm{}, types.DasConfigFault{}, types.EVCConfigFault{}, types.FaultToleranceVmNotDasProtected{}, types.FcoeFault{},
		types.GuestOperationsFault{}, types.HostHasComponentFailure{}, types.HostPowerOpFailed{}, types.HostSpecificationOperationFailed{}, types.InvalidBmcRole{},
		types.InvalidEvent{}, types.InvalidIpmiLoginInfo{}, types.InvalidIpmiMacAddress{}, types.IscsiFault{}, types.LogBundlingFailed{}, types.MismatchedBundle{},
		types.MissingBmcSupport{}, types.NamespaceFull{}, types.NamespaceLimitReached{}, types.NamespaceWriteProtected{}, types.NoClientCertificate{},
		types.NoSubjectName{}, types.PatchBinariesNotFound{}, types.PatchMetadataInvalid{}, types.PatchNotApplicable{}, types.ProfileUpdateFailed{},
		types.RebootRequired{}, types.RemoveFailed{}, types.SSPIChallenge{}, types.ShrinkDiskFault{}, types.SsdDiskNotAvailable{}, types.SwapDatastoreUnset{},
		types.UnrecognizedHost{}, types.WipeDiskFault{})},
}

func all(faults ...any) []any { return faults }

// rows is the table by type.
var rows = func() map[reflect.Type]*row {
	byType := map[reflect.Type]*row{}
	for i := range table {
		for _, f := range table[i].faults {
			byType[reflect.TypeOf(f)] = &table[i]
		}
	}
	return byType
}()

// rowOf returns the row of a fault's type, or of the nearest type that it is derived from; nil if there is none.
func rowOf(t reflect.Type) *row {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for t.Kind() == reflect.Struct {
		if r := rows[t]; r != nil {
			return r
		}
		if t.NumField() == 0 || !t.Field(0).Anonymous {
			return nil
		}
		t = t.Field(0).Type
	}
	return nil
}

// privilege returns the message for a missing privilege, as vCenter names it.
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
