package test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// A member without a preparation costs the calls of its clone and of its power-on (two tasks with DRS), and a share of the reads and waits
// that serve all members. Between the clone and the power-on, the server writes nothing to the VM.
func TestBringingAPlainMemberUpCostsNoCallForItsDisks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const members = 50
		r := newRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Second}})
		g := r.serve().group("web", members)
		var devices atomic.Int32 // reads of the devices of any VM, including the few reads of the template's
		r.Rewrite(func(request any) {
			if read, is := request.(*types.RetrieveProperties); is && asksForDevices(read.SpecSet) {
				devices.Add(1)
			} else if read, is := request.(*types.RetrievePropertiesEx); is && asksForDevices(read.SpecSet) {
				devices.Add(1)
			}
		})
		before := r.Calls()
		until(t, g, "all members run", metacontroller.Running)
		total := 0
		for method, n := range r.Calls() {
			total += n - before[method]
		}
		if n := r.Calls()["ReconfigVM_Task"]; n != 0 {
			t.Errorf("the server reconfigured members %d times, want never", n)
		}
		if n := devices.Load(); n > 5 {
			t.Errorf("%d reads of devices; want at most 5", n)
		}
		if each := float64(total) / members; each > 6 { // measured: 4.2 to 5.1, depending on how many tasks end at the same time
			t.Errorf("%.2f calls a member; want at most 6", each)
		}
	})
}

func asksForDevices(specs []types.PropertyFilterSpec) bool {
	return slices.ContainsFunc(specs, func(spec types.PropertyFilterSpec) bool {
		return slices.ContainsFunc(spec.PropSet, func(p types.PropertySpec) bool { return slices.Contains(p.PathSet, "config.hardware.device") })
	})
}
