package seed

import (
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/types"
)

// The simulator copies the configuration of a host through XML for each host that it makes: with all of a captured ESXi host's
// firewall rules, services, network cards and certificate (an element for each byte), that is most of the time in which an
// embedded vCenter starts. Only what the simulator itself reads stays.
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
