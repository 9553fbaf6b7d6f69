package vcsim_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// kinds returns the constants of managed/task.go.
func kinds(t *testing.T) (all []vcsim.Kind) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("managed", "task.go"), nil, 0)
	ok(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if kind, named := (*ast.Ident)(nil), false; is && len(spec.Values) == 1 {
			if kind, named = spec.Type.(*ast.Ident); named && kind.Name == "Kind" {
				value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				ok(t, err)
				all = append(all, vcsim.Kind(value))
			}
		}
		return true
	})
	return all
}

// job starts a task on a VM of its own; the task is nil if vCenter shows none.
type job func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error)

// jobs starts tasks of every kind.
type jobs struct {
	t                     *testing.T
	ctx                   context.Context
	v                     *vcsim.VCenter
	network               *memnet.Network
	folder, pool, cluster types.ManagedObjectReference
	mu                    sync.Mutex
	wires                 []*vcsim.Wire
	broken                map[vcsim.BreakKind]bool
}

// subfolder creates a folder as Admin.
func (j *jobs) subfolder(c *govmomi.Client, name string) *object.Folder {
	ref, err := j.v.MakeFolder("/DC0/vm/" + name + "-folder")
	if err != nil {
		j.t.Error(err)
	}
	return object.NewFolder(c.Client, ref)
}

// must checks Admin's actions, which outages do not affect.
func (j *jobs) must(err error) {
	if err != nil {
		j.t.Error(err)
	}
}

var every = map[vcsim.Kind]job{
	vcsim.Clone: func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Clone(j.ctx, object.NewFolder(c.Client, j.folder), name+"-clone", types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &j.pool}})
	},
	vcsim.PowerOn: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.PowerOn(j.ctx)
	},
	vcsim.PowerOff: func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		j.must(j.v.PowerOn(name))
		return vm.PowerOff(j.ctx)
	},
	vcsim.Suspend: func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		j.must(j.v.PowerOn(name))
		return vm.Suspend(j.ctx)
	},
	vcsim.Reset: func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		j.must(j.v.PowerOn(name))
		return vm.Reset(j.ctx)
	},
	vcsim.ShutdownGuest: func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		j.must(j.v.PowerOn(name))
		j.must(j.v.SetTools(name, true))
		return nil, vm.ShutdownGuest(j.ctx)
	},
	vcsim.RebootGuest: func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		j.must(j.v.PowerOn(name))
		j.must(j.v.SetTools(name, true))
		return nil, vm.RebootGuest(j.ctx)
	},
	vcsim.Reconfigure: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Reconfigure(j.ctx, types.VirtualMachineConfigSpec{NumCPUs: 2})
	},
	vcsim.Rename: func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Rename(j.ctx, name+"-renamed")
	},
	vcsim.Destroy: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Destroy(j.ctx)
	},
	vcsim.Relocate: func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		into := j.subfolder(c, name).Reference()
		return vm.Relocate(j.ctx, types.VirtualMachineRelocateSpec{Folder: &into}, types.VirtualMachineMovePriorityDefaultPriority)
	},
	vcsim.PromoteDisks: func(j *jobs, c *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
		reply, err := methods.PromoteDisks_Task(j.ctx, c.Client, &types.PromoteDisks_Task{This: vm.Reference(), Unlink: true})
		if err != nil {
			return nil, err
		}
		return object.NewTask(c.Client, reply.Returnval), nil
	},
	vcsim.CreateVM: func(j *jobs, c *govmomi.Client, name string, _ *object.VirtualMachine) (*object.Task, error) {
		return object.NewFolder(c.Client, j.folder).CreateVM(j.ctx, types.VirtualMachineConfigSpec{
			Name: name + "-made", GuestId: "otherLinux64Guest", Files: &types.VirtualMachineFileInfo{VmPathName: "[LocalDS_0]"},
		}, object.NewResourcePool(c.Client, j.pool), nil)
	},
	vcsim.RegisterVM: func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		if err := vm.Unregister(j.ctx); err != nil {
			return nil, err
		}
		return object.NewFolder(c.Client, j.folder).RegisterVM(j.ctx, fmt.Sprintf("[LocalDS_0] %s/%s.vmx", name, name), name, false, object.NewResourcePool(c.Client, j.pool), nil)
	},
	vcsim.MoveInto: func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		return j.subfolder(c, name).MoveInto(j.ctx, []types.ManagedObjectReference{vm.Reference()})
	},
	vcsim.RenameFolder: func(j *jobs, c *govmomi.Client, name string, _ *object.VirtualMachine) (*object.Task, error) {
		return j.subfolder(c, name).Rename(j.ctx, name+"-renamed")
	},
	vcsim.DestroyFolder: func(j *jobs, c *govmomi.Client, name string, _ *object.VirtualMachine) (*object.Task, error) {
		return j.subfolder(c, name).Destroy(j.ctx)
	},
	vcsim.UnregisterAndDestroy: func(j *jobs, c *govmomi.Client, name string, _ *object.VirtualMachine) (*object.Task, error) {
		reply, err := methods.UnregisterAndDestroy_Task(j.ctx, c.Client, &types.UnregisterAndDestroy_Task{This: j.subfolder(c, name).Reference()})
		if err != nil {
			return nil, err
		}
		return object.NewTask(c.Client, reply.Returnval), nil
	},
	vcsim.CreateSnapshot: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.CreateSnapshot(j.ctx, "base", "", false, false)
	},
	vcsim.RemoveSnapshots: func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		_, err := j.v.AddSnapshot(name, "base")
		j.must(err)
		return vm.RemoveAllSnapshot(j.ctx, nil)
	},
	vcsim.Customize: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Customize(j.ctx, types.CustomizationSpec{
			Identity:      &types.CustomizationLinuxPrep{HostName: new(types.CustomizationVirtualMachineName)},
			NicSettingMap: []types.CustomizationAdapterMapping{{Adapter: types.CustomizationIPSettings{Ip: new(types.CustomizationDhcpIpGenerator)}}},
		})
	},
	vcsim.ReconfigureCluster: func(j *jobs, c *govmomi.Client, _ string, _ *object.VirtualMachine) (*object.Task, error) {
		return object.NewClusterComputeResource(c.Client, j.cluster).Reconfigure(j.ctx, new(types.ClusterConfigSpecEx), true)
	},
}

// wire opens a wire whose calls break in every way, one after the other.
func (j *jobs) wire() (*vcsim.Wire, *http.Transport) {
	w, err := j.v.Wire(j.network.Listen())
	if err != nil {
		j.t.Error(err)
		return nil, nil
	}
	breaks := []vcsim.Break{{Kind: vcsim.Refused}, {Kind: vcsim.ReplyLost}, {Kind: vcsim.SessionGone}, {Kind: vcsim.Stalled, Stall: 20 * time.Second},
		{Kind: vcsim.Faulted, Fault: new(types.SystemError)}, {Kind: vcsim.KilledBefore}, {Kind: vcsim.KilledAfter}}
	j.mu.Lock()
	defer j.mu.Unlock()
	w.On(func(c vcsim.Call) vcsim.Break {
		if c.N%9 != 8 {
			return vcsim.Break{}
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, b := range breaks { // each once overall
			if !j.broken[b.Kind] {
				j.broken[b.Kind] = true
				return b
			}
		}
		return vcsim.Break{}
	})
	j.wires = append(j.wires, w)
	return w, j.network.Transport()
}

// persist retries do with a client until it succeeds or ctx ends.
func (j *jobs) persist(what string, do func(c *govmomi.Client, try int) error) {
	w, transport := j.wire()
	for try := 0; j.ctx.Err() == nil; try++ {
		client, err := w.Login(j.ctx, w.URL().User, transport)
		if err == nil {
			if err = do(client, try); err == nil {
				break
			}
		}
		time.Sleep(time.Second)
		if try%10 == 9 { // the wire may be killed
			transport.CloseIdleConnections()
			w, transport = j.wire()
		}
		if try == 200 {
			j.t.Errorf("%s: %v", what, err)
			break
		}
	}
	transport.CloseIdleConnections()
}

// begin completes a task of a kind once, with a new VM for each try.
func (j *jobs) begin(kind vcsim.Kind) {
	j.persist(string(kind), func(c *govmomi.Client, try int) error {
		name := fmt.Sprintf("%s-%d", kind, try)
		ref, err := j.v.AddVM("/DC0/vm", name)
		if err != nil {
			return err
		}
		defer func() { _ = j.v.Destroy(name) }() // unless renamed; relieves the streams
		task, err := every[kind](j, c, name, object.NewVirtualMachine(c.Client, ref))
		if err != nil || task == nil {
			return err
		}
		return task.Wait(j.ctx)
	})
}

// watch waits for updates of all VMs until ctx ends.
func (j *jobs) watch() {
	j.persist("the stream", func(c *govmomi.Client, _ int) error {
		pc, err := property.DefaultCollector(c.Client).Create(j.ctx)
		if err != nil {
			return err
		}
		if _, err = pc.CreateFilter(j.ctx, types.CreateFilter{Spec: tree(c.ServiceContent.RootFolder, "name", "runtime.powerState")}); err != nil {
			return err
		}
		err = pc.WaitForUpdatesEx(j.ctx, new(property.WaitOptions), func([]types.ObjectUpdate) bool { return false })
		if j.ctx.Err() != nil {
			return nil
		}
		return cmp.Or(err, errors.New("the wait ended"))
	})
}

// outages causes an outage of each kind, with time for detection and recovery.
func (j *jobs) outages() {
	pause := func() { time.Sleep(15 * time.Second) }
	each := func(do func(*vcsim.Wire)) {
		j.mu.Lock()
		wires := append([]*vcsim.Wire(nil), j.wires...)
		j.mu.Unlock()
		for _, w := range wires {
			do(w)
		}
	}
	for _, do := range []func(){
		func() { j.v.Down(); pause(); j.v.Up() },
		func() { j.v.Stall(); pause(); j.v.Up() },
		func() { j.v.Stall(); pause(); j.v.Down(); pause(); j.v.Up() },
		j.v.DropSessions,
		j.v.Restart,
		func() { each((*vcsim.Wire).Cut); pause(); each((*vcsim.Wire).Mend) },
		func() { j.v.FailCall("WaitForUpdatesEx", new(types.SystemError), 2) },
		func() { j.v.LoseReply("WaitForUpdatesEx", 2); j.v.LoseReply("CloneVM_Task", 1) },
		func() { j.v.FailTask(vcsim.Clone, nil, new(types.SystemError), 1) },
		func() { j.v.Hold(vcsim.PowerOn); pause(); j.v.Release(vcsim.PowerOn) },
		func() { each((*vcsim.Wire).Kill) },
	} {
		pause()
		do()
	}
}

// The package promises that no lock is held across a sleep or a wait unless its waiters block durably, and that everything a vCenter starts
// ends with Close. A violation stops the bubble's clock or leaves goroutines behind.
func TestBubbleWithEveryTaskAndOutageBecomesIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, alone := time.Now(), len(inBubble())
		v := start(t, vcsim.Config{
			Latency: vcsim.Latency{Clone: 40 * time.Second, Power: 5 * time.Second, Reconfigure: 2 * time.Second, Other: time.Second},
			Guest:   vcsim.Guest{Tools: true, Boot: 30 * time.Second, IP: 10 * time.Second},
		})
		ctx, cancel := context.WithCancel(t.Context())
		j := &jobs{t: t, ctx: ctx, v: v, network: networkOf(v), broken: make(map[vcsim.BreakKind]bool),
			folder: found(t, v, "/DC0/vm"), pool: found(t, v, "/DC0/host/DC0_C0/Resources"), cluster: found(t, v, "/DC0/host/DC0_C0")}
		var watchers, workers sync.WaitGroup
		for range 3 {
			watchers.Go(j.watch)
		}
		over := make(chan struct{})
		workers.Go(func() { defer close(over); j.outages() })
		for _, kind := range kinds(t) {
			if every[kind] == nil {
				t.Errorf("no task of the kind %s is run here", kind)
				continue
			}
			workers.Go(func() {
				for under := true; under; {
					j.begin(kind)
					select {
					case <-over:
						under = false
					case <-time.After(5 * time.Minute):
					}
				}
			})
		}
		workers.Wait()
		for _, kind := range []vcsim.BreakKind{vcsim.Refused, vcsim.ReplyLost, vcsim.SessionGone, vcsim.Stalled, vcsim.Faulted, vcsim.KilledBefore, vcsim.KilledAfter} {
			if !j.broken[kind] {
				t.Errorf("no call was broken by %s", kind)
			}
		}
		v.Heal()
		// A booting guest, a running task and waits exist when it closes.
		v.Hold(vcsim.Clone)
		c := login(t, v)
		c.startClone(t, "held")
		time.Sleep(time.Minute) // the latency is over
		c.startClone(t, "never")
		_, err := v.AddVM("/DC0/vm", "last")
		ok(t, err)
		ok(t, v.PowerOn("last"))
		ok(t, v.Close())
		cancel()
		watchers.Wait()
		t.Logf("%s of virtual time", time.Since(began))
		synctest.Wait()
		if left := inBubble(); len(left) > alone {
			t.Errorf("left behind:\n%s", strings.Join(left, "\n\n"))
		}
	})
}

// inBubble returns the stacks of the goroutines in this bubble.
func inBubble() (stacks []string) {
	text := make([]byte, 1<<22)
	all := strings.Split(string(text[:runtime.Stack(text, true)]), "\n\n") // the first is this one
	state, _, _ := strings.Cut(all[0], "\n")
	bubble := state[strings.Index(state, "synctest bubble "):]
	for _, stack := range all {
		if header, _, _ := strings.Cut(stack, "\n"); strings.HasSuffix(header, bubble) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
