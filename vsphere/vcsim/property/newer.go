package property

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

// since is the API version that introduced a property.
var since = map[string]string{"config.hardware.autoCoresPerSocket": "8.0.0.1", "guest.customizationInfo": "7.0.2"}

// checkVersion rejects properties that are newer than this vCenter's API version.
//
// [doc] RetrievePropertiesEx, CreateFilter: InvalidProperty "if ... a property path does not exist".
func (v *Streams) checkVersion(specs ...types.PropertyFilterSpec) types.BaseMethodFault {
	version := v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.About.ApiVersion
	for _, spec := range specs {
		for _, p := range spec.PropSet {
			for _, path := range p.PathSet {
				if with, is := since[path]; is && version < with {
					return &types.InvalidProperty{Name: path}
				}
			}
		}
	}
	return nil
}
