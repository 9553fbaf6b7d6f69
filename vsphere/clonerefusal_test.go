package vsphere

import (
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Known refusals: a reservation that does not fit the size (terraform-provider-vsphere#652), a policy that encrypts (#2241 there), a
// pool (machine-controller#670).
func TestACloneArgumentThatVCenterRefusesIsNamedAndNeedsAnOperator(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		for _, property := range []string{"spec.memoryAllocation.reservation", "spec.disk.backing.crypto", "spec.location.pool"} {
			w.FailTask(vcsim.Clone, nil, &vim.InvalidArgument{InvalidProperty: property}, 1)
			if e := p.refused(0, v1alpha1.VmGroupSpec{}, vcfault.ReasonInvalidConfiguration, `"ubuntu"`, property); e != nil && !e.NeedsOperator {
				t.Errorf("%s: the fault needs no operator; want one, because a retry fails as well", property)
			}
		}
		w.FailTask(vcsim.Clone, nil, &vim.InvalidArgument{}, 1)
		p.refused(0, v1alpha1.VmGroupSpec{}, vcfault.ReasonInvalidConfiguration, `"ubuntu"`)
	})
}

// A template stays on its host, which may be in maintenance: pyvmomi-community-samples#500, pyvmomi#446.
func TestACloneThatAHostsStateForbidsNamesTheTemplateThatMayBeThere(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		w.FailTask(vcsim.Clone, nil, &vim.InvalidHostState{}, 1)
		if e := p.refused(0, v1alpha1.VmGroupSpec{}, vcfault.ReasonHostNotConnected, `"ubuntu"`, "maintenance"); e != nil && e.NeedsOperator {
			t.Errorf("the fault %v needs an operator; want a retry, because the host's maintenance ends", e)
		}
	})
}
