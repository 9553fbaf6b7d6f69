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
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// listed bounds how many libraries, or items of a library, are read that no group is known to mean: for the list in a message, and of one name.
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

// ItemType is the type of an item in the Automation API, which a record of what a name means has before the item's id.
const ItemType = "com.vmware.content.library.Item"

// field is the field of a spec that names an item.
var field = naming.Setting{Word: "item of a content library", Flag: "spec.template", Missing: vcfault.ReasonTemplateNotFound, Ambiguous: vcfault.ReasonTemplateAmbiguous}

// namedItem is an item that has a name.
type namedItem struct {
	*library.Item
	lib  *library.Library
	fits bool // best: others have the name in another case
}

// find asks vCenter for the items that "library/item" names: those of meant that have the name, and some of the others. There is at least one.
//
// [doc] com.vmware.content.library.ItemModel, name: "The name does not have to be unique, even within the same library." Several libraries can have one
// name, too (govmomi#1581).
func (s *Cache) find(ctx context.Context, text string, meant []string) (all []namedItem, err error) {
	in, name, _ := Cut(text)
	err = s.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
		m := library.NewManager(rs.Client)
		libs, err := librariesNamed(ctx, m, in, text, func() (of []string, err error) {
			known, err := read(meant, func(id string) (*library.Item, error) { return m.GetLibraryItem(ctx, id) })
			for _, i := range known {
				of = append(of, i.LibraryID)
			}
			return of, err
		})
		if err == nil {
			all, err = itemsNamed(ctx, m, libs, in, name, text, meant)
		}
		return err
	})
	return all, err
}

// sourceOf asks vCenter for the VM template that an item is, or for the OVF.
//
// [doc] vSphere Automation API, vcenter/vm-template/library-items, get: vm_template is the "identifier of the virtual machine template …
// in the vSphere Management (SOAP) API". A check-in makes another VM the template, so a new moRef shows a new version of the item.
func (s *Cache) sourceOf(ctx context.Context, item namedItem) (moRef string, ovf *OVF, err error) {
	switch item.Type {
	case library.ItemTypeVMTX:
	case library.ItemTypeOVF:
		return "", &OVF{ID: item.ID, Name: item.Name, Version: item.ContentVersion, Cached: item.Cached}, nil
	default:
		return "", nil, vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable,
			"The item %q of the content library %q is of the type %q, and only VM templates, OVFs and OVAs can be cloned: name one of these.", item.Name, item.lib.Name, item.Type)
	}
	err = s.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
		info, err := vcenter.NewManager(rs.Client).GetLibraryTemplateInfo(ctx, item.ID)
		if err != nil {
			return err
		}
		if moRef = info.VmTemplate; moRef == "" {
			return vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable,
				"vCenter does not say which VM template the item %q of the content library %q is: update vCenter to 7.0 or newer, publish the item to this vCenter's library, or name the template by its inventory path.", item.Name, item.lib.Name)
		}
		return nil
	})
	return moRef, nil, err
}

// librariesNamed finds the library with an id or, if there is none, the libraries of a name: those of meant that have it, and some of the others. There is
// at least one.
func librariesNamed(ctx context.Context, m *library.Manager, name, text string, meant func() ([]string, error)) ([]*library.Library, error) {
	get := func(id string) (*library.Library, error) { return m.GetLibraryByID(ctx, id) }
	found, err := named(name, meant, get, func() ([]string, error) { return m.FindLibrary(ctx, library.Find{Name: name}) })
	if err != nil || len(found) > 0 {
		return found, err
	}
	ids, err := m.ListLibraries(ctx)
	if err != nil {
		return nil, err
	}
	all, err := read(ids[:min(len(ids), listed)], get)
	return nil, notFound(err, all, nameOfLibrary, "libraries", "The template %q is not found: it is not in the inventory, and there is no content library %q", text, name)
}

// itemsNamed finds the items of the libraries that "library/item" names, like librariesNamed.
func itemsNamed(ctx context.Context, m *library.Manager, libs []*library.Library, in, name, text string, meant []string) (items []namedItem, err error) {
	get := func(id string) (*library.Item, error) { return m.GetLibraryItem(ctx, id) }
	preferred := alike(libs, in, nameOfLibrary)
	for _, lib := range libs {
		found, err := named(name, func() ([]string, error) { return meant, nil }, get, func() ([]string, error) {
			return m.FindLibraryItems(ctx, library.FindItem{LibraryID: lib.ID, Name: name})
		})
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(i *library.Item) bool { return i.LibraryID != lib.ID })
		fits := alike(found, name, nameOfItem)
		for _, i := range found {
			items = append(items, namedItem{Item: i, lib: lib, fits: preferred(lib) && fits(i)})
		}
	}
	if slices.ContainsFunc(items, func(i namedItem) bool { return i.fits || slices.Contains(meant, i.ID) }) {
		return items, nil
	}
	of := libs[slices.IndexFunc(libs, preferred)]
	ids, err := m.ListLibraryItems(ctx, of.ID)
	if err != nil {
		return nil, err
	}
	all, err := read(ids[:min(len(ids), listed)], get)
	return nil, notFound(err, all, nameOfItem, "items", "The template %q is not found: it is not in the inventory, and the content library %q has no item %q", text, of.Name, name)
}

func nameOfLibrary(l *library.Library) string { return l.Name }
func nameOfItem(i *library.Item) string       { return i.Name }

// candidatesOf returns the items as what a name can mean, and the indices of those that fit best. The path of each is a text that names it alone.
func candidatesOf(items []namedItem) (all []naming.Candidate, fits []int) {
	for n, i := range items {
		if i.fits {
			fits = append(fits, n)
		}
		sameLibrary := slices.DeleteFunc(slices.Clone(items), func(x namedItem) bool { return x.lib.ID != i.lib.ID })
		onlyLibrary := len(sameLibrary) == len(items)
		onlyItem := len(sameLibrary) == 1 && !onlyLibrary
		all = append(all, naming.Candidate{Path: textOf(i.lib, onlyLibrary, i.Item, onlyItem), Ref: types.ManagedObjectReference{Type: ItemType, Value: i.ID}})
	}
	return all, fits
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

// named reads the object with an id. If name is none, it reads those that find finds by their name: those of meant, and some of the others, so that
// many objects of a name don't make a reading long. An id comes before a name, because vCenter generates ids.
func named[T any](name string, meant func() ([]string, error), get func(string) (*T, error), find func() ([]string, error)) ([]*T, error) {
	if anID.MatchString(name) {
		if found, err := read([]string{name}, get); err != nil || len(found) > 0 {
			return found, err
		}
	}
	ids, err := find()
	if err != nil {
		return nil, err
	}
	if len(ids) > listed {
		first, err := meant()
		if err != nil {
			return nil, err
		}
		known := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(first, id) })
		others := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(first, id) })
		slices.Sort(others)
		ids = append(known, others[:min(len(others), listed)]...)
	}
	return read(ids, get)
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

// alike reports which objects have a name in the same case or, if none has, that all do: vCenter ignores case.
func alike[T any](all []*T, name string, called func(*T) string) func(*T) bool {
	same := func(x *T) bool { return called(x) == name }
	if !slices.ContainsFunc(all, same) {
		return func(*T) bool { return true }
	}
	return same
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
