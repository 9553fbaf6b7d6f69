package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tagging"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Keys of the trial's VM that come and go.
const (
	absentKey  = trialKey + ".absent"
	emptiedKey = trialKey + ".emptied"
	guardedKey = trialKey + ".guarded"
)

func setting(key, value, changeVersion string) types.VirtualMachineConfigSpec {
	return types.VirtualMachineConfigSpec{ChangeVersion: changeVersion, ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: key, Value: value}}}
}

// absentKey reads a key of extraConfig that was never there, and one that was emptied: both are nothing, and no fault.
func (t *trial) absentKey(ctx context.Context) verdict {
	const consequence = "VMs without a stamp, or released ones, would seem unreadable, or to be members still"
	for _, value := range []string{"1", ""} {
		if err := t.reconfigure(setting(emptiedKey, value, "")); err != nil {
			return refused(err)
		}
	}
	for key, how := range map[string]string{absentKey: "is absent", emptiedKey: "was emptied"} {
		value, o, err := t.option(ctx, t.vm, key)
		switch {
		case vcfault.Known(err) && ctx.Err() == nil:
			v := broken(fmt.Sprintf("a read of a key that %s is a fault: %s", how, vcfault.Classify("", err).Reason), consequence)
			return v.with(Facts{"fault": yes(true)})
		case err != nil:
			return refused(err)
		case o.Withheld:
			return broken(fmt.Sprintf("a key that %s is told as missing, with a fault", how), consequence).with(Facts{"fault": yes(true)})
		case value != "":
			return broken(fmt.Sprintf("a key that %s has a value", how), consequence).with(Facts{"fault": yes(false)})
		}
	}
	return held("a key that is absent, and one that was emptied, are read as nothing, without a fault")
}

func (t *trial) changeVersion(ctx context.Context) (string, error) {
	o, err := t.read(ctx, t.vm, "config.changeVersion")
	return session.Prop[string](o, "config.changeVersion"), err
}

// changeVersionGuards changes the VM twice with the same changeVersion, and looks what else changes that.
func (t *trial) changeVersionGuards(ctx context.Context) verdict {
	before, err := t.changeVersion(ctx)
	if err == nil {
		err = t.reconfigure(setting(guardedKey, "1", before))
	}
	if err != nil {
		return refused(err)
	}
	err = t.reconfigure(setting(guardedKey, "2", before))
	if err == nil {
		return broken("a change with a changeVersion of before the last one was carried out", "servers that do not know of each other would overwrite each other's marks")
	}
	if !vcfault.Has[*types.ConcurrentAccess](err) {
		return refused(err)
	}
	seen, facts := "the second change with one changeVersion is ConcurrentAccess", Facts{}
	for _, x := range []struct {
		what, fact string
		set        func(context.Context) (bool, error)
	}{{"tags", "tagsChangeIt", t.setTags}, {"custom attributes", "attributesChangeIt", t.setFields}} {
		was, err := t.changeVersion(ctx)
		if err != nil {
			return refused(err)
		}
		done, err := x.set(ctx)
		if err != nil || !done {
			seen += fmt.Sprintf("; whether %s change it was not tried: no group (-f) of this template has some that are there", x.what)
			continue
		}
		now, err := t.changeVersion(ctx)
		if err != nil {
			return refused(err)
		}
		seen += fmt.Sprintf("; %s %s it", x.what, map[bool]string{true: "change", false: "do not change"}[was != now])
		facts[x.fact] = yes(was != now)
	}
	return held("%s", seen).with(facts)
}

// setTags puts the group's tags on the VM, of those that are there.
func (t *trial) setTags(ctx context.Context) (done bool, err error) {
	if t.like == nil || len(t.like.Spec.Tags) == 0 {
		return false, nil
	}
	wanted := slices.Clone(t.like.Spec.Tags)
	for i := range wanted {
		wanted[i].Create = false
	}
	action := plan.Action{VM: trialName, MoRef: t.vm.Value}
	err = t.call(ctx, func(ctx context.Context, s *session.Session) error {
		return t.parts.Client.REST(ctx, s, func(ctx context.Context, rs *session.RESTSession) error {
			change, err := tagging.NewBook().Change(ctx, rs, action, wanted, nil)
			if err != nil {
				return err
			}
			done = len(change.Attach) > 0
			return session.BatchTags(ctx, rs, session.AttachTags, action, change.Attach)
		})
	})
	return done, err
}

// setFields gives the VM the group's custom attributes, of those that are there.
func (t *trial) setFields(ctx context.Context) (done bool, err error) {
	if t.like == nil || len(t.like.Spec.CustomAttributes) == 0 {
		return false, nil
	}
	err = t.v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		manager := *s.Vim.ServiceContent.CustomFieldsManager
		o, err := session.ReadProps(ctx, s, manager, "field")
		if err != nil {
			return err
		}
		for _, def := range session.Prop[types.ArrayOfCustomFieldDef](o, "field").CustomFieldDef {
			if value, wanted := t.like.Spec.CustomAttributes[def.Name]; wanted && (def.ManagedObjectType == "" || def.ManagedObjectType == session.VMType) {
				if _, err := methods.SetField(ctx, s.Vim, &types.SetField{This: manager, Entity: t.vm, Key: def.Key, Value: value}); err != nil {
					return err
				}
				done = true
			}
		}
		return nil
	})
	return done, err
}
