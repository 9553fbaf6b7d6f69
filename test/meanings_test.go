package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// takenNames are the kinds of names in a spec that another object can get, too.
var takenNames = map[string]struct {
	field string
	set   func(*v1alpha1.VmGroupSpec)
	// ours is the object that the name means. take gives a stranger's the name, and returns its path.
	ours         func(*rig) string
	take         func(*rig) string
	name, reason string
	// isOurs reports whether web-0 was made with ours.
	isOurs func(*rig) bool
}{
	"template": {"spec.template", func(*v1alpha1.VmGroupSpec) {}, at("/DC0/vm/vm-operator-template"), func(r *rig) string {
		value(r.MakeFolder("/DC0/vm/theirs"))
		r.theirTemplate("/DC0/vm/theirs", "theirs")
		r.must(r.Rename("/DC0/vm/theirs/theirs", "vm-operator-template"))
		return "/DC0/vm/theirs/vm-operator-template"
	}, "vm-operator-template", "TemplateAmbiguous", isNotOfTheirs},
	"library item": {"spec.template", ofGolden, goldenItem, func(r *rig) string {
		r.must(r.AddLibraryItem("golden", "theirs", "vm-template", r.theirTemplate("/DC0/vm/library", "theirs")))
		id := value(r.LibraryItem("golden", "theirs"))
		r.must(r.RenameLibraryItem("golden", "theirs", "ubuntu"))
		return "golden/" + id
	}, golden, "TemplateAmbiguous", isNotOfTheirs},
	"library": {"spec.template", ofGolden, goldenItem, func(r *rig) string {
		r.must(r.AddLibrary("theirs"))
		r.must(r.AddLibraryItem("theirs", "ubuntu", "vm-template", r.theirTemplate("/DC0/vm/library", "theirs")))
		id := value(r.Library("theirs"))
		r.must(r.RenameLibrary("theirs", "golden"))
		return id + "/ubuntu"
	}, golden, "TemplateAmbiguous", isNotOfTheirs},
	"library item, taken by a template": {"spec.template", ofGolden, goldenItem, func(r *rig) string {
		value(r.MakeFolder("/DC0/vm/golden"))
		r.theirTemplate("/DC0/vm/golden", "ubuntu")
		return "/DC0/vm/golden/ubuntu"
	}, golden, "", isNotOfTheirs},
	"pool": {"spec.placement.pool", func(s *v1alpha1.VmGroupSpec) { s.Placement.Pool = "DC0_C0_RP1" }, at("/DC0/host/DC0_C0/Resources/DC0_C0_RP1"), func(r *rig) string {
		r.must(r.SetName("/DC0/host/DC0_C1/Resources/DC0_C1_RP1", "DC0_C0_RP1"))
		return "/DC0/host/DC0_C1/Resources/DC0_C0_RP1"
	}, "DC0_C0_RP1", "ResourcePoolAmbiguous", func(r *rig) bool { return strings.HasPrefix(r.details(webFolder+"web-0").Pool, "/DC0/host/DC0_C0/") }},
	"pool, taken by a cluster": {"spec.placement.pool", func(s *v1alpha1.VmGroupSpec) { s.Placement.Pool = "DC0_C0_RP1" }, at("/DC0/host/DC0_C0/Resources/DC0_C0_RP1"), func(r *rig) string {
		r.must(r.SetName("/DC0/host/DC0_C1", "DC0_C0_RP1"))
		return "/DC0/host/DC0_C0_RP1"
	}, "DC0_C0_RP1", "", func(r *rig) bool { return strings.HasPrefix(r.details(webFolder+"web-0").Pool, "/DC0/host/DC0_C0/") }},
	"zone": {"spec.placement.zones", func(s *v1alpha1.VmGroupSpec) { s.Placement.Zones = []string{"DC0_C0_RP1"} }, at("/DC0/host/DC0_C0/Resources/DC0_C0_RP1"), func(r *rig) string {
		r.must(r.SetName("/DC0/host/DC0_C1/Resources/DC0_C1_RP1", "DC0_C0_RP1"))
		return "/DC0/host/DC0_C1/Resources/DC0_C0_RP1"
	}, "DC0_C0_RP1", "ResourcePoolAmbiguous", func(r *rig) bool { return strings.HasPrefix(r.details(webFolder+"web-0").Pool, "/DC0/host/DC0_C0/") }},
	"datastore": {"spec.placement.datastore", func(s *v1alpha1.VmGroupSpec) { s.Placement.Datastore = "LocalDS_0" }, at("/DC0/datastore/LocalDS_0"), func(r *rig) string {
		r.must(r.SetName("/DC0/datastore/DC0_POD0", "LocalDS_0"))
		return "/DC0/datastore/LocalDS_0"
	}, "LocalDS_0", "DatastoreAmbiguous", func(r *rig) bool { return r.details(webFolder+"web-0").Datastore == "/DC0/datastore/LocalDS_0" }},
	"network": {"spec.networks", func(s *v1alpha1.VmGroupSpec) { s.Networks = []v1alpha1.Network{{Network: "VM Network"}} }, at("/DC0/network/VM Network"), func(r *rig) string {
		r.must(r.SetName("/DC0/network/DC0_DVPG0", "VM Network"))
		return "/DC0/network/VM Network"
	}, "VM Network", "NetworkAmbiguous", func(r *rig) bool {
		return slices.ContainsFunc(r.details(webFolder+"web-0").Config.Hardware.Device, func(d types.BaseVirtualDevice) bool {
			_, standard := d.GetVirtualDevice().Backing.(*types.VirtualEthernetCardNetworkBackingInfo)
			return standard
		})
	}},
}

// at returns what finds the object at a path.
func at(path string) func(*rig) string {
	return func(r *rig) string { return value(r.Find(path)).String() }
}

func ofGolden(s *v1alpha1.VmGroupSpec) { s.Template = golden }

// goldenItem returns the item golden, as status.names has it.
func goldenItem(r *rig) string {
	return "com.vmware.content.library.Item:" + value(r.LibraryItem("golden", "ubuntu"))
}

// theirTemplate creates a template whose clones can be told apart.
func (r *rig) theirTemplate(folder, name string) types.ManagedObjectReference {
	ref := value(r.AddTemplate(folder, name))
	r.must(r.ToVM(folder + "/" + name))
	r.must(r.SetExtraConfig(folder+"/"+name, "theirs", "yes"))
	r.must(r.ToTemplate(folder + "/" + name))
	return ref
}

// isNotOfTheirs reports whether no member is a clone of theirTemplate.
func isNotOfTheirs(r *rig) bool {
	return !slices.ContainsFunc(r.members(), func(vm vcsim.VM) bool {
		return slices.ContainsFunc(r.details(vm.Path).Config.ExtraConfig, func(o types.BaseOptionValue) bool { return o.GetOptionValue().Key == "theirs" })
	})
}

// Whoever can give any visible object a name must neither stop the groups that use the name, nor get their members. The server has no memory: what the name
// meant is in the status.
func TestANameKeepsItsMeaningWhenAnotherObjectGetsIt(t *testing.T) {
	for kind, c := range takenNames {
		t.Run(kind, func(t *testing.T) {
			inRig(t, vcsim.Config{Clusters: 2, Pools: 1, Datastores: 2, Pods: 1, Portgroups: 1}, func(t *testing.T, r *rig) {
				r.addGolden()
				s := r.serve(inCluster0)
				g := s.group("web", 1)
				c.set(&g.Spec)
				up(t, g)
				object := c.ours(r)
				until(t, g, "the status says what the name means", func(a metacontroller.Answer) bool {
					n := namedIn(a, c.field, c.name)
					return n != nil && n.Object == object && len(n.Ignored) == 0
				})
				theirs := c.take(r)
				s.stop()
				s = r.serve(inCluster0)
				g.URL = s.url
				time.Sleep(time.Minute)
				was := r.details(webFolder + "web-0").Config.InstanceUuid
				r.must(r.PowerOff(webFolder + "web-0"))
				r.must(r.Destroy(webFolder + "web-0"))
				a := until(t, g, "web-0 is back", func(a metacontroller.Answer) bool {
					return metacontroller.Running(a) && len(a.Status.Members) == 1 && a.Status.Members[0].InstanceUUID != was && namedIn(a, c.field, c.name) != nil && len(namedIn(a, c.field, c.name).Ignored) > 0
				})
				n := namedIn(a, c.field, c.name)
				if n.Object != object || len(n.Ignored) != 1 || n.Ignored[0].Path != theirs {
					t.Errorf("the name means %+v; want %s, and %s ignored", n, object, theirs)
				}
				eventually(t, patience, "an Event names it", func() bool {
					_, err := g.Sync(within(t))
					r.must(err)
					return strings.Contains(eventsOf(t, g)["NameShared"], theirs+" (")
				})
				if !c.isOurs(r) {
					t.Errorf("web-0 wasn't made with %s", object)
				}
				if c.reason == "" {
					return
				}
				other := s.group("other", 1) // no status says what the name means
				c.set(&other.Spec)
				if text := blocked(t, other, c.reason); !strings.Contains(text, c.field) {
					t.Errorf("a group that nothing is known of is told %q; want %s in it", text, c.field)
				}
			})
		})
	}
}

func namedIn(a metacontroller.Answer, field, name string) *v1alpha1.NamedObject {
	for i := range a.Status.Names {
		if n := &a.Status.Names[i]; n.Field == field && n.Name == name {
			return n
		}
	}
	return nil
}

// An item is published by a check-in, by renaming the old one, and giving the new one its name, or by removing the old one.
func TestAnItemIsPublishedBesideAnIgnoredOne(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		r.addGolden()
		g := r.serve().group("web", 1)
		g.Spec.Template = golden
		g.Spec.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace
		up(t, g)
		means := func(object string, ignored int) {
			t.Helper()
			until(t, g, "the name means "+object, func(a metacontroller.Answer) bool {
				n := namedIn(a, "spec.template", golden)
				return metacontroller.Running(a) && n != nil && n.Object == object && len(n.Ignored) == ignored
			})
		}
		publish := func(name string) string {
			t.Helper()
			r.must(r.AddLibraryItem("golden", name, "vm-template", r.libraryTemplate(name)))
			id := value(r.LibraryItem("golden", name))
			r.must(r.RenameLibraryItem("golden", name, "ubuntu"))
			return "com.vmware.content.library.Item:" + id
		}
		first := goldenItem(r)
		means(first, 0)
		r.must(r.RenameLibraryItem("golden", "ubuntu", "old"))
		second := publish("second")
		means(second, 0)
		was := r.fingerprints()
		r.CheckIn("second", r.libraryTemplate("checked in"))
		until(t, g, "the members are of the version that was checked in", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && len(r.members()) == 1 && !slices.Equal(r.fingerprints(), was)
		})
		publish("theirs")
		means(second, 1)

		r.must(r.RemoveLibraryItemByID(second[strings.LastIndex(second, ":")+1:]))
		for range 60 { // the update ends, and the library is read
			value(g.Sync(within(t)))
			time.Sleep(5 * time.Second)
		}
		member := r.members()[0].Path
		r.must(r.PowerOff(member))
		r.must(r.Destroy(member))
		if text := blocked(t, g, "TemplateAmbiguous"); !strings.Contains(text, "ignored") || !strings.Contains(text, "golden/") {
			t.Errorf("while only an ignored item has the name, the status says %q", text)
		}
		means(publish("third"), 1)
	})
}

// However many libraries and items get the name, a reading costs a bounded number of calls, and finds the one that is meant.
func TestManyItemsOfANameMakeNoReadingLong(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		r.addGolden()
		s := r.serve()
		g := s.group("web", 1)
		g.Spec.Template = golden
		up(t, g)
		meant := goldenItem(r)
		for n := range 100 {
			name := fmt.Sprint("theirs-", n)
			r.must(r.AddLibraryItem("golden", name, "iso", types.ManagedObjectReference{}))
			r.must(r.RenameLibraryItem("golden", name, "ubuntu"))
		}
		for n := range 100 {
			name := fmt.Sprint("theirs-", n)
			r.must(r.AddLibrary(name))
			r.must(r.AddLibraryItem(name, "ubuntu", "iso", types.ManagedObjectReference{}))
			r.must(r.RenameLibrary(name, "golden"))
		}
		s.stop()
		g.URL = r.serve().url
		r.must(r.PowerOff(webFolder + "web-0"))
		r.must(r.Destroy(webFolder + "web-0"))
		time.Sleep(time.Minute)
		until(t, g, "web-0 is back", func(a metacontroller.Answer) bool {
			n := namedIn(a, "spec.template", golden)
			return metacontroller.Running(a) && n != nil && n.Object == meant && len(n.Ignored) == v1alpha1.MaxIgnored
		})
		before := r.total()
		time.Sleep(10 * time.Minute)
		if each := float64(r.total()-before) / 10; each > 100 {
			t.Errorf("%.0f calls a minute; want at most 100", each)
		} else {
			t.Logf("%.0f calls a minute", each)
		}
	})
}

// Members' names in one folder are their lock, so a datacenter's name keeps its meaning as long as the datacenter exists.
func TestADatacenterKeepsItsMeaningWhenAnotherGetsItsName(t *testing.T) {
	inRig(t, vcsim.Config{Datacenters: 2}, func(t *testing.T, r *rig) {
		value(r.AddTemplate("/DC1/vm", "vm-operator-template"))
		s := r.serve(inDC0)
		g := s.group("web", 1)
		g.Spec.Placement.Datacenter = "DC1"
		up(t, g)
		ours := value(r.Find("/DC1")).String()
		theirs := value(value(object.NewRootFolder(r.Admin().Client).CreateFolder(within(t), "theirs")).CreateDatacenter(within(t), "DC1")).Reference().String()
		s.stop()
		s = r.serve(inDC0)
		g.URL = s.url
		time.Sleep(time.Minute)
		member := r.members()[0]
		r.must(r.PowerOff(member.Path))
		r.must(r.Destroy(member.Path))
		until(t, g, "the member is back", func(a metacontroller.Answer) bool {
			n := namedIn(a, "spec.placement.datacenter", "DC1")
			return metacontroller.Running(a) && len(r.members()) == 1 && r.members()[0].Ref != member.Ref && n != nil && n.Object == ours && len(n.Ignored) == 1 && n.Ignored[0].Object == theirs
		})
		equal(t, r.names("/DC1/vm/vm-operator/default/web"), running(1))

		other := s.group("other", 1) // of this process, which knows what the name meant
		other.Spec.Placement.Datacenter = "DC1"
		up(t, other)
		equal(t, r.names("/DC1/vm/vm-operator/default/other"), []string{"other-0+"})
		remove(t, other)
		r.must(r.SetName("/DC1", "DC2"))
		g.Scale(2)
		up(t, g)
		equal(t, r.names("/DC2/vm/vm-operator/default/web"), running(2))
	})
}

// An item that has the path of a template as its name doesn't take its place while that is a VM, for its patches.
func TestAnItemDoesNotTakeThePlaceOfATemplateThatIsAVM(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		value(r.MakeFolder("/DC0/vm/golden"))
		value(r.AddTemplate("/DC0/vm/golden", "ubuntu"))
		g := r.serve().group("web", 1)
		g.Spec.Template = golden
		up(t, g)
		value(r.MakeFolder("/DC0/vm/library"))
		r.must(r.AddLibrary("golden"))
		r.must(r.AddLibraryItem("golden", "ubuntu", "vm-template", r.theirTemplate("/DC0/vm/library", "theirs")))
		id := value(r.LibraryItem("golden", "ubuntu"))
		r.must(r.ToVM("/DC0/vm/golden/ubuntu"))
		r.must(r.PowerOff(webFolder + "web-0"))
		r.must(r.Destroy(webFolder + "web-0"))
		if text := blocked(t, g, "TemplateAmbiguous"); !strings.Contains(text, "golden/"+id) {
			t.Errorf("the status says %q; want golden/%s, which is another template", text, id)
		}
		r.must(r.ToTemplate("/DC0/vm/golden/ubuntu"))
		up(t, g)
		if !isNotOfTheirs(r) {
			t.Error("web-0 is a clone of the item")
		}
		r.must(r.Rename("/DC0/vm/golden/ubuntu", "old"))
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "golden/" + id })
		until(t, g, "the item is used that the spec names", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && a.Status.UpdatedReplicas == 1 && !isNotOfTheirs(r)
		})
	})
}

// A template is published by renaming the old one, and giving the new one its name. The stranger's, which was ignored, doesn't take the place in between, nor
// while the template is a VM.
func TestATemplateIsPublishedBesideAnIgnoredOne(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		const template = "/DC0/vm/vm-operator-template"
		g := r.serve().group("web", 1)
		up(t, g)
		means := func(path string, ignored int) {
			t.Helper()
			object := value(r.Find(path)).String()
			until(t, g, "the name means "+path, func(a metacontroller.Answer) bool {
				n := namedIn(a, "spec.template", "vm-operator-template")
				return metacontroller.Running(a) && n != nil && n.Object == object && len(n.Ignored) == ignored
			})
		}
		means(template, 0)
		r.must(r.Rename(template, "old"))
		value(r.AddTemplate("/DC0/vm", "vm-operator-template"))
		means(template, 0)
		value(r.MakeFolder("/DC0/vm/theirs"))
		value(r.AddTemplate("/DC0/vm/theirs", "vm-operator-template"))
		means(template, 1)

		r.must(r.Rename(template, "older"))
		recreate := func() {
			t.Helper()
			r.must(r.PowerOff(webFolder + "web-0"))
			r.must(r.Destroy(webFolder + "web-0"))
		}
		recreate()
		if text := blocked(t, g, "TemplateAmbiguous"); !strings.Contains(text, "/DC0/vm/theirs/vm-operator-template") || !strings.Contains(text, "ignored") {
			t.Errorf("while only an ignored template has the name, the status says %q", text)
		}
		value(r.AddTemplate("/DC0/vm", "vm-operator-template"))
		means(template, 1)

		r.must(r.ToVM(template))
		recreate()
		blocked(t, g, "TemplateNotFound")
		r.must(r.ToTemplate(template))
		means(template, 1)
	})
}
