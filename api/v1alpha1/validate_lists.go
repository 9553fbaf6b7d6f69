package v1alpha1

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (s *ScaleIn) validate(path *field.Path, group string) (errs field.ErrorList) {
	errs = append(errs, oneOf(path.Child("order"), s.Order, ScaleInHighestOrdinal, ScaleInOldest, ScaleInNewest)...)
	protected, faults := memberNames(path.Child("protected"), s.Protected, group)
	errs = append(errs, faults...)
	_, faults = memberNames(path.Child("remove"), s.Remove, group)
	errs = append(errs, faults...)
	both := 0
	for i, name := range s.Remove { // the CRD's rule doesn't check the longest lists, because they exceed CEL's budget
		if both < maxReported && protected[name] {
			both++
			errs = append(errs, field.Invalid(path.Child("remove").Index(i), name, "a member cannot be both in protected and in remove"))
		}
	}
	return errs
}

// memberNames checks a list of members' names, and returns them as a set.
func memberNames(path *field.Path, names []string, group string) (set map[string]bool, errs field.ErrorList) {
	if fault := tooMany(path, len(names)); fault != nil {
		return nil, fault
	}
	set = make(map[string]bool, len(names))
	for i, name := range names {
		errs = append(errs, memberName(path.Index(i), name, group)...)
		if set[name] {
			errs = append(errs, field.Duplicate(path.Index(i), name))
		}
		set[name] = true
	}
	return set, errs[:min(len(errs), maxReported)]
}

// ordinal has up to five digits, for which MaxNameLength leaves room.
var ordinal = regexp.MustCompile(`^(0|[1-9][0-9]{0,4})$`)

func memberName(path *field.Path, name, group string) field.ErrorList {
	if utf8.RuneCountInString(name) > MaxMemberName {
		return field.ErrorList{field.TooLongCharacters(path, name, MaxMemberName)}
	}
	if digits, ok := strings.CutPrefix(name, group+"-"); ok && ordinal.MatchString(digits) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, fmt.Sprintf("must be the name of a member of this group, such as %s-0", group))}
}

// recordedMoRef is a moRef as the status has it: that of a VM in another vCenter has the vCenter's instanceUuid, too.
var recordedMoRef = regexp.MustCompile(`^[A-Za-z0-9:-]+$`)

var moRef = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// validateReplace refuses a moRef that is listed twice. A name can occur with several moRefs, because entries for earlier VMs can remain in
// the list.
func validateReplace(path *field.Path, wanted []Replacement, group string) (errs field.ErrorList) {
	if fault := tooMany(path, len(wanted)); fault != nil {
		return fault
	}
	seen := make(map[string]bool, len(wanted))
	for i, r := range wanted {
		errs = append(errs, memberName(path.Index(i).Child("name"), r.Name, group)...)
		at := path.Index(i).Child("moRef")
		switch {
		case utf8.RuneCountInString(r.MoRef) > MaxMoRefLength:
			errs = append(errs, field.TooLongCharacters(at, r.MoRef, MaxMoRefLength))
		case !recordedMoRef.MatchString(r.MoRef):
			errs = append(errs, field.Invalid(at, r.MoRef, "must be a VM's moRef, such as vm-42 (letters, digits, '-' and ':'); status.members has it"))
		case seen[r.MoRef]:
			errs = append(errs, field.Duplicate(at, r.MoRef))
		}
		seen[r.MoRef] = true
	}
	return errs[:min(len(errs), maxReported)]
}

// adoptable is a VM's moRef, or an inventory path that ends with a name.
var adoptable = regexp.MustCompile(`^vm-[0-9]+$|/[^/]+$`)

func validateAdopt(path *field.Path, entries []string) (errs field.ErrorList) {
	if fault := tooMany(path, len(entries)); fault != nil {
		return fault
	}
	seen := make(map[string]bool, len(entries))
	for i, entry := range entries {
		switch {
		case utf8.RuneCountInString(entry) > MaxAdoptLength:
			errs = append(errs, field.TooLongCharacters(path.Index(i), entry, MaxAdoptLength))
		case !adoptable.MatchString(entry):
			errs = append(errs, field.Invalid(path.Index(i), entry,
				"must be a VM's inventory path, such as /DC0/vm/legacy/web-a, or its moRef, such as vm-42"))
		case strings.Contains(entry, "*"):
			errs = append(errs, field.Invalid(path.Index(i), entry, "must name one VM, without *: vmgroup adopt lists the entries for a pattern"))
		case seen[entry]:
			errs = append(errs, field.Duplicate(path.Index(i), entry))
		}
		seen[entry] = true
	}
	return errs[:min(len(errs), maxReported)]
}

// maxReported bounds the errors reported for one list, and maxReportedInAll those in total: a condition lists them, and its message has a
// maximum length.
const (
	maxReported      = 10
	maxReportedInAll = 50
)

// tooMany refuses a list as a whole: naming each of its entries would not help.
func tooMany(path *field.Path, n int) field.ErrorList {
	if n <= MaxListed {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, MaxListed)}
}
