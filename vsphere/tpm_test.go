package vsphere

import (
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
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
					t.Errorf("the template has %q, and its clones %q and %q", of.TPM, one, two)
				}
			})
		})
	}
}
