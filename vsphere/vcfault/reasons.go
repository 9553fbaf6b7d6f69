package vcfault

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The reasons of faults. Each is one CamelCase word that ends up in a condition; plan knows some of them too.
const (
	ReasonTemplateNotFound      = plan.ReasonTemplateNotFound
	ReasonTemplateAmbiguous     = plan.ReasonTemplateAmbiguous
	ReasonNameConflict          = plan.ReasonNameConflict
	ReasonVCenterUnreachable    = "VCenterUnreachable"
	ReasonDatacenterNotFound    = "DatacenterNotFound"
	ReasonDatacenterAmbiguous   = "DatacenterAmbiguous"
	ReasonFolderNotFound        = "FolderNotFound"
	ReasonPoolNotFound          = "ResourcePoolNotFound"
	ReasonPoolAmbiguous         = "ResourcePoolAmbiguous"
	ReasonDatastoreNotFound     = "DatastoreNotFound"
	ReasonDatastoreAmbiguous    = "DatastoreAmbiguous"
	ReasonDatastoreFull         = "DatastoreFull"
	ReasonDatastoreInaccessible = "DatastoreInaccessible"
	ReasonMissingPrivilege      = "MissingPrivilege"
	ReasonResourceLimit         = "ResourceLimit"
	ReasonDRSManual             = "DRSManual"
	ReasonLicense               = "LicenseMissing"
	ReasonNotAuthenticated      = "NotAuthenticated"
	ReasonInvalidLogin          = "InvalidLogin"
	ReasonCredentials           = "CredentialsUnreadable"
	ReasonCertificateNotTrusted = "CertificateNotTrusted"
	ReasonNotVCenter            = "NotVCenter"
	ReasonTaskInProgress        = "TaskInProgress"
	ReasonConcurrentAccess      = "ConcurrentAccess"
	ReasonQuestionPending       = plan.ReasonQuestionPending
	ReasonTaskStalled           = plan.ReasonTaskStalled
	ReasonMethodDisabled        = "MethodDisabled"
	ReasonGone                  = "Gone"
	ReasonTaskLost              = "TaskLost"
	ReasonInvalidPowerState     = "InvalidPowerState"
	ReasonInvalidState          = "InvalidState"
	ReasonHostNotConnected      = "HostNotConnected"
	ReasonFileUnavailable       = "FileUnavailable"
	ReasonInvalidConfiguration  = "InvalidConfiguration"
	ReasonTimeout               = "Timeout"
	ReasonTooManyClones         = "TooManyClones"
	ReasonCancelled             = "Cancelled"
	ReasonInternal              = "Internal"
	// ReasonNotSupported means that vCenter, the host or the object cannot do this at all.
	ReasonNotSupported = "NotSupported"
	// ReasonRefused means that vCenter refuses something for a reason that only somebody who looks into vCenter can end.
	ReasonRefused = "OperationRefused"

	// ReasonToolsUnavailable means that a guest cannot be asked to shut down.
	ReasonToolsUnavailable = plan.ReasonToolsUnavailable
	// ReasonHotAddRefused means that a running VM cannot take a size; ReasonResizeRefused, that it cannot while
	// it is off either.
	ReasonHotAddRefused = "HotAddRefused"
	ReasonResizeRefused = plan.ReasonResizeRefused
	// ReasonFolderGone means that the folder that a VM was to be moved into is no longer there.
	ReasonFolderGone = "FolderGone"
	// ReasonNameHeld means that another VM of the group still has the name that this one is to get.
	ReasonNameHeld = plan.ReasonNameHeld

	// Why an entry of spec.adopt cannot be carried out. AdoptReading passes.
	ReasonAdoptNotFound   = "AdoptNotFound"
	ReasonAdoptAmbiguous  = "AdoptAmbiguous"
	ReasonAdoptElsewhere  = "AdoptElsewhere"
	ReasonAdoptTemplate   = "AdoptTemplate"
	ReasonAdoptUnreadable = "AdoptUnreadable"
	ReasonAdoptStamped    = "AdoptStamped"
	ReasonAdoptReading    = "AdoptReading"

	// Why a member cannot be cloned as its spec says. NoCompatibleDatastore may pass.
	ReasonSnapshotNotFound          = "SnapshotNotFound"
	ReasonSnapshotAmbiguous         = "SnapshotAmbiguous"
	ReasonSnapshotUnusable          = "SnapshotUnusable"
	ReasonNetworkNotFound           = "NetworkNotFound"
	ReasonNetworkAmbiguous          = "NetworkAmbiguous"
	ReasonNetworkUnusable           = "NetworkUnusable"
	ReasonNoCompatibleDatastore     = "NoCompatibleDatastore"
	ReasonStoragePolicyNotFound     = "StoragePolicyNotFound"
	ReasonStoragePolicyIncompatible = "StoragePolicyIncompatible"
	ReasonStoragePolicyUnavailable  = "StoragePolicyUnavailable"
	ReasonCustomizationSpecNotFound = "CustomizationSpecNotFound"
	ReasonCustomizationSpecUnfit    = "CustomizationSpecUnfit"
	ReasonCustomizationFailed       = plan.ReasonCustomizationFailed
	ReasonComputerNameTooLong       = "ComputerNameTooLong"
)

// ReasonNotVCenterAPI means that an answer from vCenter's address is not one of its API: a proxy, a login
// page or another server answers, or vCenter is broken. The server concludes nothing from such an answer, and retries the call.
const ReasonNotVCenterAPI = "NotVCenterAPI"

// ReasonAnswerTooLarge means that an answer of vCenter has more than the server takes at once; reads of several objects are divided then.
const ReasonAnswerTooLarge = "AnswerTooLarge"

// ReasonAttributeConflict means that a name of spec.customAttributes is taken by an attribute that is not for VMs.
const ReasonAttributeConflict = "AttributeConflict"

const (
	// ReasonTagNotFound means that spec.tags names a tag or a category that is not in vCenter.
	ReasonTagNotFound = "TagNotFound"
	// ReasonTagConflict means that a tag's category does not allow it on a VM, or not beside another one.
	ReasonTagConflict = "TagConflict"
)

// ReasonMarkLimit means that the server has made as many custom attributes, tags or categories as it is allowed to.
const ReasonMarkLimit = "MarkLimit"

const (
	// ReasonTaggingUnavailable means that vCenter's tagging service does not answer as it should; it passes.
	ReasonTaggingUnavailable = "TaggingUnavailable"
	// ReasonTagRefused means that vCenter refused a call about tags; the message has vCenter's reason.
	ReasonTagRefused = "TagRefused"
)

const (
	// ReasonLibraryUnavailable means that vCenter's content library service does not answer as it should; it passes.
	ReasonLibraryUnavailable = "LibraryUnavailable"
	// ReasonLibraryReading means that spec.template is being looked for in the content libraries, or an item's VM template in the inventory.
	ReasonLibraryReading = "LibraryReading"
	// ReasonLibraryItemUnusable means that an item of a content library is no VM template, or one that vCenter's user cannot see.
	ReasonLibraryItemUnusable = "LibraryItemUnusable"
)

// Why spec.placement.antiAffinity or hostGroup cannot be carried out.
const (
	// ReasonHostGroupNotFound means that a cluster has no such DRS host group, or that there is no host in it.
	ReasonHostGroupNotFound = "HostGroupNotFound"
	// ReasonRuleIneffective means that DRS, which enforces such rules, is off or missing where the members are.
	ReasonRuleIneffective = "RuleIneffective"
	// ReasonRuleConflict means that vCenter has switched the rule off.
	ReasonRuleConflict = "RuleConflict"
	// ReasonRuleViolation means that a member cannot run anywhere without breaking a rule.
	ReasonRuleViolation = "RuleViolation"
)

// ReasonDiskInSnapshot means that a disk from elsewhere is part of a VM's snapshot, and cannot be detached from it.
const ReasonDiskInSnapshot = "DiskInSnapshot"

// ReasonCloneRunning means that a clone runs whose VM is not visible yet.
const ReasonCloneRunning = "CloneRunning"

// ReasonHomeForbidden means that spec.placement.folder would put a group's folder among those of the server's own folder.
const ReasonHomeForbidden = "HomeForbidden"

// ReasonTooFewAdapters means that a VM has fewer network adapters than spec.networks.
const ReasonTooFewAdapters = "TooFewNetworkAdapters"

// Why something cannot be done with a disk of the spec: one of the member, or a persistent one, a first-class disk of vCenter (vsphere/disks).
const (
	// ReasonDiskMissing means that the disk is not where it was: it was moved, vCenter's catalogue is behind, or the disk is gone.
	ReasonDiskMissing = "DiskMissing"
	// ReasonDiskInUse means that another VM has it, or that vCenter takes it for in use.
	ReasonDiskInUse = "DiskInUse"
	// ReasonDuplicateDisk means that two disks say that they are the same ordinal's, both in use before.
	ReasonDuplicateDisk = "DuplicateDisk"
	// ReasonDiskTracked means that changed block tracking is on for the disk, and cannot be for its VM.
	ReasonDiskTracked = "DiskTracked"
	// ReasonFormerDiskUnavailable means that a group is to have a former group's disk, and that it is not found, or can't be taken.
	ReasonFormerDiskUnavailable = "FormerDiskUnavailable"
	// ReasonDiskHeldBySnapshot means that a snapshot, of its VM or of the disk, keeps it from being detached or deleted.
	ReasonDiskHeldBySnapshot = "DiskHeldBySnapshot"
	// ReasonDiskExtendRefused means that it cannot be made larger now.
	ReasonDiskExtendRefused = "DiskExtendRefused"
	// ReasonDiskOutOfReach means that the VM's host does not have its datastore.
	ReasonDiskOutOfReach = "DiskOutOfReach"
	// ReasonTemplateUnfit means that the VM, as its template is, cannot take a disk.
	ReasonTemplateUnfit = "TemplateUnfit"
	// ReasonDisksUnsupported means that this vCenter is too old for persistent disks.
	ReasonDisksUnsupported = "PersistentDisksUnsupported"
)

// named has the reasons that mean that vCenter has nothing, or too much, of a name, and what the lookup depended on. A step that ends so
// was not tried: it changed nothing, and vCenter refused nothing.
var named = map[string]plan.Depends{
	ReasonDatacenterNotFound: plan.OnFolder, ReasonDatacenterAmbiguous: plan.OnFolder,
	ReasonPoolNotFound: plan.OnPool, ReasonPoolAmbiguous: plan.OnPool,
	ReasonDatastoreNotFound: plan.OnStorage | plan.OnSize, ReasonDatastoreAmbiguous: plan.OnStorage | plan.OnSize,
	ReasonNetworkNotFound: plan.OnNetworks | plan.OnPool, ReasonNetworkAmbiguous: plan.OnNetworks | plan.OnPool,
	ReasonStoragePolicyNotFound: plan.OnStorage | plan.OnSize,
	ReasonTemplateNotFound:      plan.OnTemplate, ReasonTemplateAmbiguous: plan.OnTemplate,
	ReasonSnapshotNotFound: plan.OnTemplate, ReasonSnapshotAmbiguous: plan.OnTemplate,
	ReasonCustomizationSpecNotFound: plan.OnGuest,
	ReasonTagNotFound:               plan.OnTags,
	ReasonHostGroupNotFound:         plan.OnHostGroup | plan.OnPool,
}
