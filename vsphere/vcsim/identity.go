package vcsim

import (
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"sigs.k8s.io/yaml"
)

// identityOf reads the customization or, if there is none, cloud-init's metadata. cloud-init prefers an OVF environment, which is empty
// here. The caller holds the world lock and the VM's.
func (v *inventory) identityOf(vm *simulator.VirtualMachine) identity {
	if v.ignores[vm.Self] {
		return identity{}
	}
	if spec := v.customized[vm.Self]; spec != nil {
		id := identity{Host: hostname(spec, vm.Name)}
		for _, nic := range spec.NicSettingMap {
			adapter := addressing{DHCP: true}
			if fixed, is := nic.Adapter.Ip.(*types.CustomizationFixedIp); is {
				adapter = addressing{Static: []string{fixed.IpAddress}}
			}
			id.Adapters = append(id.Adapters, adapter)
		}
		return id
	}
	if readsOVF(vm) {
		return identity{}
	}
	values := make(map[string]string)
	for _, o := range vm.Config.ExtraConfig {
		values[o.GetOptionValue().Key] = fmt.Sprint(o.GetOptionValue().Value)
	}
	if values["guestinfo.ignition.config.data"] != "" { // Ignition takes neither a name nor an address from the metadata
		return identity{}
	}
	return readMetadata(values["guestinfo.metadata"], values["guestinfo.metadata.encoding"], macs(vm))
}

func macs(vm *simulator.VirtualMachine) (all []string) {
	for _, d := range vm.Config.Hardware.Device {
		if card, ok := d.(types.BaseVirtualEthernetCard); ok {
			all = append(all, card.GetVirtualEthernetCard().MacAddress)
		}
	}
	return all
}

// customize schedules a customization of the guest for the next power-on. The caller holds the world lock.
//
// [doc] NicSettingMismatch: "The number of network adapter settings in the customization specification does not match
// the number of network adapters present in the virtual machine"; CustomizationPending: one "is already pending on
// this virtual machine and is awaiting power-up to complete".
func (v *inventory) customize(ctx *simulator.Context, vm *simulator.VirtualMachine, spec types.CustomizationSpec) types.BaseMethodFault {
	given := copyCustomization(spec)
	_, fault := v.inner(ctx, vm.Self, func() soap.HasFault {
		return vm.CustomizeVMTask(ctx, &types.CustomizeVM_Task{This: vm.Self, Spec: spec})
	})
	if fault == nil {
		v.customized[vm.Self], v.due[vm.Self] = given, true
	}
	return fault
}

func copyCustomization(spec types.CustomizationSpec) *types.CustomizationSpec {
	return copyOf(reflect.ValueOf(spec)).Addr().Interface().(*types.CustomizationSpec)
}

// hostname returns the guest's host name after its customization, or "" if the specification sets none.
func hostname(spec *types.CustomizationSpec, vmName string) string {
	var name types.BaseCustomizationName
	switch id := spec.Identity.(type) {
	case *types.CustomizationLinuxPrep:
		name = id.HostName
	case *types.CustomizationSysprep:
		name = id.UserData.ComputerName
	}
	switch n := name.(type) {
	case *types.CustomizationFixedName:
		return n.Name
	case *types.CustomizationVirtualMachineName:
		return vmName
	}
	return ""
}

// setCustomizationStatus reports the status of a customization that has not ended yet, in a guest with VMware Tools. FailCustomizations can turn
// success into failure. (Without Tools, the simulator reports success at power-on.) The caller holds the world lock.
//
// [doc] GuestInfo.customizationInfo (since 7.0.2): pending until the guest begins, at its first boot with Tools; then running; at the end
// succeeded or failed, with the guest's error message.
func (v *inventory) setCustomizationStatus(ctx *simulator.Context, vm *simulator.VirtualMachine, status types.GuestInfoCustomizationStatus) {
	if !v.due[vm.Self] || !v.guest.Tools {
		return
	}
	info := types.GuestInfoCustomizationInfo{}
	if was := vm.Guest.CustomizationInfo; was != nil {
		info.StartTime = was.StartTime
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	switch status {
	case types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_PENDING:
		info.StartTime = nil
	case types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_RUNNING:
		info.StartTime = &now
	default:
		delete(v.due, vm.Self)
		info.EndTime = &now
		if v.matches(v.behavior.FailCustomizations, vm) {
			status, info.ErrorMsg = types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_FAILED, v.behavior.CustomizationError
		}
	}
	info.CustomizationStatus = string(status)
	v.report(ctx, vm, func(g *types.GuestInfo) { g.CustomizationInfo = &info })
}

// identity is a guest's host name and addresses, as its customization or metadata sets them.
type identity struct {
	Host     string
	Adapters []addressing // of the adapters in the customization or metadata; others use DHCP
}

// addressing has an adapter's static addresses, and whether it uses DHCP.
type addressing struct {
	DHCP   bool
	Static []string
}

// ethernet is an adapter in cloud-init's network configuration, version 2.
type ethernet struct {
	Match struct {
		MAC string `json:"macaddress"`
	} `json:"match"`
	DHCP4     bool     `json:"dhcp4"`
	Addresses []string `json:"addresses"`
}

// readMetadata parses the metadata as cloud-init's VMware datasource does: YAML or JSON, plain or gzipped, with a mapping for `network`. An
// adapter without a MAC to match is matched by its position. Metadata that cannot be parsed is ignored.
func readMetadata(text, encoding string, macs []string) identity {
	var data struct {
		LocalHostname string `json:"local-hostname"`
		Hostname      string `json:"hostname"`
		Network       struct {
			Ethernets map[string]ethernet `json:"ethernets"`
		} `json:"network"`
	}
	if yaml.Unmarshal(decodeMetadata(text, encoding), &data) != nil {
		return identity{}
	}
	id := identity{Host: cmp.Or(data.LocalHostname, data.Hostname), Adapters: slices.Repeat([]addressing{{DHCP: true}}, len(macs))}
	for place, name := range slices.Sorted(maps.Keys(data.Network.Ethernets)) {
		nic := data.Network.Ethernets[name]
		if nic.Match.MAC != "" {
			place = slices.IndexFunc(macs, func(mac string) bool { return strings.EqualFold(mac, nic.Match.MAC) })
		}
		if place < 0 || place >= len(macs) {
			continue
		}
		adapter := addressing{DHCP: nic.DHCP4}
		for _, text := range nic.Addresses {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				adapter.Static = append(adapter.Static, prefix.Addr().String())
			}
		}
		id.Adapters[place] = adapter
	}
	return id
}

// decodedMax limits decompressed metadata, in bytes.
const decodedMax = 1 << 20

// decodeMetadata unpacks a text, which is gzipped and in base64 if it has an encoding; nil if it can't.
func decodeMetadata(text, encoding string) []byte {
	if encoding == "" {
		return []byte(text)
	}
	unzip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return nil
	}
	plain, err := io.ReadAll(io.LimitReader(unzip, decodedMax))
	if err != nil {
		return nil
	}
	return plain
}
