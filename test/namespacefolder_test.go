package test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const namespaceFolder = "/DC0/vm/vm-operator/default"

func TestANamespacesFolderIsRemovedWithItsLastGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(*rig, *serverReplica)
		stays     bool
	}{
		"alone": {func(*rig, *serverReplica) {}, false},
		"another group exists": {func(_ *rig, s *serverReplica) {
			up(s.rig.t, s.group("db", 1))
		}, true},
		"it contains an operator's folder": {func(r *rig, _ *serverReplica) {
			ref, err := r.Find(namespaceFolder)
			r.must(err)
			_, err = object.NewFolder(r.admin.Client, ref).CreateFolder(context.Background(), "kept")
			r.must(err)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{})
				server := r.serve()
				g := server.group("web", 1)
				up(t, g)
				c.meanwhile(r, server)
				remove(t, g)
				time.Sleep(10 * time.Second) // the deletion does not wait for it
				if _, err := r.Find(namespaceFolder); (err == nil) != c.stays {
					t.Errorf("the folder exists: %v", err == nil)
				}
			})
		})
	}
}

// The other replica doesn't know of the deletion, nor this one of the new group.
func TestAGroupCreatedWhileItsNamespacesFolderIsRemovedLosesNothing(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{0, 200 * time.Millisecond, 700 * time.Millisecond, 1100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, vcsim.Config{})
			one, other := r.serve(), r.serve()
			g, db := one.group("web", 1), other.group("db", 3)
			up(t, g)
			done := make(chan struct{})
			go func() {
				defer close(done)
				remove(t, g)
			}()
			before := r.Calls()["UnregisterAndDestroy_Task"]
			eventually(t, patience, "the group's folder is removed", func() bool { return r.Calls()["UnregisterAndDestroy_Task"] > before })
			time.Sleep(late)
			up(t, db)
			<-done
			equal(t, r.names(namespaceFolder+"/db"), []string{"db-0+", "db-1+", "db-2+"})
			if kept := r.Unregistered(); len(kept) > 0 || len(r.members()) != 3 {
				t.Errorf("after %s: %v were unregistered; %d members", late, kept, len(r.members()))
			}
			remove(t, db)
		})
	}
}
