package rights

import (
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Rights are what the clients may do and see. What is said of them does not hold for Admin.
type Rights struct {
	world   *world.World
	objects *simulator.Registry // of the world

	mu     sync.Mutex        // guards what follows
	role   *role             // what the clients may do; nil: everything
	denied map[string]string // privilege by method
	hidden map[types.ManagedObjectReference]bool
}

// New lets the clients do and see everything.
func New(w *world.World) *Rights {
	return &Rights{world: w, objects: w.Objects, denied: make(map[string]string), hidden: make(map[types.ManagedObjectReference]bool)}
}

// Deny takes a privilege away: the SOAP method answers NoPermission, naming it, until Allow.
func (v *Rights) Deny(method, privilege string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.denied[method] = privilege
}

// Allow gives back what Deny took.
func (v *Rights) Allow(method string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.denied, method)
}

// AllowAll gives back all that Deny took.
func (v *Rights) AllowAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.denied)
}

// IsDenied names the privilege that Deny took for a method, if it did.
func (v *Rights) IsDenied(method string) (privilege string, denied bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	privilege, denied = v.denied[method]
	return privilege, denied
}

// Admit says why a client's call may not pass.
func (v *Rights) Admit(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	if ctx.Session == nil {
		return nil // who has not logged in learns nothing about rights
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
