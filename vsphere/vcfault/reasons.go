package vcfault

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The reasons of faults. Each is one CamelCase word, for a condition. Package plan needs some of them, too.
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
	ReasonFailoverCapacity      = "FailoverCapacity"
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
	// ReasonNotSupported means that vCenter, the host or the object does not support the operation.
	ReasonNotSupported = "NotSupported"
	// ReasonRefused means that vCenter refuses an operation for a reason that only an operator can find and remove in vCenter.
	ReasonRefused = "OperationRefused"

	// ReasonToolsUnavailable means that a guest cannot be asked to shut down.
	ReasonToolsUnavailable = plan.ReasonToolsUnavailable
	// ReasonHotAddRefused means that a running VM cannot have a size; ReasonResizeRefused means that the VM cannot have it even while it is
	// off.
	ReasonHotAddRefused = "HotAddRefused"
	ReasonResizeRefused = plan.ReasonResizeRefused
	// ReasonFolderGone means that the folder that a VM was to be moved into no longer exists.
	ReasonFolderGone = "FolderGone"
	// ReasonNameHeld means that another VM of the group still has the name that a VM is to get.
	ReasonNameHeld = plan.ReasonNameHeld

	// Why the server cannot adopt the VM of an entry of spec.adopt. AdoptReading ends by itself.
	ReasonAdoptNotFound   = "AdoptNotFound"
	ReasonAdoptAmbiguous  = "AdoptAmbiguous"
	ReasonAdoptElsewhere  = "AdoptElsewhere"
	ReasonAdoptTemplate   = "AdoptTemplate"
	ReasonAdoptUnreadable = "AdoptUnreadable"
	ReasonAdoptStamped    = "AdoptStamped"
	ReasonAdoptReading    = "AdoptReading"

	// Why the server cannot clone a member as the spec says. NoCompatibleDatastore may end by itself.
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

// ReasonNotVCenterAPI means that an answer from vCenter's address does not conform to vCenter's API: a proxy, a login page or another server
// answers, or vCenter is broken. The server concludes nothing from such an answer, and retries the call.
const ReasonNotVCenterAPI = "NotVCenterAPI"

// ReasonAnswerTooLarge means that an answer of vCenter exceeds the size that the server reads. The server then divides a read of several objects.
const ReasonAnswerTooLarge = "AnswerTooLarge"

// ReasonAttributeConflict means that an attribute that is not for VMs has a name of spec.customAttributes.
const ReasonAttributeConflict = "AttributeConflict"

const (
	// ReasonTagNotFound means that vCenter lacks a tag or a category of spec.tags.
	ReasonTagNotFound = "TagNotFound"
	// ReasonTagConflict means that a tag's category does not allow the tag on a VM, or not together with another tag.
	ReasonTagConflict = "TagConflict"
)

// ReasonMarkLimit means that vCenter has so many custom attributes, tags or categories that the server creates no more.
const ReasonMarkLimit = "MarkLimit"

const (
	// ReasonTaggingUnavailable means that vCenter's tagging service fails. The fault ends by itself.
	ReasonTaggingUnavailable = "TaggingUnavailable"
	// ReasonTagRefused means that vCenter refused a call about tags; the message has vCenter's reason.
	ReasonTagRefused = "TagRefused"
)

const (
	// ReasonLibraryUnavailable means that vCenter's content library service fails. The fault ends by itself.
	ReasonLibraryUnavailable = "LibraryUnavailable"
	// ReasonLibraryReading means that the server is still looking for spec.template in the content libraries, or for an item's VM template in the
	// inventory.
	ReasonLibraryReading = "LibraryReading"
	// ReasonLibraryItemUnusable means that an item of a content library is no VM template, or that vCenter's user cannot see the template.
	ReasonLibraryItemUnusable = "LibraryItemUnusable"
)

// Why the server cannot set the DRS rules of spec.placement.antiAffinity or hostGroup.
const (
	// ReasonHostGroupNotFound means that a cluster lacks the DRS host group, or that the group has no host.
	ReasonHostGroupNotFound = "HostGroupNotFound"
	// ReasonRuleIneffective means that DRS, which enforces rules, is off in the members' cluster, or that the members' host is in no cluster.
	ReasonRuleIneffective = "RuleIneffective"
	// ReasonRuleConflict means that vCenter has disabled the rule, or that a change of it was reverted.
	ReasonRuleConflict = "RuleConflict"
	// ReasonNoHostApart means that DRS has no host for a member that no other member is on, although it need not be apart. The server powers it on beside
	// another. The fault ends by itself.
	ReasonNoHostApart = "NoHostApart"
	// ReasonRuleViolation means that a member cannot run on any host without violating a rule.
	ReasonRuleViolation = "RuleViolation"
)

// ReasonDiskInSnapshot means that a disk that the server did not add is part of a VM's snapshot, so that vCenter cannot detach it.
const ReasonDiskInSnapshot = "DiskInSnapshot"

// ReasonHomeForbidden means that spec.placement.folder would put a group's folder among the folders that the server manages itself.
const ReasonHomeForbidden = "HomeForbidden"

// ReasonTooFewAdapters means that a VM has fewer network adapters than spec.networks.
const ReasonTooFewAdapters = "TooFewNetworkAdapters"

// Why an operation on a disk of the spec is impossible. A persistent disk is a first-class disk of vCenter (vsphere/disks).
const (
	// ReasonDiskMissing means that the disk is not where it was: it was moved or deleted, or vCenter's catalogue is out of date.
	ReasonDiskMissing = "DiskMissing"
	// ReasonDiskInUse means that another VM has the disk, or that vCenter considers it in use.
	ReasonDiskInUse = "DiskInUse"
	// ReasonDuplicateDisk means that two disks are labelled as the same disk of one ordinal, and that both have been used.
	ReasonDuplicateDisk = "DuplicateDisk"
	// ReasonDiskTracked means that changed block tracking is on for the disk and cannot be turned on for its VM.
	ReasonDiskTracked = "DiskTracked"
	// ReasonFormerDiskUnavailable means that the server cannot find or cannot take over a former group's disk that a group is to have.
	ReasonFormerDiskUnavailable = "FormerDiskUnavailable"
	// ReasonDiskHeldBySnapshot means that a snapshot of the disk or of its VM prevents an operation on the disk.
	ReasonDiskHeldBySnapshot = "DiskHeldBySnapshot"
	// ReasonDiskExtendRefused means that vCenter refuses to grow the disk now.
	ReasonDiskExtendRefused = "DiskExtendRefused"
	// ReasonDiskOutOfReach means that the VM's host does not have the disk's datastore.
	ReasonDiskOutOfReach = "DiskOutOfReach"
	// ReasonTemplateUnfit means that a VM of the template cannot have the disk.
	ReasonTemplateUnfit = "TemplateUnfit"
	// ReasonDisksUnsupported means that this vCenter is too old for persistent disks.
	ReasonDisksUnsupported = "PersistentDisksUnsupported"
)

// named has the reasons that mean that vCenter has no object of a name, or several, and what the lookup depends on. Such a fault comes before the
// first change of a step.
var named = map[string]plan.FaultScope{
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
