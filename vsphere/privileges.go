// This file names the privilege that a refused step lacked. vCenter does not always name it: the fault of a task may say System.Modify, or
// nothing. role.CouldLack knows which privileges the call can need, and vCenter tells which of these the account lacks on the object.

package vsphere

import (
	"cmp"
	"context"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// namePrivileges rewrites an error about a missing privilege, so that it names the privilege and the path of the object. If vCenter does not
// answer, it returns the error unchanged.
func (c calls) namePrivileges(ctx context.Context, a plan.Action, method string, e *vcfault.Error) *vcfault.Error {
	lacks := vcfault.LacksIn(e.Err)
	if e.Reason != vcfault.ReasonMissingPrivilege || len(lacks) == 0 {
		return e
	}
	var texts []string
	for _, l := range lacks {
		path := c.privilegePath(ctx, a, l.On)
		for _, id := range c.missingPrivileges(ctx, method, l) {
			texts = append(texts, vcfault.Lack{ID: id, On: l.On}.Text(path))
		}
	}
	named := *e
	named.Message = vcfault.LackMessage(texts)
	return &named
}

// missingPrivileges returns the privilege that vCenter names. If vCenter names none, or one that every role has, missingPrivileges returns those
// that the call can need and the account lacks on the object.
func (c calls) missingPrivileges(ctx context.Context, method string, l vcfault.Lack) []string {
	if l.ID != "" && !strings.HasPrefix(l.ID, "System.") {
		return []string{l.ID}
	}
	on := cmp.Or(l.On, &types.ManagedObjectReference{})
	could := role.CouldLack(method, on.Type)
	if len(could) == 0 {
		return []string{l.ID}
	}
	var held map[string]bool
	if l.On != nil {
		_ = c.Call(ctx, func(ctx context.Context, s *session.Session) error { // if this fails, any of them may be missing
			all, err := session.HeldPrivileges(ctx, s, []types.ManagedObjectReference{*on})
			held = all[*on]
			return err
		})
	}
	var all, needed []string
	for _, p := range could {
		if held == nil || held[p.ID] {
			continue
		}
		all = append(all, p.ID)
		if p.Needed() {
			needed = append(needed, p.ID)
		}
	}
	switch {
	case len(needed) > 0: // nothing works without these; the others may not be needed
		return needed
	case len(all) > 0:
		return all
	}
	ids := make([]string, len(could))
	for i, p := range could {
		ids[i] = p.ID
	}
	return []string{strings.Join(ids, " or ")}
}

// privilegePath returns the path of the object that a privilege is missing on. For a member it names the folder, because the privilege should be
// granted there.
func (c calls) privilegePath(ctx context.Context, a plan.Action, on *types.ManagedObjectReference) string {
	switch {
	case on == nil:
		return ""
	case on.Type == "VirtualMachine" && on.Value != plan.ArgsOf[plan.CloneArgs](a.Args).Template:
		m, path, _ := c.inventory.Holder(on.Value)
		if m == nil {
			_, path, _ = c.inventory.Holder(a.Folder())
			path += "/"
		}
		return "the VMs in " + path[:strings.LastIndexByte(path, '/')]
	}
	path := ""
	_ = c.Call(ctx, func(ctx context.Context, s *session.Session) (err error) { // if this fails, the message has the moRef
		path, err = session.PathOf(ctx, s, *on)
		return err
	})
	return path
}
