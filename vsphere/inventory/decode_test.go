package inventory

import (
	"slices"
	"testing"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

func answered(props ...vim.DynamicProperty) *vim.ObjectContent {
	return &vim.ObjectContent{Obj: VMRef("vm-1"), PropSet: props}
}

func prop(name string, val any) vim.DynamicProperty { return vim.DynamicProperty{Name: name, Val: val} }

func TestWhatVCenterLeavesUnsetIsUnknownAndBlocksNothing(t *testing.T) {
	t.Parallel()
	m := decodeMachine(answered(prop("name", "web-0"), prop("config.instanceUuid", "id"),
		prop("runtime.connectionState", vim.VirtualMachineConnectionStateConnected)), nil)
	want := plan.VM{MoRef: "vm-1", Name: "web-0", Reachable: true}
	if !m.Readable || !equalVMs([]plan.VM{m.VM}, []plan.VM{want}) || m.CoresPerSocket != 0 {
		t.Errorf("%+v", m)
	}
	denied := answered(prop("config.instanceUuid", "id"))
	for _, path := range []string{"runtime.bootTime", "guest.toolsRunningStatus", "config.hotPlugMemoryLimit", "config.cpuHotAddEnabled"} {
		denied.MissingSet = append(denied.MissingSet, vim.MissingProperty{Path: path, Fault: vim.LocalizedMethodFault{Fault: &vim.NoPermission{}}})
	}
	if m := decodeMachine(denied, nil); !m.Readable || !m.Reachable {
		t.Errorf("%+v", m)
	}
}

func TestPropertiesOfTheAPIBecomeFacts(t *testing.T) {
	t.Parallel()
	boot := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 7200))
	yes, cores := true, int32(2)
	for _, values := range []struct{ flag, cores, boot any }{{true, int32(2), boot}, {&yes, &cores, &boot}} {
		m := decodeMachine(answered(prop("config.instanceUuid", "id"), prop("parent", FolderRef("group-v3")),
			prop("config.cpuHotAddEnabled", values.flag), prop("config.memoryHotAddEnabled", values.flag), prop("config.hotPlugMemoryLimit", int64(65536)),
			prop("config.hardware.numCPU", int32(4)), prop("config.hardware.memoryMB", int32(2048)),
			prop("config.hardware.numCoresPerSocket", values.cores), prop("runtime.bootTime", values.boot),
			prop("guest.toolsRunningStatus", "guestToolsRunning"), prop("config.template", false)), nil)
		want := plan.VM{MoRef: "vm-1", Reachable: true, Folder: "group-v3", CPU: 4, MemoryMB: 2048, CPUHotAdd: true, MemoryHotAdd: true,
			MaxHotMemoryMB: 65536, Boot: boot.UTC(), Tools: true}
		if !equalVMs([]plan.VM{m.VM}, []plan.VM{want}) || m.CoresPerSocket != 2 || m.Template {
			t.Errorf("%+v", m)
		}
	}
	for _, status := range []string{"guestToolsNotRunning", "guestToolsExecutingScripts", ""} {
		if decodeMachine(answered(prop("guest.toolsRunningStatus", status)), nil).Tools {
			t.Errorf("%q counts as running", status)
		}
	}
	if m := decodeMachine(answered(prop("parentVApp", vim.ManagedObjectReference{Type: "VirtualApp", Value: "resgroup-v1"})), nil); m.Parent != "resgroup-v1" || m.Folder != "" {
		t.Errorf("in a vApp: %+v", m)
	}
}

// docker0 and similar interfaces have the same address on every machine: no client may be led to it.
func TestAnAddressWithoutAnAdapterIsNotTheMembers(t *testing.T) {
	t.Parallel()
	nics := []vim.GuestNicInfo{
		{DeviceConfigId: -1, IpAddress: []string{"172.17.0.1"}},
		{DeviceConfigId: 4000, IpAddress: []string{"192.168.10.20"}},
	}
	for primary, want := range map[string][]string{"172.17.0.1": {"192.168.10.20"}, "2001:db8::20": {"192.168.10.20"}, "": {"192.168.10.20"}} {
		if got := addresses(primary, nics); !slices.Equal(got, want) {
			t.Errorf("with %q as the primary one: %v", primary, got)
		}
	}
	if got := addresses("172.17.0.1", nics[:1]); got != nil {
		t.Errorf("while the adapter has no address: %v", got)
	}
	if got := addresses("192.168.10.20", nil); !slices.Equal(got, []string{"192.168.10.20"}) {
		t.Errorf("of a guest that reports no adapters: %v", got)
	}
}

func TestMembersAreReachedByTheirStaticAddressThenByTheFirstNetwork(t *testing.T) {
	t.Parallel()
	nic := func(key int32, ips ...string) vim.GuestNicInfo {
		return vim.GuestNicInfo{DeviceConfigId: key, IpAddress: ips}
	}
	nics := []vim.GuestNicInfo{nic(4001, "10.1.0.7", "10.1.0.8"), nic(-1, "172.17.0.1"), nic(4000, "192.168.0.9", "fd00::9", "fe80::1")}
	const prepared = `{"networks":true,"digest":"x"}`
	for name, c := range map[string]struct {
		primary string
		stamp   stamp.Stamp
		want    []string
	}{
		"without networks":     {"10.1.0.8", stamp.Stamp{}, []string{"10.1.0.8", "10.1.0.7", "192.168.0.9", "fd00::9"}},
		"DHCP":                 {"10.1.0.8", stamp.Stamp{Prepared: prepared}, []string{"192.168.0.9", "fd00::9", "10.1.0.8", "10.1.0.7"}},
		"before it is on":      {"10.1.0.8", stamp.Stamp{Prepared: plan.Unprepared + prepared}, []string{"192.168.0.9", "fd00::9", "10.1.0.8", "10.1.0.7"}},
		"static on the second": {"192.168.0.9", stamp.Stamp{Addresses: ",10.1.0.7", Prepared: prepared}, []string{"10.1.0.7", "192.168.0.9", "fd00::9", "10.1.0.8"}},
		"static, customized":   {"10.1.0.8", stamp.Stamp{Addresses: "192.168.0.9 fd00::9,10.1.0.7"}, []string{"192.168.0.9", "fd00::9", "10.1.0.7", "10.1.0.8"}},
		"not taken yet":        {"", stamp.Stamp{Addresses: "192.168.0.77"}, []string{"192.168.0.9", "fd00::9", "10.1.0.7", "10.1.0.8"}},
		"docker0":              {"172.17.0.1", stamp.Stamp{Prepared: prepared}, []string{"192.168.0.9", "fd00::9", "10.1.0.7", "10.1.0.8"}},
	} {
		if got := inOrder(addresses(c.primary, nics), addresses("", firstAdapter(nics)), &c.stamp); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

func TestGuestAddressesAreInOrderAndOnlyThoseThatCanBeReached(t *testing.T) {
	t.Parallel()
	nics := []vim.GuestNicInfo{
		{IpAddress: []string{"10.0.0.9", "fe80::1", "169.254.3.4", "127.0.0.1", "2001:db8::1"}},
		{IpConfig: &vim.NetIpConfigInfo{IpAddress: []vim.NetIpConfigInfoIpAddress{{IpAddress: "10.0.0.5"}, {IpAddress: "10.0.0.9"}, {IpAddress: "::1"}}}},
	}
	for primary, want := range map[string][]string{
		"":          {"10.0.0.5", "10.0.0.9", "2001:db8::1"},
		"10.0.0.9":  {"10.0.0.9", "10.0.0.5", "2001:db8::1"},
		"10.0.0.1":  {"10.0.0.5", "10.0.0.9", "2001:db8::1"},
		"fe80::1":   {"10.0.0.5", "10.0.0.9", "2001:db8::1"},
		"not an ip": {"10.0.0.5", "10.0.0.9", "2001:db8::1"},
	} {
		if got := addresses(primary, nics); !slices.Equal(got, want) {
			t.Errorf("with %q: %v, not %v", primary, got, want)
		}
	}
	if got := addresses("", nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
