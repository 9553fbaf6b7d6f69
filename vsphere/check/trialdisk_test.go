package check

import (
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// diskRows are the experiments with a first-class disk.
var diskRows = []string{"deep: disk that says whose it is", "deep: disk in one VM", "deep: disk that outlives its VM"}

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
