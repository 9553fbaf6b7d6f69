package managed

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// dockerAddress is the default address of docker0.
const dockerAddress = "172.17.0.1"

// StartDocker makes a guest with running Tools report docker0, an interface that belongs to no adapter, with its address as the guest's
// primary one, as Tools may (vmware/open-vm-tools#93, #100). The report stays until Tools stop.
func (v *Objects) StartDocker(where string) error {
	return v.changeVM("start Docker in", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustHaveTools(vm); fault != nil {
			return fault
		}
		v.report(ctx, vm, func(g *types.GuestInfo) {
			noDocker(g)
			g.Net = append(g.Net, types.GuestNicInfo{MacAddress: "02:42:ac:11:00:01", Connected: true, DeviceConfigId: -1, IpAddress: []string{dockerAddress}})
			g.IpAddress = dockerAddress
		})
		return nil
	})
}

// AddIP makes a guest with running Tools report one more address on its last adapter. The primary address stays.
func (v *Objects) AddIP(where, ip string) error {
	return v.changeVM("add an address to", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustHaveTools(vm); fault != nil {
			return fault
		}
		v.report(ctx, vm, func(g *types.GuestInfo) {
			g.Net = slices.Clone(g.Net)
			for i := len(g.Net) - 1; i >= 0; i-- {
				if ofAdapter(g.Net[i]) {
					g.Net[i].IpAddress = append(slices.Clone(g.Net[i].IpAddress), ip)
					return
				}
			}
		})
		return nil
	})
}

func mustHaveTools(vm *simulator.VirtualMachine) types.BaseMethodFault {
	if !toolsRun(vm) {
		return new(types.ToolsUnavailable)
	}
	return nil
}

// ofAdapter reports whether a guest interface belongs to an adapter of the VM.
//
// [doc] GuestNicInfo.deviceConfigId: "Link to the corresponding virtual device"; -1 for an interface that has none.
func ofAdapter(nic types.GuestNicInfo) bool { return nic.DeviceConfigId >= 0 }

func noDocker(g *types.GuestInfo) {
	g.Net = slices.DeleteFunc(slices.Clone(g.Net), func(nic types.GuestNicInfo) bool { return !ofAdapter(nic) })
}

// hasAddress reports whether an adapter has an address.
func hasAddress(g *types.GuestInfo) bool {
	return slices.ContainsFunc(g.Net, func(nic types.GuestNicInfo) bool { return ofAdapter(nic) && len(nic.IpAddress) > 0 }) ||
		g.IpAddress != "" && g.IpAddress != dockerAddress
}
