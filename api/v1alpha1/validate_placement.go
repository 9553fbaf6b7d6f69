package v1alpha1

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *Clone) validate(spec *field.Path) field.ErrorList {
	if *c == (Clone{}) {
		return nil
	}
	path := spec.Child("clone")
	return append(oneOf(path.Child("mode"), c.Mode, CloneFull, CloneLinked), tooLong(path, "snapshot", c.Snapshot, MaxInventoryPath)...)
}

// validate can't refuse a change of datacenter or folder while the group has members, because it doesn't know the former spec. Only the
// CRD's rules do that.
func (p *Placement) validate(spec *field.Path) (errs field.ErrorList) {
	if len(p.Zones) == 0 && p.AntiAffinity == "" && p.HostGroup == nil && p.Datacenter+p.Pool+p.Datastore+p.StoragePolicy+p.Folder == "" {
		return nil
	}
	path := spec.Child("placement")
	errs = append(errs, tooLong(path, "datacenter", p.Datacenter, MaxInventoryPath)...)
	errs = append(errs, tooLong(path, "pool", p.Pool, MaxInventoryPath)...)
	errs = append(errs, tooLong(path, "datastore", p.Datastore, MaxInventoryPath)...)
	errs = append(errs, tooLong(path, "storagePolicy", p.StoragePolicy, MaxVimName)...)
	if p.Folder != "" {
		errs = append(errs, validateFolder(path.Child("folder"), p.Folder)...)
	}
	if len(p.Zones) > 0 {
		errs = append(errs, p.validateZones(path.Child("zones"))...)
	}
	if p.AntiAffinity != "" {
		errs = append(errs, oneOf(path.Child("antiAffinity"), p.AntiAffinity, AntiAffinityNone, AntiAffinityPreferred, AntiAffinityRequired)...)
	}
	if p.HostGroup != nil {
		errs = append(errs, p.HostGroup.validate(path.Child("hostGroup"), len(p.Zones))...)
	}
	return errs
}

func (h *HostGroup) validate(path *field.Path, zones int) (errs field.ErrorList) {
	names := path.Child("names")
	switch n := len(h.Names); {
	case n == 0:
		errs = append(errs, field.Required(names, "name a DRS host group"))
	case n > MaxHostGroups:
		return field.ErrorList{field.TooMany(names, n, MaxHostGroups)}
	case zones > 0 && n != 1 && n != zones:
		errs = append(errs, field.Invalid(names, n, "name one host group for all zones, or one for each of them, in their order"))
	}
	for i, name := range h.Names {
		switch {
		case name == "":
			errs = append(errs, field.Required(names.Index(i), "name a DRS host group"))
		case utf8.RuneCountInString(name) > MaxVimName:
			errs = append(errs, field.TooLongCharacters(names.Index(i), name, MaxVimName))
		case zones == 0 && slices.Contains(h.Names[:i], name): // with zones, a name may repeat: each group is in the cluster of its zone
			errs = append(errs, field.Invalid(names, bounded(name), "must not name a host group twice: members spread over different ones"))
		}
	}
	if h.Rule != "" {
		errs = append(errs, oneOf(path.Child("rule"), h.Rule, HostRulePreferred, HostRuleRequired)...)
	}
	return errs[:min(len(errs), maxReported)]
}

// validateFolder checks a path below a datacenter's VM folder.
func validateFolder(path *field.Path, folder string) field.ErrorList {
	if utf8.RuneCountInString(folder) > MaxInventoryPath {
		return field.ErrorList{field.TooLongCharacters(path, folder, MaxInventoryPath)}
	}
	if strings.HasPrefix(folder, "/") {
		return field.ErrorList{field.Invalid(path, bounded(folder),
			"must be a path below the datacenter's VM folder, such as teams/shop: omit the leading '/' and the datacenter's name")}
	}
	if strings.ContainsFunc(folder, func(r rune) bool { return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) }) {
		return field.ErrorList{field.Invalid(path, bounded(folder), "must not have control characters or other invisible ones")}
	}
	for name := range strings.SplitSeq(folder, "/") {
		if name == "" || name == "." || name == ".." || utf8.RuneCountInString(name) > MaxVimName {
			return field.ErrorList{field.Invalid(path, bounded(folder),
				"must be names of 1 to 80 characters separated by '/', such as teams/shop; '.' and '..' are not names")}
		}
		if blankAtAnEnd(name) {
			return field.ErrorList{field.Invalid(path, bounded(folder), "must not have names with leading or trailing blanks")}
		}
		if IsGroupsFolder(name) {
			return field.ErrorList{field.Invalid(path, bounded(folder),
				"must not have a folder "+GroupsFolder+": the server creates that one in it, for the groups' folders")}
		}
	}
	return nil
}

func (p *Placement) validateZones(path *field.Path) (errs field.ErrorList) {
	if len(p.Zones) > MaxZones {
		return field.ErrorList{field.TooMany(path, len(p.Zones), MaxZones)}
	}
	if p.Pool != "" {
		errs = append(errs, field.Invalid(path, bounded(p.Pool),
			"zones and pool exclude each other: name the pool as one of zones, or remove one of them"))
	}
	seen := make(map[string]bool, len(p.Zones))
	for i, zone := range p.Zones {
		switch {
		case zone == "":
			errs = append(errs, field.Required(path.Index(i), "name a cluster, host or resource pool"))
		case utf8.RuneCountInString(zone) > MaxInventoryPath:
			errs = append(errs, field.TooLongCharacters(path.Index(i), zone, MaxInventoryPath))
		case seen[zone]:
			errs = append(errs, field.Invalid(path.Index(i), bounded(zone), "must not name a zone twice: members spread over different ones"))
		}
		seen[zone] = true
	}
	return errs[:min(len(errs), maxReported)]
}
