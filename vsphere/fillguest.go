package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// fillCustomization makes vCenter customize the guest at its first power-on, with the specification that
// spec.customizationSpec names, the member's own name, and the addresses of spec.networks.
func (v *VCenter) fillCustomization(ctx context.Context, b *cloneBuilder) error {
	name := b.details.Spec.CustomizationSpec
	if name == "" {
		return nil
	}
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		kept, err := v.lookups.customs.Get(ctx, s, name, knownFor, func() (*types.CustomizationSpec, error) { return guest.ReadCustomization(ctx, s, name) })
		if err != nil {
			return err
		}
		spec := *kept // other clones share it: replace what changes, don't write into it
		if spec.Identity, err = guest.Identify(name, b.action.VM, spec.Identity); err != nil {
			return err
		}
		if err = b.mapAdapters(name, &spec); err != nil {
			return err
		}
		b.spec.Customization = &spec
		return nil
	})
}

// mapAdapters gives each adapter its addresses. Without spec.networks it keeps the specification's own, which must be
// as many as the template has adapters.
func (b *cloneBuilder) mapAdapters(name string, spec *types.CustomizationSpec) error {
	networks := b.details.Spec.Networks
	if len(networks) == 0 {
		if has, want := len(b.source.nics()), len(spec.NicSettingMap); has != want {
			return vcfault.New(vcfault.ReasonCustomizationSpecUnfit, true, "The customization specification %q is for %d network adapters, and the template %q has %d: change one of them, or set spec.networks.",
				name, want, b.details.Spec.Template, has)
		}
		return nil
	}
	guest.MapAdapters(spec, b.details)
	return nil
}

// fillGuest gives the member's guest its metadata and user data. Network adapters have no MAC addresses yet, so
// their configuration comes later (prepare.go).
//
// With a customization specification, cloud-init must find no data of its own in guestinfo: otherwise it ignores
// vCenter's guest customization ([doc] DataSourceVMware takes the first of envvars, guestinfo and imc that has
// data). Then the metadata has another key, for scripts: vmtoolsd --cmd "info-get guestinfo.vmgroup.metadata".
//
// A template's vApp properties hide guestinfo from cloud-init, which looks for an OVF environment first (canonical/cloud-init#5912
// changes that): not only user data and addresses, but also the host name and the instance-id, which each member has. So each
// clone that is configured by guestinfo drops them, as CAPV's do since kubernetes-sigs/cluster-api-provider-vsphere#2014.
func (v *VCenter) fillGuest(_ context.Context, b *cloneBuilder) error {
	if b.plain {
		return nil
	}
	key := guest.MetadataKey
	var options []types.BaseOptionValue
	if b.details.Spec.CustomizationSpec != "" {
		key = guest.OwnMetadataKey
		options = append(guest.Unset(guest.MetadataKey), guest.Unset(guest.UserDataKey)...)
	} else if b.source.vApp {
		b.spec.Config.VAppConfigRemoved = types.NewBool(true)
	}
	metadata, err := guest.Metadata(key, b.ref, b.action, b.id, nil, nil)
	if err != nil {
		return err
	}
	options = append(options, metadata...)
	if b.details.UserData != "" {
		options = append(options, guest.Encoded(guest.UserDataKey, b.details.UserData)...)
	}
	b.spec.Config.ExtraConfig = append(b.spec.Config.ExtraConfig, options...)
	return nil
}
