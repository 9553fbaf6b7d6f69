package vsphere

import (
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// world is a vCenter with a template "ubuntu" and an unmanaged VM.
type world struct {
	*vctest.World
	t testing.TB
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{vctest.New(t), t}
}

// newWorldOf returns a world with another configuration of the simulator, and without an unmanaged VM.
func newWorldOf(t testing.TB, c vcsim.Config) *world {
	t.Helper()
	return &world{vctest.Of(t, c), t}
}

func (w *world) must(err error) {
	w.t.Helper()
	w.Must(err)
}

// process is one running server's view of a vCenter.
type process struct {
	*VCenter
	t     testing.TB
	world *world
	stop  func()

	mu   sync.Mutex
	news map[types.UID]int
	bell chan struct{}
}

// Do carries out a step, and drops the time that it took.
func (p *process) Do(ctx context.Context, ref plan.Ref, a plan.Action) error {
	_, err := p.VCenter.Do(ctx, ref, a)
	return err
}

func (w *world) config() Config {
	cfg := Config{Config: sessiontest.Config(w.World), Selection: inventory.Selection{ClusterID: "test"}, PCIDevices: PCIDevices{"10de:1eb8", "grid_t4-*"}}
	if os.Getenv("VSPHERE_TEST_LOG") != "" {
		cfg.Log = zerolog.New(zerolog.NewConsoleWriter())
	}
	return cfg
}

func (w *world) start() *process {
	w.t.Helper()
	v, err := New(w.config())
	w.must(err)
	return w.run(v)
}

// startWired starts a process whose calls can be made to fail.
func (w *world) startWired() (*process, *vcsim.Wire) {
	w.t.Helper()
	wire, err := w.Wire(w.Network.Listen())
	w.must(err)
	cfg := w.config()
	cfg.Host, cfg.Through = wire.URL().Host, wire.Direct
	v, err := New(cfg)
	w.must(err)
	return w.run(v), wire
}

func (w *world) run(v *VCenter) *process {
	w.t.Helper()
	p := &process{VCenter: v, t: w.t, world: w, news: map[types.UID]int{}, bell: make(chan struct{}, 1)}
	v.cfg.Changed = p.changed
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = v.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			w.t.Error("Run did not end within a minute")
		}
	})
	w.t.Cleanup(p.stop)
	p.until("the inventory is known", func() bool { return p.State(web, plan.Query{Template: "ubuntu"}).Known })
	return p
}

// inABubble runs a test of one process and its vCenter in a bubble, in parallel with others.
func inABubble(t *testing.T, test func(t *testing.T, w *world, p *process)) {
	t.Helper()
	inABubbleOf(t, (*world).start, test)
}

// inAWorld runs a test of a vCenter in a bubble, in parallel with others. The test starts the processes.
func inAWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

// inABubbleOf is inABubble for a process that start starts.
func inABubbleOf(t *testing.T, start func(*world) *process, test func(t *testing.T, w *world, p *process)) {
	t.Helper()
	inAWorld(t, func(t *testing.T, w *world) {
		test(t, w, start(w))
	})
}

func (p *process) changed(uid types.UID) {
	p.mu.Lock()
	p.news[uid]++
	p.mu.Unlock()
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

func (p *process) notified(uid types.UID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.news[uid] + p.news[""]
}

// until waits for a condition. It checks the condition after each change, and at intervals of up to a second.
func (p *process) until(what string, holds func() bool) {
	p.t.Helper()
	deadline := time.After(vctest.Timeout)
	for pause := 5 * time.Millisecond; !holds(); pause = min(2*pause, time.Second) {
		select {
		case <-p.bell:
		case <-time.After(pause):
		case <-deadline:
			p.t.Fatalf("waited in vain for %s until %s", vctest.Timeout, what)
		}
	}
}

func (p *process) do(a plan.Action) {
	p.t.Helper()
	if err := p.Do(context.Background(), web, a); err != nil {
		p.t.Fatalf("%s %s: %v", a.Op, a.Key, err)
	}
}

func (p *process) state(recorded ...string) plan.VCenterState {
	ask := plan.Query{Template: "ubuntu"}
	for _, moRef := range recorded {
		ask.Recorded = append(ask.Recorded, v1alpha1.Member{MoRef: moRef, Name: "web-0"})
	}
	return p.State(web, ask)
}

var web = plan.Ref{Namespace: "shop", Name: "web", UID: "uid-web"}

// member creates one member of the group, as the plan does.
func (p *process) member(ordinal int32) plan.VM {
	p.t.Helper()
	if p.state().Folder == "" {
		p.do(plan.Action{Op: plan.CreateFolder})
	}
	p.do(p.cloning(ordinal))
	for _, vm := range p.state().VMs {
		if vm.Ordinal == ordinal {
			return vm
		}
	}
	p.t.Fatalf("the clone ended, and no member has the ordinal %d: %+v", ordinal, p.state().VMs)
	return plan.VM{}
}

func (p *process) cloning(ordinal int32) plan.Action {
	s := p.state()
	return plan.Action{Op: plan.Clone, Key: plan.MemberName("web", ordinal), Ordinal: ordinal, Args: plan.CloneArgs{Folder: s.Folder, Template: s.Template.MoRef, CPU: 2, MemoryMB: 1024, Revision: "r1"}, Generation: 1}
}

// changeArgs changes the arguments of a step.
func changeArgs[T plan.Args](a *plan.Action, change func(*T)) {
	of := plan.ArgsOf[T](a.Args)
	change(&of)
	a.Args = of
}

func actionOn(op plan.Op, vm plan.VM) plan.Action {
	return plan.Action{Op: op, Key: plan.MemberName("web", vm.Ordinal), Ordinal: vm.Ordinal, MoRef: vm.MoRef}
}

func TestWhenRunEndsNoSessionIsLeftBehind(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		if n := w.Sessions(); n != 1 {
			t.Fatalf("vCenter has %d sessions while the process runs; want one", n)
		}
		p.stop()
		if n := w.Sessions(); n != 0 {
			t.Fatalf("vCenter has %d sessions after the process has stopped; want none", n)
		}
		if p.state().Known {
			t.Error("the state is still known after the process has stopped")
		}
	})
}
