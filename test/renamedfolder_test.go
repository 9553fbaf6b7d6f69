package test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const renamed = namespaceFolder + "/web-old"

// renameFolder gives a folder another name, as an operator does, and waits until the server has seen it.
func (r *rig) renameFolder(path, name string) {
	r.t.Helper()
	ref, err := r.Find(path)
	r.must(err)
	r.task(object.NewFolder(r.admin.Client, ref).Rename(context.Background(), name))
	time.Sleep(5 * time.Second)
}

func TestAGroupsFolderThatSomebodyRenamedGoesWithTheGroup(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*rig, *serverReplica, *metacontroller.Group){
		"its members are in it": func(*rig, *serverReplica, *metacontroller.Group) {},
		"its members were made again in a new folder, and the server restarted": func(r *rig, s *serverReplica, g *metacontroller.Group) {
			g.Scale(0)
			up(r.t, g)
			g.Scale(2)
			up(r.t, g)
			equal(r.t, r.names(web), running(2))
			s.stop()
			g.URL = r.serve().url
			up(r.t, g)
		},
		"somebody renamed the next one, too": func(r *rig, _ *serverReplica, g *metacontroller.Group) {
			g.Scale(3)
			up(r.t, g)
			r.renameFolder(web, "web-older")
			g.Scale(4)
			up(r.t, g)
		},
		"another replica removes the group": func(r *rig, _ *serverReplica, g *metacontroller.Group) { g.URL = r.serve().url },
		"it has a quarantine": func(r *rig, _ *serverReplica, _ *metacontroller.Group) {
			_, err := r.MakeFolder(renamed + "/quarantine")
			r.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{})
				server := r.serve()
				g := server.group("web", 2)
				up(t, g)
				r.renameFolder(web, "web-old")
				up(t, g)
				meanwhile(r, server, g)
				remove(t, g)
				time.Sleep(10 * time.Second)
				if ref, err := r.Find(namespaceFolder); err == nil {
					inside, _ := object.NewFolder(r.admin.Client, ref).Children(context.Background())
					t.Errorf("the namespace's folder stays, with %v", inside)
				}
			})
		})
	}
}

func TestARenamedFolderThatMayBeSomebodyElsesStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path      string
		meanwhile func(*rig, *serverReplica)
	}{
		"a VM is in it": {renamed, func(r *rig, _ *serverReplica) { r.unmanaged(renamed, "precious") }},
		"a folder is in it": {renamed, func(r *rig, _ *serverReplica) {
			_, err := r.MakeFolder(renamed + "/kept")
			r.must(err)
		}},
		"it has an attribute": {renamed, func(r *rig, _ *serverReplica) {
			fields, err := object.GetCustomFieldsManager(r.admin.Client)
			r.must(err)
			field, err := fields.Add(context.Background(), "owner", "Folder", nil, nil)
			r.must(err)
			ref, err := r.Find(renamed)
			r.must(err)
			r.must(fields.Set(context.Background(), ref, field.Key, "ops"))
		}},
		"it was moved, too": {"/DC0/vm/attic/web-old", func(r *rig, _ *serverReplica) {
			attic, err := r.MakeFolder("/DC0/vm/attic")
			r.must(err)
			ref, err := r.Find(renamed)
			r.must(err)
			r.task(object.NewFolder(r.admin.Client, attic).MoveInto(context.Background(), []types.ManagedObjectReference{ref}))
		}},
		"it has another group's name now": {namespaceFolder + "/db", func(r *rig, s *serverReplica) {
			r.renameFolder(renamed, "db")
			up(r.t, s.group("db", 0))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{})
				server := r.serve()
				g := server.group("web", 1)
				up(t, g)
				r.renameFolder(web, "web-old")
				up(t, g)
				c.meanwhile(r, server)
				time.Sleep(5 * time.Second)
				up(t, g)
				remove(t, g)
				time.Sleep(10 * time.Second)
				if _, err := r.Find(c.path); err != nil {
					t.Errorf("the folder is gone: %v", err)
				}
			})
		})
	}
}

func TestAFolderThatTheServerDidNotMakeStaysOnceItIsRenamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{})
		server := r.serve()
		time.Sleep(5 * time.Second) // the server makes the root folder
		_, err := r.MakeFolder(web)
		r.must(err)
		time.Sleep(5 * time.Second)
		g := server.group("web", 1)
		if up(t, g); len(g.Status.Folders) > 0 {
			t.Errorf("the status says that the server made %v", g.Status.Folders)
		}
		r.renameFolder(web, "web-old")
		g.Scale(2)
		up(t, g)
		remove(t, g)
		time.Sleep(10 * time.Second)
		if _, err := r.Find(renamed); err != nil {
			t.Errorf("the operator's folder is gone: %v", err)
		}
	})
}

// After a restore of its database, vCenter gives out the same moRefs again.
func TestAMoRefThatIsAnotherFoldersAfterARestoreIsNotRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{})
		g := r.serve().group("web", 1)
		up(t, g)
		theirs, err := r.MakeFolder("/DC0/vm/rescued")
		r.must(err)
		inside, err := r.MakeFolder("/DC0/vm/rescued/default/web-0")
		r.must(err)
		time.Sleep(5 * time.Second)
		g.Status.Folders = append(g.Status.Folders, theirs.Value, inside.Value)
		if up(t, g); len(g.Status.Folders) != 3 {
			t.Fatalf("the status names %v", g.Status.Folders)
		}
		remove(t, g)
		time.Sleep(10 * time.Second)
		if now, err := r.Find("/DC0/vm/rescued/default/web-0"); err != nil || now != inside {
			t.Errorf("the operator's folder is gone: %v", err)
		}
	})
}

func TestTheStatusNamesTheFoldersThatTheServerMadeAndWritesNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{})
		one, other := r.serve(), r.serve()
		g := one.group("web", 1)
		up(t, g)
		first, err := r.Find(web)
		r.must(err)
		equal(t, g.Status.Folders, []string{first.Value})
		up(t, other.group("db", 1)) // it knows the folders by now
		writes := g.Writes
		for range 4 {
			for _, s := range []*serverReplica{other, one} {
				upAt(t, g, s.url)
			}
		}
		if g.Writes != writes {
			t.Errorf("%d more writes of the status", g.Writes-writes)
		}
		r.renameFolder(web, "web-old")
		g.Scale(2)
		up(t, g)
		second, err := r.Find(web)
		r.must(err)
		equal(t, g.Status.Folders, []string{first.Value, second.Value})
		r.task(object.NewFolder(r.admin.Client, first).Rename(context.Background(), "gone"))
		r.must(r.Move("/DC0/vm/vm-operator/default/gone/web-0", web))
		r.task(object.NewFolder(r.admin.Client, first).Destroy(context.Background()))
		time.Sleep(10 * time.Second)
		up(t, g)
		if slices.Contains(g.Status.Folders, first.Value) {
			t.Errorf("the status still has the one that somebody removed: %v", g.Status.Folders)
		}
	})
}
