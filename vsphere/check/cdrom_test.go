package check

import (
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestCheckWarnsAboutAConnectedISO(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		drive := &types.VirtualCdrom{VirtualDevice: types.VirtualDevice{Key: -1,
			Backing:     &types.VirtualCdromIsoBackingInfo{VirtualDeviceFileBackingInfo: types.VirtualDeviceFileBackingInfo{FileName: "[LocalDS_0] tools.iso"}},
			Connectable: &types.VirtualDeviceConnectInfo{StartConnected: true}}}
		w.Must(w.ToVM("ubuntu"))
		w.Must(w.Reconfigure("ubuntu", types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: drive}}}))
		w.Must(w.ToTemplate("ubuntu"))
		r := w.checked(nil, Options{Templates: []string{"ubuntu"}})
		r.only("CD-ROM")
		r.has("CD-ROM", Warn, "[LocalDS_0] tools.iso", "disconnect it")
	})
}
