package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// fillCustomization has vCenter customize the guest at its first power-on, by the specification that
// spec.customizationSpec names: with the member's own name, and the addresses of spec.networks.
func (v *VCenter) fillCustomization(ctx context.Context, b *cloneBuilder) error {
	name := b.details.Spec.CustomizationSpec
	if name == "" {
		return nil
	}
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		kept, err := v.lookups.customs.get(ctx, s, name, knownFor, func() (*types.CustomizationSpec, error) { return guest.ReadCustomization(ctx, s, name) })
		if err != nil {
			return err
		}
		spec := *kept // others have it, too: what changes is replaced, not written into
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

// mapAdapters gives each adapter its addresses. Without spec.networks the specification's own are kept, which must then be
// as many as the template has adapters.
func (b *cloneBuilder) mapAdapters(name string, spec *types.CustomizationSpec) error {
	networks := b.details.Spec.Networks
	if len(networks) == 0 {
		if has, want := len(b.source.cards()), len(spec.NicSettingMap); has != want {
			return vcfault.New(vcfault.ReasonCustomizationSpecUnfit, true, "The customization specification %q is for %d network adapters, and the template %q has %d: change one of them, or set spec.networks.",
				name, want, b.details.Spec.Template, has)
		}
		return nil
	}
	guest.MapAdapters(spec, b.details)
	return nil
}

// fillGuest tells the member who it is, and gives it its user data. Network adapters have no MAC addresses yet, so that
// their configuration comes later (prepare.go).
//
// With a customization specification cloud-init must find no data of its own: where there is any, it does not look for
// what vCenter's guest customization brings ([doc] DataSourceVMware takes the first of envvars, guestinfo and imc that has
// something). So the member finds its metadata beside it then, for scripts: vmtoolsd --cmd "info-get guestinfo.vmgroup.metadata".
//
// A template's vApp properties hide guestinfo from cloud-init, which looks for an OVF environment first (canonical/cloud-init#5912
// changes that): so they do not come along where the group has something to tell. (CAPV takes them off each clone, since
// kubernetes-sigs/cluster-api-provider-vsphere#2014.) Other members keep them, as appliances that are configured by them need.
func (v *VCenter) fillGuest(_ context.Context, b *cloneBuilder) error {
	if b.plain {
		return nil
	}
	key := guest.MetadataKey
	var options []types.BaseOptionValue
	if b.details.Spec.CustomizationSpec != "" {
		key = guest.OwnMetadataKey
		options = append(guest.Unset(guest.MetadataKey), guest.Unset(guest.UserDataKey)...)
	} else if b.source.vApp && (b.details.UserData != "" || len(b.details.Spec.Networks) > 0) {
		b.spec.Config.VAppConfigRemoved = types.NewBool(true)
	}
	metadata, err := guest.Metadata(key, b.ref, b.action, b.id, nil)
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
