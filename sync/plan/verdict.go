package plan

// Verdict says what the server does with one VM of a group, or with one ordinal that has no VM.
type Verdict struct {
	// VM is the member's name; for a VM in quarantine, the name that it has there.
	VM string `json:"vm"`
	// MoRef is the VM's; empty for an ordinal without a VM.
	MoRef string `json:"moRef,omitempty"`
	// Is is the decision.
	Is Decision `json:"verdict"`
	// Reason says in words why.
	Reason string `json:"reason"`
	// WaitsFor says what has to happen first; empty if nothing.
	WaitsFor string `json:"waitsFor,omitempty"`
}

// Decision is a verdict, in one word.
type Decision string

const (
	// Keep is for a VM that isn't changed. VMs with nothing to report have no Verdict.
	Keep Decision = "Keep"
	// Update is for a VM that is brought to the spec, in place or by a new clone.
	Update Decision = "Update"
	// Remove is for a VM that is removed from the group.
	Remove Decision = "Remove"
	// Heal is for a member that is restarted or replaced because it stays unready.
	Heal Decision = "Heal"
	// Create is for an ordinal that gets a VM: a clone, a standby member, one in quarantine, or an adopted one.
	Create Decision = "Create"
	// Wait is for a VM about which nothing can be decided now.
	Wait Decision = "Wait"
)
