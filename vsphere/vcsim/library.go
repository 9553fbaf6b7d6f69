package vcsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	libraryPath  = rest.Path + "/com/vmware/content/library"
	itemPath     = libraryPath + "/item"
	templatePath = rest.Path + "/vcenter/vm-template/library-items/"
)

// libraries are the content libraries, as far as clients read them. govmomi's simulator does not say which VM template an item
// is (v0.56.0, vapi/simulator/simulator.go:3345).
type libraries struct {
	world     *world
	libraries []*library.Library // in the order of their creation
	items     []*item
}

type item struct {
	library.Item
	template string // the moRef of a VM template
}

// AddLibrary creates a content library.
func (l *libraries) AddLibrary(name string) {
	l.world.Lock()
	defer l.world.Unlock()
	l.libraries = append(l.libraries, &library.Library{ID: uuid.NewString(), Name: name, Type: "LOCAL"})
}

// AddLibraryItem adds an item to a library: a VM template or, if template is empty, an item of another kind, such as "ovf".
func (l *libraries) AddLibraryItem(in, name, kind string, template types.ManagedObjectReference) error {
	l.world.Lock()
	defer l.world.Unlock()
	for _, x := range l.libraries {
		if x.Name == in {
			l.items = append(l.items, &item{library.Item{ID: uuid.NewString(), LibraryID: x.ID, Name: name, Type: kind, Version: "1"}, template.Value})
			return nil
		}
	}
	return fmt.Errorf("add item %s: there is no library %s", name, in)
}

// CheckIn makes another VM template the newest version of the items with that name.
func (l *libraries) CheckIn(name string, template types.ManagedObjectReference) {
	l.world.Lock()
	defer l.world.Unlock()
	for _, i := range l.items {
		if i.Name == name {
			i.template, i.Version = template.Value, i.Version+"1"
		}
	}
}

// RemoveLibraryItem removes the items with that name.
func (l *libraries) RemoveLibraryItem(name string) {
	l.world.Lock()
	defer l.world.Unlock()
	l.items = slices.DeleteFunc(l.items, func(i *item) bool { return i.Name == name })
}

func isLibraryCall(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, libraryPath) || strings.HasPrefix(r.URL.Path, templatePath)
}

// serve answers a call that reads.
//
// [doc] vSphere Automation API, content/library find and content/library/item find: "The name is case-insensitive".
func (l *libraries) serve(w http.ResponseWriter, r *http.Request) {
	path, id, byID := strings.Cut(r.URL.Path, "/id:")
	find := r.Method == http.MethodPost && r.URL.Query().Get("~action") == "find"
	var spec struct {
		Spec struct {
			Name      string `json:"name"`
			LibraryID string `json:"library_id"`
		} `json:"spec"`
	}
	if find {
		if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
			refuseREST(w, &types.InvalidArgument{InvalidProperty: "body"})
			return
		}
	}
	named := func(name string) bool { return spec.Spec.Name == "" || strings.EqualFold(name, spec.Spec.Name) }
	switch list := r.Method == http.MethodGet && !byID; {
	case path == libraryPath && (find || list):
		ids := []string{}
		for _, x := range l.libraries {
			if named(x.Name) {
				ids = append(ids, x.ID)
			}
		}
		answerJSON(w, ids)
	case path == itemPath && (find || list):
		in, ids := spec.Spec.LibraryID+r.URL.Query().Get("library_id"), []string{}
		for _, i := range l.items {
			if i.LibraryID == in && named(i.Name) {
				ids = append(ids, i.ID)
			}
		}
		answerJSON(w, ids)
	case r.Method != http.MethodGet:
		refuseREST(w, &types.InvalidArgument{InvalidProperty: "action"})
	case path == libraryPath:
		if at := slices.IndexFunc(l.libraries, func(x *library.Library) bool { return x.ID == id }); at >= 0 {
			answerJSON(w, l.libraries[at])
			return
		}
		refuseREST(w, &types.NotFound{})
	default:
		l.serveItem(w, path, id)
	}
}

// serveItem answers a call about one item, or its VM template.
func (l *libraries) serveItem(w http.ResponseWriter, path, id string) {
	of, isTemplate := strings.CutPrefix(path, templatePath)
	if isTemplate {
		id = of
	}
	at := slices.IndexFunc(l.items, func(i *item) bool { return i.ID == id })
	switch {
	case at < 0 || isTemplate && l.items[at].Type != library.ItemTypeVMTX:
		refuseREST(w, &types.NotFound{})
	case isTemplate:
		answerJSON(w, vcenter.TemplateInfo{VmTemplate: l.items[at].template})
	default:
		answerJSON(w, l.items[at].Item)
	}
}
