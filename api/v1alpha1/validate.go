package v1alpha1

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Replicas returns the desired number of members: spec.replicas, or the default of 1.
func (g *VmGroup) Replicas() int32 {
	if g.Spec.Replicas == nil {
		return DefaultReplicas
	}
	return *g.Spec.Replicas
}

// MemoryMB returns the memory of a member in MiB, which vSphere calls MB: spec.memory is in GiB.
func (g *VmGroup) MemoryMB() int64 { return int64(g.Spec.Memory) * 1024 }

// Validate checks the bounds that the CRD's schema and its rules state, for groups that bypassed the CRD (an older CRD, or a request to the
// hook from another client). Each error names the field, its value and its bound.
func (g *VmGroup) Validate() field.ErrorList {
	errs := append(validateName(g.Name), g.validateDiskNumbers()...)
	spec := field.NewPath("spec")
	errs = append(errs, between(spec.Child("cpu"), g.Spec.CPU, 1, MaxCPU)...)
	errs = append(errs, between(spec.Child("memory"), g.Spec.Memory, 1, MaxMemory)...)
	errs = append(errs, between(spec.Child("replicas"), g.Replicas(), 0, MaxReplicas)...)
	errs = append(errs, between(spec.Child("standby"), g.Spec.Standby, 0, MaxStandby)...)
	switch n := utf8.RuneCountInString(g.Spec.Template); {
	case n == 0:
		errs = append(errs, field.Required(spec.Child("template"), "name the VM template that members are cloned from"))
	case n > MaxTemplateLength:
		errs = append(errs, field.TooLongCharacters(spec.Child("template"), g.Spec.Template, MaxTemplateLength))
	}
	errs = append(errs, oneOf(spec.Child("inventory"), g.Spec.Inventory, InventoryConfigMap, InventoryNone)...)
	errs = append(errs, g.Spec.Readiness.validate(spec.Child("readiness"))...)
	errs = append(errs, g.Spec.Update.validate(spec.Child("update"))...)
	errs = append(errs, g.Spec.Healing.validate(spec.Child("healing"))...)
	errs = append(errs, g.Spec.ScaleIn.validate(spec.Child("scaleIn"), g.Name)...)
	errs = append(errs, validateReplace(spec.Child("replace"), g.Spec.Replace, g.Name)...)
	errs = append(errs, g.Spec.Deletion.validate(spec.Child("deletion"))...)
	errs = append(errs, validateAdopt(spec.Child("adopt"), g.Spec.Adopt)...)
	errs = append(errs, g.Spec.Clone.validate(spec)...)
	errs = append(errs, g.Spec.Placement.validate(spec)...)
	errs = append(errs, g.Spec.validateHardware(spec)...)
	errs = append(errs, g.Spec.validateDisks(spec)...)
	errs = append(errs, validateNetworks(spec, g.Spec.Networks)...)
	errs = append(errs, g.Spec.validateIdentity(spec)...)
	errs = append(errs, validateTags(spec, g.Spec.Tags)...)
	errs = append(errs, validateAttributes(spec, g.Spec.CustomAttributes)...)
	errs = append(errs, validateExtraConfig(spec, g.Spec.ExtraConfig)...)
	errs = append(errs, g.Spec.Service.validate(spec, g.Name)...)
	return errs[:min(len(errs), maxReportedInAll)]
}

func validateName(name string) (errs field.ErrorList) {
	path := field.NewPath("metadata", "name")
	if len(name) > MaxNameLength {
		return field.ErrorList{field.Invalid(path, name,
			fmt.Sprintf("must be at most %d characters, so that member names stay DNS labels; it has %d", MaxNameLength, len(name)))}
	}
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func between(path *field.Path, value, low, high int32) field.ErrorList {
	if value >= low && value <= high {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be between %d and %d", low, high))}
}

// tooLong checks the length of a text, in characters. Functions that take the path of a parent build the field's path only for an error,
// because every hook call validates the group, and most groups use few of the fields.
func tooLong(parent *field.Path, name, text string, most int) field.ErrorList {
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return nil
	}
	return field.ErrorList{field.TooLongCharacters(parent.Child(name), text, most)}
}

// required checks a text that must be set; what says which.
func required(parent *field.Path, name, text, what string, most int) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(parent.Child(name), what)}
	}
	return tooLong(parent, name, text, most)
}

// seconds checks a number of seconds; nil is its default.
func seconds(path *field.Path, value *int32, low int32) field.ErrorList {
	if value == nil {
		return nil
	}
	return between(path, *value, low, MaxSeconds)
}

// oneOf checks a value of an enumeration; empty is its default.
func oneOf[T ~string](path *field.Path, value T, words ...T) field.ErrorList {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, words)}
}
