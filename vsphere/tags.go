// This file sets a member's tags and custom attributes.

package vsphere

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/attributes"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// setTags attaches the wanted tags to a VM, and detaches those of former (plan.CutTag) that are no longer wanted. It leaves other tags alone. It
// looks up all tags before the first change, and calls begin before it attaches one.
func (st *step) setTags(ctx context.Context, wanted []v1alpha1.Tag, former []string, begin func() error) error {
	if len(wanted)+len(former) == 0 {
		return nil
	}
	for again := true; ; again = false {
		err := st.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
			change, err := st.tagCache.Change(ctx, rs, st.action, wanted, former)
			if err != nil {
				return err
			}
			if len(change.Attach) > 0 {
				if err := begin(); err != nil {
					return err
				}
			}
			if err := st.checkLease(); err != nil { // the lookup may have taken long
				return err
			}
			if err := session.BatchTags(ctx, rs, session.DetachTags, st.action, change.Detach); err != nil {
				return err
			}
			if err := st.checkLease(); err != nil {
				return err
			}
			return session.BatchTags(ctx, rs, session.AttachTags, st.action, change.Attach)
		})
		if err == nil || !errors.Is(err, session.ErrTagGone) {
			return err
		}
		st.tagCache.Forget() // the cache is out of date
		if !again {
			return vcfault.ForRetry(vcfault.ReasonGone, "A tag or its category is no longer in vCenter; the server reads the tags again.")
		}
	}
}

// tagFailure returns the fault of a missing VM if the VM is gone: the REST API then reports a missing privilege ([doc] attach: unauthorized, "if you
// ... do not have the privilege to read the object").
func (st *step) tagFailure(ctx context.Context, err error) error {
	if vcfault.Classify("", err).Reason != vcfault.ReasonMissingPrivilege {
		return err
	}
	if readErr := st.reader.Read(ctx, st.vm()); readErr != nil {
		return readErr
	}
	if _, gone := st.own(); gone != nil {
		return gone
	}
	return err
}

// setAttributes sets the wanted custom attributes of a VM, by name, and empties those of former (names) that are no longer wanted. have are the
// VM's values. It creates attributes that vCenter does not have, and calls begin before it sets a value.
func (st *step) setAttributes(ctx context.Context, have []types.BaseCustomFieldValue, wanted map[string]string, former []string, begin func() error) error {
	if len(wanted)+len(former) == 0 {
		return nil
	}
	return st.Call(ctx, func(ctx context.Context, s *session.Session) error {
		manager := s.Vim.ServiceContent.CustomFieldsManager
		if manager == nil {
			return vcfault.ForOperator(vcfault.ReasonInternal, "vCenter has no custom attributes: remove spec.customAttributes.")
		}
		set := func(key int32, value string) error {
			if attributes.ValueOf(have, key) == value {
				return nil
			}
			if err := begin(); err != nil {
				return err
			}
			if err := st.checkLease(); err != nil {
				return err
			}
			_, err := methods.SetField(ctx, s.Vim, &types.SetField{This: *manager, Entity: st.vm(), Key: key, Value: value})
			if vcfault.Has[types.BaseInvalidArgument](err) || vcfault.Has[*types.NotFound](err) {
				st.fields.Forget() // the definition may be gone: the next try reads them again
			}
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			key, err := st.fields.Key(ctx, s, *manager, name)
			if err == nil {
				err = set(key, wanted[name])
			}
			if err != nil {
				return err
			}
		}
		for _, name := range former {
			if _, still := wanted[name]; still {
				continue
			}
			key, is, err := st.fields.Find(ctx, s, *manager, name)
			if err == nil && is {
				err = set(key, "")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
