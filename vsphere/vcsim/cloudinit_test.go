package vcsim_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func packed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestGuestWithVAppPropertiesIgnoresGuestinfo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
		c := login(t, v)
		ok(t, v.SetVAppProperties("vm-operator-template"))
		for name, host := range map[string]string{"with": "", "without": "web-0"} {
			ok(t, c.cloneAs(t, name, func(spec *types.VirtualMachineCloneSpec) {
				spec.Config.ExtraConfig = []types.BaseOptionValue{option("guestinfo.metadata", "local-hostname: web-0")}
				spec.Config.VAppConfigRemoved = types.NewBool(name == "without")
			}))
			ok(t, v.PowerOn(name))
			if d := details(t, v, name); d.HostName != host || d.VAppProperties != (name == "with") {
				t.Errorf("%s: host name %q, vApp properties %t", name, d.HostName, d.VAppProperties)
			}
		}
	})
}

func TestGuestReadsMetadataLikeCloudInit(t *testing.T) {
	t.Parallel()
	const network = `{version: 2, ethernets: {id0: {match: {name: "e*"}, addresses: ["192.0.2.7/24"]}, id1: {addresses: ["2001:db8::7/64"]}}}`
	plain := "instance-id: a\nlocal-hostname: web-0\nnetwork: " + network + "\n"
	for what, one := range map[string]struct{ text, encoding, host, ip, second string }{
		"plain":           {plain, "", "web-0", "192.0.2.7", "2001:db8::7"},
		"base64":          {base64.StdEncoding.EncodeToString([]byte(plain)), "base64", "web-0", "192.0.2.7", "2001:db8::7"},
		"gzipped":         {packed(plain), "gzip+base64", "web-0", "192.0.2.7", "2001:db8::7"},
		"network encoded": {fmt.Sprintf("local-hostname: web-0\nnetwork: %s\nnetwork.encoding: gz+b64\n", packed(network)), "", "web-0", "192.0.2.7", "2001:db8::7"},
		"JSON, no addr.":  {`{"hostname": "web-1"}`, "", "web-1", "10.128.", ""},
		"invalid":         {"\x00", "gzip+base64", "", "10.128.", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
				c := login(t, v)
				ok(t, c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) {
					spec.Location.DeviceChange = c.replaceNICs(t, "VM Network", "VM Network")
					spec.Config.ExtraConfig = []types.BaseOptionValue{option("guestinfo.metadata", one.text)}
					if one.encoding != "" {
						spec.Config.ExtraConfig = append(spec.Config.ExtraConfig, option("guestinfo.metadata.encoding", one.encoding))
					}
				}))
				ok(t, v.PowerOn("vm"))
				d := details(t, v, "vm")
				if d.HostName != one.host || len(d.IP) < len(one.ip) || d.IP[:len(one.ip)] != one.ip {
					t.Errorf("host name %q, address %q", d.HostName, d.IP)
				}
				var vm mo.VirtualMachine
				ok(t, c.RetrieveOne(c.ctx, d.Ref, []string{"guest.net", "summary.guest"}, &vm))
				var second string
				if len(vm.Guest.Net) == 2 && len(vm.Guest.Net[1].IpAddress) == 1 {
					second = vm.Guest.Net[1].IpAddress[0]
				}
				if second != one.second || vm.Summary.Guest.HostName != one.host {
					t.Errorf("second adapter's address %q, host name %q", second, vm.Summary.Guest.HostName)
				}
			})
		})
	}
}
