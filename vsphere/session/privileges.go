package session

import (
	"context"
	"errors"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// errNoAuthority means that vCenter has no service to ask for privileges.
var errNoAuthority = errors.New("vCenter has no AuthorizationManager")

// HeldPrivileges asks vCenter which privileges the account holds on objects, by its own permissions or those of its groups.
// [doc] AuthorizationManager.FetchUserPrivilegeOnEntities: System.View on the entities is required.
func HeldPrivileges(ctx context.Context, s *Session, on []types.ManagedObjectReference) (map[types.ManagedObjectReference]map[string]bool, error) {
	manager := s.Vim.ServiceContent.AuthorizationManager
	if manager == nil {
		return nil, errNoAuthority
	}
	res, err := methods.FetchUserPrivilegeOnEntities(ctx, s.Vim, &types.FetchUserPrivilegeOnEntities{This: *manager, Entities: on, UserName: s.User})
	if err != nil {
		return nil, err
	}
	held := map[types.ManagedObjectReference]map[string]bool{}
	for _, r := range res.Returnval {
		held[r.Entity] = map[string]bool{}
		for _, id := range r.Privileges {
			held[r.Entity][id] = true
		}
	}
	return held, nil
}
