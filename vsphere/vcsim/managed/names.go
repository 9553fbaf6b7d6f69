package managed

import (
	"fmt"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// place is a name in a folder. In vCenter only one VM or folder can have it, regardless of case (undocumented; see
// https://github.com/vmware/terraform-provider-vsphere/issues/567).
type place struct {
	folder types.ManagedObjectReference
	name   string
}

// key is equal for names that conflict.
func (p place) key() place { return place{p.folder, strings.ToLower(p.name)} }

// reserve reserves a name for a VM in creation, until release. If another one has reserved it, the fault is DuplicateName with a reference
// that cannot be read, as in a real vCenter. (There the other VM gets this reference in the end; here it gets another.)
func (v *Objects) reserve(p place) (release func(), fault types.BaseMethodFault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if holder, ok := v.reserved[p.key()]; ok {
		return nil, &types.DuplicateName{Name: p.name, Object: holder}
	}
	v.reserved[p.key()] = types.ManagedObjectReference{Type: "VirtualMachine", Value: fmt.Sprintf("vm-%d", 1_000_000+v.world.NextID())}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.reserved, p.key())
	}, nil
}

// taken returns DuplicateName if a child of the folder other than but has the name. The caller holds the world lock.
func (v *Objects) taken(p place, but *types.ManagedObjectReference) types.BaseMethodFault {
	f, ok := v.objects.Get(p.folder).(*simulator.Folder)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: p.folder}
	}
	for _, ref := range f.ChildEntity {
		child, ok := v.objects.Get(ref).(mo.Entity)
		if ok && strings.EqualFold(child.Entity().Name, p.name) && (but == nil || ref != *but) {
			return &types.DuplicateName{Name: p.name, Object: ref}
		}
	}
	return nil
}

// free returns DuplicateName if a child other than but, or a VM in creation, has the name.
func (v *Objects) free(p place, but *types.ManagedObjectReference) types.BaseMethodFault {
	v.mu.Lock()
	holder, ok := v.reserved[p.key()]
	v.mu.Unlock()
	if ok {
		return &types.DuplicateName{Name: p.name, Object: holder}
	}
	return v.taken(p, but)
}
