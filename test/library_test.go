package test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// golden names an item of a content library, as spec.template does.
const golden = "golden/ubuntu"

// newLibraryRig is newChangeRig with a library that has golden and an ISO.
func newLibraryRig(t *testing.T) *rig {
	t.Helper()
	r := newChangeRig(t, vcsim.Guest{Tools: true})
	r.addGolden()
	r.must(r.AddLibraryItem("golden", "appliance", "iso", types.ManagedObjectReference{}))
	return r
}

// addGolden creates the item golden, and the VM templates of two versions of it. The first version is the current one.
func (r *rig) addGolden() (versions [2]types.ManagedObjectReference) {
	r.t.Helper()
	r.must(r.AddLibrary("golden"))
	versions = [...]types.ManagedObjectReference{r.libraryTemplate("ubuntu"), r.libraryTemplate("ubuntu 2")}
	r.must(r.AddLibraryItem("golden", "ubuntu", "vm-template", versions[0]))
	return versions
}

// libraryTemplate creates the VM template of one version of an item.
func (r *rig) libraryTemplate(name string) types.ManagedObjectReference {
	r.t.Helper()
	_, err := r.MakeFolder("/DC0/vm/library")
	r.must(err)
	ref, err := r.AddTemplate("/DC0/vm/library", name+" of the library")
	r.must(err)
	r.must(r.BootWithEFI("/DC0/vm/library/" + name + " of the library"))
	return ref
}

// fingerprints returns the fingerprints of the templates from which the members were cloned.
func (r *rig) fingerprints() []string {
	r.t.Helper()
	all := map[string]bool{}
	for _, vm := range r.members() {
		stamp, err := stampOf(vm)
		r.must(err)
		all[stamp.Fingerprint] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func TestMembersAreClonedFromALibraryItemAndRolledWhenANewerVersionIsCheckedIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newLibraryRig(t)
		g := r.serve().group("web", 3)
		g.Spec.Template = golden
		g.Spec.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace
		up(t, g)
		equal(t, r.names(web), running(3))
		was, first := refs(r.members()), r.fingerprints()
		if n := r.Calls()["CloneVM_Task"]; n != 3 || len(first) != 1 {
			t.Errorf("%d clones of %v", n, first)
		}

		r.CheckIn("ubuntu", r.libraryTemplate("ubuntu 3"))
		until(t, g, "all members are replaced", func(a metacontroller.Answer) bool {
			is := r.fingerprints()
			return metacontroller.Running(a) && a.Status.UpdatedReplicas == 3 && len(is) == 1 && is[0] != first[0]
		})
		for name, ref := range refs(r.members()) {
			if was[name] == ref {
				t.Errorf("%s was not replaced", name)
			}
		}
		remove(t, g)
	})
}

func TestAGroupOfALibraryItemStaysWhenTheItemGoesAndSaysSoWhenItGrows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newLibraryRig(t)
		g := r.serve().group("web", 2)
		g.Spec.Template = golden
		up(t, g)
		time.Sleep(time.Minute)
		up(t, g) // by now, all guests have reported their addresses, so the status doesn't change any more
		was, writes := refs(r.members()), g.Writes
		r.must(r.RemoveLibraryItem("ubuntu"))
		for range 20 {
			_, err := g.Sync(within(t))
			r.must(err)
			time.Sleep(30 * time.Second)
		}
		if r.sameVMs(was); g.Writes != writes {
			t.Errorf("%d status writes: %s", g.Writes-writes, g.Status.LastMessage)
		}
		g.Scale(3)
		says(t, g, v1alpha1.PhaseError, `the content library "golden" has no item "ubuntu"; items there: appliance`)
		r.must(r.AddLibraryItem("golden", "ubuntu", "vm-template", r.libraryTemplate("ubuntu 3")))
		up(t, g)
		equal(t, r.names(web), running(3))
	})
}

func TestWhatALibraryCannotGiveIsSaid(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		template string
		spoil    func(*rig)
		says     string
		mend     func(*rig)
	}{
		"an ISO": {template: "golden/appliance", says: `only VM templates, OVFs and OVAs can be cloned`,
			mend: func(r *rig) {
				r.must(r.RemoveLibraryItem("appliance"))
				r.must(r.AddLibraryItem("golden", "appliance", "vm-template", r.libraryTemplate("appliance")))
			}},
		"no such library": {template: "gold/ubuntu", says: `there is no content library "gold"; libraries there: golden`,
			mend: func(r *rig) {
				r.must(r.AddLibrary("gold"))
				r.must(r.AddLibraryItem("gold", "ubuntu", "vm-template", r.libraryTemplate("ubuntu 3")))
			}},
		"two of one name": {template: golden, says: `More than one item of a content library is called "golden/ubuntu": set spec.template to one of golden/`,
			spoil: func(r *rig) {
				r.must(r.AddLibraryItem("golden", "ubuntu", "vm-template", r.libraryTemplate("ubuntu 3")))
			},
			mend: func(r *rig) {
				r.must(r.RemoveLibraryItem("ubuntu"))
				r.must(r.AddLibraryItem("golden", "ubuntu", "vm-template", r.libraryTemplate("ubuntu 4")))
			}},
		"a privilege is missing": {template: golden, says: `lacks the privilege System.Read on the content library`,
			spoil: func(r *rig) { r.Deny("POST /rest/com/vmware/content/library?~action=find", "System.Read") },
			mend:  func(r *rig) { r.HealCalls() }},
		"the service is down": {template: golden, says: `content library service does not answer`,
			spoil: func(r *rig) {
				r.FailCall("GET /rest/vcenter/vm-template/library-items/", &types.HostCommunication{}, 3)
			},
			mend: func(*rig) {}},
		"the VM template is hidden": {template: golden, says: `which vCenter does not show its user`,
			spoil: func(r *rig) { r.CheckIn("ubuntu", types.ManagedObjectReference{Value: "vm-9999"}) },
			mend:  func(r *rig) { r.CheckIn("ubuntu", r.libraryTemplate("ubuntu 3")) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newLibraryRig(t)
				if c.spoil != nil {
					c.spoil(r)
				}
				g := r.serve().group("web", 1)
				g.Spec.Template = c.template
				until(t, g, "the status says "+c.says, func(a metacontroller.Answer) bool { return strings.Contains(a.Status.LastMessage, c.says) })
				c.mend(r)
				up(t, g)
				equal(t, r.names(web), running(1))
			})
		})
	}
}

func TestATemplateOfTheInventoryComesBeforeALibraryItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newLibraryRig(t)
		_, err := r.MakeFolder("/DC0/vm/golden")
		r.must(err)
		_, err = r.AddTemplate("/DC0/vm/golden", "ubuntu")
		r.must(err)
		g := r.serve().group("web", 1)
		g.Spec.Template = golden
		up(t, g)
		for call := range r.Calls() {
			if strings.Contains(call, "library") {
				t.Errorf("%s was called", call)
			}
		}
	})
}
