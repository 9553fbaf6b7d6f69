package rights

import (
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Rights are the permissions of the clients, without Admin.
type Rights struct {
	world   *world.World
	objects *simulator.Registry // of the world

	mu     sync.Mutex        // guards what follows
	role   *role             // nil: all privileges
	denied map[string]string // privilege by method
	hidden map[types.ManagedObjectReference]bool
}

// New grants the clients everything.
func New(w *world.World) *Rights {
	return &Rights{world: w, objects: w.Objects, denied: make(map[string]string), hidden: make(map[types.ManagedObjectReference]bool)}
}

// Deny denies a SOAP method until Allow: it returns NoPermission with this privilege.
func (v *Rights) Deny(method, privilege string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.denied[method] = privilege
}

// Allow undoes Deny.
func (v *Rights) Allow(method string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.denied, method)
}

// AllowAll undoes Deny for all methods.
func (v *Rights) AllowAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.denied)
}

// IsDenied returns the privilege that Deny named for a method, if any.
func (v *Rights) IsDenied(method string) (privilege string, denied bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	privilege, denied = v.denied[method]
	return privilege, denied
}

// Admit returns the fault if a client's call is not permitted, or nil.
func (v *Rights) Admit(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	if ctx.Session == nil {
		return nil // NotAuthenticated comes first
	}
	if hidden, ok := v.hiddenArgument(m); ok {
		return &types.NoPermission{Object: &hidden, PrivilegeId: "System.View"}
	}
	if privilege, denied := v.IsDenied(m.Name); denied {
		this := m.This
		return &types.NoPermission{Object: &this, PrivilegeId: privilege}
	}
	return v.forbidden(m)
}
