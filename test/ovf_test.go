package test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// appliance names an OVF in a content library, as spec.template does.
const appliance = "golden/appliance"

// deployOVF is the method that deploys an OVF.
const deployOVF = "POST /rest/com/vmware/vcenter/ovf/library-item/id:?~action=deploy"

// newOVFRig is newChangeRig with a library that has an OVF; a deployment takes a minute.
func newOVFRig(t *testing.T) *rig {
	t.Helper()
	r := newChangeRig(t, vcsim.Guest{Tools: true})
	r.addAppliance()
	return r
}

func (r *rig) addAppliance() {
	r.t.Helper()
	r.must(r.AddLibrary("golden"))
	r.must(r.AddLibraryItem("golden", "appliance", "ovf", r.libraryTemplate("appliance")))
	r.SetLatency(vcsim.Latency{Clone: time.Minute})
}

// isDeployed reports whether a VM is a template that a server deployed, or a VM that will become such a template.
func isDeployed(vm vcsim.VM) bool { return strings.HasPrefix(vm.Name, "vmgroup-appliance-") }

// deployed returns the names of the deployed templates in the root folder.
func (r *rig) deployed() (names []string) {
	for _, vm := range r.VMs() {
		if isDeployed(vm) {
			names = append(names, vm.Name)
		}
	}
	return names
}

func TestAnOVFIsDeployedOnceForTwoGroupsOfTwoServersAndAgainForANewVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newOVFRig(t)
		one, two := r.serve(), r.serve()
		web, db := one.group("web", 2), two.group("db", 1)
		for _, g := range []*metacontroller.Group{web, db} {
			g.Spec.Template = appliance
			g.Spec.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace
		}
		says(t, web, v1alpha1.PhasePending, `The content library's item "appliance" is deployed as the template vmgroup-appliance-1-`)
		up(t, db)
		up(t, web)
		if names := r.deployed(); len(names) != 1 {
			t.Errorf("the deployed templates are %v; want one", names)
		}
		was, version := refs(r.members()), r.fingerprints()
		if len(version) != 1 {
			t.Errorf("the members have the fingerprints %v; want one", version)
		}

		r.EditOVF("appliance", func(o *vcsim.OVF) { o.Version = 2 })
		until(t, web, "all members are replaced", func(a metacontroller.Answer) bool {
			_, err := db.Sync(within(t))
			r.must(err)
			is := r.fingerprints()
			return metacontroller.Running(a) && len(is) == 1 && is[0] != version[0]
		})
		for name, ref := range refs(r.members()) {
			if was[name] == ref {
				t.Errorf("%s was not replaced", name)
			}
		}
		if names := r.deployed(); len(names) != 2 {
			t.Errorf("the deployed templates are %v; want 2 of them", names)
		}
	})
}

// Without DRS, vCenter doesn't choose the host of a deployment, so the server does.
func TestAnOVFIsDeployedOnAHostThatTheServerChoosesWithoutDRS(t *testing.T) {
	inRig(t, vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}, Hosts: 3, Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		r.addAppliance()
		r.must(r.SetDRS("/DC0/host/DC0_C0", vcsim.DRS{Off: true}))
		withDatastore := func(c *vsphere.Config, _ *loop.Config) { c.Datastore = "LocalDS_0" }
		g := r.serve(withDatastore).group("web", 1)
		hosts := map[string]*object.HostSystem{}
		for _, name := range []string{"DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2"} {
			ref, err := r.Find("/DC0/host/DC0_C0/" + name)
			r.must(err)
			hosts[name] = object.NewHostSystem(r.Admin().Client, ref)
			task, err := hosts[name].EnterMaintenanceMode(t.Context(), 0, false, nil)
			r.must(err)
			r.must(task.Wait(t.Context()))
		}
		g.Spec.Template = appliance
		until(t, g, "the status says that no host can take the clone", func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, `the cluster DC0_C0 has no DRS`)
		})
		if n := r.Calls()[deployOVF]; n > 0 {
			t.Errorf("vCenter deployed %d templates; want none", n)
		}
		task, err := hosts["DC0_C0_H1"].ExitMaintenanceMode(t.Context(), 0)
		r.must(err)
		r.must(task.Wait(t.Context()))
		up(t, g)
		equal(t, r.names(web), running(1))
		for _, vm := range r.VMs() {
			if isDeployed(vm) && !strings.HasSuffix(r.details(vm.Path).Host, "DC0_C0_H1") {
				t.Errorf("the template is on %s", r.details(vm.Path).Host)
			}
		}
	})
}

func TestATemplateThatIsDeployedAgainIsTheSameVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newOVFRig(t)
		g := r.serve().group("web", 1)
		g.Spec.Template = appliance
		g.Spec.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace
		up(t, g)
		was := refs(r.members())
		r.must(r.Destroy("/DC0/vm/vm-operator/" + r.deployed()[0]))
		g.Scale(2)
		up(t, g)
		equal(t, r.names(web), running(2))
		if is := refs(r.members()); is["web-0"] != was["web-0"] || len(r.fingerprints()) != 1 {
			t.Errorf("were %v, are %v, of %v", was, is, r.fingerprints())
		}
	})
}

func TestTheRootFolderIsCreatedAgainForDeployedTemplates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newOVFRig(t)
		g := r.serve().group("web", 2)
		g.Spec.Template = appliance
		up(t, g)
		for _, vm := range r.members() {
			r.must(r.PowerOff(vm.Path))
		}
		r.must(r.Destroy("/DC0/vm/vm-operator")) // the folder contains the members and the deployed template
		until(t, g, "the members are cloned again", func(a metacontroller.Answer) bool { return metacontroller.Running(a) && len(r.members()) == 2 })
		if names := r.deployed(); len(names) != 1 {
			t.Errorf("the deployed templates are %v; want one", names)
		}
	})
}

func TestADeploymentThatAServerDidNotFinishIsDoneAgain(t *testing.T) {
	t.Parallel()
	for what, kill := range map[string]string{"while vCenter deploys": deployOVF, "before the record": "ReconfigVM_Task", "before it is a template": "MarkAsTemplate"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newOVFRig(t)
				first := r.serve()
				g := first.group("web", 1)
				g.Spec.Template = appliance
				r.LoseReply(kill, 1)
				until(t, g, "the call is made", func(metacontroller.Answer) bool { return r.Calls()[kill] > 0 })
				up(t, g)
				equal(t, r.names(web), running(1))
				if names := r.deployed(); len(names) != 1 {
					t.Errorf("the deployed templates are %v; want one", names)
				}
			})
		})
	}
}

func TestWhatADeploymentLacksIsSaidBeforeItBegins(t *testing.T) {
	t.Parallel()
	set := func(change func(*vsphere.Config)) func(*vsphere.Config, *loop.Config) {
		return func(c *vsphere.Config, _ *loop.Config) { change(c) }
	}
	for what, c := range map[string]struct {
		ovf      func(*vcsim.OVF)
		says     string
		mend     func(*rig)
		settings func(*vsphere.Config) // the settings with which the server is started again
	}{
		"a license agreement": {ovf: func(o *vcsim.OVF) { o.EULAs = []string{"all yours"} }, says: "start the server with --accept-eulas",
			settings: func(c *vsphere.Config) { c.AcceptEULAs = true }},
		"a network": {ovf: func(o *vcsim.OVF) { o.Networks = []string{"nat"} }, says: `adapters on a network "nat", which the hosts of the server's pool don't have`,
			settings: func(c *vsphere.Config) { c.LibraryNetwork = "VM Network" }},
		"space": {ovf: func(o *vcsim.OVF) { o.Bytes = 1 << 60 }, says: "has too little space",
			mend: func(r *rig) { r.EditOVF("appliance", func(o *vcsim.OVF) { o.Bytes = 1 }) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newOVFRig(t)
				r.EditOVF("appliance", c.ovf)
				withDatastore := func(v *vsphere.Config) { v.Datastore = "LocalDS_0" }
				s := r.serve(set(withDatastore))
				g := s.group("web", 1)
				g.Spec.Template = appliance
				until(t, g, "the status says "+c.says, func(a metacontroller.Answer) bool { return strings.Contains(a.Status.LastMessage, c.says) })
				if n := r.Calls()[deployOVF]; n > 0 {
					t.Errorf("vCenter deployed %d templates; want none", n)
				}
				if c.mend != nil {
					c.mend(r)
				}
				if c.settings != nil {
					s.stop()
					g = r.serve(set(withDatastore), set(c.settings)).group("web", 1)
					g.Spec.Template = appliance
				}
				up(t, g)
				equal(t, r.names(web), running(1))
			})
		})
	}
}

func TestAnItemOfASubscribedLibraryIsDownloadedBeforeItIsDeployed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newOVFRig(t)
		r.EditOVF("appliance", func(o *vcsim.OVF) { o.Uncached = true })
		const download = "POST /rest/com/vmware/content/library/subscribed-item/id:?~action=sync"
		r.Deny(download, "ContentLibrary.SyncLibraryItem")
		g := r.serve().group("web", 1)
		g.Spec.Template = appliance
		r.saysMissing(func(ctx context.Context) (metacontroller.Answer, error) { return g.Sync(ctx) }, "ContentLibrary.SyncLibraryItem")
		r.HealCalls()
		up(t, g)
		equal(t, r.names(web), running(1))
	})
}

func TestADeploymentThatVCenterRefusesIsSaidAndTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newOVFRig(t)
		r.FailTask(vcsim.ImportVApp, nil, &types.InsufficientStorageSpace{}, 1)
		g := r.serve().group("web", 1)
		g.Spec.Template = appliance
		until(t, g, "the status says why the item cannot be deployed", func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, `vCenter cannot deploy the content library's item "appliance": *types.InsufficientStorageSpace`)
		})
		up(t, g)
		if names := r.deployed(); len(names) != 1 {
			t.Errorf("the deployed templates are %v; want one", names)
		}
	})
}

// An operator converts a template to a VM in order to change it.
// A deployment may fail for ever for no reason that the server knows an operator to have: say what vCenter says, and spare vCenter, which may
// have copied disks before it failed.
func TestADeploymentThatFailsAgainAndAgainIsSaidAndTriedSeldom(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for name, story := range map[string]struct {
		call   string // which fails
		cached bool   // whether the item is downloaded
	}{
		"it is deployed":             {deployOVF, true},
		"its library is not reached": {"POST /rest/com/vmware/content/library/subscribed-item/id:?~action=sync", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newOVFRig(t)
				r.EditOVF("appliance", func(o *vcsim.OVF) { o.Uncached = !story.cached })
				r.FailCall(story.call, &types.HostCommunication{}, 0)
				g := r.serve().group("web", 1)
				g.Spec.Template = appliance
				untrue := 0
				for range 720 {
					a, err := g.Sync(within(t))
					r.must(err)
					if !strings.Contains(a.Status.LastMessage, "does not answer") {
						untrue++
					}
					time.Sleep(10 * time.Second)
				}
				if n := r.Calls()[story.call]; untrue > 30 || n > 16 {
					t.Errorf("in two hours, %d of 720 messages don't say what fails, and it was tried %d times; want 30 and 16 at most", untrue, n)
				}
				r.Heal()
				for range 66 {
					_, err := g.Sync(within(t))
					r.must(err)
					time.Sleep(10 * time.Second)
				}
				up(t, g)
			})
		})
	}
}

func TestADeployedTemplateThatIsAVMForAWhileIsNotDestroyed(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newOVFRig(t)
		g := r.serve().group("web", 1)
		g.Spec.Template = appliance
		up(t, g)
		at := "/DC0/vm/vm-operator/" + r.deployed()[0]
		before := r.vm(at).Reference()
		server := r.serve()                            // a server that has not seen the template
		for _, name := range []string{"db", "cache"} { // for each group, the server waits five minutes, so that the operator has time to change the VM
			r.must(r.ToVM(at))
			began := time.Now()
			other := server.group(name, 1)
			other.Spec.Template = appliance
			until(t, other, "the clone waits", func(a metacontroller.Answer) bool {
				return strings.Contains(a.Status.LastMessage, "is deployed as the template")
			})
			up(t, other)
			if took := time.Since(began); took < 5*time.Minute {
				t.Errorf("the template was a VM for only %s before the server converted it back", took)
			}
			remove(t, other)
			time.Sleep(time.Hour) // until the server forgets the library item
		}
		if vm := r.vm(at); vm == nil || vm.Reference() != before || len(r.deployed()) != 1 {
			t.Errorf("the template was replaced: %v, deployed %v", vm, r.deployed())
		}
	})
}

func TestWhatHasTheNameOfADeployedTemplateIsNotTouched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newOVFRig(t)
		s := r.serve()
		g := s.group("web", 1)
		g.Spec.Template = appliance
		up(t, g)
		name := r.deployed()[0]
		r.must(r.Destroy("/DC0/vm/vm-operator/" + name))
		ref, err := r.AddVM("/DC0/vm/vm-operator", name)
		r.must(err)
		g.Scale(2)
		until(t, g, "the status says that the name is taken", func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, "is taken by something else: rename, move or remove it")
		})
		time.Sleep(time.Hour)
		if vm := r.vm("/DC0/vm/vm-operator/" + name); vm == nil || vm.Reference() != ref {
			t.Error("the VM that has the template's name was removed")
		}
		if slices.Contains(r.names(web), "web-1") {
			t.Error("a member was cloned")
		}
	})
}
