package vsphere

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
)

// late delays one answer to a read.
type late struct {
	soap.RoundTripper
	armed         *atomic.Bool
	held, release chan struct{}
}

func (l late) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	err := l.RoundTripper.RoundTrip(ctx, req, res)
	if _, is := req.(*methods.RetrievePropertiesExBody); is && l.armed.CompareAndSwap(true, false) {
		close(l.held)
		<-l.release
	}
	return err
}

func TestAReadThatBeganBeforeADestroyDoesNotBringTheVMBack(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		l := late{armed: new(atomic.Bool), held: make(chan struct{}), release: make(chan struct{})}
		cfg := w.config()
		through := cfg.Through
		cfg.Through = func(key string) soap.RoundTripper { x := l; x.RoundTripper = through(key); return x }
		v, err := New(cfg)
		w.must(err)
		p := w.run(v)
		vm := p.member(0)
		synctest.Wait()
		l.armed.Store(true)
		read, destroyed := make(chan error, 1), make(chan error, 1)
		go func() { read <- p.reader.Read(context.Background(), inventory.VMRef(vm.MoRef)) }()
		<-l.held
		go func() { destroyed <- p.Do(context.Background(), web, actionOn(plan.Destroy, vm)) }()
		p.until("vCenter has destroyed it", func() bool { _, err := w.Find("web-0"); return err != nil })
		time.Sleep(10 * time.Second) // the task's end is known, and the stream has said that the VM left
		close(l.release)
		must.Succeed(t, <-read)
		must.Succeed(t, <-destroyed)
		if s := p.state(vm.MoRef); len(s.VMs) != 0 || len(s.Gone) != 1 {
			t.Errorf("after the destruction, got the state %+v; want the VM gone, and no member", s)
		}
	})
}

func TestWhatATaskHasRemovedIsNotReadAgain(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		time.Sleep(5 * time.Second)
		for _, removal := range []struct {
			a     plan.Action
			reads int // before the task: the VM; the running clones, and the folder
		}{{actionOn(plan.Destroy, vm), 1}, {p.removing(), 2}} {
			before := w.Calls()["RetrievePropertiesEx"]
			p.do(removal.a)
			time.Sleep(5 * time.Second) // the stream says that it left
			if reads := w.Calls()["RetrievePropertiesEx"] - before; reads != removal.reads {
				t.Errorf("%s took %d reads; want %d", removal.a.Op, reads, removal.reads)
			}
		}
		if s := p.state(vm.MoRef); len(s.VMs) != 0 || s.Folder != "" {
			t.Errorf("got the state %+v; want no VM and no folder after both were removed", s)
		}
	})
}

func TestAMemberOfADeletedGroupIsNotReadAfterItsPowerOff(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		p.do(actionOn(plan.PowerOn, vm))
		time.Sleep(5 * time.Second)
		off := actionOn(plan.PowerOff, vm)
		off.Args = plan.PowerOffArgs{Deleted: true}
		if n := w.reads(func() { p.do(off) }); n > 1 { // the stream may tell of it before the task's end is seen
			t.Errorf("the power-off took %d reads; want at most 1", n)
		}
		if s := p.state(); len(s.VMs) != 1 || s.VMs[0].Power != plan.PoweredOff || !s.VMs[0].BootTime.IsZero() {
			t.Errorf("got the members %+v; want one, off and without a boot time", s.VMs)
		}
		w.must(w.PowerOn("web-0")) // by an operator
		time.Sleep(5 * time.Second)
		if s := p.state(); s.VMs[0].Power != plan.PoweredOn {
			t.Errorf("got the members %+v; want the first one on", s.VMs)
		}
	})
}

func TestAnObjectOfAnotherVCenterIsNotForgotten(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		must.Succeed(t, p.reader.Report(context.Background(), inventory.Reading{VCenter: "another vCenter", Gone: []string{vm.MoRef}}))
		if len(p.state().VMs) != 1 {
			t.Error("the member is forgotten because another vCenter removed a VM with its moRef")
		}
		p.stop()
		if err := p.reader.Report(context.Background(), inventory.Reading{VCenter: p.inventory.VCenter(), Gone: []string{vm.MoRef}}); err == nil {
			t.Error("Report succeeded after the process had stopped; want an error")
		}
	})
}
