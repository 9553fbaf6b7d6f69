package vsphere

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestASilentStreamCountsAsBroken(t *testing.T) {
	inABubble(t, func(_ *testing.T, w *world, p *process) {
		w.Stall()
		p.until("the outage is reported", func() bool {
			s := p.state()
			return !s.Known && s.Fault != nil && s.Fault.Reason == vcfault.ReasonVCenterUnreachable
		})
		w.Up()
		p.until("the state is known again", func() bool { return p.state().Known })
	})
}
