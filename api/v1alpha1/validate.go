package v1alpha1

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Replicas returns the number of members that the spec wants: its replicas, or the default of 1.
func (g *VmGroup) Replicas() int32 {
	if g.Spec.Replicas == nil {
		return DefaultReplicas
	}
	return *g.Spec.Replicas
}

// MemoryMB returns the memory of a member in MB: spec.memory is in GB of 1,024 MB.
func (g *VmGroup) MemoryMB() int64 { return int64(g.Spec.Memory) * 1024 }

// Validate checks the bounds that the CRD's schema states, for groups that slipped past it (an older CRD, a
// request made by hand). Each error names the field, its value and its bound.
func (g *VmGroup) Validate() field.ErrorList {
	var errs field.ErrorList
	name := field.NewPath("metadata", "name")
	switch {
	case len(g.Name) > MaxNameLength:
		errs = append(errs, field.Invalid(name, g.Name,
			fmt.Sprintf("must be at most %d characters, so that member names stay DNS labels; it has %d", MaxNameLength, len(g.Name))))
	default:
		for _, msg := range validation.IsDNS1123Label(g.Name) {
			errs = append(errs, field.Invalid(name, g.Name, msg))
		}
	}
	spec := field.NewPath("spec")
	errs = append(errs, between(spec.Child("cpu"), g.Spec.CPU, 1, MaxCPU)...)
	errs = append(errs, between(spec.Child("memory"), g.Spec.Memory, 1, MaxMemory)...)
	errs = append(errs, between(spec.Child("replicas"), g.Replicas(), 0, MaxReplicas)...)
	switch n := len(g.Spec.Template); {
	case n == 0:
		errs = append(errs, field.Required(spec.Child("template"), "name the VM template that members are cloned from"))
	case n > MaxTemplateLength:
		errs = append(errs, field.TooLong(spec.Child("template"), g.Spec.Template, MaxTemplateLength))
	}
	ways := []Inventory{"", InventoryConfigMap, InventoryNone}
	if !slices.Contains(ways, g.Spec.Inventory) {
		errs = append(errs, field.NotSupported(spec.Child("inventory"), g.Spec.Inventory, ways[1:]))
	}
	return errs
}

func between(path *field.Path, value, low, high int32) field.ErrorList {
	if value >= low && value <= high {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be between %d and %d", low, high))}
}
