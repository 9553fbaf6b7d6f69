package library

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/vcenter"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// listed bounds how many libraries, or items of a library, are read for the list in a message.
const listed = 10

// OVF is an item that is an OVF or an OVA. vCenter can clone only VMs, so the server deploys it first.
type OVF struct {
	// Version is that of the item's files.
	ID, Name, Version string
	// Cached reports whether all its files are in the library. A subscribed library may download files only when they are needed.
	Cached bool
}

// DeployedKey is the extraConfig key of the record of a template that a server deployed from an OVF.
const DeployedKey = "codeconnect.vmworld.com.vmgroup.library"

// nameMost is the length of the longest name in vCenter's inventory.
const nameMost = 80

// TemplateName returns the name of the template that the item is deployed as. Versions of an item, and items of the same name, have different
// ones.
func (o *OVF) TemplateName() string {
	end := []rune(fmt.Sprintf("-%s-%.8s", o.Version, o.ID))
	name := []rune("vmgroup-" + o.Name)
	return strings.NewReplacer("/", "-", `\`, "-", "%", "-").Replace(string(append(name[:min(len(name), nameMost-len(end))], end...)))
}

// Fingerprint returns the fingerprint of the deployed template. It depends on the item's id and version alone, so that it is the same if the
// version is deployed again.
func (o *OVF) Fingerprint() string {
	hash := sha256.Sum256([]byte(o.ID + " " + o.Version))
	return hex.EncodeToString(hash[:5])
}

// find asks vCenter for the VM template or OVF that "library/item" names.
//
// [doc] vSphere Automation API, vcenter/vm-template/library-items, get: vm_template is the "identifier of the virtual machine template …
// in the vSphere Management (SOAP) API". A check-in makes another VM the template, so a new moRef shows a new version of the item.
func (s *Cache) find(ctx context.Context, text string) (moRef string, ovf *OVF, err error) {
	in, name, _ := Cut(text)
	err = s.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
		m := library.NewManager(rs.Client)
		libs, err := librariesNamed(ctx, m, in, text)
		if err != nil {
			return err
		}
		lib, item, err := itemNamed(ctx, m, libs, name, text)
		if err != nil {
			return err
		}
		switch item.Type {
		case library.ItemTypeVMTX:
		case library.ItemTypeOVF:
			ovf = &OVF{ID: item.ID, Name: item.Name, Version: item.ContentVersion, Cached: item.Cached}
			return nil
		default:
			return vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable,
				"The item %q of the content library %q is of the type %q, and only VM templates, OVFs and OVAs can be cloned: name one of these.", item.Name, lib.Name, item.Type)
		}
		info, err := vcenter.NewManager(rs.Client).GetLibraryTemplateInfo(ctx, item.ID)
		if err != nil {
			return err
		}
		if info.VmTemplate == "" {
			return vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable,
				"vCenter does not say which VM template the item %q of the content library %q is: update vCenter to 7.0 or newer, publish the item to this vCenter's library, or name the template by its inventory path.", item.Name, lib.Name)
		}
		moRef = info.VmTemplate
		return nil
	})
	return moRef, ovf, err
}

// librariesNamed finds the libraries of a name, which several can have (govmomi#1581), or the one with an id. vCenter ignores case, so libraries
// whose name has the same case are preferred.
func librariesNamed(ctx context.Context, m *library.Manager, name, text string) ([]*library.Library, error) {
	get := func(id string) (*library.Library, error) { return m.GetLibraryByID(ctx, id) }
	called := func(l *library.Library) string { return l.Name }
	ids, err := m.FindLibrary(ctx, library.Find{Name: name})
	if err != nil {
		return nil, err
	}
	found, err := read(idsOr(ids, name), get)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		return alike(found, name, called), nil
	}
	if ids, err = m.ListLibraries(ctx); err != nil {
		return nil, err
	}
	all, err := read(ids[:min(len(ids), listed)], get)
	return nil, notFound(err, all, called, "libraries", "The template %q is not found: it is not in the inventory, and there is no content library %q", text, name)
}

// itemNamed finds the only item of the libraries with a name, or with an id, like librariesNamed.
func itemNamed(ctx context.Context, m *library.Manager, libs []*library.Library, name, text string) (in *library.Library, item *library.Item, err error) {
	get := func(id string) (*library.Item, error) { return m.GetLibraryItem(ctx, id) }
	called := func(i *library.Item) string { return i.Name }
	var texts []string
	for _, lib := range libs {
		ids, err := m.FindLibraryItems(ctx, library.FindItem{LibraryID: lib.ID, Name: name})
		if err != nil {
			return nil, nil, err
		}
		found, err := read(idsOr(ids, name), get)
		if err != nil {
			return nil, nil, err
		}
		fits := alike(slices.DeleteFunc(found, func(i *library.Item) bool { return i.LibraryID != lib.ID }), name, called)
		for _, fit := range fits {
			in, item = lib, fit
			texts = append(texts, textOf(lib, len(libs) == 1, fit, len(fits) == 1))
		}
	}
	switch len(texts) {
	case 1:
		return in, item, nil
	case 0:
		in = libs[0]
		ids, err := m.ListLibraryItems(ctx, in.ID)
		if err != nil {
			return nil, nil, err
		}
		all, err := read(ids[:min(len(ids), listed)], get)
		return nil, nil, notFound(err, all, called, "items", "The template %q is not found: it is not in the inventory, and the content library %q has no item %q", text, in.Name, name)
	}
	return nil, nil, vcfault.ForOperator(vcfault.ReasonTemplateAmbiguous, "More than one item of a content library is called %q: set spec.template to one of %s.", text, vcfault.Listing(texts))
}

// textOf returns a text that names an item of a library: by their names, as far as these are unique, or else by their ids.
func textOf(lib *library.Library, onlyLib bool, item *library.Item, onlyItem bool) string {
	of, name := lib.ID, item.ID
	if onlyLib {
		of = lib.Name
	}
	if onlyItem {
		name = item.Name
	}
	escape := strings.NewReplacer("%", "%25", "/", "%2f")
	return escape.Replace(of) + "/" + escape.Replace(name)
}

// anID matches the id of a library or an item, which is a UUID.
var anID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// idsOr returns ids or, if there are none, the name, if it looks like an id.
func idsOr(ids []string, name string) []string {
	if len(ids) == 0 && anID.MatchString(name) {
		return []string{name}
	}
	return ids
}

// read reads objects by their ids. It leaves out objects that were removed after they were listed.
func read[T any](ids []string, get func(string) (*T, error)) (all []*T, err error) {
	for _, id := range ids {
		x, err := get(id)
		if session.RESTStatus(err) == http.StatusNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// alike returns the objects whose names have the same case as name or, if there are none, all.
func alike[T any](all []*T, name string, called func(*T) string) []*T {
	fits := slices.DeleteFunc(slices.Clone(all), func(x *T) bool { return called(x) != name })
	if len(fits) == 0 {
		return all
	}
	return fits
}

// notFound is the fault for a name that does not exist, with a list of those that do.
func notFound[T any](err error, all []*T, called func(*T) string, kind, format string, args ...any) error {
	if err != nil {
		return err
	}
	there := "; vCenter's user can see none."
	if len(all) > 0 {
		var names []string
		for _, x := range all {
			names = append(names, called(x))
		}
		slices.Sort(names)
		there = "; " + kind + " there: " + vcfault.Listing(names) + "."
	}
	return vcfault.ForOperator(vcfault.ReasonTemplateNotFound, format+"%s", append(args, there)...)
}
