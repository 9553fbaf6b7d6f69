package vcsim

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/types"
)

// libraries are the content libraries of govmomi's simulator, and which VM template an item is, which that does not say
// (v0.56.0, vapi/simulator/simulator.go:3345).
type libraries struct {
	world     *world
	login     func(context.Context) (*tags.Manager, error) // logs the admin in to REST
	templates map[string]*template                         // by the items' ids
}

// template is the VM template that an item is.
type template struct {
	item string // its name
	ref  types.ManagedObjectReference
}

// change changes the libraries as the admin.
func (l *libraries) change(what string, do func(context.Context, *library.Manager) error) error {
	ctx := context.Background()
	m, err := l.login(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = m.Logout(ctx) }()
	if err := do(ctx, library.NewManager(m.Client)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// AddLibrary creates a content library.
func (l *libraries) AddLibrary(name string) error {
	return l.change("add library "+name, func(ctx context.Context, m *library.Manager) error {
		datastore := l.world.Objects.Any("Datastore").Reference().Value
		_, err := m.CreateLibrary(ctx, library.Library{Name: name, Type: "LOCAL", Storage: []library.StorageBacking{{DatastoreID: datastore, Type: "DATASTORE"}}})
		return err
	})
}

// AddLibraryItem adds an item to a library: a VM template or, if template is empty, an item of another kind, such as "ovf". Two items can
// have one name.
func (l *libraries) AddLibraryItem(in, name, kind string, ref types.ManagedObjectReference) error {
	return l.change("add item "+name, func(ctx context.Context, m *library.Manager) error {
		of, err := m.GetLibraryByName(ctx, in)
		if err != nil {
			return err
		}
		id, err := m.CreateLibraryItem(ctx, library.Item{Name: uuid.NewString(), LibraryID: of.ID, Type: kind})
		if err != nil {
			return err
		}
		if kind == library.ItemTypeVMTX {
			l.world.Lock()
			l.templates[id] = &template{name, ref}
			l.world.Unlock()
		}
		return m.UpdateLibraryItem(ctx, &library.Item{ID: id, Name: name})
	})
}

// CheckIn makes another VM template the newest version of the items with that name.
func (l *libraries) CheckIn(name string, ref types.ManagedObjectReference) {
	l.world.Lock()
	defer l.world.Unlock()
	for _, t := range l.templates {
		if t.item == name {
			t.ref = ref
		}
	}
}

// RemoveLibraryItem removes the items with that name.
func (l *libraries) RemoveLibraryItem(name string) error {
	return l.change("remove item "+name, func(ctx context.Context, m *library.Manager) error {
		ids, err := m.FindLibraryItems(ctx, library.FindItem{Name: name})
		for i := 0; err == nil && i < len(ids); i++ {
			err = m.DeleteLibraryItem(ctx, &library.Item{ID: ids[i]})
		}
		return err
	})
}

// describe answers which VM template an item is.
func (l *libraries) describe(w http.ResponseWriter, id string) {
	if t := l.templates[id]; t != nil {
		answerJSON(w, vcenter.TemplateInfo{VmTemplate: t.ref.Value})
		return
	}
	refuseREST(w, &types.NotFound{})
}
