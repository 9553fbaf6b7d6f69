package library

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
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
		lib, err := libraryNamed(ctx, m, in, text)
		if err != nil {
			return err
		}
		item, err := itemNamed(ctx, m, lib, name, text)
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

// libraryNamed finds a library by its name. vCenter ignores case, so a library whose name has the same case is preferred.
func libraryNamed(ctx context.Context, m *library.Manager, name, text string) (*library.Library, error) {
	get := func(id string) (*library.Library, error) { return m.GetLibraryByID(ctx, id) }
	called := func(l *library.Library) string { return l.Name }
	ids, err := m.FindLibrary(ctx, library.Find{Name: name})
	if err != nil {
		return nil, err
	}
	found, err := read(ids, get)
	if err != nil {
		return nil, err
	}
	switch fits := alike(found, name, called); len(fits) {
	case 1:
		return fits[0], nil
	case 0:
		ids, err := m.ListLibraries(ctx)
		if err != nil {
			return nil, err
		}
		all, err := read(ids[:min(len(ids), listed)], get)
		return nil, notFound(err, all, called, "libraries", "The template %q is not found: it is not in the inventory, and there is no content library %q", text, name)
	}
	return nil, vcfault.ForOperator(vcfault.ReasonTemplateAmbiguous, "%d content libraries are named %q: rename all but one, or name the template by its inventory path.", len(found), name)
}

// itemNamed finds an item of a library by its name, like libraryNamed.
func itemNamed(ctx context.Context, m *library.Manager, in *library.Library, name, text string) (*library.Item, error) {
	get := func(id string) (*library.Item, error) { return m.GetLibraryItem(ctx, id) }
	called := func(i *library.Item) string { return i.Name }
	ids, err := m.FindLibraryItems(ctx, library.FindItem{LibraryID: in.ID, Name: name})
	if err != nil {
		return nil, err
	}
	found, err := read(ids, get)
	if err != nil {
		return nil, err
	}
	switch fits := alike(found, name, called); len(fits) {
	case 1:
		return fits[0], nil
	case 0:
		ids, err := m.ListLibraryItems(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		all, err := read(ids[:min(len(ids), listed)], get)
		return nil, notFound(err, all, called, "items", "The template %q is not found: it is not in the inventory, and the content library %q has no item %q", text, in.Name, name)
	}
	return nil, vcfault.ForOperator(vcfault.ReasonTemplateAmbiguous, "%d items of the content library %q are named %q: rename all but one, or name the template by its inventory path.", len(found), in.Name, name)
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
