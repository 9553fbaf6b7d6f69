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

// Keys that the trial sets and removes.
const (
	absentKey  = trialKey + ".absent"
	emptiedKey = trialKey + ".emptied"
	guardedKey = trialKey + ".guarded"
)

func setting(key, value, changeVersion string) types.VirtualMachineConfigSpec {
	return types.VirtualMachineConfigSpec{ChangeVersion: changeVersion, ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: key, Value: value}}}
}

// absentKey reads an extraConfig key that never existed and one that was emptied: both must be empty, without a fault.
func (t *trial) absentKey(ctx context.Context) outcome {
	const consequence = "VMs without a stamp, or released ones, would seem unreadable or still be members"
	for _, value := range []string{"1", ""} {
		if err := t.reconfigure(setting(emptiedKey, value, "")); err != nil {
			return failedBy(err)
		}
	}
	for key, how := range map[string]string{absentKey: "is absent", emptiedKey: "was emptied"} {
		value, o, err := t.option(ctx, t.vm, key)
		switch {
		case vcfault.Known(err) && ctx.Err() == nil:
			v := refuted(fmt.Sprintf("reading a key that %s fails: %s", how, vcfault.Classify("", err).Reason), consequence)
			return v.with(Facts{"fault": yes(true)})
		case err != nil:
			return failedBy(err)
		case o.Withheld:
			return refuted(fmt.Sprintf("a key that %s is reported as missing, with a fault", how), consequence).with(Facts{"fault": yes(true)})
		case value != "":
			return refuted(fmt.Sprintf("a key that %s has a value", how), consequence).with(Facts{"fault": yes(false)})
		}
	}
	return confirmed("an absent key and an emptied one are read as empty, without a fault")
}

func (t *trial) changeVersion(ctx context.Context) (string, error) {
	o, err := t.read(ctx, t.vm, "config.changeVersion")
	return session.Prop[string](o, "config.changeVersion"), err
}

// changeVersionGuards makes two changes with the same changeVersion and checks what else changes it.
func (t *trial) changeVersionGuards(ctx context.Context) outcome {
	before, err := t.changeVersion(ctx)
	if err == nil {
		err = t.reconfigure(setting(guardedKey, "1", before))
	}
	if err != nil {
		return failedBy(err)
	}
	err = t.reconfigure(setting(guardedKey, "2", before))
	if err == nil {
		return refuted("a change with an outdated changeVersion succeeded", "replicas of the server would overwrite each other's marks")
	}
	if !vcfault.Has[*types.ConcurrentAccess](err) {
		return failedBy(err)
	}
	seen, facts := "a second change with the same changeVersion gets ConcurrentAccess", Facts{}
	for _, x := range []struct {
		what, fact string
		set        func(context.Context) (bool, error)
	}{{"tags", "tagsChangeIt", t.setTags}, {"custom attributes", "attributesChangeIt", t.setFields}} {
		was, err := t.changeVersion(ctx)
		if err != nil {
			return failedBy(err)
		}
		done, err := x.set(ctx)
		if err != nil || !done {
			seen += fmt.Sprintf("; the effect of %s was not tested: no group (-f) of this template has any that exist", x.what)
			continue
		}
		now, err := t.changeVersion(ctx)
		if err != nil {
			return failedBy(err)
		}
		seen += fmt.Sprintf("; %s %s it", x.what, map[bool]string{true: "change", false: "do not change"}[was != now])
		facts[x.fact] = yes(was != now)
	}
	return confirmed("%s", seen).with(facts)
}

// setTags attaches those of the group's tags that exist to the VM.
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

// setFields sets those of the group's custom attributes that exist.
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
