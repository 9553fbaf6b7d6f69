package vsphere

import (
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// vCenter copies a virtual TPM, with the template's secrets, unless the clone asks for a new one, which it can since 8.0.0.1.
func TestMembersDoNotShareTheSecretsOfTheTemplatesTPM(t *testing.T) {
	t.Parallel()
	for version, copied := range map[string]bool{"8.0.3.0": false, "8.0.0.1": false, "7.0.3.0": true} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, p := placed(t, vcsim.Config{APIVersion: version})
				w.must(w.AddTPM("ubuntu"))
				of, err := w.Details("ubuntu")
				w.must(err)
				one, two := p.made(0, v1alpha1.VmGroupSpec{}).TPM, p.made(1, v1alpha1.VmGroupSpec{}).TPM
				if one == "" || two == "" || (one == of.TPM) != copied || (one == two) != copied {
					t.Errorf("the template has the TPM %q, and its clones %q and %q; want equal ones: %t", of.TPM, one, two, copied)
				}
			})
		})
	}
}

func TestAVirtualTPMNeedsATemplateThatBootsWithEFIAndItsHardwareVersion(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		spec := v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{VTPM: true}}
		p.refused(0, spec, vcfault.ReasonInvalidConfiguration, `"ubuntu"`, "BIOS", "EFI", "spec.hardware.vtpm")
		w.must(w.BootWithEFI("ubuntu"))
		p.lookups.forget()
		p.refused(0, spec, vcfault.ReasonInvalidConfiguration, `"ubuntu"`, "hardware version 13", "needs 14", "spec.hardware.version")
		spec.Hardware.Version = 14
		p.made(0, spec)
	})
}

// Without the policy, a clone of a template with a virtual TPM has the template's secrets.
func TestAMemberThatIsToHaveAVirtualTPMOfItsOwnNeverGetsACopyOfTheTemplates(t *testing.T) {
	t.Parallel()
	for version, refused := range map[string]bool{"8.0.0.1": false, "7.0.3.0": true} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, p := placed(t, vcsim.Config{APIVersion: version})
				w.must(w.BootWithEFI("ubuntu"))
				w.must(w.AddTPM("ubuntu"))
				spec := v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{VTPM: true, Version: 19}}
				if refused {
					p.refused(0, spec, vcfault.ReasonInvalidConfiguration, `"ubuntu"`, "copies", "remove it from the template")
					return
				}
				of, err := w.Details("ubuntu")
				w.must(err)
				if got := p.made(0, spec).TPM; got == "" || got == of.TPM {
					t.Errorf("the template has the TPM %q, and its clone %q; want another one", of.TPM, got)
				}
			})
		})
	}
}
