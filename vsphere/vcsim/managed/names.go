package managed

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// place is a name in a folder. vCenter lets only one VM or folder have it, and does not distinguish upper and lower case.
// (No page of VMware's says so; what people met does: https://github.com/vmware/terraform-provider-vsphere/issues/567.)
type place struct {
	folder types.ManagedObjectReference
	name   string
}

// key is the same for all places that are one.
func (p place) key() place { return place{p.folder, strings.ToLower(p.name)} }

// reserve takes a name for a VM that is being made, until release. If another one that is being made
// has it, the fault is DuplicateName with that one's reference: nobody can read it, as in a real
// vCenter. (There the VM gets this very reference in the end; here another.)
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

// taken answers DuplicateName if a child of the folder has the name. Pass the child that may have it,
// or nil. The caller holds the world.
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

// free answers DuplicateName if the name is a child's, or that of a VM that is being made.
func (v *Objects) free(p place, but *types.ManagedObjectReference) types.BaseMethodFault {
	v.mu.Lock()
	holder, ok := v.reserved[p.key()]
	v.mu.Unlock()
	if ok {
		return &types.DuplicateName{Name: p.name, Object: holder}
	}
	return v.taken(p, but)
}

// escape writes a name as vCenter keeps it: [doc] ManagedEntity.name: %, / and \ are escaped.
func escape(name string) string {
	for _, c := range []string{"%", "/", `\`} {
		name = strings.ReplaceAll(name, c, strings.ToLower(url.QueryEscape(c)))
	}
	return name
}
