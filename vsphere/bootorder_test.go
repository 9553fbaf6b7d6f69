package vsphere

import (
	"strings"
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Adapters that the template boots from cannot be removed in a clone (fog/fog-vsphere#98).
func TestATemplateThatBootsFromItsAdaptersKeepsThemOnTheNetworksOfTheSpec(t *testing.T) {
	inPlace(t, vcsim.Config{Portgroups: 2}, func(t *testing.T, w *world, p *process) {
		w.must(w.BootFromNetwork("ubuntu"))
		template, err := w.Details("ubuntu")
		w.must(err)
		d := p.made(0, v1alpha1.VmGroupSpec{Networks: []v1alpha1.Network{{Network: "DC0_DVPG1"}, {Network: "DC0_DVPG0"}}})
		if len(d.NICs) != 2 || d.NICs[0].Network != "DC0_DVPG1" || d.NICs[1].Network != "DC0_DVPG0" {
			t.Errorf("web-0 has the adapters %+v; want one on DC0_DVPG1, then one on DC0_DVPG0", d.NICs)
		}
		if was := template.NICs[0]; d.NICs[0].Key != was.Key || d.NICs[0].Type != was.Type || d.NICs[0].MAC == was.MAC || d.NICs[0].MAC == "" {
			t.Errorf("the template's adapter %+v became %+v; want the key and type of the template, and a MAC address of its own", was, d.NICs[0])
		}
		if n := w.Calls()["CloneVM_Task"]; n != 2 {
			t.Errorf("vCenter began %d clones; want 2", n)
		}
	})
}

func TestABootOrderThatNamesAnExtraAdapterIsAFaultThatSaysWhatToDo(t *testing.T) {
	inPlace(t, vcsim.Config{Portgroups: 1}, func(t *testing.T, w *world, p *process) {
		second := &vim.VirtualVmxnet3{VirtualVmxnet: vim.VirtualVmxnet{VirtualEthernetCard: vim.VirtualEthernetCard{VirtualDevice: vim.VirtualDevice{Key: -1,
			Backing: &vim.VirtualEthernetCardNetworkBackingInfo{VirtualDeviceDeviceBackingInfo: vim.VirtualDeviceDeviceBackingInfo{DeviceName: "VM Network"}}}}}}
		w.must(w.ToVM("ubuntu"))
		w.must(w.Reconfigure("ubuntu", vim.VirtualMachineConfigSpec{DeviceChange: []vim.BaseVirtualDeviceConfigSpec{
			&vim.VirtualDeviceConfigSpec{Operation: vim.VirtualDeviceConfigSpecOperationAdd, Device: second}}}))
		w.must(w.ToTemplate("ubuntu"))
		w.must(w.BootFromNetwork("ubuntu"))
		e := p.refused(0, v1alpha1.VmGroupSpec{Networks: []v1alpha1.Network{{Network: "DC0_DVPG0"}}}, vcfault.ReasonInvalidConfiguration, `"ubuntu"`, "boots from", "boot order", "spec.networks")
		if want := plan.OnTemplate | plan.OnNetworks; e.Scope != want {
			t.Errorf("the refusal depends on %b; want %b, because it affects all groups with that template and these networks", e.Scope, want)
		}
	})
}

// A clone's adapters have keys only after the clone.
func TestAMemberBootsFirstFromWhatTheSpecSaysAndNotFromWhatItsTemplateDoes(t *testing.T) {
	t.Parallel()
	for first, want := range map[v1alpha1.BootDevice]string{"": "network", v1alpha1.BootDisk: "disk", v1alpha1.BootNetwork: "network network disk"} {
		t.Run(string(first), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, p := placed(t, vcsim.Config{Portgroups: 2})
				w.must(w.BootFromNetwork("ubuntu"))
				spec := v1alpha1.VmGroupSpec{Networks: []v1alpha1.Network{{Network: "DC0_DVPG1"}, {Network: "DC0_DVPG0"}}}
				spec.Hardware = v1alpha1.Hardware{BootFirst: first, BootDelaySeconds: 3}
				p.preparedWith(spec)
				d, err := w.Details("web-0")
				w.must(err)
				var order []string
				for _, device := range d.Config.BootOptions.BootOrder {
					switch device := device.(type) {
					case *vim.VirtualMachineBootOptionsBootableEthernetDevice:
						if cards := len(order); device.DeviceKey != d.NICs[cards].Key {
							t.Errorf("adapter %d has the key %d; the boot order has %d in its place", cards, d.NICs[cards].Key, device.DeviceKey)
						}
						order = append(order, "network")
					case *vim.VirtualMachineBootOptionsBootableDiskDevice:
						order = append(order, "disk")
					}
				}
				if got := strings.Join(order, " "); got != want || d.Config.BootOptions.BootDelay != 3000 {
					t.Errorf("web-0 boots from %q after %d ms; want from %q after 3000 ms", got, d.Config.BootOptions.BootDelay, want)
				}
			})
		})
	}
}

func TestAMemberWithoutAdaptersCannotBootFromThem(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		template, err := w.Details("ubuntu")
		w.must(err)
		w.must(w.ToVM("ubuntu"))
		w.must(w.Reconfigure("ubuntu", vim.VirtualMachineConfigSpec{DeviceChange: []vim.BaseVirtualDeviceConfigSpec{
			&vim.VirtualDeviceConfigSpec{Operation: vim.VirtualDeviceConfigSpecOperationRemove, Device: &vim.VirtualVmxnet3{
				VirtualVmxnet: vim.VirtualVmxnet{VirtualEthernetCard: vim.VirtualEthernetCard{VirtualDevice: vim.VirtualDevice{Key: template.NICs[0].Key}}}}}}}))
		w.must(w.ToTemplate("ubuntu"))
		p.refused(0, v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{BootFirst: v1alpha1.BootNetwork}}, vcfault.ReasonInvalidConfiguration, `"ubuntu"`, "no network adapter", "spec.networks", "spec.hardware.bootFirst")
		p.made(0, v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{BootFirst: v1alpha1.BootDisk}})
	})
}
