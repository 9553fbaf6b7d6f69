package inventory

import (
	"path"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/methods"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest/recorded"
)

// The recording is vCenter 5.5's first answer about 122 objects, to a filter that names ManagedEntity and types derived from ManagedEntity.
func TestARecordedFirstAnswerOfAStreamEndsWithTheSecondPage(t *testing.T) {
	t.Parallel()
	var page paging
	seen := watched{entered: map[string]bool{}, checked: map[string]bool{}}
	for i, name := range []string{"2-WaitForUpdatesEx-page1-of-2.xml", "3-WaitForUpdatesEx-page2-of-2.xml"} {
		var body methods.WaitForUpdatesExBody
		recorded.Body(t, "manageiq/vcenter-5.5-stream/"+name, &body)
		set := body.Res.Returnval
		if more, err := page.hasMore(set); err != nil || more != (i == 0) {
			t.Errorf("%s: more %t, %v; want no error and %t", name, more, err, i == 0)
		}
		if left := seen.take(set); len(left) > 0 {
			t.Errorf("%s: %v left; want none", name, left)
		}
		for _, filter := range set.FilterSet {
			for _, o := range filter.ObjectSet {
				named, owned := false, false
				for _, change := range o.ChangeSet {
					named = named || change.Name == "name" && change.Val != ""
					owned = owned || strings.HasPrefix(change.Name, "summary.") || strings.HasPrefix(change.Name, "config.")
				}
				if o.Obj.Type == "VirtualMachine" && (!named || !owned) {
					t.Errorf("%s: not both as a ManagedEntity and as a VirtualMachine", o.Obj)
				}
			}
		}
	}
	if len(seen.entered) != 122 {
		t.Errorf("%d objects; want 122", len(seen.entered))
	}
}

// The recorded VMs: some have addresses, and the host of one can't reach the VM's files.
func TestWhatRecordedVMsSayOfThemselves(t *testing.T) {
	t.Parallel()
	var vms methods.RetrievePropertiesExBody
	recorded.Body(t, "manageiq/vcenter-5.5-read/4-RetrievePropertiesEx-four-vms.xml", &vms)
	for i := range vms.Res.Returnval.Objects {
		o := &vms.Res.Returnval.Objects[i]
		if m := decodeMachine(o); len(m.IPs) != 1 || !strings.HasPrefix(m.IPs[0], "192.0.2.") {
			t.Errorf("%s: addresses %v", o.Obj, m.IPs)
		}
	}
	lost := recorded.Object(t, "glouton/esxi-8.0.1/inaccessible-vm.xml")
	m := decodeMachine(&lost)
	if m.Reachable || m.Readable || m.Unreachable == "" || m.Name != "/vmfs/volumes/64d4b065-879077de-6dfb-5254000ed68e/vcenter/vcenter.vmx" {
		t.Errorf("a VM whose files are out of reach: %+v", m)
	}
}

// fetched is the answer to pyvmomi's read of one property.
type fetched[T any] struct {
	Res struct {
		Value T `xml:"returnval"`
	} `xml:"FetchResponse"`
}

// The recording is of a vCLS VM of vCenter 8.0.3: its guest was not customized, and its VMware Tools run without reporting an address.
func TestWhatARecordedVCLSVMSaysOfItself(t *testing.T) {
	t.Parallel()
	const dir = "pyvmomi/vcenter-8.0.3-vcls-vm/"
	var config fetched[vim.VirtualMachineConfigInfo]
	var guest fetched[vim.GuestInfo]
	var runtime fetched[vim.VirtualMachineRuntimeInfo]
	recorded.Body(t, dir+"config.xml", &config)
	recorded.Body(t, dir+"guest.xml", &guest)
	recorded.Body(t, dir+"runtime.xml", &runtime)
	c, g, r := config.Res.Value, guest.Res.Value, runtime.Res.Value
	m := decodeMachine(&vim.ObjectContent{Obj: VMRef("vm-1"), PropSet: []vim.DynamicProperty{{Name: "name", Val: c.Name},
		{Name: "config.instanceUuid", Val: c.InstanceUuid}, {Name: "config.changeVersion", Val: c.ChangeVersion}, {Name: "runtime.connectionState", Val: r.ConnectionState},
		{Name: "runtime.powerState", Val: r.PowerState}, {Name: "runtime.bootTime", Val: *r.BootTime}, {Name: "guest.toolsRunningStatus", Val: g.ToolsRunningStatus},
		{Name: "guest.customizationInfo", Val: *g.CustomizationInfo}, {Name: "guest.net", Val: vim.ArrayOfGuestNicInfo{GuestNicInfo: g.Net}}}})

	if !m.Reachable || m.Power != plan.PoweredOn || !m.Tools || len(m.IPs) != 0 || m.BootTime.Nanosecond() != 0 {
		t.Errorf("the VM is %+v, want it reachable and on, with running Tools and no address, and its boot time in whole seconds", m)
	}
	if m.Customization != (plan.Customization{}) || !strings.Contains(m.ChangeVersion, ".") {
		t.Errorf("the customization is %+v, and the changeVersion %q, want none, and one with a dot", m.Customization, m.ChangeVersion)
	}
	for _, o := range c.ExtraConfig {
		if _, is := o.GetOptionValue().Value.(string); !is {
			t.Errorf("%s is a %T", o.GetOptionValue().Key, o.GetOptionValue().Value)
		}
	}
}

// The recording is of a vSAN datastore, whose directories have ids as names. In a recording of 8.0.1, all 31 files of seven VMs' disks and
// snapshots are named after their VM, too.
func TestRecordedDisksAreNamedAfterTheirVM(t *testing.T) {
	t.Parallel()
	var config fetched[vim.VirtualMachineConfigInfo]
	recorded.Body(t, "pyvmomi/vcenter-8.0.3-vcls-vm/config.xml", &config)
	devices := config.Res.Value.Hardware.Device
	all := disks.In(devices)
	if len(all) == 0 {
		t.Fatal("the recorded VM has no disks")
	}
	record := disks.Identify(disks.Keys(devices), devices, config.Res.Value.Files.VmPathName)
	for _, vmx := range []string{config.Res.Value.Files.VmPathName, "[elsewhere] moved/" + path.Base(config.Res.Value.Files.VmPathName)} {
		if foreign := disks.Foreign(devices, vmx, record); len(foreign) > 0 {
			t.Errorf("%s is not named after %s", disks.File(foreign[0]), vmx)
		}
	}
	if foreign := disks.Foreign(devices, "[elsewhere] other/other.vmx", record); len(foreign) != len(all) {
		t.Errorf("of another VM, %d of %d disks are foreign", len(foreign), len(all))
	}
}
