package vsphere

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// hostsOf are the hosts of VMs by name, in order.
func (w *world) hostsOf(names ...string) (all []string) {
	for _, name := range names {
		host := vctest.Value(w.Details(name)).Host
		all = append(all, host[strings.LastIndexByte(host, '/')+1:])
	}
	slices.Sort(all)
	return all
}

func TestWithoutDRSClonesAreSpreadOverTheHostsThatCanTakeThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Hosts: 3})
		w.must(w.SetDRS(firstCluster, vcsim.DRS{Off: true}))
		host := object.NewHostSystem(w.Admin().Client, vctest.Value(w.Find(firstCluster+"/DC0_C0_H1")))
		w.Done(host.EnterMaintenanceMode(t.Context(), 0, false, nil))
		p := w.start()
		p.do(plan.Action{Op: plan.CreateFolder})
		var clones sync.WaitGroup
		for i := range int32(4) { // at once
			a := p.cloning(i)
			clones.Go(func() { p.do(a) })
		}
		clones.Wait()
		if got := w.hostsOf("web-0", "web-1", "web-2", "web-3"); !slices.Equal(got, []string{"DC0_C0_H0", "DC0_C0_H0", "DC0_C0_H2", "DC0_C0_H2"}) {
			t.Errorf("the clones are on %v; want two each on DC0_C0_H0 and DC0_C0_H2, and none on the host in maintenance", got)
		}
		if n := w.Calls()["CloneVM_Task"]; n != 4 {
			t.Errorf("vCenter began %d clones; want 4", n)
		}
	})
}

func TestAMemberIsClonedOnAHostThatHasItsHardwareVersion(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Hosts: 3})
			w.must(w.SetDRS(firstCluster, vcsim.DRS{Off: off}))
			for _, old := range []string{"/DC0_C0_H0", "/DC0_C0_H2"} {
				w.must(w.SetHardwareVersion(firstCluster+old, 17))
			}
			p := w.start()
			p.do(plan.Action{Op: plan.CreateFolder})
			p.preparedWith(v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{Version: 19}})
			if got := w.hostsOf("web-0"); !slices.Equal(got, []string{"DC0_C0_H1"}) {
				t.Errorf("with DRS off: %t, web-0 is on %v; want the host with the hardware version, DC0_C0_H1", off, got)
			}
		})
	}
}

func TestAVMThatNeverRanIsClonedOnAnotherHostWhenItsHostHasNoRoomSeveralTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := drsWorld(t, vcsim.DRS{Off: true})
		ran, never := p.running(0, false), p.member(1)
		p.do(actionOn(plan.PowerOff, ran))
		for _, name := range []string{"web-0", "web-1"} {
			w.fillHostOf(name)
		}
		for range 2 * hosts.RefusedOften {
			if f := p.fault(actionOn(plan.PowerOn, ran)); f.Reason != vcfault.ReasonResourceLimit {
				t.Errorf("got the fault %+v for a VM that ran, and so may contain data; want %s", f, vcfault.ReasonResourceLimit)
			}
		}
		for range hosts.RefusedOften { // no host has room
			if f := p.fault(actionOn(plan.PowerOn, never)); f.Reason != vcfault.ReasonResourceLimit {
				t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonResourceLimit)
			}
		}
		for _, host := range []string{"DC0_C0_H0", "DC0_C0_H1"} {
			w.must(w.FillHost(firstCluster+"/"+host, false))
		}
		p.do(actionOn(plan.PowerOn, ran))
		full := w.fillHostOf("web-1")
		if f := p.fault(actionOn(plan.PowerOn, never)); f.Reason != plan.ReasonHostFull || !f.NeedsOperator || !vctest.Mentions(f.Message, full[strings.LastIndexByte(full, '/')+1:]) {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q", f, plan.ReasonHostFull, full[strings.LastIndexByte(full, '/')+1:])
		}
		p.do(p.cloning(2))
		if got := vctest.Value(w.Details("web-2")).Host; got == full {
			t.Errorf("web-2 is cloned onto %s, which is full", got)
		}
	})
}

// A host that ran a VM has room; the one that the VM left first, because it is in maintenance, still has none.
func TestTheHostThatRanAVMHasRoomAndTheOneThatItLeftDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := drsWorld(t, vcsim.DRS{Off: true})
		m := p.running(0, false)
		p.do(actionOn(plan.PowerOff, m))
		was := p.inventory.Member(m.MoRef).HostRef
		w.Done(object.NewHostSystem(w.Admin().Client, types.ManagedObjectReference{Type: "HostSystem", Value: was}).EnterMaintenanceMode(t.Context(), 0, false, nil))
		all := vctest.Value(find.NewFinder(w.Admin().Client).HostSystemList(t.Context(), firstCluster+"/*"))
		for _, h := range all {
			p.capacity.SetFull(h.Reference().Value)
		}
		p.do(actionOn(plan.PowerOn, m))
		is := p.inventory.Member(m.MoRef).HostRef
		if is == was || p.capacity.IsFull(is) || !p.capacity.IsFull(was) {
			t.Errorf("the VM ran on %s, after %s: full are %t and %t; want another host that isn't, and the old one that is", is, was, p.capacity.IsFull(is), p.capacity.IsFull(was))
		}
	})
}
