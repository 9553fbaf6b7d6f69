// Package attributes finds and creates the definitions of vCenter's custom attributes, and finds a VM's values of them.
//
// Locks: Cache.mu guards the fields of a Cache. It is taken alone, and not held across a call.
package attributes

import (
	"context"
	"slices"
	"sync"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Cache caches the definitions of custom attributes for one session.
type Cache struct {
	mu   sync.Mutex
	of   *session.Session
	defs []types.CustomFieldDef // immutable
}

func (b *Cache) read(s *session.Session) ([]types.CustomFieldDef, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.defs, b.of == s
}

func (b *Cache) write(s *session.Session, defs []types.CustomFieldDef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of, b.defs = s, defs
}

// Forget drops the definitions: they are read again when they are needed.
func (b *Cache) Forget() { b.write(nil, nil) }

// Find returns the key of the attribute for VMs of that name, and whether there is one.
func (b *Cache) Find(ctx context.Context, s *session.Session, manager types.ManagedObjectReference, name string) (key int32, is bool, err error) {
	defs, err := b.all(ctx, s, manager)
	if err != nil {
		return 0, false, err
	}
	if def := defOf(defs, name); def != nil {
		return def.Key, true, nil
	}
	return 0, false, nil
}

// Key returns the key of the attribute for VMs of that name. It creates the attribute if there is none, and uses that of another replica that
// creates it at the same time.
func (b *Cache) Key(ctx context.Context, s *session.Session, manager types.ManagedObjectReference, name string) (int32, error) {
	defs, err := b.all(ctx, s, manager)
	if err != nil {
		return 0, err
	}
	if def := defOf(defs, name); def != nil {
		return def.Key, nil
	}
	if n := countVMAttributes(defs); n >= MaxForVMs {
		return 0, vcfault.ForOperator(vcfault.ReasonMarkLimit, "vCenter has %d custom attributes for VMs, so the server creates no more, because it never removes one: use one of them in spec.customAttributes, or let an administrator of vCenter create %q.", n, name)
	}
	res, err := methods.AddCustomFieldDef(ctx, s.Vim, &types.AddCustomFieldDef{This: manager, Name: name, MoType: session.VMType})
	b.Forget() // the cached definitions lack this one, whether this call or another replica made it
	if err == nil {
		return res.Returnval.Key, nil
	}
	if !vcfault.Has[*types.DuplicateName](err) {
		return 0, err
	}
	if defs, err = b.all(ctx, s, manager); err != nil {
		return 0, err
	}
	if def := defOf(defs, name); def != nil {
		return def.Key, nil
	}
	of := "something else"
	if i := slices.IndexFunc(defs, func(d types.CustomFieldDef) bool { return d.Name == name }); i >= 0 {
		of = defs[i].ManagedObjectType
	}
	return 0, vcfault.ForOperator(vcfault.ReasonAttributeConflict, "The custom attribute %q exists already, but for objects of type %s, not for VMs: use another name in spec.customAttributes, or rename that one in vCenter.", name, of)
}

// MaxForVMs bounds the attributes for VMs up to which the server creates another. The server never deletes one: vCenter does not record who
// created an attribute, and others may use it by then. Each edit of spec.customAttributes could leave twenty behind. An administrator can create
// any number.
const MaxForVMs = 100

func countVMAttributes(defs []types.CustomFieldDef) (n int) {
	for _, def := range defs {
		if def.ManagedObjectType == session.VMType {
			n++
		}
	}
	return n
}

// defOf returns the definition of an attribute that VMs can have, or nil. It prefers an attribute for VMs to one for all types of objects.
func defOf(defs []types.CustomFieldDef, name string) *types.CustomFieldDef {
	for _, kind := range []string{session.VMType, ""} {
		if i := slices.IndexFunc(defs, func(d types.CustomFieldDef) bool { return d.Name == name && d.ManagedObjectType == kind }); i >= 0 {
			return &defs[i]
		}
	}
	return nil
}

// all returns the definitions of all attributes, from the cache or from vCenter.
func (b *Cache) all(ctx context.Context, s *session.Session, manager types.ManagedObjectReference) ([]types.CustomFieldDef, error) {
	if defs, known := b.read(s); known {
		return defs, nil
	}
	var defs types.ArrayOfCustomFieldDef
	if _, err := session.ReadProps(ctx, s, manager, session.To("field", &defs)); err != nil {
		return nil, err
	}
	b.write(s, defs.CustomFieldDef)
	return defs.CustomFieldDef, nil
}

// ValueOf returns the VM's value of an attribute; empty if it has none.
func ValueOf(have []types.BaseCustomFieldValue, key int32) string {
	for _, value := range have {
		if s, is := value.(*types.CustomFieldStringValue); is && s.Key == key {
			return s.Value
		}
	}
	return ""
}
