package guest

import (
	"context"
	"net"
	"slices"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// computerNameMost is the maximum length of a Windows computer name in characters ([doc] CustomizationUserData.computerName: "restricted
// to 15 characters"). A longer name would be cut, and members would have the same name.
const computerNameMost = 15

// ReadCustomization reads a guest customization specification by its name. Its passwords are encrypted, and only vCenter can decrypt them.
func ReadCustomization(ctx context.Context, s *session.Session, name string) (*types.CustomizationSpec, error) {
	manager := *s.Vim.ServiceContent.CustomizationSpecManager
	res, err := methods.GetCustomizationSpec(ctx, s.Vim, &types.GetCustomizationSpec{This: manager, Name: name})
	if err == nil {
		return &res.Returnval.Spec, nil
	}
	if !vcfault.Has[*types.NotFound](err) {
		return nil, err
	}
	var all types.ArrayOfCustomizationSpecInfo
	if _, err := session.ReadProps(ctx, s, manager, session.To("info", &all)); err != nil {
		return nil, err
	}
	var names []string
	for _, info := range all.CustomizationSpecInfo {
		names = append(names, info.Name)
	}
	if len(names) == 0 {
		return nil, vcfault.ForOperator(vcfault.ReasonCustomizationSpecNotFound, "vCenter shows its user no guest customization specifications, so %q of spec.customizationSpec cannot be found: create it, or grant the privilege to read it.", name)
	}
	return nil, vcfault.ForOperator(vcfault.ReasonCustomizationSpecNotFound, "There is no guest customization specification %q: set spec.customizationSpec to one of %s.", name, vcfault.Listing(names))
}

// Identify returns the identity of a specification with the member's name as the guest's, in place of the specification's own name.
func Identify(spec, member string, identity types.BaseCustomizationIdentitySettings) (types.BaseCustomizationIdentitySettings, error) {
	fixed := &types.CustomizationFixedName{Name: member}
	switch id := identity.(type) {
	case *types.CustomizationLinuxPrep:
		own := *id
		own.HostName = fixed
		return &own, nil
	case *types.CustomizationSysprep:
		if len(member) > computerNameMost {
			return nil, vcfault.ForOperator(vcfault.ReasonComputerNameTooLong, "%q is longer than the %d characters of a Windows computer name, which the customization specification %q sets: give the group a shorter name.", member, computerNameMost, spec)
		}
		own := *id
		own.UserData.ComputerName = fixed
		return &own, nil
	}
	return nil, vcfault.ForOperator(vcfault.ReasonCustomizationSpecUnfit, "The customization specification %q is neither for Linux nor for Windows with settings that a member's name can be put into (it is a file, or for cloud-init): name another in spec.customizationSpec, or use spec.userData.", spec)
}

// MapAdapters replaces the adapter settings of a specification by those of spec.networks, one for each adapter. It also replaces the global name
// servers and search domains, if spec.networks has any.
func MapAdapters(spec *types.CustomizationSpec, d *plan.Details) {
	networks := d.Spec.Networks
	spec.NicSettingMap = nil
	var servers, domains []string
	for i := range networks {
		spec.NicSettingMap = append(spec.NicSettingMap, types.CustomizationAdapterMapping{Adapter: ipSettings(&networks[i], addressesAt(d, i))})
		servers, domains = append(servers, networks[i].Nameservers...), append(domains, networks[i].SearchDomains...)
	}
	// [doc] For Linux the servers are global, and those of adapters ignored; the search domains are global for both.
	if len(servers) > 0 {
		spec.GlobalIPSettings.DnsServerList = once(servers)
	}
	if len(domains) > 0 {
		spec.GlobalIPSettings.DnsSuffixList = once(domains)
	}
}

// once drops repeated items.
func once(all []string) (some []string) {
	for _, s := range all {
		if !slices.Contains(some, s) {
			some = append(some, s)
		}
	}
	return some
}

// ipSettings returns the settings of one adapter. Before 9.1, a specification cannot describe an adapter without IPv4, so an adapter that
// only has an IPv6 address also uses DHCP.
func ipSettings(n *v1alpha1.Network, static plan.StaticAddresses) types.CustomizationIPSettings {
	s := types.CustomizationIPSettings{Ip: &types.CustomizationDhcpIpGenerator{}, DnsServerList: n.Nameservers}
	if len(n.SearchDomains) > 0 {
		s.DnsDomain = n.SearchDomains[0]
	}
	if n.IPv4 != nil && len(static.IPv4) > 0 { // Validate refuses a second address
		s.Ip = &types.CustomizationFixedIp{IpAddress: static.IPv4[0]}
		s.SubnetMask = net.IP(net.CIDRMask(int(n.IPv4.PrefixLength), 32)).String()
		if n.IPv4.Gateway != "" {
			s.Gateway = []string{n.IPv4.Gateway}
		}
	}
	if n.IPv6 != nil && len(static.IPv6) > 0 {
		s.IpV6Spec = new(types.CustomizationIPSettingsIpV6AddressSpec)
		for _, address := range static.IPv6 {
			s.IpV6Spec.Ip = append(s.IpV6Spec.Ip, &types.CustomizationFixedIpV6{IpAddress: address, SubnetMask: n.IPv6.PrefixLength})
		}
		if n.IPv6.Gateway != "" {
			s.IpV6Spec.Gateway = []string{n.IPv6.Gateway}
		}
	}
	return s
}
