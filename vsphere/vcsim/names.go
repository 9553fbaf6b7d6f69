package vcsim

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// place is a name in a folder. vCenter lets only one VM or folder have it.
type place struct {
	folder types.ManagedObjectReference
	name   string
}

// reserve takes a name for a VM that is being made, until release. If another one that is being made
// has it, the fault is DuplicateName with that one's reference: nobody can read it, as in a real
// vCenter. (There the VM gets this very reference in the end; here another.)
func (v *VCenter) reserve(p place) (release func(), fault types.BaseMethodFault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if holder, ok := v.reserved[p]; ok {
		return nil, &types.DuplicateName{Name: p.name, Object: holder}
	}
	v.nextID++
	v.reserved[p] = types.ManagedObjectReference{Type: "VirtualMachine", Value: fmt.Sprintf("vm-%d", 1_000_000+v.nextID)}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.reserved, p)
	}, nil
}

// taken answers DuplicateName if a child of the folder has the name. Pass the child that may have it,
// or nil. The caller holds the world.
func (v *VCenter) taken(p place, but *types.ManagedObjectReference) types.BaseMethodFault {
	f, ok := v.objects.Get(p.folder).(*simulator.Folder)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: p.folder}
	}
	if child := v.objects.FindByName(p.name, f.ChildEntity); child != nil && (but == nil || child.Reference() != *but) {
		return &types.DuplicateName{Name: p.name, Object: child.Reference()}
	}
	return nil
}

// free answers DuplicateName if the name is a child's, or that of a VM that is being made.
func (v *VCenter) free(p place, but *types.ManagedObjectReference) types.BaseMethodFault {
	v.mu.Lock()
	holder, ok := v.reserved[p]
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
