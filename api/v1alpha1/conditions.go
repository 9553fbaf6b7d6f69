package v1alpha1

import (
	"strconv"
	"strings"
)

// The types of a group's conditions. Ready, VCenterReachable and MembersDiffer are always present, the others while they are True, or
// Unknown if they were True and can't be evaluated now.
const (
	// ConditionReady is True when exactly the desired members exist, all are ready and nothing is in progress.
	ConditionReady = "Ready"
	// ConditionProgressing is True while the server has work to do that needs no operator.
	ConditionProgressing = "Progressing"
	// ConditionVCenterReachable is True while vCenter's state is known and recent.
	ConditionVCenterReachable = "VCenterReachable"
	// ConditionReconciling is True while the group differs from its spec and the server works on the difference, or waits for something that
	// passes by itself. kstatus defines Reconciling and Stalled for Flux, Helm and others
	// (https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md); the two are never True together.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while the group waits for an operator: in phase ERROR.
	ConditionStalled = "Stalled"
	// ConditionMembersDiffer names the members whose size or revision differs from the spec.
	ConditionMembersDiffer = "MembersDiffer"
	// ConditionUpdateHeld says that members differ from the spec and aren't being updated, and which field of the spec prevents the update.
	ConditionUpdateHeld = "UpdateHeld"
	// ConditionCloneBlocked says which members cannot be cloned, or that none can, until an operator acts. Its reason names the cause: the
	// template, its snapshot, the placement, a network or the user data, for example.
	ConditionCloneBlocked = "CloneBlocked"
	// ConditionHealingSuspended says that more members are unready than spec.healing.maxUnhealthy allows, and which.
	ConditionHealingSuspended = "HealingSuspended"
	// ConditionPaused says that spec.paused is set, so the server changes nothing in vCenter.
	ConditionPaused = "Paused"

	// ConditionSpecInvalid names the field of the spec that is out of bounds, and its bound.
	ConditionSpecInvalid = "SpecInvalid"
	// ConditionVCenterChanged says that the server is connected to a vCenter other than the one that has the members.
	ConditionVCenterChanged = "VCenterChanged"
	// ConditionNameConflict lists the members whose names are taken by unmanaged VMs.
	ConditionNameConflict = "NameConflict"
	// ConditionStrayVMs lists VMs with the group's stamp that nothing shows to be the group's, such as restored ones. The server touches none of them.
	ConditionStrayVMs = "StrayVMs"
	// ConditionDuplicateMember lists VMs whose stamps name an ordinal that another VM fills. The server powers such VMs off and keeps them.
	ConditionDuplicateMember = "DuplicateMember"
	// ConditionMembersUnreachable lists the members that vCenter cannot reach or show. The server doesn't change these VMs.
	ConditionMembersUnreachable = "MembersUnreachable"
	// ConditionToolsSilent lists the members that are ready by their guests' last report, and whose VMware Tools have not run since. Silence is no proof
	// that a guest hangs: Tools are also silent while they are upgraded.
	ConditionToolsSilent = "ToolsSilent"
	// ConditionQuestionPending lists the VMs that wait for an operator to answer a question, and the questions. Until the answer, the server
	// doesn't change these VMs.
	ConditionQuestionPending = "QuestionPending"
	// ConditionCustomizationFailed says which members' guests could not be customized (spec.customizationSpec), and why.
	ConditionCustomizationFailed = "CustomizationFailed"
	// ConditionMembersVanished lists the members that are missing from vCenter although no event says that they were destroyed. They may still
	// run, so they keep their ordinals.
	ConditionMembersVanished = "MembersVanished"
	// ConditionDuplicateAddress lists the members whose guests report an address that another member's guest also reports, or the range of
	// spec.networks that overlaps another group's.
	ConditionDuplicateAddress = "DuplicateAddress"
	// ConditionMembersShareHost lists, by host, the members that run on one although spec.placement.antiAffinity asks to keep members apart.
	ConditionMembersShareHost = "MembersShareHost"
	// ConditionProbesSuppressed says that the server ignores the results of spec.readiness.tcpSocket or httpGet, and why: all members failed at once,
	// so the server suspects the network path; or --probe-networks doesn't allow the probes. While the condition is True, no member's readiness
	// changes, healing is suspended, and updates wait.
	ConditionProbesSuppressed = "ProbesSuppressed"
	// ConditionTemplateChanged says that members were cloned from another template of the same name.
	ConditionTemplateChanged = "TemplateChanged"
	// ConditionAdoptionFailed lists the entries of spec.adopt that cannot become members, and why.
	ConditionAdoptionFailed = "AdoptionFailed"
	// ConditionDisksBlocked says which members' disks cannot be added, or cannot grow, until an operator acts. Its reason names the cause:
	// snapshots, the datastore or the template, for example.
	ConditionDisksBlocked = "DisksBlocked"
	// ConditionHoldIgnored lists the hold annotations (AnnotationHold) that have no effect.
	ConditionHoldIgnored = "HoldIgnored"
	// ConditionUserDataUnrecognized says that the user data is in no format that cloud-init or Ignition reads. Members get it anyway.
	ConditionUserDataUnrecognized = "UserDataUnrecognized"
	// ConditionChildMissing lists children of the group that Kubernetes doesn't have although Metacontroller was told to create them.
	ConditionChildMissing = "ChildMissing"
)

// AnnotationAbandon with the value "true", on a group that is being deleted, completes the deletion without vCenter and leaves the group's
// VMs behind.
const AnnotationAbandon = "vm.codeconnect.vmworld.com/abandon"

// AnnotationTerminatingSince on an EndpointSlice has the times at which the server first saw that the stored slice lists an endpoint of a
// departing member as terminating: a JSON object of times by host name. spec.service.drainSeconds counts from these times.
const AnnotationTerminatingSince = "vm.codeconnect.vmworld.com/terminating-since"

// LabelGroup on a child object has the name of its group.
const LabelGroup = "vm.codeconnect.vmworld.com/group"

// AnnotationUndoGeneration makes the server ignore one generation in the stamps of the group's VMs: the annotation's value is the number of
// that generation. If etcd was restored from an older backup, or a caller with the hooks' token sent a false generation, a stamp can have a
// higher generation than metadata.generation, and blocks the group until metadata.generation reaches it. Use the annotation in the second case;
// and in the first one to delete the group with its VMs, if no other cluster has it.
const AnnotationUndoGeneration = "vm.codeconnect.vmworld.com/undo-generation"

// AnnotationTryAgain on a group makes the server retry each failed step at once when the annotation's value changes, and compare the
// members' tags and attributes with the spec again. The value itself has no meaning.
const AnnotationTryAgain = "vm.codeconnect.vmworld.com/try-again"

// AnnotationMovedTo on a group has the instanceUuid of a vCenter, and says that this vCenter has the group's VMs now: it was built anew, or the VMs were
// migrated to it. The server that is connected to it then takes back the VMs that it can verify, by their instanceUuids and .vmx files, with other
// moRefs. The others stay members that are missing.
const AnnotationMovedTo = "vm.codeconnect.vmworld.com/moved-to-vcenter"

// MovedTo returns the instanceUuid in AnnotationMovedTo, or "" if the group has no such annotation.
func (g *VmGroup) MovedTo() string { return strings.TrimSpace(g.Annotations[AnnotationMovedTo]) }

// MaxGeneration bounds metadata.generation: one edit a second takes 68 years to reach it.
const MaxGeneration = 1 << 31

// UndoneGeneration returns the number in the annotation; 0 if there is none.
func (g *VmGroup) UndoneGeneration() int64 {
	n, err := strconv.ParseInt(g.Annotations[AnnotationUndoGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
