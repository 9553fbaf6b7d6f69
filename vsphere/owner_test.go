package vsphere

import (
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// A role for an older version of the server lacks these privileges.
func TestACloneSucceedsWithoutThePrivilegesForItsNotes(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		w.must(w.RegisterExtension(role.ExtensionKey))
		w.FailTask(vcsim.Clone, nil, &vim.NoPermission{PrivilegeId: "VirtualMachine.Config.Annotation"}, 1)
		if d := p.made(0, v1alpha1.VmGroupSpec{}); d.Config.Annotation != "" || d.Config.ManagedBy == nil {
			t.Errorf("web-0 has the notes %q and the manager %+v; want no notes, and a manager", d.Config.Annotation, d.Config.ManagedBy)
		}
		w.FailTask(vcsim.Clone, nil, &vim.NoPermission{PrivilegeId: "VirtualMachine.Config.ManagedBy"}, 1)
		if d := p.made(1, v1alpha1.VmGroupSpec{}); d.Config.Annotation == "" || d.Config.ManagedBy != nil {
			t.Errorf("web-1 has the notes %q and the manager %+v; want notes, and no manager", d.Config.Annotation, d.Config.ManagedBy)
		}
	})
}

func TestAReleaseSucceedsWithoutThePrivilegesForItsNotes(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		p.made(0, v1alpha1.VmGroupSpec{})
		w.FailTask(vcsim.Reconfigure, nil, &vim.NoPermission{PrivilegeId: "VirtualMachine.Config.Annotation"}, 1)
		p.do(guarded(plan.Release, p.state().VMs[0]))
		if stamp := w.stampOf("web-0"); stamp != "" {
			t.Errorf("the released VM has the stamp %s; want none", stamp)
		}
	})
}
