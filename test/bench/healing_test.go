package bench

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// serve starts one replica of the server on a vCenter, as cmd does.
func serve(b *testing.B, vc *vcsim.VCenter, slots int) (hooks string, stop func()) {
	b.Helper()
	var groups *loop.Loop
	password, _ := vc.URL().User.Password()
	side, err := vsphere.New(vsphere.Config{
		Config: session.Config{Host: vc.URL().Host, User: vc.URL().User.Username(), Password: password, Thumbprint: vc.ThumbprintSHA256(),
			Log: zerolog.Nop()},
		Selection: inventory.Selection{Folder: "vm-operator"}, Changed: func(uid apitypes.UID) { groups.Changed(uid) }})
	if err != nil {
		b.Fatal(err)
	}
	groups = loop.New(loop.Config{Slots: slots, Begin: slots, Lease: 90 * time.Second, Resync: 30 * time.Second, Log: zerolog.Nop()}, side)
	web := httptest.NewServer(hook.New(hook.Config{Controller: groups, Ready: func() error { return nil }, Log: zerolog.Nop()}))
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { groups.Run(ctx) })
	done.Go(func() { _ = side.Run(ctx) })
	for !side.WasRead() {
		time.Sleep(10 * time.Millisecond)
	}
	return web.URL, func() { web.Close(); cancel(); done.Wait() }
}

func total(vc *vcsim.VCenter) (n int) {
	for _, count := range vc.Calls() {
		n += count
	}
	return n
}

// BenchmarkHealing measures a settled group of 100 members, of which an operator powers off one and destroys another: the time until the server
// calls vCenter for the power-on and for the new clone, without a hook call. The goal is at most one second.
func BenchmarkHealing(b *testing.B) {
	vc, err := vcsim.Start(vcsim.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer vc.Close() //nolint:errcheck // the measurement is over
	hooks, stop := serve(b, vc, 8)
	defer stop()
	ctx := context.Background()
	g := metacontroller.New(hooks, "default", "web", "uid-web", 100)
	if _, err := g.Until(ctx, metacontroller.Running); err != nil {
		b.Fatal(err)
	}
	operator := vc.URL() // another account than the server's: the server would not react to its own account's Destroy before the next hook call
	operator.User = url.UserPassword("operator", "pass")
	client, err := govmomi.NewClient(ctx, operator, true)
	if err != nil {
		b.Fatal(err)
	}
	quiet(vc)
	for range b.N {
		var off, gone []float64
		for i := range 5 {
			vm, err := find.NewFinder(client.Client).VirtualMachine(ctx, fmt.Sprintf("/DC0/vm/vm-operator/default/web/web-%d", 10*i))
			if err != nil {
				b.Fatal(err)
			}
			off = append(off, answered(b, vc, "PowerOnMultiVM_Task", func() (*object.Task, error) { return vm.PowerOff(ctx) }))
			if err := vm.WaitForPowerState(ctx, types.VirtualMachinePowerStatePoweredOn); err != nil {
				b.Fatal(err)
			}
			gone = append(gone, answered(b, vc, "CloneVM_Task", func() (*object.Task, error) {
				vc.FailTask(vcsim.PowerOnByDRS, func(name string) bool { return name == vm.Name() }, &types.TaskInProgress{}, 1)
				task, err := vm.PowerOff(ctx)
				if err == nil {
					err = task.Wait(ctx)
				}
				if err != nil {
					return nil, err
				}
				return vm.Destroy(ctx)
			}))
			if _, err := g.Until(ctx, metacontroller.Running); err != nil {
				b.Fatal(err)
			}
			quiet(vc)
		}
		b.ReportMetric(median(off), "s-to-power-on")
		b.ReportMetric(median(gone), "s-to-clone")
	}
}

// answered returns the time, in seconds, from the end of an operator's task to the server's next call of this method.
func answered(b *testing.B, vc *vcsim.VCenter, method string, task func() (*object.Task, error)) float64 {
	b.Helper()
	before := vc.Calls()[method]
	begun, err := task()
	if err == nil {
		err = begun.Wait(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for vc.Calls()[method] == before {
		if time.Since(began) > time.Minute {
			b.Fatalf("no %s", method)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began).Seconds()
}

// quiet waits until the simulator's stream has delivered all changes.
func quiet(vc *vcsim.VCenter) {
	for last, since := total(vc), time.Now(); time.Since(since) < time.Second; time.Sleep(10 * time.Millisecond) {
		if now := total(vc); now != last {
			last, since = now, time.Now()
		}
	}
}
