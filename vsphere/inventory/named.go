package inventory

import (
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// othersListed is how many templates' names an answer lists when the wanted one is not found.
const othersListed = 10

// findTemplate finds a template by a name, a path, or its type and moRef, as template describes. If several have the name, t has for each a text
// that names it alone. The caller holds mu.
func (o *objects) findTemplate(at *GroupFolder, wanted string) plan.Template {
	t := plan.Template{Datacenter: at.name}
	fits := map[string][]string{} // by path
	for _, ref := range o.templates[naming.Last(wanted)] {
		if x := o.machine(ref); o.matches(x, at, wanted) {
			path := o.places.path(x.parent, x.name)
			fits[path], t.MoRef = append(fits[path], ref), ref
		}
	}
	if ref, typed := strings.CutPrefix(wanted, templateType); typed && o.machine(ref).template {
		x := o.machine(ref)
		fits, t.MoRef = map[string][]string{o.places.path(x.parent, x.name): {ref}}, ref
	}
	for path, refs := range fits {
		if len(refs) == 1 {
			t.Paths = append(t.Paths, path)
			continue
		}
		for _, ref := range refs {
			t.Paths = append(t.Paths, templateType+ref)
		}
	}
	slices.Sort(t.Paths)
	if len(t.Paths) == 1 {
		o.describe(&t)
	} else {
		t.MoRef = ""
	}
	if len(t.Paths) == 0 {
		t.Others = o.otherTemplates(at)
	}
	return t
}

// templateType begins a text that names a template by its moRef.
const templateType = session.VMType + ":"

// describe fills in the fingerprint of the disks and the host of the template with t's moRef. The caller holds mu.
func (o *objects) describe(t *plan.Template) {
	x := o.machine(t.MoRef)
	t.Fingerprint, t.Host = x.contents, x.host
}

// otherTemplates lists other templates' names, for a message that the wanted one is not found. The caller holds mu.
func (o *objects) otherTemplates(at *GroupFolder) []string {
	var names []string
	for name, refs := range o.templates {
		if slices.ContainsFunc(refs, func(ref string) bool {
			return o.places.datacenter(o.machine(ref).parent) == at.datacenter
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), othersListed)]
}

// plainVM returns the path of a VM that has the wanted template's name but is not a template. The path is for operators only: authors of a
// VmGroup must not learn which other VMs exist. The caller holds mu.
func (o *objects) plainVM(at *GroupFolder, wanted string) string {
	name := naming.Last(wanted)
	var found []string
	look := func(x unmanagedVM) {
		if naming.Unescape(x.name) == name && o.matches(x, at, wanted) {
			found = append(found, o.places.path(x.parent, x.name))
		}
	}
	for _, x := range o.unmanaged {
		look(x)
	}
	for _, m := range o.members {
		look(unmanagedVM{name: m.Name, parent: m.Parent})
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// named finds the VMs that entries of spec.adopt name, by a moRef or by an inventory path like that of a template. It does not accept a name
// alone: the group may remove an adopted VM, so the server must not guess which VM is meant. The caller holds mu.
func (o *objects) named(at *GroupFolder, entries []string) map[string][]string {
	found := make(map[string][]string, len(entries))
	byName := map[string][]string{}
	for _, entry := range entries {
		slash := strings.LastIndexByte(entry, '/')
		if slash < 0 {
			if _, known := o.unmanaged[entry]; known || o.members[entry] != nil {
				found[entry] = []string{entry}
			}
			continue
		}
		name := naming.Unescape(entry[slash+1:])
		byName[name] = append(byName[name], entry)
	}
	if len(byName) == 0 {
		return found
	}
	look := func(ref string, x unmanagedVM) {
		for _, entry := range byName[naming.Unescape(x.name)] {
			if o.matches(x, at, entry) {
				found[entry] = append(found[entry], ref)
			}
		}
	}
	for ref, x := range o.unmanaged {
		look(ref, x)
	}
	for ref, m := range o.members {
		look(ref, unmanagedVM{name: m.Name, parent: m.Parent})
	}
	return found
}

// matches reports whether a VM with the right name is also in the right place. The caller holds mu.
func (o *objects) matches(x unmanagedVM, at *GroupFolder, wanted string) bool {
	if !strings.Contains(wanted, "/") {
		return o.places.datacenter(x.parent) == at.datacenter
	}
	parts := strings.Split(wanted, "/")
	for i := range parts {
		parts[i] = naming.Unescape(parts[i])
	}
	if parts[0] == "" {
		return o.isAt(x, "", parts[1:])
	}
	return o.isAt(x, "", parts) || o.isAt(x, at.VMFolder, parts)
}

// isAt reports whether path leads from base to a VM; the base "" is the root folder. The caller holds mu.
func (o *objects) isAt(x unmanagedVM, base string, path []string) bool {
	at := x.parent
	for i := len(path) - 2; i >= 0; i-- {
		p, found := o.places.byRef[at]
		if !found || naming.Unescape(p.Name) != path[i] {
			return false
		}
		at = p.Parent
	}
	p, found := o.places.byRef[at]
	return base == at && base != "" || base == "" && found && p.Parent == ""
}
