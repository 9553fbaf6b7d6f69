package test

import (
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestAMemberIsClonedOnAnotherHostIfItsHostHasNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{Hosts: 2})
		r.must(r.SetDRS("/DC0/host/DC0_C0", vcsim.DRS{Off: true}))
		r.must(r.FillHost("/DC0/host/DC0_C0/DC0_C0_H0", true))
		g := r.serve().group("web", 3)
		up(t, g)
		for _, vm := range r.VMs() {
			if d, err := r.Details(vm.Path); isOn(vm) && (err != nil || d.Host != "/DC0/host/DC0_C0/DC0_C0_H1") {
				t.Errorf("%s is on %s (%v)", vm.Path, d.Host, err)
			}
		}
		equal(t, r.names(web), running(3))
		remove(t, g)
	})
}
