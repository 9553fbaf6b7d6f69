package test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// takenNames are the kinds of names in a spec that another object can get, too.
var takenNames = map[string]struct {
	field string
	set   func(*v1alpha1.VmGroupSpec)
	// ours is the object that the name means, and theirs a stranger's, which take gives the name.
	ours, theirs string
	take         func(*rig)
	name, reason string
	// isOurs reports whether web-0 was made with ours.
	isOurs func(*rig) bool
}{
	"template": {"spec.template", func(*v1alpha1.VmGroupSpec) {}, "/DC0/vm/vm-operator-template", "/DC0/vm/theirs/vm-operator-template", func(r *rig) {
		value(r.MakeFolder("/DC0/vm/theirs"))
		value(r.AddTemplate("/DC0/vm/theirs", "theirs"))
		r.must(r.ToVM("/DC0/vm/theirs/theirs"))
		r.must(r.SetExtraConfig("/DC0/vm/theirs/theirs", "theirs", "yes"))
		r.must(r.ToTemplate("/DC0/vm/theirs/theirs"))
		r.must(r.Rename("/DC0/vm/theirs/theirs", "vm-operator-template"))
	}, "vm-operator-template", "TemplateAmbiguous", func(r *rig) bool {
		return !slices.ContainsFunc(r.details(webFolder+"web-0").Config.ExtraConfig, func(o types.BaseOptionValue) bool { return o.GetOptionValue().Key == "theirs" })
	}},
	"pool": {"spec.placement.pool", func(s *v1alpha1.VmGroupSpec) { s.Placement.Pool = "DC0_C0_RP1" }, "/DC0/host/DC0_C0/Resources/DC0_C0_RP1", "/DC0/host/DC0_C1/Resources/DC0_C0_RP1", func(r *rig) {
		r.must(r.SetName("/DC0/host/DC0_C1/Resources/DC0_C1_RP1", "DC0_C0_RP1"))
	}, "DC0_C0_RP1", "ResourcePoolAmbiguous", func(r *rig) bool { return strings.HasPrefix(r.details(webFolder+"web-0").Pool, "/DC0/host/DC0_C0/") }},
	"pool, taken by a cluster": {"spec.placement.pool", func(s *v1alpha1.VmGroupSpec) { s.Placement.Pool = "DC0_C0_RP1" }, "/DC0/host/DC0_C0/Resources/DC0_C0_RP1", "/DC0/host/DC0_C0_RP1", func(r *rig) {
		r.must(r.SetName("/DC0/host/DC0_C1", "DC0_C0_RP1"))
	}, "DC0_C0_RP1", "", func(r *rig) bool { return strings.HasPrefix(r.details(webFolder+"web-0").Pool, "/DC0/host/DC0_C0/") }},
	"zone": {"spec.placement.zones", func(s *v1alpha1.VmGroupSpec) { s.Placement.Zones = []string{"DC0_C0_RP1"} }, "/DC0/host/DC0_C0/Resources/DC0_C0_RP1", "/DC0/host/DC0_C1/Resources/DC0_C0_RP1", func(r *rig) {
		r.must(r.SetName("/DC0/host/DC0_C1/Resources/DC0_C1_RP1", "DC0_C0_RP1"))
	}, "DC0_C0_RP1", "ResourcePoolAmbiguous", func(r *rig) bool { return strings.HasPrefix(r.details(webFolder+"web-0").Pool, "/DC0/host/DC0_C0/") }},
	"datastore": {"spec.placement.datastore", func(s *v1alpha1.VmGroupSpec) { s.Placement.Datastore = "LocalDS_0" }, "/DC0/datastore/LocalDS_0", "/DC0/datastore/LocalDS_0", func(r *rig) {
		r.must(r.SetName("/DC0/datastore/DC0_POD0", "LocalDS_0"))
	}, "LocalDS_0", "DatastoreAmbiguous", func(r *rig) bool { return r.details(webFolder+"web-0").Datastore == "/DC0/datastore/LocalDS_0" }},
	"network": {"spec.networks", func(s *v1alpha1.VmGroupSpec) { s.Networks = []v1alpha1.Network{{Network: "VM Network"}} }, "/DC0/network/VM Network", "/DC0/network/VM Network", func(r *rig) {
		r.must(r.SetName("/DC0/network/DC0_DVPG0", "VM Network"))
	}, "VM Network", "NetworkAmbiguous", func(r *rig) bool {
		return slices.ContainsFunc(r.details(webFolder+"web-0").Config.Hardware.Device, func(d types.BaseVirtualDevice) bool {
			_, standard := d.GetVirtualDevice().Backing.(*types.VirtualEthernetCardNetworkBackingInfo)
			return standard
		})
	}},
}

// Whoever can give any visible object a name must neither stop the groups that use the name, nor get their members. The server has no memory: what the name
// meant is in the status.
func TestANameKeepsItsMeaningWhenAnotherObjectGetsIt(t *testing.T) {
	for kind, c := range takenNames {
		t.Run(kind, func(t *testing.T) {
			inRig(t, vcsim.Config{Clusters: 2, Pools: 1, Datastores: 2, Pods: 1, Portgroups: 1}, func(t *testing.T, r *rig) {
				s := r.serve(inCluster0)
				g := s.group("web", 1)
				c.set(&g.Spec)
				up(t, g)
				object := value(r.Find(c.ours)).String()
				until(t, g, "the status says what the name means", func(a metacontroller.Answer) bool {
					n := namedIn(a, c.field, c.name)
					return n != nil && n.Object == object && len(n.Ignored) == 0
				})
				c.take(r)
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
				if n.Object != object || len(n.Ignored) != 1 || n.Ignored[0].Path != c.theirs {
					t.Errorf("the name means %+v; want %s, and %s ignored", n, object, c.theirs)
				}
				eventually(t, patience, "an Event names it", func() bool {
					_, err := g.Sync(within(t))
					r.must(err)
					return strings.Contains(eventsOf(t, g)["NameShared"], c.theirs+" (")
				})
				if !c.isOurs(r) {
					t.Errorf("web-0 wasn't made with %s", c.ours)
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
