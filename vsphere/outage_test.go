package vsphere

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestAnOutageIsReportedAndOutlived(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.Down()
		p.until("it is reported", func() bool {
			s := p.state(vm.MoRef)
			return !s.Known && s.Fault != nil && s.Fault.Reason == vcfault.ReasonVCenterUnreachable && len(s.Gone) == 0
		})
		w.Up()
		p.until("it is known again", func() bool { s := p.state(); return s.Known && len(s.VMs) == 1 })
		w.Restart()
		p.until("a restart is noticed", func() bool { return !p.state().Known })
		p.until("it is known again", func() bool { s := p.state(); return s.Known && len(s.VMs) == 1 })
		p.do(actionOn(plan.PowerOn, vm))
		p.stop()
		if n := w.Sessions(); n != 0 {
			t.Errorf("%d sessions are left behind", n)
		}
	})
}

func TestASilentStreamCountsAsBroken(t *testing.T) {
	inABubble(t, func(_ *testing.T, w *world, p *process) {
		w.Stall()
		p.until("it is reported", func() bool {
			s := p.state()
			return !s.Known && s.Fault != nil && s.Fault.Reason == vcfault.ReasonVCenterUnreachable
		})
		w.Up()
		p.until("it is known again", func() bool { return p.state().Known })
	})
}
