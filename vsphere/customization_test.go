package vsphere

import (
	"fmt"
	"strings"
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/source"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestACustomizedGuestGetsTheMembersNameAndAddresses(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		w.must(w.AddCustomizationSpec("linux", false))
		w.must(w.AddCustomizationSpec("windows", true))
		d := p.made(0, v1alpha1.VmGroupSpec{CustomizationSpec: "linux"})
		linux, is := d.Customization.Identity.(*vim.CustomizationLinuxPrep)
		if !is || linux.HostName.(*vim.CustomizationFixedName).Name != "web-0" || linux.Domain != "example.com" || len(d.Customization.NicSettingMap) != 1 {
			t.Errorf("web-0 is customized by %+v; want Linux with the host name web-0, the domain example.com and one adapter", d.Customization)
		}
		spec := v1alpha1.VmGroupSpec{CustomizationSpec: "windows", Networks: []v1alpha1.Network{
			{Network: "VM Network", Nameservers: []string{"10.0.0.53"}, SearchDomains: []string{"a.example.com", "b.example.com"},
				IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.19"}, PrefixLength: 23, Gateway: "10.0.0.1"},
				IPv6: &v1alpha1.Addresses{Ranges: []string{"fd00::10-fd00::19"}, AdditionalRanges: []string{"fd00::110-fd00::119"}, PrefixLength: 64, Gateway: "fe80::1"}},
			{Network: "VM Network", Nameservers: []string{"10.0.0.53", "10.0.1.53"}},
		}}
		d = p.made(1, spec)
		windows, is := d.Customization.Identity.(*vim.CustomizationSysprep)
		if !is || windows.UserData.ComputerName.(*vim.CustomizationFixedName).Name != "web-1" || windows.UserData.OrgName != "Example" {
			t.Errorf("web-1 is customized by %+v; want Windows with the computer name web-1 and the organization Example", d.Customization.Identity)
		}
		var got []string
		for _, m := range d.Customization.NicSettingMap {
			text := fmt.Sprintf("%T %s %v %v %s", m.Adapter.Ip, m.Adapter.SubnetMask, m.Adapter.Gateway, m.Adapter.DnsServerList, m.Adapter.DnsDomain)
			if fixed, is := m.Adapter.Ip.(*vim.CustomizationFixedIp); is {
				text += " " + fixed.IpAddress
			}
			if six := m.Adapter.IpV6Spec; six != nil {
				text += fmt.Sprintf(" %+v %+v %v", six.Ip[0].(*vim.CustomizationFixedIpV6), six.Ip[1].(*vim.CustomizationFixedIpV6), six.Gateway)
			}
			got = append(got, text)
		}
		for i, want := range [][]string{{"FixedIp ", "255.255.254.0", "[10.0.0.1]", "[10.0.0.53]", "a.example.com", "10.0.0.11", "fd00::11 ", "fd00::111 ", "SubnetMask:64", "[fe80::1]"}, {"DhcpIp", "10.0.1.53"}} {
			if len(got) != 2 || !vctest.Mentions(got[i], want...) {
				t.Errorf("the adapters are customized by %q; want %q for adapter %d", got, want, i)
			}
		}
		if global := d.Customization.GlobalIPSettings; fmt.Sprint(global.DnsServerList, global.DnsSuffixList) != "[10.0.0.53 10.0.1.53] [a.example.com b.example.com]" {
			t.Errorf("got the DNS settings %+v; want the servers and domains of all networks, each once", global)
		}
		if d := p.made(2, v1alpha1.VmGroupSpec{CustomizationSpec: "linux"}); d.Customization.Identity.(*vim.CustomizationLinuxPrep).HostName.(*vim.CustomizationFixedName).Name != "web-2" {
			t.Errorf("web-2 is customized by %+v; want its own name", d.Customization.Identity)
		}
		if e := p.refused(3, v1alpha1.VmGroupSpec{CustomizationSpec: "plan9"}, vcfault.ReasonCustomizationSpecNotFound, "plan9", "spec.customizationSpec"); e != nil && !e.NeedsOperator {
			t.Error("the fault of the missing customization specification needs no operator; want one, because a retry fails as well")
		}
	})
}

func TestACustomizationThatDoesNotFitIsRefusedBeforeAnythingIsCloned(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		w.must(w.AddCustomizationSpec("windows", true))
		long := plan.Ref{Namespace: "shop", Name: "a-rather-long-name", UID: "uid-long"}
		a := p.shaped(0, v1alpha1.VmGroupSpec{CustomizationSpec: "windows"})
		a.Key = plan.MemberName(long.Name, 0)
		if e := vctest.AsError(p.Do(t.Context(), long, a)); e == nil || e.Reason != vcfault.ReasonComputerNameTooLong || !vctest.Mentions(e.Message, a.Key, "15") {
			t.Errorf("got the error %v; want %s, with the name and the limit of 15 characters", e, vcfault.ReasonComputerNameTooLong)
		}
		from := &source.Source{Devices: []vim.BaseVirtualDevice{&vim.VirtualVmxnet3{}, &vim.VirtualVmxnet3{}}}
		b := &cloneBuilder{source: from, details: &plan.Details{Spec: &v1alpha1.VmGroupSpec{Template: "ubuntu"}}}
		err := b.mapAdapters("linux", &vim.CustomizationSpec{NicSettingMap: make([]vim.CustomizationAdapterMapping, 1)})
		if e := vctest.AsError(err); e == nil || e.Reason != vcfault.ReasonCustomizationSpecUnfit || !vctest.Mentions(e.Message, "linux", "1 network adapters", "has 2", "spec.networks") {
			t.Errorf("got the error %v; want %s, with both numbers of adapters", err, vcfault.ReasonCustomizationSpecUnfit)
		}
		if _, err = guest.Identify("x", "web-0", &vim.CustomizationSysprepText{Value: "secret"}); vctest.AsError(err) == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got the error %v; want one that doesn't show the sysprep text", err)
		}
	})
}

// No document says whether vCenter compares a clone's customization with the adapters of the clone or with those of its source.
func TestACustomizationOfAClonesOwnAdaptersSucceedsOrSaysWhatToChange(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		w.must(w.AddCustomizationSpec("linux", false))
		networks := []v1alpha1.Network{{Network: "VM Network"}, {Network: "VM Network"}}
		w.Behave(func(b *vcsim.Behavior) { b.CountSourceAdapters = true })
		p.made(0, v1alpha1.VmGroupSpec{CustomizationSpec: "linux", Networks: networks[:1]})
		if e := p.refused(1, v1alpha1.VmGroupSpec{CustomizationSpec: "linux", Networks: networks}, vcfault.ReasonCustomizationSpecUnfit,
			"ubuntu", "as many as spec.networks has (2; it has 1)", "remove spec.customizationSpec"); e != nil && (!e.NeedsOperator || e.Scope&plan.OnNetworks == 0) {
			t.Errorf("got the fault %+v; want one for an operator that depends on spec.networks", e)
		}
		w.Behave(func(b *vcsim.Behavior) { b.CountSourceAdapters = false })
		p.made(1, v1alpha1.VmGroupSpec{CustomizationSpec: "linux", Networks: networks})
	})
}
