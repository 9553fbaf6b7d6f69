package test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// sharedName is a kind of objects of which several have one name.
type sharedName struct {
	config vcsim.Config
	name   string
	reason string
	// field is the field of a spec that names one.
	field func(spec *v1alpha1.VmGroupSpec, name string)
	// prepare creates them, and returns the texts that the message must offer.
	prepare func(*rig) []string
	// got is what distinguishes the VMs of groups that name different objects.
	got func(*rig, vcsim.Details) string
}

var ambiguous = map[string]sharedName{
	"networks: standard, distributed and opaque": {
		config: vcsim.Config{Portgroups: 1, OpaqueNetworks: 1}, name: "VM Network", reason: vcfault.ReasonNetworkAmbiguous, field: setNetwork, got: backingOf,
		prepare: func(r *rig) []string {
			r.must(r.SetName("/DC0/network/DC0_DVPG0", "VM Network"))
			r.must(r.SetName("/DC0/network/DC0_NSX0", "VM Network"))
			return []string{"/DC0/network/DVS0/VM Network", "Network:/DC0/network/VM Network", "OpaqueNetwork:/DC0/network/VM Network"}
		},
	},
	"networks: standard and distributed, by their path": {
		config: vcsim.Config{Portgroups: 1}, name: "/DC0/network/VM Network", reason: vcfault.ReasonNetworkAmbiguous, field: setNetwork, got: backingOf,
		prepare: func(r *rig) []string {
			r.must(r.SetName("/DC0/network/DC0_DVPG0", "VM Network"))
			return []string{"/DC0/network/DVS0/VM Network", "Network:/DC0/network/VM Network"}
		},
	},
	"a datastore and a datastore cluster": {
		config: vcsim.Config{Datastores: 2, Pods: 1}, name: "DC0_POD0", reason: vcfault.ReasonDatastoreAmbiguous,
		field:   func(spec *v1alpha1.VmGroupSpec, name string) { spec.Placement.Datastore = name },
		got:     func(_ *rig, d vcsim.Details) string { return d.Disks[0].Datastore },
		prepare: renamed("DC0_POD0", "Datastore:/DC0/datastore/DC0_POD0", "StoragePod:/DC0/datastore/DC0_POD0")("/DC0/datastore/LocalDS_1"),
	},
	"resource pools of two clusters": {
		config: vcsim.Config{Clusters: 2, Pools: 1}, name: "shop", reason: vcfault.ReasonPoolAmbiguous, field: setPool, got: poolOf,
		prepare: renamed("shop", "/DC0/host/DC0_C0/Resources/shop", "/DC0/host/DC0_C1/Resources/shop")(
			"/DC0/host/DC0_C0/Resources/DC0_C0_RP1", "/DC0/host/DC0_C1/Resources/DC0_C1_RP1"),
	},
	"clusters of one path, as zones": {
		config: vcsim.Config{Clusters: 3}, name: "prod", reason: vcfault.ReasonPoolAmbiguous, got: placeOf,
		field: func(spec *v1alpha1.VmGroupSpec, name string) { spec.Placement.Zones = []string{name} },
		prepare: func(r *rig) []string {
			texts := r.moRefs("/DC0/host/DC0_C1", "/DC0/host/DC0_C2")
			return renamed("prod", texts...)("/DC0/host/DC0_C1", "/DC0/host/DC0_C2")(r)
		},
	},
	"datacenters of one path": {
		config: vcsim.Config{Datacenters: 3}, name: "east", reason: vcfault.ReasonDatacenterAmbiguous,
		field: func(spec *v1alpha1.VmGroupSpec, name string) {
			spec.Placement.Datacenter, spec.Template = name, "ubuntu"
		},
		got: placeOf,
		prepare: func(r *rig) []string {
			for _, at := range []string{"/DC1/vm", "/DC2/vm"} {
				_, err := r.AddTemplate(at, "ubuntu")
				r.must(err)
			}
			texts := r.moRefs("/DC1", "/DC2")
			return renamed("east", texts...)("/DC1", "/DC2")(r)
		},
	},
	"templates of two folders": {
		name: "ubuntu", reason: vcfault.ReasonTemplateAmbiguous, field: setTemplate, got: fingerprintOf,
		prepare: func(r *rig) []string {
			for _, at := range []string{"/DC0/vm/a", "/DC0/vm/b"} {
				_, err := r.MakeFolder(at)
				r.must(err)
				_, err = r.AddTemplate(at, "ubuntu")
				r.must(err)
			}
			return []string{"/DC0/vm/a/ubuntu", "/DC0/vm/b/ubuntu"}
		},
	},
	"snapshots of one path": {
		name: "base", reason: vcfault.ReasonSnapshotAmbiguous, got: func(_ *rig, d vcsim.Details) string { return d.Disks[0].Parent },
		field: func(spec *v1alpha1.VmGroupSpec, name string) {
			spec.Clone = v1alpha1.Clone{Mode: v1alpha1.CloneLinked, Snapshot: name}
		},
		prepare: func(r *rig) (texts []string) {
			at := "/DC0/vm/vm-operator-template"
			_, err := r.AddSnapshot(at, "root")
			r.must(err)
			for range 2 {
				task, err := r.vm(at).RevertToSnapshot(r.t.Context(), "root", true)
				r.task(task, err)
				ref, err := r.AddSnapshot(at, "base")
				r.must(err)
				texts = append(texts, ref.String())
			}
			return texts
		},
	},
	"libraries, and items of one of them": {
		name: golden, reason: vcfault.ReasonTemplateAmbiguous, field: setTemplate, got: fingerprintOf,
		prepare: func(r *rig) (texts []string) {
			r.addGolden()
			r.must(r.AddLibraryItem("golden", "ubuntu", "vm-template", r.libraryTemplate("ubuntu 3")))
			r.must(r.AddLibrary("silver"))
			r.must(r.AddLibraryItem("silver", "ubuntu", "vm-template", r.libraryTemplate("ubuntu 4")))
			r.must(r.AddLibrary("bronze")) // which has no such item
			for _, name := range []string{"silver", "bronze"} {
				r.must(r.RenameLibrary(name, "golden"))
			}
			return nil
		},
	},
}

// renamed gives objects one name.
func renamed(name string, texts ...string) func(paths ...string) func(*rig) []string {
	return func(paths ...string) func(*rig) []string {
		return func(r *rig) []string {
			for _, path := range paths {
				r.must(r.SetName(path, name))
			}
			return texts
		}
	}
}

// moRefs returns the types and moRefs of objects, as a spec names them, sorted.
func (r *rig) moRefs(paths ...string) (texts []string) {
	r.t.Helper()
	for _, path := range paths {
		ref, err := r.Find(path)
		r.must(err)
		texts = append(texts, ref.String())
	}
	slices.Sort(texts)
	return texts
}

func setNetwork(spec *v1alpha1.VmGroupSpec, name string) {
	spec.Networks = []v1alpha1.Network{{Network: name}}
}

func setPool(spec *v1alpha1.VmGroupSpec, name string) { spec.Placement.Pool = name }

func setTemplate(spec *v1alpha1.VmGroupSpec, name string) { spec.Template = name }

func poolOf(_ *rig, d vcsim.Details) string { return d.Pool }

func placeOf(_ *rig, d vcsim.Details) string { return d.Host }

// backingOf returns the backing of a VM's only network adapter.
func backingOf(_ *rig, d vcsim.Details) string {
	for _, device := range d.Config.Hardware.Device {
		if card, is := device.(types.BaseVirtualEthernetCard); is {
			text, _ := json.Marshal(card.GetVirtualEthernetCard().Backing)
			return string(text)
		}
	}
	return ""
}

// fingerprintOf returns that of the template from which a VM was cloned.
func fingerprintOf(r *rig, d vcsim.Details) string {
	stamp, err := stampOf(d.VM)
	r.must(err)
	return stamp.Fingerprint
}

// offered returns the texts of a message that offers some.
func offered(message string) []string {
	_, list, _ := strings.Cut(message, "to one of ")
	list, _, _ = strings.Cut(list, " (docs/")
	return strings.Split(strings.TrimSuffix(list, "."), ", ")
}

func TestEachTextThatAMessageOffersForAnAmbiguousNameIsAccepted(t *testing.T) {
	for what, c := range ambiguous {
		t.Run(what, func(t *testing.T) {
			inRig(t, c.config, func(t *testing.T, r *rig) {
				want := c.prepare(r)
				s := r.serve(func(c *vsphere.Config, l *loop.Config) { inCluster0(c, l); inDC0(c, l) })
				g := s.group("web", 1)
				c.field(&g.Spec, c.name)
				message := blocked(t, g, c.reason)
				texts := offered(message)
				if want != nil && !slices.Equal(texts, want) || len(texts) < 2 {
					t.Fatalf("the status says %q, which offers %q; want %q", message, texts, want)
				}
				if _, answer := ask(t, g, "/plan", g.VmGroup.DeepCopy(), false); !strings.Contains(answer, texts[0]) || !strings.Contains(answer, texts[1]) {
					t.Errorf("the plan of the ambiguous name offers no %q: %s", texts, answer)
				}
				seen := map[string]string{}
				for i, text := range texts {
					g := s.group(fmt.Sprintf("web%d", i), 1)
					c.field(&g.Spec, text)
					if _, answer := ask(t, g, "/plan", g.VmGroup.DeepCopy(), false); strings.Contains(answer, "to one of") {
						t.Errorf("the plan of %q offers another name: %s", text, answer)
					}
					up(t, g)
					got := c.got(r, r.details(g.Name+"-0"))
					if other, found := seen[got]; found {
						t.Errorf("%q and %q name one object: %s", text, other, got)
					}
					seen[got] = text
				}
			})
		})
	}
}
