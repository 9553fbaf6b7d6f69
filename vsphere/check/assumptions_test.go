package check

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// fullOptions prepares a vCenter in which every experiment can run: guests have VMware Tools and addresses, and there are two port
// groups, a datastore cluster, a template with a snapshot, and a VM that the account is not allowed to see.
func fullOptions(t testing.TB, w *world) Options {
	t.Helper()
	w.AddKeyProvider()
	w.Must(w.BootWithEFI("/DC0/vm/ubuntu"))
	w.Must(w.ToVM("/DC0/vm/ubuntu"))
	upgrade, err := object.NewVirtualMachine(w.Admin().Client, vctest.Value(w.Find("/DC0/vm/ubuntu"))).UpgradeVM(t.Context(), "vmx-19")
	w.Must(err)
	w.Must(upgrade.Wait(t.Context()))
	w.Must(w.ToTemplate("/DC0/vm/ubuntu"))
	_, err = w.AddSnapshot("/DC0/vm/ubuntu", "base")
	w.Must(err)
	unseen := vctest.Value(w.AddVM("/DC0/vm", "unseen"))
	w.Hide(unseen)
	o := deepOptions
	o.DRS = true
	o.Groups, o.Hidden = []*v1alpha1.VmGroup{groupOf(func(s *v1alpha1.VmGroupSpec) {
		s.Hardware.VTPM = true
		s.Clone, s.Networks = v1alpha1.Clone{Mode: v1alpha1.CloneLinked, Snapshot: "base"}, []v1alpha1.Network{{Network: "DC0_DVPG0"}, {Network: "DC0_DVPG1"}}
	})}, unseen.Value
	return o
}

func fullConfig(c *vcsim.Config) {
	c.Portgroups, c.Pods, c.Hosts = 2, 1, 2
	c.Latency.Clone = 1500 * time.Millisecond // short enough for many polls
}

// encrypted makes the group's members full clones, and encrypted: linked clones can't be encrypted.
func encrypted(_ *world, o *Options) {
	o.Groups[0].Spec.Clone, o.Groups[0].Spec.Placement.StoragePolicy = v1alpha1.Clone{}, "VM Encryption Policy"
}

func TestDeepCheckConfirmsEveryAssumptionInTheSimulator(t *testing.T) {
	for only, change := range map[string]func(*world, *Options){"deep: linked clone": func(*world, *Options) {}, "deep: encryption": encrypted} {
		t.Run(only, func(t *testing.T) {
			inDeepWorld(t, func(t *testing.T, w *world) {
				o, held := fullOptions(t, w), roleIDs()
				change(w, &o)
				for _, p := range role.Trial() {
					held = append(held, p.ID)
				}
				w.Restrict(held...)
				r := w.checked(nil, o)
				for _, x := range experiments {
					switch x.check {
					case "deep: clone", "deep: stream of changes": // these experiments report only failures
					case only:
						r.has(x.check, OK, "", "")
					case "deep: linked clone", "deep: encryption":
						r.has(x.check, Skip, "", "")
					default:
						r.has(x.check, OK, "", "")
					}
				}
				r.only()
				w.clean("ubuntu", "unseen")
			}, fullConfig)
		})
	}
}

func TestTrialPrivilegesAreExactlyThoseOfTheExperiments(t *testing.T) {
	t.Parallel()
	var needed []string
	for _, x := range experiments {
		for _, id := range x.needs {
			if needed = append(needed, id); !slices.ContainsFunc(slices.Concat(role.Least(), role.Trial()), func(p role.Privilege) bool { return p.ID == id }) {
				t.Errorf("%s needs %s, which no role has", x.check, id)
			}
		}
	}
	for _, p := range role.Trial() {
		if !slices.Contains(needed, p.ID) {
			t.Errorf("no experiment needs the privilege %s: remove it from role.Trial", p.ID)
		}
	}
}

// violations make assumptions false, each with the text that the assumption's row then shows.
var violations = []struct {
	check, seen string
	violate     func(w *world, o *Options)
}{
	{"stream of changes", "fell silent", func(w *world, _ *Options) { w.DelayFirstUpdates(6 * time.Minute) }},
	{"deep: session that ends", "does not return NotAuthenticated", func(w *world, _ *Options) {
		w.Rewrite(nth(1, func(*types.Logout) { w.FailCall("CurrentTime", &types.NoPermission{PrivilegeId: "System.View"}, 1) }))
	}},
	{"deep: one name, one folder", "two folders with one name", func(w *world, _ *Options) {
		w.Rewrite(nth(3, func(r *types.CreateFolder) { r.Name = "another" })) // the first two calls create the scratch folder and the first of two folders
	}},
	{"deep: one name, one VM", "two VMs with one name", func(w *world, _ *Options) {
		w.Rewrite(nth(2, func(r *types.CloneVM_Task) { r.Name = "another" }))
	}},
	{"deep: running clone", "not found among the recent tasks", func(w *world, _ *Options) {
		w.ChangeReads(each("Task", "info.descriptionId", func(string) any { return "Something.else" }))
	}},
	{"deep: name held by a clone", "only at the end of the first clone", func(w *world, _ *Options) { w.Behave(func(b *vcsim.Behavior) { b.RefuseLate = true }) }},
	{"deep: stamp at first sight", "but not yet its stamp", func(w *world, _ *Options) {
		looks := 0
		w.ChangeReads(func(o *types.ObjectContent) {
			without := slices.DeleteFunc(slices.Clone(o.PropSet), func(p types.DynamicProperty) bool { return p.Name == session.OptionPath(trialKey) })
			if len(without) < len(o.PropSet) {
				if looks++; looks == 1 {
					o.PropSet = without
				}
			}
		})
	}},
	{"deep: stamp", "instanceUuid differs", func(w *world, _ *Options) {
		w.ChangeReads(each("VirtualMachine", "config.instanceUuid", func(string) any { return "4242" }))
	}},
	{"deep: stamp", "does not have the extraConfig", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.CloneVM_Task) {
			c.Spec.Config.ExtraConfig[0].GetOptionValue().Value = "another"
		}))
	}},
	{"deep: disks of a clone", "have the keys [2104]", func(w *world, _ *Options) {
		w.ChangeReads(devices(w, func(disk *types.VirtualDisk) {
			if disk.VDiskId == nil {
				disk.Key = 2104
			}
		}))
	}},
	{"deep: disks of a clone", "not named after its VM", func(w *world, _ *Options) {
		w.ChangeReads(devices(w, func(disk *types.VirtualDisk) {
			file := &disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo).FileName
			*file = strings.ReplaceAll(*file, "vmgroup-check", "disk")
		}))
	}},
	{"deep: order of adapters", "not in the order of the spec", func(w *world, _ *Options) {
		w.ChangeReads(devices(w, func(card types.BaseVirtualEthernetCard) {
			card.GetVirtualEthernetCard().Key *= -1
		}))
	}},
	{"deep: order of adapters", "no MAC address", func(w *world, _ *Options) {
		w.ChangeReads(devices(w, func(card types.BaseVirtualEthernetCard) {
			card.GetVirtualEthernetCard().MacAddress = ""
		}))
	}},
	{"deep: linked clone", "not children of the snapshot's", func(w *world, _ *Options) {
		w.ChangeReads(devices(w, func(disk *types.VirtualDisk) {
			disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo).Parent = nil
		}))
	}},
	{"deep: guestinfo of a clone", "has 4096 bytes of guestinfo.vmgroup-check, its spec 65536", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.CloneVM_Task) {
			for _, o := range c.Spec.Config.ExtraConfig {
				if value := o.GetOptionValue(); value.Key == largeKey {
					value.Value = value.Value.(string)[:4096]
				}
			}
		}))
	}},
	{"deep: optional rule", "outside the host group of a mandatory rule", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.ReconfigureComputeResource_Task) {
			if spec := c.Spec.(*types.ClusterConfigSpecEx); len(spec.RulesSpec) == 2 && spec.RulesSpec[0].Info != nil {
				spec.RulesSpec = spec.RulesSpec[1:] // DRS then keeps the two VMs apart
			}
		}))
	}},
	{"deep: DRS VM group", "not in the cluster's configuration", func(w *world, _ *Options) {
		w.ChangeReads(each("ClusterComputeResource", "configurationEx", func(c types.ClusterConfigInfoEx) any {
			c.Group = nil
			return c
		}))
	}},
	{"deep: new VM in view", "", func(w *world, _ *Options) {
		w.Rewrite(every(func(f *types.CreateFilter) {
			f.Spec.PropSet = slices.DeleteFunc(f.Spec.PropSet, func(p types.PropertySpec) bool { return p.Type == "VirtualMachine" })
		}))
	}},
	{"deep: absent key", "reported as missing", func(w *world, _ *Options) {
		w.ChangeReads(func(o *types.ObjectContent) {
			if len(o.PropSet)+len(o.MissingSet) == 0 {
				o.MissingSet = []types.MissingProperty{{Path: "config", Fault: types.LocalizedMethodFault{Fault: new(types.InvalidProperty)}}}
			}
		})
	}},
	{"deep: absent key", "was emptied has a value", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.ReconfigVM_Task) {
			if len(c.Spec.ExtraConfig) > 0 && c.Spec.ExtraConfig[0].GetOptionValue().Value == "" {
				c.Spec.ExtraConfig = nil
			}
		}))
	}},
	{"deep: changeVersion", "an outdated changeVersion succeeded", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.ReconfigVM_Task) {
			c.Spec.ChangeVersion = ""
		}))
	}},
	{"deep: hidden VM", "the same as for a missing VM: ManagedObjectNotFound", func(w *world, o *Options) {
		ref := types.ManagedObjectReference{Type: "VirtualMachine", Value: o.Hidden}
		w.FailReadsOf(ref, &types.ManagedObjectNotFound{Obj: ref})
	}},
	{"deep: power-on", "no bootTime", func(w *world, _ *Options) {
		w.ChangeReads(func(o *types.ObjectContent) {
			o.PropSet = slices.DeleteFunc(o.PropSet, func(p types.DynamicProperty) bool { return p.Name == "runtime.bootTime" })
		})
	}},
	{"deep: power-on", "InvalidConfiguration", func(w *world, _ *Options) {
		w.FailTask(vcsim.PowerOn, nil, new(types.GenericVmConfigFault), 0)
	}},
	{"deep: bootTime", "two reads differ", func(w *world, _ *Options) {
		w.ChangeReads(each("VirtualMachine", "runtime.bootTime", func(time.Time) any { return time.Now().Add(time.Duration(rand.Int64())) }))
	}},
	{"deep: bootTime", "a reset changes the bootTime", func(w *world, _ *Options) {
		w.Rewrite(nth(1, func(*types.ResetVM_Task) {
			w.ChangeReads(each("VirtualMachine", "runtime.bootTime", func(at time.Time) any { return at.Add(time.Minute) }))
		}))
	}},
	{"deep: shares of a running VM", "does not have the shares", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.ReconfigVM_Task) {
			c.Spec.CpuAllocation, c.Spec.MemoryAllocation = nil, nil
		}))
	}},
	{"deep: guestinfo at first boot", `the guest has the host name "ubuntu"`, func(w *world, _ *Options) {
		w.ChangeReads(each("VirtualMachine", "guest.hostName", func(string) any { return "ubuntu" }))
	}},
	{"deep: addresses by adapter", "vCenter reports none for an adapter", func(w *world, _ *Options) {
		w.ChangeReads(each("VirtualMachine", "guest.net", func(nics types.ArrayOfGuestNicInfo) any {
			for i := range nics.GuestNicInfo {
				nics.GuestNicInfo[i].DeviceConfigId = -1
			}
			return nics
		}))
	}},
	{"deep: copy", "has its instanceUuid", func(w *world, _ *Options) {
		first := ""
		w.Rewrite(every(func(c *types.CloneVM_Task) {
			if c.Name != copyName {
				first = c.Spec.Config.InstanceUuid
				return
			}
			w.ChangeReads(each("VirtualMachine", "config.instanceUuid", func(string) any { return first }))
		}))
	}},
	{"deep: taken name", "was renamed", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.ReconfigVM_Task) {
			if c.Spec.Name == otherName {
				c.Spec.Name = "another"
			}
		}))
	}},
	{"deep: taken name", "was moved", func(w *world, _ *Options) {
		w.Rewrite(nth(1, func(r *types.MoveIntoFolder_Task) { r.List = nil }))
	}},
	{"deep: folder that is not empty", "another stamp or instanceUuid", func(w *world, _ *Options) {
		w.Rewrite(every(func(*types.RegisterVM_Task) {
			w.ChangeReads(each("VirtualMachine", "config.instanceUuid", func(string) any { return "4242" }))
		}))
	}},
	{"deep: folder that is not empty", "could not be registered again", func(w *world, _ *Options) {
		w.FailTask(vcsim.RegisterVM, nil, &types.FileNotFound{FileFault: types.FileFault{File: "vmgroup-check-0.vmx"}}, 1)
	}},
	{"deep: disk that records its owner", "does not have the metadata", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.CreateDisk_Task) {
			c.Spec.Metadata = nil
		}))
	}},
	{"deep: disk that records its owner", `/data" reads back as`, func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.CreateDisk_Task) {
			c.Spec.Name = strings.ReplaceAll(c.Spec.Name, "/", "-")
		}))
	}},
	{"deep: disk that records its owner", "does not have the flag keepAfterDeleteVm", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.CreateDisk_Task) {
			c.Spec.KeepAfterDeleteVm = types.NewBool(false)
		}))
	}},
	{"deep: disk that records its owner", "is not listed after 1m", func(w *world, _ *Options) { w.Behave(func(b *vcsim.Behavior) { b.LagFirstClassDisks = time.Hour }) }},
	{"deep: disk that records its owner", "metadata cannot be changed", func(w *world, _ *Options) {
		w.Rewrite(every(func(u *types.VCenterUpdateVStorageObjectMetadataEx_Task) {
			u.Metadata = nil
		}))
	}},
	{"deep: disk in one VM", "no device with the disk's id", func(w *world, _ *Options) {
		w.ChangeReads(devices(w, func(disk *types.VirtualDisk) {
			disk.VDiskId = nil
		}))
	}},
	{"deep: disk in one VM", "two running VMs have the disk", func(w *world, _ *Options) {
		attached := 0
		w.Rewrite(every(func(c *types.ReconfigVM_Task) {
			if len(c.Spec.DeviceChange) > 0 {
				if attached++; attached == 2 {
					c.Spec.DeviceChange = nil
				}
			}
		}))
	}},
	{"deep: disk that outlives its VM", "was destroyed with the VM", func(w *world, _ *Options) {
		w.Rewrite(every(func(*types.Destroy_Task) {
			for _, d := range w.FirstClassDisks() {
				w.Must(w.EditFirstClassDisk(d.ID, func(s *vcsim.DiskState) { s.Keep = false }))
			}
		}))
	}},
	{"deep: encryption", "are not encrypted", func(w *world, o *Options) {
		encrypted(w, o)
		w.Rewrite(every(func(c *types.ReconfigVM_Task) {
			if c.Spec.VmProfile != nil {
				c.Spec.VmProfile, c.Spec.DeviceChange = nil, nil
			}
		}))
	}},
	{"deep: vTPM", "has no virtual TPM", func(w *world, _ *Options) {
		w.Rewrite(every(func(c *types.ReconfigVM_Task) {
			c.Spec.DeviceChange = slices.DeleteFunc(c.Spec.DeviceChange, func(d types.BaseVirtualDeviceConfigSpec) bool {
				_, is := d.GetVirtualDeviceConfigSpec().Device.(*types.VirtualTPM)
				return is
			})
		}))
	}},
	{"deep: destroyed VM", "does not return ManagedObjectNotFound", func(w *world, _ *Options) {
		destroyed, template := types.ManagedObjectReference{}, vctest.Value(w.Find("/DC0/vm/ubuntu"))
		w.Rewrite(func(r any) {
			switch r := r.(type) {
			case *types.Destroy_Task:
				destroyed = r.This
			case *types.RetrievePropertiesEx:
				if o := r.SpecSet[0].ObjectSet; len(o) == 1 && o[0].Obj == destroyed {
					o[0].Obj, destroyed = template, types.ManagedObjectReference{}
				}
			}
		})
	}},
	{"deep: events of a destroy", "not chained to the TaskEvent", func(w *world, _ *Options) {
		w.Rewrite(every(func(q *types.CreateCollectorForEvents) {
			if q.Filter.EventChainId != 0 {
				q.Filter.EventChainId = 1 << 30
			}
		}))
	}},
	{"deep: events of a destroy", "no VmRemovedEvent", func(w *world, _ *Options) { w.Behave(func(b *vcsim.Behavior) { b.DelayEvents = time.Hour }) }},
	{"deep: events of a destroy", "the events report of the unregistered VM: it was destroyed", func(w *world, _ *Options) {
		var destroy int32
		w.Rewrite(func(r any) {
			if q, is := r.(*types.CreateCollectorForEvents); is && q.Filter.EventChainId != 0 { // the destroyed VM's chain is queried first
				destroy = max(destroy, q.Filter.EventChainId)
				q.Filter.EventChainId = destroy
			}
		})
	}},
}

// every changes every request of a type.
func every[T any](change func(*T)) func(any) {
	return func(r any) {
		if request, is := r.(*T); is {
			change(request)
		}
	}
}

// nth changes the n-th request of a type.
func nth[T any](n int, change func(*T)) func(any) {
	return func(r any) {
		if request, is := r.(*T); is {
			if n--; n == 0 {
				change(request)
			}
		}
	}
}

// each changes a property in every read.
func each[T any](kind, path string, change func(T) any) func(*types.ObjectContent) {
	return func(o *types.ObjectContent) {
		for i := range o.PropSet {
			if value, is := o.PropSet[i].Val.(T); is && o.Obj.Type == kind && o.PropSet[i].Name == path {
				o.PropSet[i].Val = change(value)
			}
		}
	}
}

// devices changes the devices of a type of all VMs but the template.
func devices[D any](w *world, change func(D)) func(*types.ObjectContent) {
	template := vctest.Value(w.Find("/DC0/vm/ubuntu"))
	return func(o *types.ObjectContent) {
		if o.Obj == template {
			return
		}
		each("VirtualMachine", "config.hardware.device", func(all types.ArrayOfVirtualDevice) any {
			for _, device := range all.VirtualDevice {
				if d, is := device.(D); is {
					change(d)
				}
			}
			return all
		})(o)
	}
}

func TestDeepCheckFailsForEachViolationAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for i, x := range violations {
		if thin.Out(i, thinning) {
			continue
		}
		t.Run(x.check+": "+x.seen, func(t *testing.T) {
			inDeepWorld(t, func(t *testing.T, w *world) {
				o := fullOptions(t, w)
				x.violate(w, &o)
				w.checked(nil, o).has(x.check, Fail, x.seen, "")
				w.DelayFirstUpdates(0)
				w.Heal()
				w.clean("ubuntu", "unseen")
			}, fullConfig)
		})
	}
}

func TestEveryExperimentHasAViolationAndARowInTheDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/vcenter.md")
	must.Succeed(t, err)
	reports := []string{"deep: clone", "deep: stream of changes", "deep: guest shutdown"} // experiments that test no assumption
	for _, x := range experiments {
		violated := slices.Contains(reports, x.check)
		for _, v := range violations {
			violated = violated || v.check == x.check
		}
		if !violated {
			t.Errorf("no violation tests the experiment %q", x.check)
		}
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(x.proves) + `.*$`).FindString(string(text))
		if x.proves != "" && !strings.Contains(row, "*"+x.check+"*") {
			t.Errorf("docs/vcenter.md: the row %q does not name *%s*: %q", x.proves, x.check, row)
		}
	}
}
