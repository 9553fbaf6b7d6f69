package vsphere

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// prepare gives a member what its clone could not: tags and custom attributes, which no clone spec has, and the network
// configuration with its adapters' MAC addresses, which exist only after the clone. Later it brings tags and attributes up to
// date.
//
// A first write records in the stamp which tags and attributes the VM may have, so that they are removed if they are no longer
// wanted before this is done; a clone's stamp has that from the start. (Found by TestChaos, seed 60068.) The last write says
// that all is done, so the next plan continues after a crash anywhere. It is one reconfigure with the network configuration,
// guarded by the changeVersion that the plan saw, or that the first write left. Neither tags nor attributes
// are in a VM's config ([doc] changeVersion is of "a given version of the configuration"); if they were, the guard would
// refuse once, and the next try would find nothing left to set.
//
// Two replicas that know different specs may do this at once, and nothing guards the calls that set tags and attributes.
// So the first write is made even if it says nothing new: of two replicas, vCenter refuses one's last write, and that one
// then records in the stamp that the member is to be prepared again. The writes have the generation, so that a replica that knows
// an older spec begins nothing more. (Found by TestChaos, seed 700062: a member had lost an attribute.)
func (v *VCenter) prepare(ctx context.Context, ref plan.Ref, a plan.Action) (err error) {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if a.Details() == nil || a.Details().Spec == nil {
		return vcfault.New(vcfault.ReasonInternal, true, "The step Prepare of %s has no details.", a.VM)
	}
	if m.Stamp.Prepared == a.Details().Prepared {
		return nil // nothing to do, and published
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	wanted, former := plan.PreparationIn(a.Details().Prepared), plan.PreparationIn(m.Stamp.Prepared)
	first, given := m.Stamp.Unprepared() && m.Stamp.Former.Entry == "", plan.DisksIn(m.Stamp.Given)
	now, err := v.lookPreparing(ctx, a, m.Stamp.Unprepared())
	if err != nil {
		return err
	}
	if now.changeVersion != m.ChangeVersion { // before anything is changed
		return changedMeanwhile()
	}
	var options []types.BaseOptionValue
	if first && (wanted.Networks || wanted.Disks) {
		if given, err = disks.Recognize(given, now.devices, a.VM); err != nil {
			return err
		}
		if options, err = guestOptions(ref, a, m.InstanceUUID, now.devices, given); err != nil {
			return err
		}
	}
	if first {
		if err := complete(m.Stamp.Disks, now.devices, a.VM); err != nil {
			return err
		}
	}
	began := false
	var stopped error // by begin; its error must not reach the calls around it, which would take it for theirs and drop their session
	begin := sync.OnceValue(func() (err error) {
		defer func() {
			if stopped = err; err != nil {
				err = errNotBegun
			}
		}()
		stamp := m.Stamp
		stamp.Prepared = plan.PreparationBegun(m.Stamp.Prepared, a.Details().Prepared)
		stamp.Generation = max(stamp.Generation, a.Generation)
		if stamp.Unprepared() && m.Stamp.Prepared == plan.Unprepared+a.Details().Prepared && stamp.Generation == m.Stamp.Generation {
			return nil // the clone's stamp has it already
		}
		if err = v.writeStamp(ctx, m.MoRef, m.ChangeVersion, stamp.Encode()); err == nil {
			m, err = v.own(ref, a)
		}
		began = err == nil
		return err
	})
	defer func() {
		if err != nil && began {
			v.prepareAgain(ctx, ref, a, m.ChangeVersion)
		}
	}()
	if err := v.setTags(ctx, a, a.Details().Spec.Tags, former.Tags, begin); stopped != nil {
		return stopped
	} else if err != nil {
		return v.tagFailure(ctx, ref, a, err)
	}
	if err := v.setAttributes(ctx, a, now.values, a.Details().Spec.CustomAttributes, former.Attributes, begin); err != nil {
		return cmp.Or(stopped, err)
	}
	stamp := m.Stamp
	stamp.Prepared, stamp.Generation = a.Details().Prepared, max(stamp.Generation, a.Generation)
	if m.Stamp.Unprepared() { // it was never on, so its disks are those that the clone made
		stamp.Disks = disks.Own(disks.Identify(stamp.Disks, now.devices), given, now.devices)
		stamp.Given = plan.DiskText(given)
	}
	return v.writeStampAnd(ctx, m.MoRef, m.ChangeVersion, stamp.Encode(), options)
}

var errNotBegun = errors.New("the stamp could not say that the preparation begins")

// prepareAgain follows a preparation that failed after its first write, which left changeVersion. What it set since may have
// undone what another replica did, whose stamp says that the member is prepared: prepareAgain changes the stamp to say that it is
// not. A failure here is not reported: the step has failed already.
func (v *VCenter) prepareAgain(ctx context.Context, ref plan.Ref, a plan.Action, changeVersion string) {
	ctx = anyway(ctx)
	for range prepareAgainTries {
		if v.reader.Read(ctx, inventory.VMRef(a.MoRef)) != nil {
			return
		}
		m, err := v.own(ref, a)
		if err != nil || m.ChangeVersion == changeVersion || m.Stamp.Prepared != "" && plan.PreparationIn(m.Stamp.Prepared).Digest == "" {
			return // the VM is gone, or nobody wrote since, or the replica that did is not done
		}
		stamp := m.Stamp
		stamp.Prepared = plan.PreparationBegun(m.Stamp.Prepared, a.Details().Prepared)
		if v.writeStamp(ctx, m.MoRef, m.ChangeVersion, stamp.Encode()) == nil {
			return
		}
	}
}

// prepareAgainTries is how often prepareAgain writes while others write at the same time.
const prepareAgainTries = 3

// tagFailure checks whether the VM still exists: for one that is gone, the REST API says that a privilege is missing
// ([doc] attach: unauthorized, "if you ... do not have the privilege to read the object").
func (v *VCenter) tagFailure(ctx context.Context, ref plan.Ref, a plan.Action, err error) error {
	if vcfault.Classify("", err).Reason != vcfault.ReasonMissingPrivilege {
		return err
	}
	if readErr := v.reader.Read(ctx, inventory.VMRef(a.MoRef)); readErr != nil {
		return readErr
	}
	if _, gone := v.own(ref, a); gone != nil {
		return gone
	}
	return err
}

// unprepared is the state of a VM right before it is prepared.
type unprepared struct {
	changeVersion string
	values        []types.BaseCustomFieldValue
	devices       []types.BaseVirtualDevice
}

func (v *VCenter) lookPreparing(ctx context.Context, a plan.Action, devices bool) (*unprepared, error) {
	paths := []string{"config.changeVersion", "customValue"}
	if devices {
		paths = append(paths, "config.hardware.device")
	}
	var now unprepared
	err := v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, inventory.VMRef(a.MoRef), paths...)
		now = unprepared{
			changeVersion: session.Prop[string](o, "config.changeVersion"),
			values:        session.Prop[types.ArrayOfCustomFieldValue](o, "customValue").CustomFieldValue,
			devices:       session.Prop[types.ArrayOfVirtualDevice](o, "config.hardware.device").VirtualDevice,
		}
		return err
	})
	return &now, err
}

// guestOptions returns the extraConfig entries with what a guest learns once its VM exists: its disks, and the network configuration, in
// which the n-th of spec.networks is for the n-th network adapter.
func guestOptions(ref plan.Ref, a plan.Action, instanceUUID string, devices []types.BaseVirtualDevice, given []plan.MemberDisk) ([]types.BaseOptionValue, error) {
	key, macs, want := guest.MetadataKey, MACsOf(devices), len(a.Details().Spec.Networks)
	if a.Details().Spec.CustomizationSpec != "" { // it has the networks
		key, want = guest.OwnMetadataKey, 0
	}
	if len(macs) < want {
		return nil, vcfault.New(vcfault.ReasonTooFewAdapters, true, "%s has %d network adapters, and spec.networks has %d: add adapters to the template, or remove networks.", a.VM, len(macs), want)
	}
	macs = macs[:want]
	if slices.Contains(macs, "") {
		return nil, vcfault.New(vcfault.ReasonConcurrentAccess, false, "A network adapter of %s has no MAC address yet; it is read again.", a.VM)
	}
	return guest.Metadata(key, ref, a, instanceUUID, macs, disks.Paths(given))
}

// promote records in a standby member's stamp that it is a member like any other, guarded by the changeVersion that the plan saw: of
// two replicas one promotes it, and none removes it as a standby member any more. It leaves
// the generation: a replica that knows only an older spec would take it for one too many. (Found by the model checker.) It returns the member as it is then.
func (v *VCenter) promote(ctx context.Context, ref plan.Ref, a plan.Action, m *inventory.Member) (*inventory.Member, error) {
	if !m.Stamp.Standby {
		return m, nil // nothing to do, and published
	}
	if err := unchanged(m, a); err != nil {
		return nil, err
	}
	next := m.Stamp
	next.Standby, next.Generation = false, max(next.Generation, a.Generation)
	if err := v.writeStamp(ctx, m.MoRef, m.ChangeVersion, next.Encode()); err != nil {
		return nil, err
	}
	return v.own(ref, a)
}

// setTags attaches the wanted tags to a VM, and detaches those of former (plan.CutTag) that are no longer wanted. Other
// tags are not the server's. It checks that all can be done before it changes anything, and calls begin before it attaches a tag.
func (v *VCenter) setTags(ctx context.Context, a plan.Action, wanted []v1alpha1.Tag, former []string, begin func() error) error {
	if len(wanted)+len(former) == 0 {
		return nil
	}
	for again := true; ; again = false {
		err := v.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
			change, err := v.tagCache.Change(ctx, rs, a, wanted, former)
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
		v.tagCache.Forget() // what it says is out of date
		if !again {
			return vcfault.New(vcfault.ReasonGone, false, "A tag or its category is no longer in vCenter; what there is now is read again.")
		}
	}
}

// rest makes calls of the REST API of the vCenter that the inventory was read from.
func (v *VCenter) rest(ctx context.Context, f func(context.Context, *session.RESTSession) error) error {
	var now *session.Session
	if err := v.Call(ctx, func(_ context.Context, s *session.Session) error { now = s; return nil }); err != nil {
		return err
	}
	return v.client.REST(ctx, now, f)
}

// fieldCache remembers the definitions of custom attributes, for one session.
type fieldCache struct {
	mu   sync.Mutex
	of   *session.Session
	defs []types.CustomFieldDef // immutable
}

func (b *fieldCache) read(s *session.Session) ([]types.CustomFieldDef, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.defs, b.of == s
}

func (b *fieldCache) write(s *session.Session, defs []types.CustomFieldDef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of, b.defs = s, defs
}

// setAttributes gives a VM, whose values are have, the wanted ones, and empties the attributes in former (names) that are no
// longer wanted. It creates attributes that vCenter does not have yet, and calls begin before it sets a value.
func (v *VCenter) setAttributes(ctx context.Context, a plan.Action, have []types.BaseCustomFieldValue, wanted map[string]string, former []string, begin func() error) error {
	if len(wanted)+len(former) == 0 {
		return nil
	}
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		manager := s.Vim.ServiceContent.CustomFieldsManager
		if manager == nil {
			return vcfault.New(vcfault.ReasonInternal, true, "vCenter has no custom attributes: remove spec.customAttributes.")
		}
		set := func(key int32, value string) error {
			if valueOf(have, key) == value {
				return nil
			}
			if err := begin(); err != nil {
				return err
			}
			if err := v.mayAct(ctx); err != nil {
				return err
			}
			_, err := methods.SetField(ctx, s.Vim, &types.SetField{This: *manager, Entity: inventory.VMRef(a.MoRef), Key: key, Value: value})
			if vcfault.Has[types.BaseInvalidArgument](err) || vcfault.Has[*types.NotFound](err) {
				v.fields.write(nil, nil) // the definition may be gone: the next try reads them again
			}
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			key, err := v.fieldKey(ctx, s, *manager, name)
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
			defs, err := v.fieldDefs(ctx, s, *manager)
			if err != nil {
				return err
			}
			if def := defOf(defs, name); def != nil {
				if err := set(def.Key, ""); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// valueOf returns the value of an attribute; empty if it has none.
func valueOf(have []types.BaseCustomFieldValue, key int32) string {
	for _, value := range have {
		if s, is := value.(*types.CustomFieldStringValue); is && s.Key == key {
			return s.Value
		}
	}
	return ""
}

// fieldKey returns the key of a VM's attribute of that name, which it creates if there is none. If another replica of the
// server creates it at the same time, that one is used.
func (v *VCenter) fieldKey(ctx context.Context, s *session.Session, manager types.ManagedObjectReference, name string) (int32, error) {
	defs, err := v.fieldDefs(ctx, s, manager)
	if err != nil {
		return 0, err
	}
	if def := defOf(defs, name); def != nil {
		return def.Key, nil
	}
	if n := attributesOf(defs); n >= attributesMost {
		return 0, vcfault.New(vcfault.ReasonMarkLimit, true, "vCenter has %d custom attributes for VMs, so the server makes no more, because nothing removes them: use one of them in spec.customAttributes, or let an administrator of vCenter make %q.", n, name)
	}
	res, err := methods.AddCustomFieldDef(ctx, s.Vim, &types.AddCustomFieldDef{This: manager, Name: name, MoType: session.VMType})
	v.fields.write(nil, nil) // in any case there is a definition that is not remembered
	if err == nil {
		return res.Returnval.Key, nil
	}
	if !vcfault.Has[*types.DuplicateName](err) {
		return 0, err
	}
	if defs, err = v.fieldDefs(ctx, s, manager); err != nil {
		return 0, err
	}
	if def := defOf(defs, name); def != nil {
		return def.Key, nil
	}
	of := "something else"
	if i := slices.IndexFunc(defs, func(d types.CustomFieldDef) bool { return d.Name == name }); i >= 0 {
		of = defs[i].ManagedObjectType
	}
	return 0, vcfault.New(vcfault.ReasonAttributeConflict, true, "The custom attribute %q exists already, but for objects of type %s, not for VMs: use another name in spec.customAttributes, or rename that one in vCenter.", name, of)
}

// attributesMost bounds the definitions of VMs' attributes that vCenter has when the server makes one. They stay when no VM has a value any
// more, because others may use them by then, and nothing in vCenter tells who made one: each edit of spec.customAttributes might leave
// twenty behind. An administrator may make any number.
const attributesMost = 100

func attributesOf(defs []types.CustomFieldDef) (n int) {
	for _, def := range defs {
		if def.ManagedObjectType == session.VMType {
			n++
		}
	}
	return n
}

// defOf returns the definition of a VM's attribute of that name, preferring one for VMs to one for all kinds of objects; or nil.
func defOf(defs []types.CustomFieldDef, name string) *types.CustomFieldDef {
	for _, kind := range []string{session.VMType, ""} {
		if i := slices.IndexFunc(defs, func(d types.CustomFieldDef) bool { return d.Name == name && d.ManagedObjectType == kind }); i >= 0 {
			return &defs[i]
		}
	}
	return nil
}

// fieldDefs returns the definitions of all attributes.
func (v *VCenter) fieldDefs(ctx context.Context, s *session.Session, manager types.ManagedObjectReference) ([]types.CustomFieldDef, error) {
	if defs, known := v.fields.read(s); known {
		return defs, nil
	}
	o, err := session.ReadProps(ctx, s, manager, "field")
	if err != nil {
		return nil, err
	}
	defs := session.Prop[types.ArrayOfCustomFieldDef](o, "field").CustomFieldDef
	v.fields.write(s, defs)
	return defs, nil
}
