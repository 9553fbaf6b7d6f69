package inventory

import (
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// FindTemplate finds a template as State does. others are the names of up to othersListed existing templates, and plain is the path of a VM of
// that name that is not a template.
func (n *Inventory) FindTemplate(at *GroupFolder, name string, recorded []v1alpha1.NamedObject) (t plan.Template, others []string, plain string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	t, _ = n.template(at, name, recorded)
	return t, n.objects.otherTemplates(at), n.objects.plainVM(at, name)
}

// TemplatesIn lists the templates of a datacenter.
func (n *Inventory) TemplatesIn(at *GroupFolder) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.otherTemplates(at)
}

// templateKey is a template's name or path, and the moRef of the datacenter in which it is looked for.
type templateKey struct{ datacenter, wanted string }

// template finds a template by its name anywhere in the group's datacenter, or by its inventory path:
// "/dc/vm/folder/name", "dc/vm/folder/name", or "folder/name" below the datacenter's VM folder. A '/'
// within a name is written %2f. It keeps the answer until a template, a place or a plain VM changes. Of several templates, it takes the one that the name
// meant by the group's records; if that one has the name, but is a VM now, the name means no template. If the name meant an item of a content library,
// that is for vsphere/library to say. means is what is to be recorded. The caller holds mu.
func (n *Inventory) template(at *GroupFolder, wanted string, recorded []v1alpha1.NamedObject) (t plan.Template, means []v1alpha1.NamedObject) {
	answers, key := n.answers.Load(), templateKey{at.datacenter, wanted}
	cached, found := answers.Load(key)
	if !found {
		cached = n.objects.findTemplates(at, wanted)
		answers.Store(key, cached)
	}
	all := cached.(*namedTemplates)
	before, i := naming.Recorded(recorded, templateField.Flag, "", wanted), -1
	if before == nil && len(all.named) == 1 {
		i = 0
	} else if before != nil && naming.RefOf(before.Object).Type != session.VMType { // an item of a content library has the name, or had it
		t = plan.Template{Datacenter: at.name, Others: n.objects.otherTemplates(at), Meant: before}
		for _, c := range all.named {
			t.Namesakes = append(t.Namesakes, v1alpha1.IgnoredObject{Object: c.Ref.String(), Path: c.Path})
		}
		return t, nil
	} else if before != nil {
		i = slices.IndexFunc(all.meanings, func(o v1alpha1.NamedObject) bool { return o.Object == before.Object })
		if i < 0 && n.objects.hasName(naming.RefOf(before.Object).Value, at, wanted) { // it is a VM now
			return plan.Template{Datacenter: at.name, Others: n.objects.otherTemplates(at), Meant: before}, nil
		}
		if i < 0 {
			i = naming.Next(before, all.named, all.fits)
		}
	}
	switch {
	case i >= 0:
	case before != nil && len(all.named) == 1:
		return plan.Template{Fault: &templateField.Ignored(wanted, all.named[0]).Fault}, nil
	default:
		t = all.Template
		t.Meant = before
		return t, nil
	}
	if all.recorded && (before == nil || !before.Equal(&all.meanings[i])) {
		means = all.meanings[i : i+1 : i+1]
	}
	if len(all.named) == 1 {
		return all.Template, means
	}
	t = plan.Template{Datacenter: at.name, MoRef: all.named[i].Ref.Value, Paths: []string{all.named[i].Path}}
	n.objects.describe(&t)
	return t, means
}

// Complete completes a template of which only the moRef is known, and reports whether that is a template in the inventory.
func (n *Inventory) Complete(t *plan.Template) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	x := n.objects.machine(t.MoRef)
	if x.template {
		t.Paths = []string{n.objects.places.path(x.parent, x.name)}
		n.objects.describe(t)
	}
	return x.template
}

// TemplatesAt returns the templates in a folder, but not below it.
func (n *Inventory) TemplatesAt(folder types.ManagedObjectReference) (all []naming.Candidate) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, refs := range n.objects.templates {
		for _, ref := range refs {
			if x := n.objects.machine(ref); x.parent == folder.Value {
				all = append(all, naming.Candidate{Path: n.objects.places.path(x.parent, x.name), Ref: VMRef(ref)})
			}
		}
	}
	slices.SortFunc(all, func(a, b naming.Candidate) int { return strings.Compare(a.Path, b.Path) })
	return all
}
