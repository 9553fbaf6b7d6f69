package vsphere

import (
	"strings"
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// creating is the step that creates a group's folder at a placement.
func creating(placement plan.Home) plan.Action {
	return plan.Action{Op: plan.CreateFolder, Args: &plan.Details{Spec: &v1alpha1.VmGroupSpec{
		Placement: v1alpha1.Placement{Datacenter: placement.Datacenter, Folder: placement.Folder}}}}
}

func TestAGroupsFolderIsCreatedInAnotherDatacenterAndRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Datacenters: 2})
		c := w.config()
		c.Datacenter, c.Pool = "DC0", "DC0_C0"
		v, err := New(c)
		w.must(err)
		p := w.run(v)
		folderIn := func(placement plan.Home) string { return p.State(web, plan.Query{Home: placement}).Folder }
		for path, placement := range map[string]plan.Home{
			"/DC1/vm/teams/a b/vmgroups/shop/web":     {Datacenter: "DC1", Folder: "teams/a b"},
			"/DC1/vm/vm-operator/shop/web":            {Datacenter: "DC1"},
			"/DC0/vm/teams/vmgroups/shop/web":         {Folder: "teams"},
			"/DC0/vm/vm-operator/shop/web":            {Datacenter: "DC0", Folder: "vm-operator"},
			"/DC0/vm/vm-operator.2/vmgroups/shop/web": {Folder: "vm-operator.2"},
		} {
			if got := folderIn(placement); got != "" {
				t.Errorf("%s: before its creation, the group's folder is %s; want none", path, got)
			}
			p.do(creating(placement))
			p.do(creating(placement)) // already so: success
			folder := folderIn(placement)
			at, err := w.Find(path)
			if err != nil || folder == "" || at.Value != folder {
				t.Errorf("the folder at %s is %v, and the group's is %s, with the error %v; want one folder", path, at, folder, err)
			}
			p.do(plan.Action{Op: plan.RemoveFolder, MoRef: folder})
			if _, err := w.Find(path); err == nil || folderIn(placement) != "" {
				t.Errorf("the folder %s still exists, or is known, after its removal", path)
			}
			if _, err := w.Find(strings.TrimSuffix(path, "/web")); (err == nil) != (placement.Folder == "") {
				t.Errorf("the folder of the namespace, above %s, is there: %t; want it if no spec named the folders above", path, err == nil)
			}
			p.do(creating(placement))
			again := folderIn(placement)
			w.must(w.destroyFolder(strings.TrimSuffix(path, "/shop/web")))
			p.do(creating(placement)) // whether or not it was seen
			if now := folderIn(placement); now == "" || now == again {
				t.Errorf("%s: after an operator removed the folder above it, the group's folder is %q; want a new one, not %q", path, now, again)
			}
		}
	})
}

func TestAFolderIsNotCreatedWhereItIsNotAllowed(t *testing.T) {
	inABubble(t, func(t *testing.T, _ *world, p *process) {
		for reason, placement := range map[string]plan.Home{
			vcfault.ReasonHomeForbidden:      {Folder: "vm-operator/shop"},
			vcfault.ReasonDatacenterNotFound: {Datacenter: "DC9"},
			vcfault.ReasonNameConflict:       {Folder: "unmanaged/x"},
		} {
			if f := p.fault(creating(placement)); f.Reason != reason || !f.NeedsOperator {
				t.Errorf("a folder for %+v: got the fault %+v; want %s, for an operator", placement, f, reason)
			}
		}
	})
}

// A restored vCenter gives the moRef of a folder that the server made to another one, which may be empty, too.
func TestAnEmptyFolderIsRemovedOnlyIfItIsTheOneThatWasMade(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		ref, err := w.MakeFolder("/DC0/vm/strange")
		w.must(err)
		parent, err := w.Find("/DC0/vm")
		w.must(err)
		for _, c := range []struct {
			name, parent string
			gone         bool
		}{{"made", parent.Value, false}, {"strange", "group-v99", false}, {"strange", parent.Value, true}} {
			p.VCenter.made.add(ref.Value, c.parent, c.name)
			p.VCenter.made.add("group-v98", ref.Value, "below")
			groupRemoval{p.step(web, plan.Action{Op: plan.RemoveFolder}, new(plan.StepResult))}.removeEmptied(t.Context(), "group-v98", ref.Value)
			if _, err := w.Find("/DC0/vm/strange"); (err != nil) != c.gone {
				t.Errorf("made as %s in %s: the folder is gone: %t; want %t", c.name, c.parent, err != nil, c.gone)
			}
		}
	})
}
