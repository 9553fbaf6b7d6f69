package vsphere

import (
	"context"
	"errors"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// setTags attaches the wanted tags to a VM, and detaches those of former (plan.CutTag) that are no longer wanted. Other
// tags are not the server's. It checks that all can be done before it changes anything, and calls begin before it attaches a tag.
func (v *VCenter) setTags(ctx context.Context, a plan.Action, wanted []v1alpha1.Tag, former []string, begin func() error) error {
	if len(wanted)+len(former) == 0 {
		return nil
	}
	for again := true; ; again = false {
		err := v.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
			change, err := v.tagBook.Change(ctx, rs, a, wanted, former)
			if err != nil {
				return err
			}
			if len(change.Attach) > 0 {
				if err := begin(); err != nil {
					return err
				}
			}
			if err := v.mayAct(ctx); err != nil { // the lookup may have taken many calls
				return err
			}
			if err := session.BatchTags(ctx, rs, session.DetachTags, a, change.Detach); err != nil {
				return err
			}
			if err := v.mayAct(ctx); err != nil {
				return err
			}
			return session.BatchTags(ctx, rs, session.AttachTags, a, change.Attach)
		})
		if err == nil || !errors.Is(err, session.ErrTagGone) {
			return err
		}
		v.tagBook.Forget() // what it says is out of date
		if !again {
			return vcfault.New(vcfault.ReasonGone, false, "A tag or its category is no longer in vCenter; what there is now is read again.")
		}
	}
}

// checkTags checks before a clone that its tags exist.
func (v *VCenter) checkTags(ctx context.Context, b *cloneBuilder) error {
	wanted := b.details.Spec.Tags
	if len(wanted) == 0 {
		return nil
	}
	err := v.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
		return v.tagBook.Check(ctx, rs, wanted)
	})
	if errors.Is(err, session.ErrTagGone) {
		v.tagBook.Forget()
		return vcfault.New(vcfault.ReasonGone, false, "A tag or its category is no longer in vCenter; what there is now is read again.")
	}
	return err
}

// rest makes calls of the REST API of the vCenter that the inventory was read from.
func (v *VCenter) rest(ctx context.Context, f func(context.Context, *session.RESTSession) error) error {
	var now *session.Session
	if err := v.Call(ctx, func(_ context.Context, s *session.Session) error { now = s; return nil }); err != nil {
		return err
	}
	return v.client.REST(ctx, now, f)
}
