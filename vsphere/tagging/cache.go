package tagging

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// foundTag is a tag of vCenter's, with its category.
type foundTag struct {
	id, name string
	category *tags.Category
}

// Change lists the ids of the tags to detach from a VM and to attach to it.
type Change struct{ Detach, Attach []string }

// Check finds the wanted tags, and checks that a VM can have them. It creates missing tags for which the spec has create: true.
func (b *Cache) Check(ctx context.Context, rs *session.RESTSession, wanted []v1alpha1.Tag) error {
	if err := b.open(ctx, rs); err != nil {
		return err
	}
	defer b.close()
	found, err := b.allWanted(ctx, rs, wanted)
	if err != nil {
		return err
	}
	return incompatible(found)
}

func (b *Cache) allWanted(ctx context.Context, rs *session.RESTSession, wanted []v1alpha1.Tag) (all []*foundTag, err error) {
	for _, t := range wanted {
		f, err := b.wanted(ctx, rs, t)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// Change returns the tags to detach from a VM and to attach to it. It creates missing tags for which the spec has create: true.
func (b *Cache) Change(ctx context.Context, rs *session.RESTSession, a plan.Action, wanted []v1alpha1.Tag, former []string) (*Change, error) {
	has, err := rs.ListAttachedTags(ctx, types.ManagedObjectReference{Type: session.VMType, Value: a.MoRef})
	if err != nil {
		return nil, err
	}
	if err := b.open(ctx, rs); err != nil {
		return nil, err
	}
	defer b.close()
	want, err := b.allWanted(ctx, rs, wanted)
	if err != nil {
		return nil, err
	}
	if err := incompatible(want); err != nil {
		return nil, err
	}
	var c Change
	for _, text := range former {
		f, err := b.find(ctx, rs, text)
		if err != nil {
			return nil, err
		}
		if f != nil && slices.Contains(has, f.id) && !slices.ContainsFunc(want, func(w *foundTag) bool { return w.id == f.id }) {
			c.Detach = append(c.Detach, f.id)
		}
	}
	for _, f := range want {
		if !slices.Contains(has, f.id) {
			c.Attach = append(c.Attach, f.id)
		}
	}
	stay := slices.DeleteFunc(has, func(id string) bool { return slices.Contains(c.Detach, id) })
	return &c, b.full(ctx, rs, a, want, stay)
}

// incompatible returns the fault for a tag that no VM can have, or for two tags that a VM can't have together.
func incompatible(want []*foundTag) error {
	single := map[string]*foundTag{}
	for _, f := range want {
		c := f.category
		if len(c.AssociableTypes) > 0 && !slices.ContainsFunc(c.AssociableTypes, func(t string) bool {
			return t == session.VMType || strings.HasSuffix(t, ":"+session.VMType) // older versions have a prefix
		}) {
			return vcfault.ForOperator(vcfault.ReasonTagConflict, "The tag category %q is not for VMs: allow it for VMs in vCenter, or remove its tags from spec.tags.", c.Name)
		}
		if c.Cardinality != cardinalitySingle {
			continue
		}
		if other := single[c.ID]; other != nil && other.id != f.id {
			return vcfault.ForOperator(vcfault.ReasonTagConflict, "The tag category %q allows one tag per object, and spec.tags has %q and %q of it: keep one of them.", c.Name, other.name, f.name)
		}
		single[c.ID] = f
	}
	return nil
}

const (
	cardinalitySingle   = "SINGLE"
	cardinalityMultiple = "MULTIPLE"
)

// full returns the fault for a tag that the VM keeps, and whose category allows no other tag, if another one is wanted.
func (b *Cache) full(ctx context.Context, rs *session.RESTSession, a plan.Action, want []*foundTag, stay []string) error {
	for _, f := range want {
		if f.category.Cardinality != cardinalitySingle {
			continue
		}
		for _, id := range stay {
			t, err := b.tag(ctx, rs, id)
			if err != nil {
				return err
			}
			if t != nil && t.CategoryID == f.category.ID && t.ID != f.id {
				return vcfault.ForOperator(vcfault.ReasonTagConflict, "%s has the tag %q of the category %q, which allows one tag per object, so it cannot have %q: remove the former from the VM, or change spec.tags.",
					a.Key, t.Name, f.category.Name, f.name)
			}
		}
	}
	return nil
}

// tagsAreGoodFor is how long the cache is valid: reading it takes a call for each tag of a category, which may have
// thousands. A deleted tag is noticed when it is used, and a new one when it is looked for.
const tagsAreGoodFor = 10 * time.Minute

// Cache caches categories and tags by id: vCenter cannot find them by name, so the cache reads them one by one. It
// belongs to one session, and is valid for tagsAreGoodFor. Only one goroutine at a time has it open, so that concurrent lookups make each call
// once.
type Cache struct {
	turn chan struct{} // held while the cache is open; its capacity is 1

	of         *session.Session
	since      time.Time
	categories map[string]*tags.Category
	tags       map[string]*tags.Tag
	stale      bool
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{turn: make(chan struct{}, 1), stale: true} }

// open waits until the cache is closed, and opens it. The caller must close it.
func (b *Cache) open(ctx context.Context, rs *session.RESTSession) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return vcfault.Classify("", ctx.Err())
	}
	if b.stale || b.of != rs.Under || time.Since(b.since) > tagsAreGoodFor {
		b.of, b.since, b.stale = rs.Under, time.Now(), false
		b.categories, b.tags = map[string]*tags.Category{}, map[string]*tags.Tag{}
	}
	return nil
}

func (b *Cache) close() { <-b.turn }

// Forget empties the cache before it is opened next.
func (b *Cache) Forget() {
	b.turn <- struct{}{}
	b.stale = true
	b.close()
}
