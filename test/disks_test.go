package test

import (
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// A backup leaves snapshots, and an operator moves a disk: the server keeps a disk that isn't the member's, or may not be, destroys the member's own disks
// together with the member's VM, and a message says what the operator must do.
func TestAnotherVMsDiskSurvivesSnapshotsStorageVMotionAndDeletion(t *testing.T) {
	inRig(t, vcsim.Config{Datastores: 2}, func(t *testing.T, r *rig) {
		g := r.serve(func(c *vsphere.Config, _ *loop.Config) { c.Datastore = "LocalDS_0" }).group("web", 2)
		up(t, g)
		_, err := r.AddVM("/DC0/vm", "db")
		r.must(err)
		_, err = r.AttachDisk("db", web+"/web-1")
		r.must(err)
		for _, name := range []string{"web-0", "web-1"} {
			_, err = r.AddSnapshot(web+"/"+name, "a backup")
			r.must(err)
		}

		g.Scale(1)
		says(t, g, v1alpha1.PhaseError, "a disk from elsewhere ([LocalDS_0] db/db.vmdk) is part of a snapshot, so vCenter does not detach it, and would delete it with the VM: remove the snapshots of web-1")
		r.must(r.RemoveSnapshots(web + "/web-1"))
		began := time.Now()
		up(t, g)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the scale-in took another %s after the snapshots were removed; want at most %s", took, 30*time.Second)
		}

		own := r.details(web + "/web-0").Disks[0]
		r.must(r.MoveDisk(web+"/web-0", own.Key, "/DC0/datastore/LocalDS_1"))
		g.Generation++ // the record of the disk has no uuid, so nothing shows whose a disk in another directory is: it is kept
		_, err = g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool {
			return a.Status.Phase == v1alpha1.PhaseError && strings.Contains(a.Status.LastMessage, "a disk from elsewhere ([LocalDS_1] web-0/web-0.vmdk) is part of a snapshot")
		})
		r.must(err)
		r.must(r.RemoveSnapshots(web + "/web-0"))
		remove(t, g)
		if disks := r.details("db").Disks; len(disks) != 1 || len(r.names(web)) != 0 {
			t.Errorf("the VM db has the disks %+v; VMs left in the group's folder: %v", disks, r.names(web))
		}
	})
}
