package check

import (
	"slices"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// diskRows are the experiments with a first-class disk.
var diskRows = []string{"deep: disk that says whose it is", "deep: disk in one VM", "deep: disk that grows", "deep: disk that outlives its VM"}

func TestDeepCheckTriesNoDiskWithoutThePrivilegesAndSaysSo(t *testing.T) {
	for privilege, says := range map[string]string{privFiles: "needs " + privFiles + " on the VM's datastore", "VirtualMachine.Config.AddExistingDisk": "needs VirtualMachine.Config.AddExistingDisk"} {
		t.Run(privilege, func(t *testing.T) {
			inDeepWorld(t, func(t *testing.T, w *world) {
				w.Restrict(slices.DeleteFunc(roleIDs(), func(id string) bool { return id == privilege })...)
				r := w.checked(nil, deepOptions)
				r.has(diskRows[0], Skip, says, "")
				for _, row := range diskRows[1:] {
					r.has(row, Skip, "no first-class disk", "")
				}
				if n := w.Calls()["CreateDisk_Task"]; n > 0 {
					t.Errorf("%d disks were created", n)
				}
				w.clean()
			})
		})
	}
}

func TestDeepCheckTriesNoDiskOnAnOldVCenter(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.checked(nil, deepOptions).has(diskRows[0], Skip, "7.0 U2", "")
		w.clean()
	}, func(c *vcsim.Config) { c.APIVersion = "7.0.1.0" })
}

func TestDeepCheckSeesTheSecondVMRefusedAtItsPowerOn(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.AllowSecondAttach(true)
		r := w.checked(nil, deepOptions)
		r.has("deep: disk in one VM", OK, "refused when it was to be powered on", "")
		r.has("deep: disk that outlives its VM", OK, "outlived", "")
		w.clean()
	})
}

func TestDeepCheckWarnsWhereRunningVMsKeepTheirDisksSize(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.RefuseOnlineExtend(true)
		w.checked(nil, deepOptions).has("deep: disk that grows", Warn, "refused in one that runs", "7.0 U2")
		w.clean()
	})
}

func TestATrialsDiskGetsAFreeUnitOfASCSIController(t *testing.T) {
	t.Parallel()
	var devices []types.BaseVirtualDevice
	if at, found := freePlace(devices); found {
		t.Errorf("without a controller: %+v", at)
	}
	controller := &types.ParaVirtualSCSIController{}
	controller.Key = 1000
	devices = append(devices, controller)
	for _, want := range []int32{0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15} {
		at, found := freePlace(devices)
		if !found || at.Controller != 1000 || at.Unit != want {
			t.Fatalf("got %+v, %t, want unit %d", at, found, want)
		}
		unit := at.Unit
		devices = append(devices, &types.VirtualDisk{VirtualDevice: types.VirtualDevice{ControllerKey: 1000, UnitNumber: &unit}})
	}
	if at, found := freePlace(devices); found {
		t.Errorf("on a full controller: %+v", at)
	}
}
