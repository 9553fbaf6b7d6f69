package plan

// The reasons that the planner itself gives or acts upon. The vSphere side has more; those pass through unread.
const (
	ReasonReconciled          = "Reconciled"
	ReasonReconciling         = "Reconciling"
	ReasonFinalizing          = "Finalizing"
	ReasonAbandoned           = "Abandoned"
	ReasonConnected           = "Connected"
	ReasonInvalidSpec         = "InvalidSpec"
	ReasonInventoryNotRead    = "InventoryNotRead"
	ReasonVCenterChanged      = "VCenterChanged"
	ReasonSuperseded          = "Superseded"
	ReasonTemplateNotFound    = "TemplateNotFound"
	ReasonTemplateAmbiguous   = "TemplateAmbiguous"
	ReasonNameConflict        = "NameConflict"
	ReasonDuplicateMember     = "DuplicateMember"
	ReasonMemberNotSeen       = "MemberNotSeen"
	ReasonUnreachable         = "Unreachable"
	ReasonDiffers             = "DiffersFromSpec"
	ReasonRemoving            = "Removing"
	ReasonForeignObject       = "ForeignObject"
	ReasonFolderHoldsStranger = "FolderHoldsStranger"
)
