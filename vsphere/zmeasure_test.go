package vsphere

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

func TestZMeasureClones(t *testing.T) {
	if os.Getenv("ZMEASURE") == "" {
		t.Skip()
	}
	simulator.TaskDelay.MethodDelay = map[string]int{"CloneVm": 1000, "LockHandoff": 0}
	for _, slots := range []int{1, 3, 8, 16, 32, 33} {
		l := startLab(t)
		c, _ := l.client(l.config())
		ts, _ := awaiting(t, c)
		s, _ := c.session(t.Context())
		f := find.NewFinder(s.vim)
		vm, _ := f.VirtualMachine(t.Context(), "DC0_C0_RP0_VM0")
		folder, _ := f.Folder(t.Context(), "/DC0/vm")
		p, _ := f.ResourcePoolList(t.Context(), "*")
		ref := p[0].Reference()
		N := 50
		if slots == 1 {
			N = 3
		}
		if slots == 33 {
			simulator.TaskDelay.MethodDelay = map[string]int{"LockHandoff": 0}
		}
		before := l.calls()
		begin := time.Now()
		free := make(chan struct{}, slots)
		var wg sync.WaitGroup
		for i := range N {
			free <- struct{}{}
			wg.Go(func() {
				defer func() { <-free }()
				task, err := object.NewVirtualMachine(s.vim, vm.Reference()).Clone(t.Context(), folder, fmt.Sprintf("c-%d", i), types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &ref}})
				if err != nil {
					t.Error(err)
					return
				}
				info, err := ts.wait(t.Context(), task.Reference())
				if err != nil {
					t.Error(err)
				}
				if r, ok := info.Result.(types.ManagedObjectReference); !ok || r.Type != "VirtualMachine" || info.CompleteTime == nil {
					t.Errorf("%#v", info)
				}
			})
		}
		wg.Wait()
		took := time.Since(begin)
		n := 0
		after := l.calls()
		for m, k := range after {
			n += k - before[m]
			after[m] = k - before[m]
		}
		t.Logf("slots %d: %v, %.1f calls/VM %v", slots, took, float64(n)/float64(N), after)
	}
	simulator.TaskDelay.MethodDelay = nil
}
