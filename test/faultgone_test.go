package test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestANameConflictLeavesTheStatusWithinTenSecondsOfItsEnd(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(r *rig) error{
		"renamed":   func(r *rig) error { return r.Rename(web+"/web-1", "precious") },
		"moved":     func(r *rig) error { return r.Move(web+"/web-1", "/DC0/vm") },
		"destroyed": func(r *rig) error { return r.Destroy(web + "/web-1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{})
				g := r.serve().group("web", 1)
				up(t, g)
				r.must(r.CloneVM("/DC0/vm/vm-operator-template", web, "web-1"))
				g.Scale(2)
				says(t, g, v1alpha1.PhaseError, "web-1: the name is taken by "+web+"/web-1")
				for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(15 * time.Second) { // until the back-off has reached its maximum
					_, err := g.Sync(within(t))
					r.must(err)
				}
				r.must(ends(r))
				began := time.Now()
				a := says(t, g, v1alpha1.PhasePending, "cloning 1 member")
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("the fault was reported for another %s; want at most %s", took, 10*time.Second)
				}
				if got := condition(a, v1alpha1.ConditionNameConflict).Status; got == "True" {
					t.Errorf("NameConflict is still %q", got)
				}
				up(t, g)
			})
		})
	}
}

func TestAMissingPrivilegeLeavesTheStatusWithinTenSecondsOfBeingGranted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := roleRig(t)
		r.Restrict(leastRole()...)
		r.Withdraw("VirtualMachine.Inventory.CreateFromExisting")
		g := r.serve(inCluster0).group("web", 3)
		const text = ": vCenter's user lacks the privilege VirtualMachine.Inventory.CreateFromExisting on " + web + ": grant it (docs/troubleshooting.md#missingprivilege)"
		says(t, g, v1alpha1.PhaseError, text)
		clones := r.Calls()["CloneVM_Task"]
		for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(3 * time.Second) {
			a, err := g.Sync(within(t))
			r.must(err)
			if !strings.HasSuffix(a.Status.LastMessage, text) { // it names those that were tried before the first one failed, one to three
				t.Fatalf("got the message %q; want %q throughout", a.Status.LastMessage, text)
			}
		}
		if n := r.Calls()["CloneVM_Task"] - clones; n > 60 {
			t.Errorf("%d clones were tried in three minutes; want at most 60", n)
		}
		r.Restrict(leastRole()...)
		began := time.Now()
		says(t, g, v1alpha1.PhasePending, "cloning")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the fault was reported for another %s; want at most %s", took, 10*time.Second)
		}
		up(t, g)
	})
}
