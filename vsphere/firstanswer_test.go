package vsphere

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
)

// fill adds unmanaged VMs.
func (w *world) fill(n int) {
	for i := range n {
		_, err := w.AddVM("/DC0/vm", fmt.Sprintf("other-%d", i))
		w.must(err)
	}
}

// cutReads limits the objects in one answer to a read: vCenter 8.0 returns one hundred
// (https://github.com/vmware/vsphere-automation-sdk-java/issues/217).
func (w *world) cutReads(objects int32) {
	w.Rewrite(func(request any) {
		if read, is := request.(*vim.RetrievePropertiesEx); is {
			read.Options.MaxObjects = objects
		}
	})
}

func TestTheServerWaitsForAFirstAnswerThatTakesMinutesAndComesInPages(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	t.Run("directly", func(t *testing.T) { t.Parallel(); firstAnswer(t, true) })
	t.Run("by HTTP", func(t *testing.T) { t.Parallel(); firstAnswer(t, false) })
}

func firstAnswer(t *testing.T, direct bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill(150)
		w.DelayFirstUpdates(2 * time.Minute)
		c, began := w.config(), time.Now()
		if !direct {
			c.Through = nil
		}
		registry := prometheus.NewRegistry()
		c.Metrics = registry
		v, err := New(c)
		w.must(err)
		p := w.run(v)
		p.until("vCenter is known", func() bool { return p.state().Known })
		w.DelayFirstUpdates(0) // the stream of tasks has few updates
		if took := time.Since(began); took < 4*time.Minute || took > 5*time.Minute {
			t.Errorf("vCenter was known after %s; want from 4m, for two pages of 2m each, to 5m", took)
		}
		if n := w.Calls()["CreateFilter"]; n > 2 { // the other is that of the tasks
			t.Errorf("the streams opened %d filters; want at most one for the inventory, and one for tasks", n)
		}
		metrics, err := registry.Gather()
		w.must(err)
		sums := map[string]float64{}
		for _, family := range metrics {
			for _, m := range family.GetMetric() {
				if strings.HasSuffix(family.GetName(), "vcenter_read_duration_seconds") {
					sums[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleSum()
				}
			}
		}
		if sums["first"] < 240 || sums["full"] == 0 {
			t.Errorf("the durations of reads add up to %v; want at least 240s of the first one, and some of full ones", sums)
		}
		vm := p.member(0) // and changes are seen
		w.must(w.Destroy("web-0"))
		p.until("the destroyed VM is gone", func() bool { return len(p.state(vm.MoRef).Gone) == 1 })
	})
}

func TestEveryReadTakesAllPages(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.fill(30)
		w.cutReads(7)
		p := w.start()
		for i := range int32(3) {
			p.member(i)
		}
		p.reads(inventory.VMRefs([]string{p.state().VMs[0].MoRef, p.state().VMs[1].MoRef, p.state().VMs[2].MoRef})...)
		if n := p.inventory.Count(); n.Unmanaged != 32 { // with the template, and one more
			t.Errorf("the inventory has %d unmanaged VMs; want 32", n.Unmanaged)
		}
		if w.Calls()["ContinueRetrievePropertiesEx"] == 0 {
			t.Error("ContinueRetrievePropertiesEx was never called; want reads that continue, because answers have at most 7 objects")
		}
	})
}
