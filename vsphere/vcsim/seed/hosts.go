package seed

import (
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/types"
)

// The simulator copies a host's configuration through XML for each host it creates. Most of the startup time of an embedded vCenter went
// into the firewall rules, services, network adapters and certificate (an element per byte) of a captured ESXi host. Only what the
// simulator itself reads stays.
func init() {
	full := esx.HostConfigInfo
	esx.HostConfigInfo = types.HostConfigInfo{
		Host:                  full.Host,
		Product:               full.Product,
		StorageDevice:         &types.HostStorageDeviceInfo{},
		FileSystemVolume:      full.FileSystemVolume,
		Network:               &types.HostNetworkInfo{Portgroup: full.Network.Portgroup},
		VirtualNicManagerInfo: &types.HostVirtualNicManagerInfo{},
	}
	esx.AdvancedOptions = esx.AdvancedOptions[:1]
}
