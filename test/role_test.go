package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// leastRole returns the ids of the privileges in the least role.
func leastRole() (ids []string) {
	for _, p := range role.Least() {
		ids = append(ids, p.ID)
	}
	return ids
}

// everything sets all fields of a spec that need additional privileges.
func everything(s *v1alpha1.VmGroupSpec) {
	s.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred
	s.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{"licensed"}}
	s.Placement.StoragePolicy = "vSAN Default Storage Policy"
	s.Networks = []v1alpha1.Network{{Network: "DC0_DVPG0"}}
	s.CustomizationSpec = "linux"
	s.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop", Create: true}}
	s.CustomAttributes = map[string]string{"cost centre": "42"}
	s.Deletion.QuarantineSeconds = 3600
	s.Hardware = v1alpha1.Hardware{Version: 19, VTPM: true, CPUReservationMHz: 500, MemoryHotAdd: types.NewBool(true)}
}

// ova is a template with vApp properties.
const ova = "ubuntu-ova"

// counted makes a server count its calls to vCenter.
func counted(registry *prometheus.Registry) func(*vsphere.Config, *loop.Config) {
	return func(c *vsphere.Config, _ *loop.Config) { c.Metrics = registry }
}

// callsIn returns the number of the servers' calls to vCenter, by method. (The embedded vCenter's Calls would include the calls of the test's
// administrator.)
func callsIn(t testing.TB, registry *prometheus.Registry) map[string]int {
	t.Helper()
	families, err := registry.Gather()
	must.Succeed(t, err)
	made := map[string]int{}
	for _, family := range families {
		if family.GetName() != "vmgroup_vcenter_calls_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			made[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
		}
	}
	return made
}

func roleRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, vcsim.Config{Portgroups: 1, Hosts: 2, Templates: []string{"vm-operator-template", otherTemplate, ova}, Guest: vcsim.Guest{Tools: true}})
	r.must(r.SetVAppProperties(ova))
	r.AddKeyProvider()
	for _, name := range []string{"vm-operator-template", otherTemplate, ova} {
		r.must(r.BootWithEFI("/DC0/vm/" + name))
	}
	r.must(r.SetHostGroup("/DC0/host/DC0_C0", "licensed", "/DC0/host/DC0_C0/DC0_C0_H0"))
	r.must(r.AddLibrary("ovfs"))
	for _, name := range []string{"import", "mark", "sync"} {
		r.must(r.AddLibraryItem("ovfs", name, "ovf", r.vm(ova).Reference()))
	}
	r.EditOVF("sync", func(o *vcsim.OVF) { o.Uncached = true })
	r.must(r.AddCustomizationSpec("linux", false))
	r.must(r.RegisterExtension("com.vmworld.codeconnect.vmgroup"))
	return r
}

func TestALifeWithTheLeastRoleSucceedsAndCallsNothingOutsideIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := roleRig(t)
		r.Restrict(leastRole()...)
		registry := prometheus.NewRegistry()
		server := r.serve(inCluster0, counted(registry))
		g := server.group("web", 3)
		everything(&g.Spec)
		up(t, g)
		g.Scale(2)
		up(t, g)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Memory = 8 })
		up(t, g)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
		up(t, g)
		r.addGolden()
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = golden })
		up(t, g)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "ovfs/sync" })
		up(t, g)
		remove(t, g)
		db := server.group("db", 1)
		db.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true, Retention: v1alpha1.DiskRetention{WhenDeleted: v1alpha1.RetentionDelete}}, {Name: "scratch", SizeGiB: 1}}
		up(t, db)
		db.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Template, s.Disks[0].SizeGiB, s.Disks[1].SizeGiB = otherTemplate, 2, 2
		})
		up(t, db)
		remove(t, db)
		made := callsIn(t, registry)
		if outside := role.Outside(made); len(outside) > 0 {
			t.Errorf("calls outside the least role: %v; want none", outside)
		}
		for _, method := range []string{"CloneVM_Task", "ReconfigVM_Task", "UpgradeVM_Task", "MoveIntoFolder_Task", "ShutdownGuest", "SetField", "PbmCheckRequirements",
			"ReconfigureComputeResource_Task", "GetCustomizationSpec", "UnregisterAndDestroy_Task", "POST tagging/tag", "content/library/item find", "GET vcenter/vm-template/library-items",
			"vcenter/ovf/library-item deploy", "content/library/subscribed-item sync", "MarkAsTemplate",
			"tagging/tag-association attach-multiple-tags-to-object", "CreateDisk_Task", "RetrieveVStorageObject", "ExtendDisk_Task", "DeleteVStorageObject_Task"} {
			if made[method] == 0 {
				t.Errorf("the life never called %s, so it proves nothing about it", method)
			}
		}
		for _, method := range changing {
			if rare := method == "PowerOnVM_Task" || method == "ResetVM_Task"; !rare && r.Calls()[method] == 0 {
				t.Errorf("the life never called %s, which chaos breaks: is that its name?", method)
			}
		}
	})
}

// lacking describes a group that a missing privilege blocks, and when the privilege is withdrawn.
type lacking struct {
	privilege string
	change    func(*v1alpha1.VmGroupSpec)
	// then runs once the group is up and the privilege is withdrawn; nil: the privilege is withdrawn before the group is created.
	then func(*rig, *metacontroller.Group)
	// going reports whether the group is deleted after the privilege is withdrawn.
	going bool
}

var lackings = []lacking{
	{privilege: "Folder.Create"},
	{privilege: "VirtualMachine.Provisioning.DeployTemplate"},
	{privilege: "VirtualMachine.Inventory.CreateFromExisting"},
	{privilege: "VirtualMachine.Config.AddNewDisk"},
	{privilege: "VirtualMachine.Config.CPUCount"},
	{privilege: "VirtualMachine.Config.Memory"},
	{privilege: "VirtualMachine.Config.AdvancedConfig"},
	{privilege: "VirtualMachine.Config.Settings"},
	{privilege: "VirtualMachine.Interact.PowerOn"},
	{privilege: "Datastore.AllocateSpace"},
	{privilege: "Resource.AssignVMToPool"},
	{privilege: "Network.Assign"},
	{privilege: "VirtualMachine.Interact.PowerOff", going: true},
	{privilege: "VirtualMachine.Inventory.Delete", going: true},
	{privilege: "Folder.Delete", going: true},
	{privilege: "VirtualMachine.Config.AddRemoveDevice", change: everything},
	{privilege: "VirtualMachine.Config.Resource", change: func(s *v1alpha1.VmGroupSpec) { s.Hardware.CPUShares = new(intstr.FromString(v1alpha1.SharesLow)) }},
	{privilege: "VirtualMachine.Config.UpgradeVirtualHardware", change: func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version = 19 }},
	{privilege: "Cryptographer.Encrypt", change: func(s *v1alpha1.VmGroupSpec) { s.Hardware = v1alpha1.Hardware{Version: 19, VTPM: true} }},
	{privilege: "Cryptographer.EncryptNew", change: func(s *v1alpha1.VmGroupSpec) {
		withDisk(s)
		encrypts(s)
	}, then: func(_ *rig, g *metacontroller.Group) {
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Disks = append(s.Disks, v1alpha1.Disk{Name: "more", SizeGiB: 1}) })
	}},
	{privilege: "Cryptographer.AddDisk", change: func(s *v1alpha1.VmGroupSpec) {
		withPersistentDisk(s)
		s.Hardware = v1alpha1.Hardware{Version: 19, VTPM: true}
	}, then: func(_ *rig, g *metacontroller.Group) {
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Disks = append(s.Disks, v1alpha1.Disk{Name: "more", SizeGiB: 1, Persistent: true})
		})
	}},
	{privilege: "VApp.ApplicationConfig", change: func(s *v1alpha1.VmGroupSpec) {
		s.Template, s.Networks = ova, []v1alpha1.Network{{Network: "DC0_DVPG0"}}
	}},
	{privilege: "VApp.Import", change: func(s *v1alpha1.VmGroupSpec) { s.Template = "ovfs/import" }},
	{privilege: "VirtualMachine.Provisioning.MarkAsTemplate", change: func(s *v1alpha1.VmGroupSpec) { s.Template = "ovfs/mark" }},
	{privilege: "ContentLibrary.SyncLibraryItem", change: func(s *v1alpha1.VmGroupSpec) { s.Template = "ovfs/sync" }},
	{privilege: "VirtualMachine.Provisioning.Customize", change: everything},
	{privilege: "VirtualMachine.Provisioning.ReadCustSpecs", change: func(s *v1alpha1.VmGroupSpec) { s.CustomizationSpec = "other" }},
	{privilege: "StorageProfile.View", change: func(s *v1alpha1.VmGroupSpec) { s.Placement.StoragePolicy = "VM Encryption Policy" }},
	{privilege: "Host.Inventory.EditCluster", change: func(s *v1alpha1.VmGroupSpec) {
		two := int32(2)
		s.Placement.AntiAffinity, s.Replicas = v1alpha1.AntiAffinityRequired, &two
	}},
	{privilege: "InventoryService.Tagging.CreateCategory", change: func(s *v1alpha1.VmGroupSpec) {
		s.Tags = []v1alpha1.Tag{{Category: "new", Name: "tag", Create: true}}
	}},
	{privilege: "InventoryService.Tagging.CreateTag", change: func(s *v1alpha1.VmGroupSpec) {
		s.Tags = []v1alpha1.Tag{{Category: "known", Name: "new", Create: true}}
	}},
	{privilege: "InventoryService.Tagging.AttachTag", change: tagged},
	{privilege: "InventoryService.Tagging.ObjectAttachable", change: tagged},
	{privilege: "Global.ManageCustomFields", change: func(s *v1alpha1.VmGroupSpec) { s.CustomAttributes = map[string]string{"new": "x"} }},
	{privilege: "Global.SetCustomField", change: func(s *v1alpha1.VmGroupSpec) { s.CustomAttributes = map[string]string{"new": "x"} }},
	{privilege: "VirtualMachine.Config.EditDevice", change: withDisk, then: grow},
	{privilege: "VirtualMachine.Config.DiskExtend", change: withDisk, then: grow},
	{privilege: "Datastore.FileManagement", change: withPersistentDisk},
	{privilege: "VirtualMachine.Config.AddExistingDisk", change: withPersistentDisk},
	{privilege: "VirtualMachine.Config.ChangeTracking", change: withPersistentDisk, then: func(r *rig, g *metacontroller.Group) {
		r.must(r.BackUp("changetracking-0"))
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
	}},
	{privilege: "VirtualMachine.Config.Rename", change: inQuarantine, then: func(_ *rig, g *metacontroller.Group) { g.Scale(0) }},
	{privilege: "VirtualMachine.Inventory.Move", change: inQuarantine, then: func(_ *rig, g *metacontroller.Group) { g.Scale(0) }},
}

func tagged(s *v1alpha1.VmGroupSpec)       { s.Tags = []v1alpha1.Tag{{Category: "known", Name: "tag"}} }
func inQuarantine(s *v1alpha1.VmGroupSpec) { s.Deletion.QuarantineSeconds = 3600 }

func withDisk(s *v1alpha1.VmGroupSpec) { s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1}} }

func withPersistentDisk(s *v1alpha1.VmGroupSpec) {
	s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
}

func grow(_ *rig, g *metacontroller.Group) {
	g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Disks[0].SizeGiB = 2 })
}

// elsewhere are the privileges whose absence no status can show in this rig, and for each the test that covers its absence.
var elsewhere = map[string]string{
	"System.View":                      "every role has it; objects that cannot be seen: the tests of Hide",
	"System.Read":                      "every role has it",
	"VirtualMachine.Interact.Reset":    "vsphere: TestAResetThatVCenterRefusesIsAFaultAndNotTriedForTheSameVersion",
	"VirtualMachine.Config.RemoveDisk": "below: TestADiskFromElsewhereIsNotDestroyedWithoutTheRightToDetachIt",
	"VirtualMachine.Config.Annotation": "below: TestAMemberIsClonedWithoutNotesIfTheirPrivilegesAreMissing",
	"VirtualMachine.Config.ManagedBy":  "below: the same",
	"Resource.ColdMigrate":             "TestAMemberLeavesAHostInMaintenanceThatItWasClonedOn",
}

func TestTheStatusNamesEachMissingPrivilegeOfTheLeastRole(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := roleRig(t)
		_, err := r.AddTag("known", "tag")
		r.must(err)
		r.must(r.AddCustomizationSpec("other", false))
		r.Restrict(leastRole()...)
		s := r.serve(inCluster0, func(_ *vsphere.Config, c *loop.Config) { c.Slots = 16 })
		up(t, s.group("first", 1)) // creates the root folder of all groups, so that the next groups don't need the privilege for it
		for _, x := range lackings {
			name := strings.ToLower(strings.ReplaceAll(x.privilege[strings.LastIndexByte(x.privilege, '.')+1:], ".", "-"))
			if strings.HasPrefix(x.privilege, "Folder.") {
				name = "folder-" + name
			}
			if strings.Contains(x.privilege, "Inventory.") {
				name = "inventory-" + name
			}
			g := s.group(name, 1)
			if x.change != nil {
				x.change(&g.Spec)
			}
			early := x.then == nil && !x.going
			if !early {
				up(t, g)
			}
			r.Withdraw(x.privilege)
			if x.then != nil {
				x.then(r, g)
			}
			ask := g.Sync
			if x.going {
				ask = g.Finalize
			}
			r.saysMissing(ask, x.privilege)
			r.Restrict(leastRole()...)
		}
		var shown []string
		for _, x := range lackings {
			shown = append(shown, x.privilege)
		}
		for _, id := range leastRole() {
			if !slices.Contains(shown, id) && elsewhere[id] == "" {
				t.Errorf("no case of lackings runs without the privilege %s: add one, or name its test in elsewhere", id)
			}
		}
	})
}

// saysMissing repeats a hook call until the status names the missing privilege.
func (r *rig) saysMissing(ask func(context.Context) (metacontroller.Answer, error), privilege string) {
	r.t.Helper()
	var last metacontroller.Answer
	eventually(r.t, patience, "MissingPrivilege "+privilege, func() bool {
		a, err := ask(within(r.t))
		r.must(err)
		last = a
		return strings.Contains(a.Status.LastMessage, privilege) && slices.ContainsFunc(a.Status.Conditions, func(c metav1.Condition) bool {
			return c.Reason == "MissingPrivilege" || c.Reason == plan.ReasonFolderStays
		})
	})
	if r.t.Failed() {
		r.t.Logf("status: %s", last.Status.LastMessage)
	}
}

func TestAMemberIsClonedWithoutNotesIfTheirPrivilegesAreMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := roleRig(t)
		r.Restrict(leastRole()...)
		r.Withdraw("VirtualMachine.Config.Annotation")
		r.Withdraw("VirtualMachine.Config.ManagedBy")
		g := r.serve(inCluster0).group("web", 1)
		up(t, g)
		if d := r.details(webFolder + "web-0"); d.Config.ManagedBy != nil || strings.Contains(d.Config.Annotation, "VmGroup") {
			t.Errorf("details: %+v", d)
		}
		remove(t, g)
	})
}

func TestADiskFromElsewhereIsNotDestroyedWithoutTheRightToDetachIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := roleRig(t)
		r.Restrict(leastRole()...)
		r.Withdraw("VirtualMachine.Config.RemoveDisk")
		g := r.serve(inCluster0).group("web", 1)
		up(t, g)
		vm := object.NewVirtualMachine(r.Admin().Client, r.vm(webFolder+"web-0").Reference())
		devices, err := vm.Device(within(t))
		r.must(err)
		controller, err := devices.FindDiskController("")
		r.must(err)
		disk := devices.CreateDisk(controller, types.ManagedObjectReference{}, "[LocalDS_0] elsewhere.vmdk")
		task, err := vm.Reconfigure(within(t), types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{&types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: types.VirtualDeviceConfigSpecFileOperationCreate, Device: disk}}})
		r.task(task, err)
		r.saysMissing(g.Finalize, "VirtualMachine.Config.RemoveDisk")
		if r.vm(webFolder+"web-0") == nil {
			t.Error("the VM was destroyed, and the disk with it")
		}
		r.Restrict(leastRole()...)
		remove(t, g)
	})
}

// inside returns the objects with these paths.
func (r *rig) inside(paths ...string) (refs []types.ManagedObjectReference) {
	r.t.Helper()
	for _, path := range paths {
		object, err := r.find.ManagedObjectList(context.Background(), path)
		if err != nil || len(object) != 1 {
			r.t.Fatalf("%s: %v, %v; want one object", path, object, err)
		}
		refs = append(refs, object[0].Object.Reference())
	}
	return refs
}

// ownObjects are what a group of roleRig uses, except for its cluster.
var ownObjects = []string{"/DC0/vm/vm-operator-template", "/DC0/vm/" + otherTemplate, "/DC0/vm/vm-operator", "/DC0/datastore/LocalDS_0", "/DC0/network/DC0_DVPG0", "/DC0/network/DVS0"}

// readRig is roleRig with an account that can read nothing but these objects, and the root folder. The folder of all groups and one that the account
// can't read exist.
func readRig(t *testing.T, readable ...string) *rig {
	t.Helper()
	r := roleRig(t)
	for _, folder := range []string{"/DC0/vm/vm-operator", "/DC0/vm/secret"} {
		_, err := r.MakeFolder(folder)
		r.must(err)
	}
	r.Restrict(leastRole()...)
	r.GrantRead(true, r.inside(readable...)...)
	return r
}

func TestGroupsLiveWithReadRightsOnTheirOwnObjectsOnly(t *testing.T) {
	t.Parallel()
	for what, cluster := range map[string]string{"with the cluster": "/DC0/host/DC0_C0", "with its pool alone": "/DC0/host/DC0_C0/Resources"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := readRig(t, append([]string{cluster}, ownObjects...)...)
				server := r.serve(inCluster0)
				g := server.group("web", 2)
				everything(&g.Spec)
				if cluster != "/DC0/host/DC0_C0" {
					says(t, g, v1alpha1.PhaseError, "the DRS host groups of the cluster DC0_C0 cannot be seen: grant vCenter's user the privilege System.Read on it")
					g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Placement.HostGroup = nil })
					says(t, g, v1alpha1.PhaseError, "grant vCenter's user the privilege System.Read on the clusters")
					g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Placement.AntiAffinity = "" })
				}
				up(t, g)
				g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
				up(t, g)
				name := g.Status.Members[0].Name
				r.must(r.Destroy(webFolder + name))
				until(t, g, "the destroyed member is missed", func(a metacontroller.Answer) bool { return a.Status.ReadyReplicas < 2 })
				up(t, g)
				remove(t, g)
				db := server.group("db", 1)
				db.Spec.Networks = g.Spec.Networks
				db.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true, Retention: v1alpha1.DiskRetention{WhenDeleted: v1alpha1.RetentionDelete}}}
				up(t, db)
				remove(t, db)
			})
		})
	}
}

func TestAMemberThatIsMovedWhereTheAccountReadsNothingIsNotReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := readRig(t, append([]string{"/DC0/host/DC0_C0"}, ownObjects...)...)
		g := r.serve(inCluster0).group("web", 2)
		g.Spec.Networks = []v1alpha1.Network{{Network: "DC0_DVPG0"}}
		up(t, g)
		was := refs(r.members())
		r.must(r.Move(webFolder+"web-1", "/DC0/vm/secret"))
		until(t, g, "web-1 is unreachable", func(a metacontroller.Answer) bool {
			return condition(a, v1alpha1.ConditionMembersUnreachable).Status == metav1.ConditionTrue && a.Status.CurrentReplicas == 2
		})
		time.Sleep(time.Hour)
		r.must(r.Move("/DC0/vm/secret/web-1", strings.TrimSuffix(webFolder, "/")))
		up(t, g)
		r.sameVMs(was)
	})
}

// From some versions of vCenter, an account that may not read the root folder gets only first pages. The server then reads fewer objects at once, except
// before it removes a folder.
func TestWhatAnAccountThatMayNotReadTheRootFolderLacksIsSaid(t *testing.T) {
	inRig(t, vcsim.Config{APIVersion: "8.0.1.0"}, func(t *testing.T, r *rig) {
		for i := range 110 {
			_, err := r.AddVM("/DC0/vm", fmt.Sprintf("other-%d", i))
			r.must(err)
		}
		r.GrantRead(false, r.inside("/DC0")...)
		g := r.serve(inCluster0).group("web", 1)
		up(t, g)
		r.saysMissing(g.Finalize, "System.Read on the root")
		r.GrantRead(true, r.inside("/DC0")...)
		remove(t, g)
	})
}
