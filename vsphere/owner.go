// This file has what tells people who owns a VM: its notes and its managedBy. The server itself reads the stamp.

package vsphere

import (
	"fmt"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// noteOf returns the notes of a member's VM. The text must not change: clearOwner recognizes notes by it, including those that an older server
// wrote.
func noteOf(ref plan.Ref, member, cluster string) string {
	of := ""
	if cluster != "" {
		of = fmt.Sprintf(" (cluster %s)", cluster)
	}
	return fmt.Sprintf("Member %s of the VmGroup %s%s, kept by vmgroup. Change it in Kubernetes: kubectl edit vmgroup %s -n %s. What is changed here may be undone.",
		member, ref, of, ref.Name, ref.Namespace)
}

// formerNoteOf returns the notes of a VM that was released.
func formerNoteOf(ref plan.Ref, member string) string {
	return fmt.Sprintf("Formerly member %s of the VmGroup %s, which was deleted and left its VMs.", member, ref)
}

const (
	// managedType is the type in a member's managedBy, if the extension names no other.
	managedType = "vm"
	// extensionKnownFor is how long the server remembers whether the extension is registered.
	extensionKnownFor = 5 * time.Minute
)
