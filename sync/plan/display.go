package plan

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Renamed returns the VM's name in vCenter, for people; empty if it is the member's name.
func (vm *VM) Renamed(member string) string {
	if vm.Name == member {
		return ""
	}
	return Printable(vm.Name)
}

// DisplayName returns a member's name for people, with its VM's name in vCenter, unless that is empty, and a note.
func DisplayName(member, renamed, note string) string {
	if renamed != "" {
		renamed = "now " + renamed
	}
	if notes := Joined(renamed, note); notes != "" {
		return fmt.Sprintf("%s (%s)", member, notes)
	}
	return member
}

// Joined joins the texts that are not empty.
func Joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// NotSeen is the message of a member, or a standby member, that vCenter neither shows nor reports as gone.
const NotSeen = "vCenter neither shows this VM nor reports it as gone: if this stays, give the server's account its role on the VM and its folder again"

// Installs names the installs of the server that have a group, in the same words in each of them.
func Installs(g *v1alpha1.VmGroup) string {
	return "the finalizers are " + AtMost(g.Finalizers, 5)
}
