package vcsim_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// jobs starts tasks of every kind.
type jobs struct {
	t                                            *testing.T
	ctx                                          context.Context
	v                                            *vcsim.VCenter
	network                                      *memnet.Network
	folder, pool, cluster, datacenter, datastore types.ManagedObjectReference
	mu                                           sync.Mutex
	wires                                        []*vcsim.Wire
	broken                                       map[vcsim.BreakKind]bool
	queued                                       bool // a task waited for its turn
}

// must checks an operator's actions, which outages do not affect.
func (j *jobs) must(err error) {
	if err != nil {
		j.t.Error(err)
	}
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

// begin completes a job once, with a new VM for each try.
func (j *jobs) begin(kind vcsim.Kind, do job) {
	j.persist(string(kind), func(c *govmomi.Client, try int) error {
		name := fmt.Sprintf("%s-%d", kind, try)
		ref, err := j.v.AddVM("/DC0/vm", name)
		if err != nil {
			return err
		}
		defer func() { _ = j.v.Destroy(name) }() // unless renamed; relieves the streams
		task, err := do(j, c, name, object.NewVirtualMachine(c.Client, ref))
		if err != nil || task == nil {
			return err
		}
		info, err := task.WaitForResult(j.ctx)
		if err != nil {
			return err
		}
		if info.DescriptionId != string(kind) {
			j.t.Errorf("a %s is run, not a %s", info.DescriptionId, kind)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.queued = j.queued || info.StartTime.Sub(info.QueueTime) > time.Second
		return nil
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
		func() { j.v.Hide(j.cluster); pause(); j.v.Show(j.cluster) },
		func() { j.v.Hide(j.folder); pause(); j.v.Show(j.folder) },
		func() { b := j.v.Backup(); pause(); j.must(j.v.Restore(b)) },
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
			Hosts: 2, Limits: vcsim.Limits{Operations: 8, HostUnits: 16, PerSecond: 10},
			Latency: vcsim.Latency{Clone: 40 * time.Second, Power: 5 * time.Second, Reconfigure: 2 * time.Second, Other: time.Second},
			Guest:   vcsim.Guest{Tools: true, Boot: 30 * time.Second, IP: 10 * time.Second},
		})
		ctx, cancel := context.WithCancel(t.Context())
		j := &jobs{t: t, ctx: ctx, v: v, network: networkOf(v), broken: make(map[vcsim.BreakKind]bool),
			folder: found(t, v, "/DC0/vm"), pool: found(t, v, "/DC0/host/DC0_C0/Resources"), cluster: found(t, v, "/DC0/host/DC0_C0"),
			datacenter: found(t, v, "/DC0"), datastore: found(t, v, "/DC0/datastore/LocalDS_0")}
		var watchers, workers sync.WaitGroup
		for range 3 {
			watchers.Go(j.watch)
		}
		over := make(chan struct{})
		workers.Go(func() { defer close(over); j.outages() })
		for _, kind := range kinds(t) {
			if every[kind] == nil {
				t.Errorf("no task of the kind %s is run here", kind)
			}
		}
		for _, all := range []map[vcsim.Kind]job{every, calls} {
			for kind, do := range all {
				workers.Go(func() {
					for under := true; under; {
						j.begin(kind, do)
						select {
						case <-over:
							under = false
						case <-time.After(5 * time.Minute):
						}
					}
				})
			}
		}
		workers.Wait()
		for _, kind := range []vcsim.BreakKind{vcsim.Refused, vcsim.ReplyLost, vcsim.SessionGone, vcsim.Stalled, vcsim.Faulted, vcsim.KilledBefore, vcsim.KilledAfter} {
			if !j.broken[kind] {
				t.Errorf("no call was broken by %s", kind)
			}
		}
		if !j.queued {
			t.Error("no task was queued")
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
