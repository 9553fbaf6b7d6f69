package vcsim_test

import (
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestCloneWithAStoredCustomizationSpec(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
		ok(t, v.AddCustomizationSpec("linux", false))
		ok(t, v.AddCustomizationSpec("windows", true))
		c := login(t, v)
		specs := object.NewCustomizationSpecManager(c.Client.Client)
		for name, want := range map[string]bool{"linux": true, "windows": true, "gone": false} {
			is, err := specs.DoesCustomizationSpecExist(c.ctx, name)
			if err != nil || is != want {
				t.Errorf("%s: %v, %v", name, is, err)
			}
		}
		_, err := specs.GetCustomizationSpec(c.ctx, "gone")
		wantFault[*types.NotFound](t, err)
		for _, name := range []string{"linux", "windows"} {
			item, err := specs.GetCustomizationSpec(c.ctx, name)
			ok(t, err)
			ok(t, c.cloneAs(t, name, func(spec *types.VirtualMachineCloneSpec) { spec.Customization = &item.Spec }))
			got := details(t, v, name).Customization
			if got == nil || len(got.NicSettingMap) != 1 {
				t.Fatalf("%s: got the customization %+v", name, got)
			}
			if _, windows := got.Identity.(*types.CustomizationSysprep); windows != (name == "windows") {
				t.Errorf("%s: the identity is a %T", name, got.Identity)
			}
			ok(t, v.PowerOn(name))
			if d := details(t, v, name); d.HostName != name {
				t.Errorf("%s: host name %q", name, d.HostName)
			}
		}
		if d := details(t, v, template); d.Customization != nil {
			t.Error("the template has a customization")
		}
	})
}

func TestCustomizedGuestKeepsItsAddressAcrossBoots(t *testing.T) {
	inABubble(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		custom := customization("web", "192.0.2.7")
		ok(t, c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) { spec.Customization = custom }))
		for range 2 {
			ok(t, v.PowerOn("vm"))
			if d := details(t, v, "vm"); d.IP != "192.0.2.7" || d.HostName != "web" {
				t.Errorf("host name %q, address %q", d.HostName, d.IP)
			}
			var vm mo.VirtualMachine
			ok(t, c.RetrieveOne(c.ctx, theVM(t, v, "vm").Ref, []string{"guest.net", "guest.hostName"}, &vm))
			if len(vm.Guest.Net) != 1 || len(vm.Guest.Net[0].IpAddress) != 1 || vm.Guest.Net[0].IpAddress[0] != "192.0.2.7" {
				t.Errorf("got the adapters %+v", vm.Guest.Net)
			}
			ok(t, v.PowerOff("vm"))
			if d := details(t, v, "vm"); d.IP != "" {
				t.Errorf("a powered-off VM has the address %s", d.IP)
			}
		}
	})
}

// It is in the guest's files, which stay when the VM leaves the inventory.
func TestCustomizedGuestKeepsItsAddressWhenItsVMIsRegisteredAgain(t *testing.T) {
	for _, booted := range []bool{true, false} {
		t.Run(map[bool]string{true: "customized", false: "customized at its next boot"}[booted], func(t *testing.T) {
			inABubble(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
				ok(t, c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) { spec.Customization = customization("web", "192.0.2.7") }))
				if booted {
					ok(t, v.PowerOn("vm"))
					ok(t, v.PowerOff("vm"))
				}
				ok(t, v.Unregister("vm"))
				ok(t, v.Register(v.OutsideInventory()[0].InstanceUUID))
				ok(t, v.PowerOn("vm"))
				if d := details(t, v, "vm"); d.IP != "192.0.2.7" || d.HostName != "web" || d.Customization == nil {
					t.Errorf("host name %q, address %q, customization %v", d.HostName, d.IP, d.Customization)
				}
				var vm mo.VirtualMachine
				ok(t, c.RetrieveOne(c.ctx, theVM(t, v, "vm").Ref, []string{"guest.customizationInfo"}, &vm))
				if info := vm.Guest.CustomizationInfo; info == nil || info.CustomizationStatus != string(types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_SUCCEEDED) {
					t.Errorf("%+v", info)
				}
			})
		})
	}
}

// customization sets the host name of a Linux guest and the address of its only adapter.
func customization(host, ip string) *types.CustomizationSpec {
	return &types.CustomizationSpec{
		Options: &types.CustomizationLinuxOptions{},
		Identity: &types.CustomizationLinuxPrep{
			HostName: &types.CustomizationFixedName{Name: host}, Domain: "example.com", TimeZone: "Etc/UTC",
		},
		NicSettingMap: []types.CustomizationAdapterMapping{{Adapter: types.CustomizationIPSettings{
			Ip: &types.CustomizationFixedIp{IpAddress: ip}, SubnetMask: "255.255.255.0", Gateway: []string{"192.0.2.1"},
		}}},
	}
}

func TestCustomizationMustMatchTheAdapters(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		custom := customization("web", "192.0.2.7")
		err := c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) {
			spec.Customization, spec.Location.DeviceChange = custom, c.replaceNICs(t, "VM Network", "VM Network")
		})
		if f := wantFault[*types.NicSettingMismatch](t, err); f.NumberOfNicsInSpec != 1 || f.NumberOfNicsInVM != 2 {
			t.Errorf("the fault is %+v", f)
		}
		ok(t, c.cloneAs(t, "vm", func(*types.VirtualMachineCloneSpec) {})) // the failed clone left nothing

		vm := object.NewVirtualMachine(c.Client.Client, theVM(t, v, "vm").Ref)
		task, err := vm.Customize(c.ctx, *custom)
		ok(t, err)
		ok(t, task.Wait(c.ctx))
		if details(t, v, "vm").Customization == nil {
			t.Error("Details does not show the specification of CustomizeVM_Task")
		}
		task, err = vm.Customize(c.ctx, *custom)
		ok(t, err)
		wantFault[*types.CustomizationPending](t, task.Wait(c.ctx))
	})
}
