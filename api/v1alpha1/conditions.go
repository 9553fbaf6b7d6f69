package v1alpha1

import "strconv"

// The types of a group's conditions. The first ten are always present; another one appears when it becomes True for the first time,
// and then stays as False, so that `kubectl wait` can wait for its end.
const (
	// ConditionReady is True when exactly the desired members exist, all are ready and nothing is in progress.
	ConditionReady = "Ready"
	// ConditionProgressing is True while there is something to do that needs no operator.
	ConditionProgressing = "Progressing"
	// ConditionVCenterReachable is True while vCenter's state is known and recent.
	ConditionVCenterReachable = "VCenterReachable"
	// ConditionReconciling is True while the group differs from its spec and the server works on it, or waits for something that
	// passes by itself. It and Stalled are those of kstatus, which Flux, Helm and others read
	// (https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md); they are never True together.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while the group waits for an operator: in phase ERROR.
	ConditionStalled = "Stalled"
	// ConditionMembersDiffer says which members have another size or revision than the spec.
	ConditionMembersDiffer = "MembersDiffer"
	// ConditionUpdateHeld says that members differ from the spec and stay so, and which field holds the update.
	ConditionUpdateHeld = "UpdateHeld"
	// ConditionCloneBlocked says which members cannot be cloned, or that none can, until an operator acts; its reason is about the
	// template, its snapshot, the placement, a network or the user data, for example.
	ConditionCloneBlocked = "CloneBlocked"
	// ConditionHealingSuspended says that more members are unready than spec.healing.maxUnhealthy allows, and which.
	ConditionHealingSuspended = "HealingSuspended"
	// ConditionPaused says that spec.paused keeps everything as it is.
	ConditionPaused = "Paused"

	// ConditionSpecInvalid names the field of the spec that is out of bounds, and its bound.
	ConditionSpecInvalid = "SpecInvalid"
	// ConditionVCenterChanged says that the server is connected to another vCenter than the one that has the members.
	ConditionVCenterChanged = "VCenterChanged"
	// ConditionNameConflict names the members whose name an unmanaged VM has.
	ConditionNameConflict = "NameConflict"
	// ConditionDuplicateMember names VMs that have the stamp of a member that another VM is: they are powered off and kept.
	ConditionDuplicateMember = "DuplicateMember"
	// ConditionMembersUnreachable says which members vCenter cannot reach or show; they are left alone.
	ConditionMembersUnreachable = "MembersUnreachable"
	// ConditionQuestionPending says which VMs wait for an operator's answer, and what they ask; until then they are left alone.
	ConditionQuestionPending = "QuestionPending"
	// ConditionCustomizationFailed says which members' guests could not be customized (spec.customizationSpec), and why.
	ConditionCustomizationFailed = "CustomizationFailed"
	// ConditionMembersVanished says which members are missing from vCenter although nothing says that they were destroyed: they may
	// still run, so they keep their ordinals.
	ConditionMembersVanished = "MembersVanished"
	// ConditionDuplicateAddress says which members' guests report an address that another member's guest reports, too, or which range of the
	// spec's networks has addresses of another group.
	ConditionDuplicateAddress = "DuplicateAddress"
	// ConditionProbesSuppressed says that the answers of members to spec.readiness.tcpSocket or httpGet are not believed, and why: all
	// failed at once, so the path to them is suspected; or the server isn't allowed to ask them. Meanwhile members stay as ready as they were, none is
	// healed, and updates wait.
	ConditionProbesSuppressed = "ProbesSuppressed"
	// ConditionTemplateChanged says that members were cloned from another template of the same name.
	ConditionTemplateChanged = "TemplateChanged"
	// ConditionAdoptionFailed says which entries of spec.adopt cannot be carried out, and why.
	ConditionAdoptionFailed = "AdoptionFailed"
	// ConditionDisksBlocked says which members' disks cannot be added, or cannot grow, until an operator acts; its reason is about
	// snapshots, the datastore or the template, for example.
	ConditionDisksBlocked = "DisksBlocked"
	// ConditionHoldIgnored says which annotations are to hold members (AnnotationHold), and hold none.
	ConditionHoldIgnored = "HoldIgnored"
	// ConditionUserDataUnrecognized says that the text that spec.userData names is in no format that guests read; members get it anyway.
	ConditionUserDataUnrecognized = "UserDataUnrecognized"
	// ConditionChildConflict says that another Kubernetes object has the name of one of the group's children.
	ConditionChildConflict = "ChildConflict"
)

// AnnotationAbandon on a group in deletion, with the value "true", ends the deletion without vCenter and leaves
// the group's VMs behind.
const AnnotationAbandon = "vm.codeconnect.vmworld.com/abandon"

// AnnotationTerminatingSince on an EndpointSlice says since when it is known to show the endpoints of departing members as
// terminating: a JSON object of times by host name. spec.service.drainSeconds counts from there.
const AnnotationTerminatingSince = "vm.codeconnect.vmworld.com/terminating-since"

// LabelGroup on a child object has the name of its group.
const LabelGroup = "vm.codeconnect.vmworld.com/group"

// AnnotationUndoGeneration names a generation in the stamps of the group's VMs that the server ignores: its value is that number.
// It is for a generation that was never applied to this group: a restored backup, or a caller with the token, may have left it, and
// it would block the group until its own generation has caught up.
const AnnotationUndoGeneration = "vm.codeconnect.vmworld.com/undo-generation"

// AnnotationTryAgain on a group makes each step that failed due at once when its value changes, whatever the value is.
const AnnotationTryAgain = "vm.codeconnect.vmworld.com/try-again"

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
