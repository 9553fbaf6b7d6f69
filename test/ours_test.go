package test

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// VMs that the server created or adopted stay members, whatever admins do to them and whatever the server forgets.

// instances returns the instanceUuids of the VMs of a group, sorted.
func (r *rig) instances(g *metacontroller.Group) (all []string) {
	for _, vm := range r.VMs() {
		if isOfGroup(g)(vm) && !vm.Template {
			all = append(all, vm.InstanceUUID)
		}
	}
	slices.Sort(all)
	return all
}

// forget makes the group's status and children empty, as after a restore of the object alone.
func forget(g *metacontroller.Group) {
	g.Status, g.Children = v1alpha1.VmGroupStatus{}, nil
}

// A clone for which two replicas raced: an admin renames a new member before the other replica sees it, so its name is free, and the other replica makes a
// second one. The one that never ran must go, and the one that runs must stay.
func TestACloneForWhichTwoReplicasRacedIsDestroyed(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		r.neverTwo()
		a, b := r.serveWired(), r.serveWired()
		g := a.group("web", 1)
		up(t, g)
		upAt(t, g, b.url)
		resume := r.stallUpdates(b)
		g.URL = a.url
		g.Scale(2)
		r.one(g)
		eventually(t, patience, "the first web-1 exists", func() bool { return r.vm(webFolder+"web-1") != nil })
		first := r.details(webFolder + "web-1").InstanceUUID
		r.must(r.Rename(webFolder+"web-1", "renamed"))
		g.URL = b.url
		r.one(g)
		eventually(t, patience, "the other replica clones a second web-1", func() bool { return r.Calls()["CloneVM_Task"] == 3 })
		time.Sleep(lifetimes.Clone + time.Second)
		resume()
		g.URL = a.url
		until(t, g, "one of the two is left", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && a.Status.ReadyReplicas == 2 && len(a.Status.Members) == 2 && len(r.instances(g)) == 2
		})
		if is := r.instances(g); !slices.Contains(is, first) {
			t.Errorf("the VMs are %v; want %s among them, which ran", is, first)
		}
		remove(t, g)
		if left := r.instances(g); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}

// An admin moves or renames the group's folder while its first clones run. The replica that doesn't run them takes them for the group's too: it has seen
// the folder at its place.
func TestClonesThatRunWhileTheGroupsFolderIsMovedBecomeMembers(t *testing.T) {
	for name, change := range map[string]func(*rig, *object.Folder) error{
		"moved": func(r *rig, f *object.Folder) error {
			_, err := r.MakeFolder("/DC0/vm/attic")
			r.must(err)
			attic, err := r.Find("/DC0/vm/attic")
			r.must(err)
			task, err := object.NewFolder(f.Client(), attic).MoveInto(context.Background(), []vim.ManagedObjectReference{f.Reference()})
			r.must(err)
			return task.Wait(context.Background())
		},
		"renamed": func(r *rig, f *object.Folder) error {
			task, err := f.Rename(context.Background(), "old-web")
			r.must(err)
			return task.Wait(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
				r.neverTwo()
				a, b := r.serve(), r.serve()
				g := a.group("web", 3)
				eventually(t, patience, "three clones run", func() bool { r.one(g); return r.Calls()["CloneVM_Task"] == 3 })
				g.URL = b.url
				r.one(g)
				time.Sleep(5 * time.Second)
				ref, err := r.Find(strings.TrimSuffix(webFolder, "/"))
				r.must(err)
				r.must(change(r, object.NewFolder(r.Admin().Client, ref)))
				until(t, g, "it runs", metacontroller.Running)
				if is := r.instances(g); len(is) != 3 || len(g.Status.Strays) > 0 {
					t.Errorf("the VMs are %v, and the strays are %+v; want 3, and no strays", is, g.Status.Strays)
				}
				remove(t, g)
				if left := r.instances(g); len(left) > 0 {
					t.Errorf("%v are left", left)
				}
			})
		})
	}
}

// A server that ends at any moment before a status is stored has left VMs of which only their stamps, their place and vCenter's events tell. Another server
// must find them, and make no second ones. If an admin has moved them meanwhile, nothing shows that they aren't restored ones: the members get other
// ordinals.
func TestMembersAreFoundThoughTheServerEndsBeforeTheFirstStatus(t *testing.T) {
	t.Parallel()
	for i, after := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 30 * time.Second, 41 * time.Second, 43 * time.Second, 46 * time.Second, 50 * time.Second, 2 * time.Minute} {
		for j, moved := range []bool{false, true} {
			if leftOut(2*i + j) {
				continue
			}
			t.Run(fmt.Sprintf("after %s, moved %t", after, moved), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
					r.neverTwo()
					s := r.serve()
					g := s.group("web", 2)
					for began := time.Now(); time.Since(began) < after; time.Sleep(time.Second) {
						mustSync(t, g)
					}
					s.stop()
					forget(g)
					time.Sleep(2 * time.Minute) // clones that the server began end
					made := r.instances(g)
					if moved {
						for _, vm := range r.VMs() {
							if isOfGroup(g)(vm) {
								_, err := r.MakeFolder("/DC0/vm/attic")
								r.must(err)
								r.must(r.Move(vm.Path, "/DC0/vm/attic"))
							}
						}
					}
					g.URL = r.serve().url
					if moved && len(made) > 0 {
						until(t, g, "the status lists them", func(a metacontroller.Answer) bool { return len(a.Status.Strays) == len(made) })
						up(t, g)
						for _, m := range g.Status.Members {
							if slices.ContainsFunc(g.Status.Strays, func(s v1alpha1.Stray) bool { return s.Ordinal == m.Ordinal }) {
								t.Errorf("%s was cloned again, and a VM of the server's has that ordinal", m.Name)
							}
						}
						return
					}
					up(t, g)
					is := r.instances(g)
					if len(is) != 2 || r.Calls()["CloneVM_Task"] > 2 || !slices.Equal(slices.DeleteFunc(slices.Clone(made), func(id string) bool { return slices.Contains(is, id) }), nil) {
						t.Errorf("the VMs are %v, of which %v existed before; %d clones", is, made, r.Calls()["CloneVM_Task"])
					}
					remove(t, g)
					if left := r.instances(g); len(left) > 0 {
						t.Errorf("%v are left", left)
					}
				})
			})
		}
	}
}

// onMembers are what admins do to a running member, or to the group's folder, after which it is the same member.
var onMembers = map[string]func(*rig) error{
	"renamed": func(r *rig) error { return r.Rename(webFolder+"web-0", "precious") },
	"moved":   func(r *rig) error { return r.Move(webFolder+"web-0", "/DC0/vm/attic") },
	"moved to the datacenter's folder, and renamed": func(r *rig) error {
		if err := r.Move(webFolder+"web-0", "/DC0/vm"); err != nil {
			return err
		}
		return r.Rename("/DC0/vm/web-0", "precious")
	},
	"the folder is renamed": func(r *rig) error {
		f, err := r.find.Folder(r.t.Context(), web)
		if err != nil {
			return err
		}
		r.task(f.Rename(r.t.Context(), "renamed"))
		return nil
	},
	"the folder is moved": func(r *rig) error {
		ref, err := r.Find(web)
		if err != nil {
			return err
		}
		to, err := r.Find("/DC0/vm/attic")
		if err != nil {
			return err
		}
		r.task(object.NewFolder(r.admin.Client, to).MoveInto(r.t.Context(), []vim.ManagedObjectReference{ref}))
		return nil
	},
	"its host is removed and added": (*rig).removeAndAddHost,
	"moved, and its host is removed and added": func(r *rig) error {
		if err := r.Move(webFolder+"web-0", "/DC0/vm/attic"); err != nil {
			return err
		}
		return r.removeAndAddHost()
	},
	"unregistered and registered": func(r *rig) error {
		id := r.details(webFolder + "web-0").InstanceUUID
		if err := r.PowerOff(webFolder + "web-0"); err != nil {
			return err
		}
		if err := r.Unregister(webFolder + "web-0"); err != nil {
			return err
		}
		time.Sleep(time.Minute)
		return r.Register(id)
	},
}

// removeAndAddHost removes the host of web-0 from the inventory, and adds it again.
func (r *rig) removeAndAddHost() error {
	for _, vm := range r.VMs() {
		if vm.Name == "web-0" {
			host := r.details(vm.Path).Host
			if err := r.RemoveHost(host); err != nil {
				return err
			}
			time.Sleep(time.Minute)
			return r.AddHost(path.Base(host))
		}
	}
	return fmt.Errorf("there is no web-0")
}

// Members that admins rename or move, that come back with their host, or are registered again stay members, also for another server, and the deletion
// removes them, wherever they are. If they keep their moRef and their folder, that is so without a status, too. (Without a status and elsewhere, they are
// strays: TestMembersAreFoundThoughTheServerEndsBeforeTheFirstStatus.)
func TestMembersStayMembersWhateverAdminsDo(t *testing.T) {
	t.Parallel()
	n := 0
	for _, what := range slices.Sorted(maps.Keys(onMembers)) {
		for _, then := range []string{"the same server", "another server", "another server, without a status"} {
			if n++; leftOut(n) || what != "renamed" && then == "another server, without a status" {
				continue
			}
			t.Run(what+", "+then, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newVanishRig(t)
					r.neverTwo()
					_, err := r.MakeFolder("/DC0/vm/attic")
					r.must(err)
					s := r.serve()
					g := s.group("web", 2)
					up(t, g)
					was := r.instances(g)
					if what == "unregistered and registered" {
						g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = true })
						mustSync(t, g)
					}
					r.must(onMembers[what](r))
					if then != "the same server" {
						s.stop()
						if s = r.serve(); then == "another server, without a status" {
							forget(g)
						}
						g.URL = s.url
					}
					g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
					until(t, g, "both members are ready", func(a metacontroller.Answer) bool { return metacontroller.Running(a) && a.Status.ReadyReplicas == 2 })
					syncFor(t, g, 10*time.Minute, "with the same members", func(a metacontroller.Answer) bool { return len(a.Status.Members) == 2 })
					if is := r.instances(g); !slices.Equal(is, was) || r.Calls()["CloneVM_Task"] != 2 {
						t.Errorf("the VMs are %v after %d clones; want %v after 2", is, r.Calls()["CloneVM_Task"], was)
					}
					g.Scale(3)
					up(t, g)
					remove(t, g)
					if left := r.instances(g); len(left) > 0 {
						t.Errorf("%v are left of the deleted group", left)
					}
				})
			})
		}
	}
}

// An adoption that a server began is finished by another one, at whatever moment the first one ends, with the status lost.
func TestAnAdoptionUnderWayIsFinishedByAnotherServer(t *testing.T) {
	t.Parallel()
	for i, after := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 7 * time.Second, 10 * time.Second} {
		if leftOut(i) {
			continue
		}
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
				r.legacyVMs("db-a", "db-b")
				a := r.details(legacy + "/db-a")
				s := r.serve(adopting)
				g := s.group("web", 2)
				g.Spec.CPU, g.Spec.Memory = a.CPUs, max(1, a.MemoryMB/1024)
				g.Spec.Adopt = []string{legacy + "/db-a", r.details(legacy + "/db-b").Ref.Value}
				g.Spec.Update.Strategy = v1alpha1.UpdateOnDelete
				for began := time.Now(); time.Since(began) < after; time.Sleep(time.Second / 2) {
					mustSync(t, g)
				}
				s.stop()
				forget(g)
				g.URL = r.serve(adopting).url
				until(t, g, "both are adopted", func(a metacontroller.Answer) bool { return metacontroller.Running(a) && len(r.names(legacy)) == 0 })
				if is := refs(r.members()); len(is) != 2 || !slices.Contains(slices.Collect(maps.Values(is)), a.Ref.Value) || r.Calls()["CloneVM_Task"] > 0 {
					t.Errorf("the members are %v, after %d clones; want the adopted VMs", is, r.Calls()["CloneVM_Task"])
				}
			})
		})
	}
}

// isOfGroup returns whether a VM has a stamp of a group, and the VM's own instanceUuid.
func isOfGroup(g *metacontroller.Group) func(vcsim.VM) bool {
	return func(vm vcsim.VM) bool {
		s, err := stampOf(vm)
		return err == nil && s.Owned(g.UID, vm.InstanceUUID)
	}
}
