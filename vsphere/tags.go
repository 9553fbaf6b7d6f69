package vsphere

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vapi/tags"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// foundTag is a tag of vCenter's, with its category.
type foundTag struct {
	id, name string
	category *tags.Category
}

// setTags puts the wanted tags on a VM, and takes off those of former (plan.TagText) that are no longer wanted. Whatever
// else it bears is others'. What cannot be done is found before anything is done; begin is called before a tag is put on.
func (v *VCenter) setTags(ctx context.Context, a plan.Action, wanted []v1alpha1.Tag, former []string, begin func() error) error {
	if len(wanted)+len(former) == 0 {
		return nil
	}
	for again := true; ; again = false {
		err := v.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
			change, err := v.tagBook.change(ctx, rs, a, wanted, former)
			if err != nil {
				return err
			}
			if len(change.attach) > 0 {
				if err := begin(); err != nil {
					return err
				}
			}
			if err := v.mayAct(ctx); err != nil { // the look-up may have taken many calls
				return err
			}
			if err := session.BatchTags(ctx, rs, session.DetachTags, a, change.detach); err != nil {
				return err
			}
			if err := v.mayAct(ctx); err != nil {
				return err
			}
			return session.BatchTags(ctx, rs, session.AttachTags, a, change.attach)
		})
		if err == nil || !errors.Is(err, session.ErrTagGone) {
			return err
		}
		v.tagBook.forget() // what it says is out of date
		if !again {
			return vcfault.New(vcfault.ReasonGone, false, "A tag or its category is no longer in vCenter; what there is now is read anew.")
		}
	}
}

// checkTags sees to it that there are tags for a clone before there is a clone.
func (v *VCenter) checkTags(ctx context.Context, b *cloneBuilder) error {
	wanted := b.details.Spec.Tags
	if len(wanted) == 0 {
		return nil
	}
	err := v.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
		if err := v.tagBook.open(ctx, rs); err != nil {
			return err
		}
		defer v.tagBook.close()
		var found []*foundTag
		for _, t := range wanted {
			f, err := v.tagBook.wanted(ctx, rs, t)
			if err != nil {
				return err
			}
			found = append(found, f)
		}
		return incompatible(found)
	})
	if errors.Is(err, session.ErrTagGone) {
		v.tagBook.forget()
		return vcfault.New(vcfault.ReasonGone, false, "A tag or its category is no longer in vCenter; what there is now is read anew.")
	}
	return err
}

// rest makes calls of the REST API of the vCenter that the inventory is of.
func (v *VCenter) rest(ctx context.Context, f func(context.Context, *session.RESTSession) error) error {
	var now *session.Session
	if err := v.Call(ctx, func(_ context.Context, s *session.Session) error { now = s; return nil }); err != nil {
		return err
	}
	return v.client.REST(ctx, now, f)
}

// tagChange is what is done to a VM's tags: their ids.
type tagChange struct{ detach, attach []string }

// change is what has to be done to a VM's tags. Tags that are missing are made where the spec says so.
func (b *tagBook) change(ctx context.Context, rs *session.RESTSession, a plan.Action, wanted []v1alpha1.Tag, former []string) (*tagChange, error) {
	has, err := rs.ListAttachedTags(ctx, inventory.VMRef(a.MoRef))
	if err != nil {
		return nil, err
	}
	if err := b.open(ctx, rs); err != nil {
		return nil, err
	}
	defer b.close()
	var want []*foundTag
	for _, t := range wanted {
		f, err := b.wanted(ctx, rs, t)
		if err != nil {
			return nil, err
		}
		want = append(want, f)
	}
	if err := incompatible(want); err != nil {
		return nil, err
	}
	var c tagChange
	for _, text := range former {
		f, err := b.find(ctx, rs, text)
		if err != nil {
			return nil, err
		}
		if f != nil && slices.Contains(has, f.id) && !slices.ContainsFunc(want, func(w *foundTag) bool { return w.id == f.id }) {
			c.detach = append(c.detach, f.id)
		}
	}
	for _, f := range want {
		if !slices.Contains(has, f.id) {
			c.attach = append(c.attach, f.id)
		}
	}
	stay := slices.DeleteFunc(has, func(id string) bool { return slices.Contains(c.detach, id) })
	return &c, b.crowded(ctx, rs, a, want, stay)
}

// incompatible finds tags that no VM can bear, or not together.
func incompatible(want []*foundTag) error {
	single := map[string]*foundTag{}
	for _, f := range want {
		c := f.category
		if len(c.AssociableTypes) > 0 && !slices.ContainsFunc(c.AssociableTypes, func(t string) bool {
			return t == session.VMType || strings.HasSuffix(t, ":"+session.VMType) // as older versions say it
		}) {
			return vcfault.New(vcfault.ReasonTagConflict, true, "The tag category %q is not for VMs: allow it for VMs in vCenter, or take its tags out of spec.tags.", c.Name)
		}
		if c.Cardinality != cardinalitySingle {
			continue
		}
		if other := single[c.ID]; other != nil && other.id != f.id {
			return vcfault.New(vcfault.ReasonTagConflict, true, "The tag category %q allows one tag per object, and spec.tags has %q and %q of it: keep one of them.", c.Name, other.name, f.name)
		}
		single[c.ID] = f
	}
	return nil
}

const (
	cardinalitySingle   = "SINGLE"
	cardinalityMultiple = "MULTIPLE"
)

// crowded finds a tag that stays on the VM and leaves no room for a wanted one.
func (b *tagBook) crowded(ctx context.Context, rs *session.RESTSession, a plan.Action, want []*foundTag, stay []string) error {
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
				return vcfault.New(vcfault.ReasonTagConflict, true, "%s bears the tag %q of the category %q, which allows one tag per object, so it cannot have %q: take that off, or change spec.tags.",
					a.VM, t.Name, f.category.Name, f.name)
			}
		}
	}
	return nil
}

// tagsAreGoodFor is how long the book is believed: it takes a call for each tag of a category, of which there may be
// thousands. A tag that is gone is noticed when it is used, and one that is new when it is looked for.
const tagsAreGoodFor = 10 * time.Minute

// tagBook remembers categories and tags by their ids: vCenter finds them by no name, so all are looked at one by one. It
// is of one session, and good for a while. Who has it open has it alone, so that those who look for the same ask once.
type tagBook struct {
	turn chan struct{} // has a place for one

	of         *session.Session
	since      time.Time
	categories map[string]*tags.Category
	tags       map[string]*tags.Tag
	stale      bool
}

func newTagBook() *tagBook { return &tagBook{turn: make(chan struct{}, 1), stale: true} }

// open waits for the book; it must be closed.
func (b *tagBook) open(ctx context.Context, rs *session.RESTSession) error {
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

func (b *tagBook) close() { <-b.turn }

// forget makes the next who opens the book begin again.
func (b *tagBook) forget() {
	b.turn <- struct{}{}
	b.stale = true
	b.close()
}
