package plan

import (
	"encoding/json"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Depends says which objects and sizes of a step vCenter's refusal depends on. For steps of one kind for which these are equal, the same
// refusal has one cause, whichever group they are for. Zero: nothing is known to be shared with other groups.
type Depends uint16

// What a refusal can depend on, beside the datacenter. A name that the spec leaves out stands for that of the server's settings.
const (
	// OnVCenter is the whole vCenter.
	OnVCenter Depends = 1 << iota
	// OnPool is the resource pool, or the member's zone.
	OnPool
	// OnStorage is the datastore, or datastore cluster, and the storage policy.
	OnStorage
	// OnFolder is the folder of the namespace's groups.
	OnFolder
	// OnTemplate is the template, and the snapshot.
	OnTemplate
	// OnNetworks are the networks of the adapters.
	OnNetworks
	// OnSize is how much of everything the member has.
	OnSize
	// OnGuest is the guest customization specification.
	OnGuest
	// OnTags are the tags and custom attributes.
	OnTags
	// OnHostGroup is the DRS host group.
	OnHostGroup
	// OfClones: this holds for clones. An existing VM is where it is, whatever the spec says.
	OfClones
)

// Cause names what a fault of an action for a group depends on. Equal texts for the same kind of action and the same reason are one cause; it is
// empty if the fault says nothing of other groups.
func (f *Fault) Cause(g *v1alpha1.VmGroup, a *Action) string {
	if f.Depends == 0 || f.Depends&OfClones != 0 && a.Op != Clone {
		return ""
	}
	spec, at := &g.Spec, &g.Spec.Placement
	parts := []any{f.Object, at.Datacenter}
	add := func(on Depends, values ...any) {
		if f.Depends&on != 0 {
			parts = append(parts, values...)
		}
	}
	add(OnPool, at.Pool, ZoneOf(spec, a.Ordinal))
	add(OnStorage, at.Datastore, at.StoragePolicy)
	if at.Datastore == "" { // it may be the template's
		add(OnStorage, spec.Template)
	}
	add(OnFolder, at.Folder, g.Namespace)
	add(OnTemplate, spec.Template, spec.Clone)
	for i := range spec.Networks {
		add(OnNetworks, spec.Networks[i].Network)
	}
	add(OnSize, spec.CPU, g.MemoryMB(), spec.Hardware, spec.RootDisk, spec.Disks, spec.Template)
	add(OnGuest, spec.CustomizationSpec)
	add(OnTags, spec.Tags, spec.CustomAttributes)
	host, _ := RulesOf(spec).HostGroupOf(a.Ordinal)
	add(OnHostGroup, host)
	text, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	return strings.Join([]string{"on", string(text)}, " ")
}
