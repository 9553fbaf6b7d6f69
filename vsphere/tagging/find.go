package tagging

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/vmware/govmomi/vapi/tags"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// wanted finds a tag of spec.tags. It creates a missing one if the spec has create: true.
func (b *Cache) wanted(ctx context.Context, rs *session.RESTSession, t v1alpha1.Tag) (*foundTag, error) {
	category, err := b.categoryNamed(ctx, rs, t.Category)
	if err == nil && category == nil && t.Create {
		made := 0
		for _, c := range b.categories {
			if c.Description == madeByUs {
				made++
			}
		}
		if made >= categoriesMost {
			return nil, tooMany(made, "tag categories", "category", t.Category)
		}
		category, err = b.makeCategory(ctx, rs, t.Category)
	}
	if err != nil {
		return nil, err
	}
	if category == nil {
		return nil, vcfault.ForOperator(vcfault.ReasonTagNotFound, "There is no tag category %q in vCenter%s: create it, correct spec.tags, or set create: true there.",
			t.Category, only(b.categories, func(c *tags.Category) (string, bool) { return c.Name, true }))
	}
	tag, err := b.tagNamed(ctx, rs, category, t.Name)
	if err == nil && tag == nil && t.Create {
		made := 0
		for _, other := range b.tags {
			if other.CategoryID == category.ID && other.Description == madeByUs {
				made++
			}
		}
		if made >= tagsMost {
			return nil, tooMany(made, fmt.Sprintf("tags of the category %q", t.Category), "tag", t.Name)
		}
		tag, err = b.makeTag(ctx, rs, category, t.Name)
	}
	if err != nil {
		return nil, err
	}
	if tag == nil {
		return nil, vcfault.ForOperator(vcfault.ReasonTagNotFound, "There is no tag %q in vCenter's category %q%s: create it, correct spec.tags, or set create: true there.",
			t.Name, t.Category, only(b.tags, func(t *tags.Tag) (string, bool) { return t.Name, t.CategoryID == category.ID }))
	}
	return &foundTag{id: tag.ID, name: tag.Name, category: category}, nil
}

// only lists the existing tags or categories, for a message.
func only[T any](all map[string]*T, name func(*T) (string, bool)) string {
	var names []string
	for _, x := range all {
		if n, fits := name(x); fits {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return ", nor any that its user can see"
	}
	return ", only " + vcfault.Listing(names)
}

// find finds a tag by its text in a stamp (plan.CutTag); nil if the tag no longer exists.
func (b *Cache) find(ctx context.Context, rs *session.RESTSession, text string) (*foundTag, error) {
	of, name := plan.CutTag(text)
	category, err := b.categoryNamed(ctx, rs, of)
	if err != nil || category == nil {
		return nil, err
	}
	tag, err := b.tagNamed(ctx, rs, category, name)
	if err != nil || tag == nil {
		return nil, err
	}
	return &foundTag{id: tag.ID, name: tag.Name, category: category}, nil
}

// categoryNamed finds a category by its name; nil if there is none. If the cache doesn't have it, it may be new, so categoryNamed reads the list
// again.
func (b *Cache) categoryNamed(ctx context.Context, rs *session.RESTSession, name string) (*tags.Category, error) {
	for _, c := range b.categories {
		if c.Name == name {
			return c, nil
		}
	}
	ids, err := rs.ListCategories(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if b.categories[id] != nil {
			continue
		}
		c, err := b.category(ctx, rs, id)
		if err != nil || c != nil && c.Name == name {
			return c, err
		}
	}
	return nil, nil
}

// category returns the category with that id; nil if it no longer exists.
func (b *Cache) category(ctx context.Context, rs *session.RESTSession, id string) (*tags.Category, error) {
	return byID(ctx, b.categories, id, rs.GetCategory, func(c *tags.Category) string { return c.ID })
}

// tagNamed finds a tag of a category by its name, like categoryNamed.
func (b *Cache) tagNamed(ctx context.Context, rs *session.RESTSession, category *tags.Category, name string) (*tags.Tag, error) {
	fits := func(t *tags.Tag) bool { return t != nil && t.CategoryID == category.ID && t.Name == name }
	for _, t := range b.tags {
		if fits(t) {
			return t, nil
		}
	}
	ids, err := rs.ListTagsForCategory(ctx, category.ID)
	if session.RESTStatus(err) == http.StatusNotFound {
		return nil, session.ErrTagGone // with its category
	}
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if b.tags[id] != nil {
			continue
		}
		t, err := b.tag(ctx, rs, id)
		if err != nil || fits(t) {
			return t, err
		}
	}
	return nil, nil
}

// tag returns the tag with that id; nil if it no longer exists.
func (b *Cache) tag(ctx context.Context, rs *session.RESTSession, id string) (*tags.Tag, error) {
	return byID(ctx, b.tags, id, rs.GetTag, func(t *tags.Tag) string { return t.ID })
}

// byID returns the tag or category with that id, which it reads if it is not in known; nil if it no longer exists. govmomi takes an id that is
// not a URN for a name, and reads all to find it: if one of them has an empty id, govmomi calls itself until the stack overflows (GetCategory and
// GetTag of vapi/tags).
func byID[T any](ctx context.Context, known map[string]*T, id string, get func(context.Context, string) (*T, error), idOf func(*T) string) (*T, error) {
	if x := known[id]; x != nil {
		return x, nil
	}
	if !strings.HasPrefix(id, "urn:") {
		return nil, vcfault.NotVCenterAPI("a REST call", fmt.Errorf("%q, the id of a tag or tag category, is not a URN", id))
	}
	x, err := get(ctx, id)
	if session.RESTStatus(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if idOf(x) != id {
		return nil, vcfault.NotVCenterAPI("a REST call", fmt.Errorf("asked for the tag or tag category %q, it shows %q", id, idOf(x)))
	}
	known[id] = x
	return x, nil
}

// madeByUs is the description of tags and categories that the server creates.
const madeByUs = "Made by vmgroup."

// The server never removes a tag or category that it created for spec.tags, because other programs may use it. So it creates another one only
// while fewer than this exist: categories in vCenter, and tags in a category. An administrator can create any number.
const categoriesMost, tagsMost = 20, 100

func tooMany(made int, what, kind, name string) error {
	return vcfault.ForOperator(vcfault.ReasonMarkLimit, "The server has made %d %s in vCenter, and makes no more, because nothing removes them: use one of them in spec.tags, remove some, or let an administrator of vCenter make the %s %q.", made, what, kind, name)
}

// makeCategory creates a category for VMs with any number of its tags. If another replica creates it at the same
// time, that one is used.
func (b *Cache) makeCategory(ctx context.Context, rs *session.RESTSession, name string) (*tags.Category, error) {
	id, err := rs.CreateCategory(ctx, &tags.Category{Name: name, Description: madeByUs, Cardinality: cardinalityMultiple, AssociableTypes: []string{session.VMType}})
	if session.RESTKind(err, session.RESTAlreadyExists) {
		c, err := b.categoryNamed(ctx, rs, name)
		if err == nil && c == nil {
			err = unseen("tag category", name)
		}
		return c, err
	}
	if err != nil {
		return nil, err
	}
	c, err := b.category(ctx, rs, id)
	if err == nil && c == nil {
		err = session.ErrTagGone
	}
	return c, err
}

// makeTag creates a tag, like makeCategory.
func (b *Cache) makeTag(ctx context.Context, rs *session.RESTSession, category *tags.Category, name string) (*tags.Tag, error) {
	id, err := rs.CreateTag(ctx, &tags.Tag{Name: name, Description: madeByUs, CategoryID: category.ID})
	if session.RESTKind(err, session.RESTAlreadyExists) {
		t, err := b.tagNamed(ctx, rs, category, name)
		if err == nil && t == nil {
			err = unseen("tag", name)
		}
		return t, err
	}
	if session.RESTStatus(err) == http.StatusNotFound {
		return nil, session.ErrTagGone // its category
	}
	if err != nil {
		return nil, err
	}
	t, err := b.tag(ctx, rs, id)
	if err == nil && t == nil {
		err = session.ErrTagGone
	}
	return t, err
}

// unseen is the fault for a name that vCenter reports as taken by an object that it does not show.
func unseen(kind, name string) error {
	return vcfault.ForOperator(vcfault.ReasonTagConflict, "vCenter does not show its user a %s %q, but has one, or one that differs in case: grant the privilege to see it, or correct spec.tags.", kind, name)
}
