package inventory

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

func answered(props ...vim.DynamicProperty) *vim.ObjectContent {
	return &vim.ObjectContent{Obj: VMRef("vm-1"), PropSet: props}
}

func decodeMachine(o *vim.ObjectContent) Machine {
	var x answer
	return x.decode(o, x.properties(), nil)
}

func prop(name string, val any) vim.DynamicProperty { return vim.DynamicProperty{Name: name, Val: val} }

func TestWhatVCenterLeavesUnsetIsUnknownAndBlocksNothing(t *testing.T) {
	t.Parallel()
	m := decodeMachine(answered(prop("name", "web-0"), prop("config.instanceUuid", "id"),
		prop("runtime.connectionState", vim.VirtualMachineConnectionStateConnected)))

	want := plan.VM{MoRef: "vm-1", Name: "web-0", Reachable: true}
	if !m.Readable || !equalVMs([]plan.VM{m.VM}, []plan.VM{want}) || m.CoresPerSocket != 0 {
		t.Errorf("the VM is %+v, want it readable, and all properties but its name and connection state unknown", m)
	}
	denied := answered(prop("config.instanceUuid", "id"))
	for _, path := range []string{"runtime.bootTime", "guest.toolsRunningStatus", "config.hotPlugMemoryLimit", "config.cpuHotAddEnabled"} {
		denied.MissingSet = append(denied.MissingSet, vim.MissingProperty{Path: path, Fault: vim.LocalizedMethodFault{Fault: &vim.NoPermission{}}})
	}
	if m := decodeMachine(denied); !m.Readable || !m.Reachable {
		t.Errorf("the VM is %+v, want it readable and reachable", m)
	}
}

// A vCenter newer than govmomi may answer with types that govmomi doesn't know: govmomi's decoder returns nil for them.
func TestTypesThatGovmomiDoesNotKnowAreLeftOut(t *testing.T) {
	t.Parallel()
	ours := &vim.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: vim.ClusterRuleInfo{Name: stamp.RuleName(web), Key: 1}}
	cluster := answered(prop("configurationEx", vim.ClusterConfigInfoEx{
		Rule:  []vim.BaseClusterRuleInfo{nil, ours},
		Group: []vim.BaseClusterGroupInfo{nil, &vim.ClusterHostGroup{ClusterGroupInfo: vim.ClusterGroupInfo{Name: "left"}, Host: []vim.ManagedObjectReference{{Value: "host-1"}}}}}))
	cluster.Obj.Type = "ClusterComputeResource"
	c := decodeCluster(cluster)
	if len(c.Rules) != 1 || c.Rules[0].Key != 1 || len(c.HostGroups) != 1 {
		t.Errorf("the cluster is %+v, want the group's rule and one host group", c)
	}
	question := vim.VirtualMachineQuestionInfo{Text: "why?", Choice: vim.ChoiceOption{ChoiceInfo: []vim.BaseElementDescription{nil, &vim.ElementDescription{Key: "yes"}}}}
	if text := questionText(&question); text != "why? (choices: yes)" {
		t.Errorf("got the question %q; want %q", text, "why? (choices: yes)")
	}
}

func TestPropertiesOfTheAPIBecomeFacts(t *testing.T) {
	t.Parallel()
	boot := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 7200))
	yes, cores, limit := true, int32(2), int64(65536)
	for _, values := range []struct{ flag, cores, boot, limit any }{{true, int32(2), boot, int64(65536)}, {&yes, &cores, &boot, &limit}} {
		m := decodeMachine(answered(prop("config.instanceUuid", "id"), prop("parent", FolderRef("group-v3")),
			prop("config.cpuHotAddEnabled", values.flag), prop("config.memoryHotAddEnabled", false), prop("config.hotPlugMemoryLimit", values.limit),
			prop("config.hardware.numCPU", int32(4)), prop("config.hardware.memoryMB", int32(2048)),
			prop("config.hardware.numCoresPerSocket", values.cores), prop("runtime.bootTime", values.boot),
			prop("guest.toolsRunningStatus", "guestToolsRunning"), prop("config.template", false),
			prop("config.files.vmPathName", "[ds] web-0/web-0.vmx"), prop("summary.config.numVirtualDisks", int32(2))))

		want := plan.VM{MoRef: "vm-1", Reachable: true, Folder: "group-v3", File: "[ds] web-0/web-0.vmx", CPU: 4, MemoryMB: 2048, CPUHotAdd: true,
			MaxHotMemoryMB: 65536, BootTime: boot.UTC(), Tools: true}
		if !equalVMs([]plan.VM{m.VM}, []plan.VM{want}) || m.CoresPerSocket != 2 || m.Template || !m.NamedHome || m.NumDisks != 2 {
			t.Errorf("the VM is %+v, want %+v, with 2 cores per socket, 2 disks, and files named after it", m, want)
		}
	}
	for _, status := range []string{"guestToolsNotRunning", "guestToolsExecutingScripts", ""} {
		if decodeMachine(answered(prop("guest.toolsRunningStatus", status))).Tools {
			t.Errorf("%q counts as running", status)
		}
	}
	if m := decodeMachine(answered(prop("parentVApp", vim.ManagedObjectReference{Type: "VirtualApp", Value: "resgroup-v1"}))); m.Parent != "resgroup-v1" || m.Folder != "" {
		t.Errorf("in a vApp: %+v", m)
	}
}

// fieldsOfStamps are the fields of a VM that come from its stamp.
func fieldsOfStamps(t *testing.T) (names []string) {
	var s stamp.Stamp
	for field, value := range reflect.ValueOf(&s).Elem().Fields() {
		if !field.IsExported() {
			continue
		}
		for ; value.Kind() == reflect.Struct && value.Type() != reflect.TypeFor[time.Time](); value = value.Field(0) {
		}
		switch value.Kind() {
		case reflect.String:
			value.SetString("x")
		case reflect.Bool:
			value.SetBool(true)
		case reflect.Int, reflect.Int32, reflect.Int64:
			value.SetInt(1)
		case reflect.Struct:
			value.Set(reflect.ValueOf(time.Unix(1, 0)))
		default:
			t.Fatalf("the stamp's %s has a type that this test doesn't know", field.Name)
		}
	}
	for field, value := range reflect.ValueOf(s.Onto(plan.VM{})).Fields() {
		if !value.IsZero() {
			names = append(names, field.Name)
		}
	}
	return names
}

func TestEachPropertyOfAVMThatIsReadIsUsed(t *testing.T) {
	t.Parallel()
	ofStamp := fieldsOfStamps(t)
	ofAll := []string{"MoRef", "Reachable", "Unreachable", "IPs", "Host"}            // what follows from several properties, or from the object itself
	later := []string{"UnreportedAddresses", "Reported", "IsTemplate", "Renumbered"} // what the inventory adds
	table := sessiontest.Table[answer]{Kind: session.VMType, Of: (*answer).properties, Samples: map[string]any{
		"config.files.vmPathName":     "[ds] web-0/web-0.vmx",
		"guest.toolsRunningStatus":    string(vim.VirtualMachineToolsRunningStatusGuestToolsRunning),
		"guest.customizationInfo":     vim.GuestInfoCustomizationInfo{CustomizationStatus: string(vim.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_FAILED)},
		session.OptionPath(stamp.Key): vim.OptionValue{Key: stamp.Key, Value: "stamp"},
	}}
	for _, field := range slices.Concat(ofStamp, ofAll, later) {
		table.Otherwise = append(table.Otherwise, "Machine.VM."+field)
	}
	for _, field := range []string{"Contents", "Readable", "Whole", "firstIPs"} {
		table.Otherwise = append(table.Otherwise, "Machine."+field)
	}
	table.Check(t)
	sessiontest.Table[templateAnswer]{Kind: session.VMType, Of: (*templateAnswer).properties}.Check(t)
}

// A reading has up to thousands of VMs before it is published.
func TestAReadingHasOnlyTheAddressesThatMembersHave(t *testing.T) {
	t.Parallel()
	nics := vim.ArrayOfGuestNicInfo{GuestNicInfo: []vim.GuestNicInfo{{DeviceConfigId: 4001}, {DeviceConfigId: 4000}}}
	for i := range 1400 {
		nic := &nics.GuestNicInfo[i%2]
		nic.IpAddress = append(nic.IpAddress, fmt.Sprintf("10.%d.%d.%d", i%2, i/250, 1+i%250))
	}
	last := stamp.Stamp{UID: web.UID, InstanceUUID: "id", Addresses: "10.0.5.149,10.1.5.150"}
	o := answered(prop("config.instanceUuid", "id"), prop(session.GuestNet, nics),
		prop(session.OptionPath(stamp.Key), vim.OptionValue{Key: stamp.Key, Value: last.Encode()}))
	r := Reading{guestNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.0.5.0/24"), netip.MustParsePrefix("10.1.4.0/22")}}
	r.decode([]vim.ObjectContent{*o}, map[string]string{})
	m := r.Machines[0]
	want := []string{"10.0.5.149", "10.1.5.150", "10.1.4.2", "10.1.4.4", "10.1.4.6", "10.1.4.8", "10.1.4.10", "10.1.4.12", "10.1.4.14", "10.1.4.16",
		"10.1.4.18", "10.1.4.20"}
	if !slices.Equal(m.IPs, want) {
		t.Errorf("the VM has the addresses %v, want %v", m.IPs, want)
	}
	if !slices.Equal(m.firstIPs, want[1:]) {
		t.Errorf("its first adapter has the addresses %v, want %v", m.firstIPs, want[1:])
	}
}
