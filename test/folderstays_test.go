package test

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// vCenter may refuse to remove a group's folder: the plain simulator has no UnregisterAndDestroy_Task, and an account may lack the privilege.
func TestADeletionEndsThoughTheFolderCannotBeRemoved(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		up(t, g)
		r.Deny("UnregisterAndDestroy_Task", "Folder.Delete")
		_, err := g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, "but refuses to remove it") && strings.Contains(a.Status.LastMessage, "the deletion completes anyway")
		})
		r.must(err)
		began := time.Now()
		_, err = g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Finalized })
		r.must(err)
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("the deletion took another %s; want at most %s", took, 2*time.Minute)
		}
		if n := len(r.members()); n > 0 {
			t.Errorf("%d members are left; want none", n)
		}
	})
}

func TestAGroupsFolderThatAnOperatorRenamedIsKept(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		up(t, g)
		ref, err := r.Find(web)
		r.must(err)
		r.task(object.NewFolder(r.admin.Client, ref).Rename(context.Background(), "web-old"))
		time.Sleep(5 * time.Second) // until the server has seen the new name
		g.Scale(3)                  // the server creates the group's folder again for the next member
		up(t, g)
		equal(t, r.names(web), []string{"web-2+"})
		remove(t, g)
		if left := r.members(); len(left) > 0 {
			t.Errorf("%v outlive the group; want none", left)
		}
		if _, err := r.Find(path.Dir(web) + "/web-old"); err != nil {
			t.Error(err)
		}
		if _, err := r.Find(web); err == nil {
			t.Error("the group's folder is left behind")
		}
	})
}
