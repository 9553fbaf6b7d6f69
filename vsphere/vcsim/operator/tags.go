package operator

import (
	"context"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
)

// AddCategory creates a tag category for these object types or, without any, for all; single allows one of its tags per object.
func (o *Operator) AddCategory(name string, single bool, objectTypes ...string) (id string, err error) {
	ctx := context.Background()
	m, err := o.tags(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = m.Logout(ctx) }()
	category := &tags.Category{Name: name, Cardinality: "MULTIPLE", AssociableTypes: objectTypes}
	if single {
		category.Cardinality = "SINGLE"
	}
	if id, err = m.CreateCategory(ctx, category); err != nil {
		return "", fmt.Errorf("add category %s: %w", name, err)
	}
	return id, nil
}

// AddTag creates a tag, and its category if that is missing.
func (o *Operator) AddTag(category, name string) (id string, err error) {
	ctx := context.Background()
	m, err := o.tags(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = m.Logout(ctx) }()
	var of string
	if c, err := m.GetCategory(ctx, category); err == nil {
		of = c.ID
	} else if of, err = o.AddCategory(category, false); err != nil {
		return "", err
	}
	if id, err = m.CreateTag(ctx, &tags.Tag{Name: name, CategoryID: of}); err != nil {
		return "", fmt.Errorf("add tag %s/%s: %w", category, name, err)
	}
	return id, nil
}

// Untag detaches all tags from objects, which need not exist.
func (o *Operator) Untag(refs ...types.ManagedObjectReference) error {
	ctx := context.Background()
	m, err := o.tags(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = m.Logout(ctx) }()
	for _, ref := range refs {
		ids, err := m.ListAttachedTags(ctx, ref)
		for i := 0; err == nil && i < len(ids); i++ {
			err = m.DetachTag(ctx, ids[i], ref)
		}
		if err != nil {
			return fmt.Errorf("untag %s: %w", ref, err)
		}
	}
	return nil
}

// TagsOf lists the tags of the object at a path, or of the VM with a name, as category/name, sorted.
func (o *Operator) TagsOf(where string) ([]string, error) {
	ref, err := o.Find(where)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	m, err := o.tags(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Logout(ctx) }()
	attached, err := m.GetAttachedTags(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("tags of %s: %w", where, err)
	}
	names := make([]string, 0, len(attached))
	for _, tag := range attached {
		category, err := m.GetCategory(ctx, tag.CategoryID)
		if err != nil {
			return nil, fmt.Errorf("tags of %s: %w", where, err)
		}
		names = append(names, category.Name+"/"+tag.Name)
	}
	slices.Sort(names)
	return names, nil
}
