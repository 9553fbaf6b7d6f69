package plan

import (
	"encoding/json"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// FaultScope says which objects and sizes of a step vCenter's refusal depends on. If two steps of one kind are equal in these, the same
// refusal has the same cause, even for different groups. Zero: the refusal isn't known to concern other groups.
type FaultScope uint16

// What a refusal can depend on, beside the datacenter. If the spec leaves a name out, the server's settings have it.
const (
	// OnVCenter is the whole vCenter.
	OnVCenter FaultScope = 1 << iota
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
	// OnSize is the member's size: its CPUs, memory and disks.
	OnSize
	// OnGuest is the guest customization specification.
	OnGuest
	// OnTags are the tags and custom attributes.
	OnTags
	// OnHostGroup is the DRS host group.
	OnHostGroup
	// OfClones says that the refusal concerns clones only: an existing VM doesn't move when the spec's placement changes.
	OfClones
)

// ScopeKey describes what the fault of a group's action depends on. Equal texts, for the same kind of action and the same reason, mean the same
// cause. It is empty if the fault doesn't concern other groups.
func (f *Fault) ScopeKey(g *v1alpha1.VmGroup, a *Action) string {
	if f.Scope == 0 || f.Scope&OfClones != 0 && a.Op != Clone {
		return ""
	}
	spec, at := &g.Spec, &g.Spec.Placement
	parts := []any{f.Object, at.Datacenter}
	add := func(on FaultScope, values ...any) {
		if f.Scope&on != 0 {
			parts = append(parts, values...)
		}
	}
	add(OnPool, at.Pool, ZoneOf(spec, a.Ordinal))
	add(OnStorage, at.Datastore, at.StoragePolicy)
	if at.Datastore == "" { // then clones may use the template's
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
