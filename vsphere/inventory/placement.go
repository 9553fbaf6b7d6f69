package inventory

import (
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// parsePlacement parses a placement that plan.Home.String wrote into a stamp. A ':' in a datacenter's name ends the name: the
// placement is then not found, and nothing is done.
func parsePlacement(text string) plan.Home {
	datacenter, folder, _ := strings.Cut(text, ":")
	return plan.Home{Datacenter: datacenter, Folder: folder}
}

// GroupFolder is the place in this vCenter where groups with a placement have their folders, when it was looked up. It is immutable.
type GroupFolder struct {
	placement plan.Home
	// datacenter is the moRef of the datacenter in which templates are looked for, name its name, for people, and VMFolder the moRef of its VM
	// folder.
	datacenter, name, VMFolder string
	// Root is the moRef of the folder that contains <namespace>/<group>; empty while there is none. Path are the names that lead from VMFolder
	// to it.
	Root string
	Path []string
	// reserved is the namespace whose groups can't have this placement, because their folders would contain the server's own folder.
	reserved string
	fault    *plan.Fault
	// meaning is what the name of the placement's datacenter means, if that is to be recorded.
	meaning  v1alpha1.NamedObject
	recorded bool
}

// sameAs compares the results of two lookups without Root, because the stream reports the content of a new root folder anyway.
func (f *GroupFolder) sameAs(same *GroupFolder) bool {
	return f.datacenter == same.datacenter && f.name == same.name && f.VMFolder == same.VMFolder && equalFault(f.fault, same.fault)
}

// refusal returns why a group can't have its folder at f; nil if it can.
func (f *GroupFolder) refusal(ref plan.Ref) *plan.Fault {
	if f.fault == nil && f.reserved != "" && strings.EqualFold(f.reserved, ref.Namespace) {
		return forbidden(f.placement.Folder)
	}
	return f.fault
}

func forbidden(folder string) *plan.Fault {
	return &vcfault.ForOperator(vcfault.ReasonHomeForbidden,
		"The folder %q of spec.placement.folder would mix the group's folder with those in the server's own folder: set spec.placement.folder to a path outside of that (--folder), or remove it.", folder).Fault
}

// placementOf returns the placement of a group's folder. If the stamp of a VM that is the group's has another placement than the group asks for, the
// stamp's counts: names are the lock of the ordinals only as long as all VMs of a group are in one folder.
func placementOf(ours []plan.VM, asked plan.Home) plan.Home {
	text := asked.String()
	for i := range ours {
		if ours[i].Home != text {
			return parsePlacement(ours[i].Home)
		}
	}
	return asked
}

// canonicalPath returns names as vCenter stores them: '%', '/' and '\' within a name are %25, %2f and %5c.
func canonicalPath(names []string) []string {
	canonical := make([]string, len(names))
	for i, name := range names {
		canonical[i] = escaper.Replace(naming.Unescape(name))
	}
	return canonical
}

var escaper = strings.NewReplacer("%", "%25", "/", "%2f", `\`, "%5c")

func equalFault(a, b *plan.Fault) bool { return a == b || a != nil && b != nil && *a == *b }
