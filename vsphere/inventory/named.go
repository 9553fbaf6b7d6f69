package inventory

import (
	"cmp"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// othersListed is how many templates' names an answer lists when the wanted one is not found.
const othersListed = 10

// templateField is the field of a spec that names a template.
var templateField = naming.Setting{Word: "template", Flag: "spec.template", Missing: vcfault.ReasonTemplateNotFound, Ambiguous: vcfault.ReasonTemplateAmbiguous}

// namedTemplates are the templates that a text names, ordered by path, and the answer if nothing says which of them is meant.
type namedTemplates struct {
	plan.Template
	named []naming.Candidate
	fits  []int // the indices of all
	// meanings has for each of named what the name means then. recorded is whether that is recorded.
	meanings []v1alpha1.NamedObject
	recorded bool
}

// findTemplates finds the templates of a name, a path, or a type and moRef, as template describes. If several have the name, Paths has for each a text
// that names it alone. The caller holds mu.
func (o *objects) findTemplates(at *GroupFolder, wanted string) *namedTemplates {
	t := &namedTemplates{Template: plan.Template{Datacenter: at.name}}
	add := func(ref string, x unmanagedVM) {
		t.named = append(t.named, naming.Candidate{Path: o.places.path(x.parent, x.name), Ref: VMRef(ref)})
	}
	for _, ref := range o.templates[naming.Last(wanted)] {
		if x := o.machine(ref); o.matches(x, at, wanted) {
			add(ref, x)
		}
	}
	if ref, typed := strings.CutPrefix(wanted, templateType); typed && o.machine(ref).template {
		t.named = nil
		add(ref, o.machine(ref))
	}
	slices.SortFunc(t.named, func(a, b naming.Candidate) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Ref.Value, b.Ref.Value))
	})
	for i := range t.named {
		t.fits = append(t.fits, i)
		path := t.named[i].Path
		if slices.ContainsFunc(t.named, func(c naming.Candidate) bool { return c.Path == path && c.Ref != t.named[i].Ref }) {
			path = t.named[i].Ref.String()
		}
		t.Paths = append(t.Paths, path)
	}
	slices.Sort(t.Paths)
	t.meanings = make([]v1alpha1.NamedObject, len(t.named))
	for i := range t.named {
		t.meanings[i], t.recorded = naming.Meaning(templateField.Flag, "", wanted, t.named, t.fits, i)
	}
	if len(t.named) == 1 {
		t.MoRef = t.named[0].Ref.Value
		o.describe(&t.Template)
	}
	if len(t.Paths) == 0 {
		t.Others = o.otherTemplates(at)
	}
	return t
}

// hasName reports whether a VM has a name or a path, as template describes. The caller holds mu.
func (o *objects) hasName(ref string, at *GroupFolder, wanted string) bool {
	x := o.machine(ref)
	return naming.Unescape(x.name) == naming.Last(wanted) && o.matches(x, at, wanted)
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
