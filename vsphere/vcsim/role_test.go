package vcsim_test

import (
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestRestrictedRoleGetsNoPermission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		folder, err := v.Find("/DC0/vm")
		if err != nil {
			t.Fatal(err)
		}
		create := func(c *object.Folder, name string) error {
			_, err := c.CreateFolder(t.Context(), name)
			return err
		}
		client := object.NewFolder(login(t, v).Client.Client, folder)
		refused := func(name string) {
			t.Helper()
			var denied *types.NoPermission
			if _, is := fault.As(create(client, name), &denied); !is || denied.PrivilegeId != "Folder.Create" || *denied.Object != folder {
				t.Errorf("%s: got the fault %+v", name, denied)
			}
		}
		v.Restrict("Folder.Delete")
		refused("a")
		if err := create(object.NewFolder(v.Admin().Client, folder), "admin"); err != nil {
			t.Errorf("the admin's call fails: %v", err)
		}
		v.Restrict("Folder.Create")
		if err := create(client, "b"); err != nil {
			t.Errorf("the call fails: %v", err)
		}
		dc, err := v.Find("/DC0")
		if err != nil {
			t.Fatal(err)
		}
		v.Withdraw("Folder.Create", dc)
		refused("c")
		held, err := object.NewAuthorizationManager(client.Client()).FetchUserPrivilegeOnEntities(t.Context(), []types.ManagedObjectReference{folder, client.Client().ServiceContent.RootFolder}, "user")
		if err != nil || len(held) != 2 || len(held[0].Privileges) != 3 || len(held[1].Privileges) != 4 {
			t.Errorf("got the privileges %+v, %v", held, err)
		}
		v.Unrestrict()
		if err := create(client, "d"); err != nil {
			t.Errorf("the call fails: %v", err)
		}
	})
}
