package plan

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Rules are the DRS rules that a group needs. A group that is being deleted has the zero value: it needs none.
type Rules struct {
	AntiAffinity v1alpha1.AntiAffinity
	HostGroup    *v1alpha1.HostGroup
}

// RulesOf returns the rules of a spec.
func RulesOf(spec *v1alpha1.VmGroupSpec) Rules {
	return Rules{spec.Placement.AntiAffinity, spec.Placement.HostGroup}
}

// Equal reports whether both are the same rules.
func (r Rules) Equal(other Rules) bool {
	if r.AntiAffinity != other.AntiAffinity || r.HostGroup == nil || other.HostGroup == nil {
		return r == other
	}
	return r.HostGroup.Rule == other.HostGroup.Rule && slices.Equal(r.HostGroup.Names, other.HostGroup.Names)
}

// KeepApart reports whether a rule keeps members on different hosts.
func (r Rules) KeepApart() bool {
	return r.AntiAffinity == v1alpha1.AntiAffinityPreferred || r.AntiAffinity == v1alpha1.AntiAffinityRequired
}

// Wanted reports whether the group needs any rule.
func (r Rules) Wanted() bool { return r.KeepApart() || r.HostGroup != nil }

// HostsRequired reports whether no member may run outside its host group.
func (r Rules) HostsRequired() bool {
	return r.HostGroup != nil && r.HostGroup.Rule == v1alpha1.HostRuleRequired
}

// Required reports whether no member may be powered on before the rules exist.
func (r Rules) Required() bool {
	return r.AntiAffinity == v1alpha1.AntiAffinityRequired || r.HostsRequired()
}

// HostGroupOf returns the host group of the member with an ordinal, and its index in the list of names; -1 if there is none.
func (r Rules) HostGroupOf(ordinal int32) (name string, at int) {
	if r.HostGroup == nil || len(r.HostGroup.Names) == 0 {
		return "", -1
	}
	at = int(ordinal) % len(r.HostGroup.Names)
	return r.HostGroup.Names[at], at
}
