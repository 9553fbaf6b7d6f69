package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateIdentity checks what members get at their first boot.
func (s *VmGroupSpec) validateIdentity(spec *field.Path) (errs field.ErrorList) {
	errs = append(errs, tooLong(spec, "customizationSpec", s.CustomizationSpec, MaxVimName)...)
	if s.CustomizationSpec != "" && slices.ContainsFunc(s.Networks, func(n Network) bool { return !n.WantsAddress() }) {
		errs = append(errs, field.Invalid(spec.Child("customizationSpec"), s.CustomizationSpec,
			"a customization specification gives each adapter an address: remove it, or dhcp of the adapter that is to have none"))
	}
	if s.CustomizationSpec != "" && slices.ContainsFunc(s.Networks, func(n Network) bool { return n.IPv4 != nil && len(n.IPv4.AdditionalRanges) > 0 }) {
		errs = append(errs, field.Invalid(spec.Child("customizationSpec"), s.CustomizationSpec,
			"a customization specification gives each adapter one IPv4 address: remove it, or additionalRanges"))
	}
	if s.UserData == nil {
		return errs
	}
	if s.CustomizationSpec != "" {
		errs = append(errs, field.Invalid(spec.Child("customizationSpec"), s.CustomizationSpec,
			"userData and customizationSpec exclude each other: cloud-init applies the one, vCenter's guest customization the other"))
	}
	return append(errs, s.UserData.validate(spec.Child("userData"))...)
}

func (u *UserData) validate(path *field.Path) field.ErrorList {
	secret, configMap := path.Child("secretKeyRef"), path.Child("configMapKeyRef")
	switch {
	case u.SecretKeyRef == nil && u.ConfigMapKeyRef == nil:
		return field.ErrorList{field.Required(secret, "name a Secret's key with secretKeyRef, or a ConfigMap's with configMapKeyRef")}
	case u.SecretKeyRef != nil && u.ConfigMapKeyRef != nil:
		return field.ErrorList{field.Invalid(configMap, u.ConfigMapKeyRef.Name, "secretKeyRef and configMapKeyRef exclude each other: remove one of them")}
	case u.SecretKeyRef != nil:
		return u.SecretKeyRef.validate(secret)
	}
	return u.ConfigMapKeyRef.validate(configMap)
}

func (r *KeyRef) validate(path *field.Path) (errs field.ErrorList) {
	errs = required(path, "name", r.Name, "name the Secret or ConfigMap", MaxDomain)
	if len(errs) == 0 && len(validation.IsDNS1123Subdomain(r.Name)) > 0 {
		errs = append(errs, field.Invalid(path.Child("name"), r.Name,
			"must be the name of a Secret or ConfigMap: a-z, 0-9, '-' and '.', with a letter or digit at both ends"))
	}
	if fault := tooLong(path, "key", r.Key, MaxDomain); fault != nil {
		return append(errs, fault...)
	}
	if r.Key != "" && len(validation.IsConfigMapKey(r.Key)) > 0 {
		errs = append(errs, field.Invalid(path.Child("key"), r.Key,
			"must be a key of a Secret or ConfigMap: letters, digits, '-', '_' and '.', not beginning with '..'"))
	}
	return errs
}

func validateTags(spec *field.Path, tags []Tag) (errs field.ErrorList) {
	if len(tags) == 0 {
		return nil
	}
	path := spec.Child("tags")
	if len(tags) > MaxMarks {
		return field.ErrorList{field.TooMany(path, len(tags), MaxMarks)}
	}
	seen := make(map[Tag]bool, len(tags))
	for i, tag := range tags {
		errs = append(errs, required(path.Index(i), "category", tag.Category, "name the tag's category", MaxVimName)...)
		errs = append(errs, required(path.Index(i), "name", tag.Name, "name the tag", MaxVimName)...)
		if tag.Create && (blankAtAnEnd(tag.Category) || blankAtAnEnd(tag.Name)) {
			errs = append(errs, field.Invalid(path.Index(i), bounded(tag.Category+"/"+tag.Name), "must not have leading or trailing blanks in the category or the name if the server creates the tag"))
		}
		tag.Create = false
		if seen[tag] {
			errs = append(errs, field.Duplicate(path.Index(i), tag.Category+"/"+tag.Name))
		}
		seen[tag] = true
	}
	return errs[:min(len(errs), maxReported)]
}

// blankAtAnEnd reports whether a name begins or ends with a blank, which people don't see.
func blankAtAnEnd(name string) bool { return strings.TrimSpace(name) != name }

// validateAttributes checks spec.customAttributes.
func validateAttributes(spec *field.Path, attributes map[string]string) field.ErrorList {
	if len(attributes) == 0 {
		return nil
	}
	errs := validateNamed(spec, "customAttributes", attributes, MaxVimName, MaxAttributeValue)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if blankAtAnEnd(name) {
			errs = append(errs, field.Invalid(spec.Child("customAttributes"), bounded(name), "must not have names with leading or trailing blanks"))
		}
	}
	return errs[:min(len(errs), maxReported)]
}

// validateNamed checks values by name, in the order of the names, so that equal specs have equal errors.
func validateNamed(spec *field.Path, name string, values map[string]string, longestName, longestValue int) (errs field.ErrorList) {
	if len(values) == 0 {
		return nil
	}
	path := spec.Child(name)
	if len(values) > MaxMarks {
		return field.ErrorList{field.TooMany(path, len(values), MaxMarks)}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if n := utf8.RuneCountInString(name); n == 0 || n > longestName {
			errs = append(errs, field.Invalid(path, bounded(name), fmt.Sprintf("must have names of 1 to %d characters", longestName)))
			continue
		}
		if n := utf8.RuneCountInString(values[name]); n > longestValue {
			errs = append(errs, field.Invalid(path.Key(name), bounded(values[name]),
				fmt.Sprintf("must have values of at most %d characters; this one has %d", longestValue, n)))
		}
	}
	return errs[:min(len(errs), maxReported)]
}
