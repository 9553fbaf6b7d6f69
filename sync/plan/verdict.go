package plan

// Verdict says what becomes of one VM of a group, or of one ordinal that no VM has.
type Verdict struct {
	// VM is the member's name; for a VM in quarantine, the name that it has there.
	VM string `json:"vm"`
	// MoRef is the VM's; empty for an ordinal that no VM has.
	MoRef string `json:"moRef,omitempty"`
	// Is the verdict.
	Is Decision `json:"verdict"`
	// Reason says in words why.
	Reason string `json:"reason"`
	// WaitsFor says what has to happen first; empty if nothing has to.
	WaitsFor string `json:"waitsFor,omitempty"`
}

// Decision is a verdict, in one word.
type Decision string

const (
	// Keep is for a VM that stays as it is. Those of which nothing more is to be said have no Verdict.
	Keep Decision = "Keep"
	// Update is for a VM that becomes as the spec says: in place, or by a new clone.
	Update Decision = "Update"
	// Remove is for a VM that leaves the group.
	Remove Decision = "Remove"
	// Heal is for a member that is restarted or replaced because it stays unready.
	Heal Decision = "Heal"
	// Create is for an ordinal that gets a VM: a clone, a standby member, one in quarantine, or an adopted one.
	Create Decision = "Create"
	// Wait is for a VM about which nothing can be decided now.
	Wait Decision = "Wait"
)
