package test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// lasting is a server whose groups have a persistent fault, and what the server does during that fault.
type lasting struct {
	*rig
	*serverReplica
	wire     *vcsim.Wire
	log      *lines
	registry *prometheus.Registry
	slow     time.Duration // how long vCenter takes to refuse a call

	mu    sync.Mutex
	fault types.BaseMethodFault // the fault of refused calls; nil: vCenter refuses none
	tries []time.Time
	calls []string // the methods called, except for those of the update stream
	dials int      // connections to vCenter that were begun
}

// lines collects the lines of the log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

// about counts the lines from a given line on that contain all of these texts.
func (l *lines) about(from int, texts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all[from:] {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}

func (l *lines) count() int { return l.about(0) }

// newLasting starts a vCenter that refuses calls of these methods while x.fault is set, and a server for it.
func newLasting(t *testing.T, cfg vcsim.Config, refused ...string) *lasting {
	t.Helper()
	x := &lasting{rig: newRig(t, cfg), log: &lines{}}
	logger := zerolog.New(x.log).Level(zerolog.InfoLevel)
	s := x.serveWired(func(v *vsphere.Config, l *loop.Config) {
		v.Log, l.Log, l.Slots = logger, logger, 20
		v.Dial = x.dialing(v.Dial)
		x.registry = v.Metrics.(*prometheus.Registry)
	})
	x.serverReplica, x.wire = s.serverReplica, s.wire
	x.wire.On(func(call vcsim.Call) vcsim.Break {
		x.mu.Lock()
		defer x.mu.Unlock()
		if !strings.HasPrefix(call.Method, "WaitForUpdates") {
			x.calls = append(x.calls, call.Method)
		}
		if x.fault == nil || !slices.Contains(refused, call.Method) {
			return vcsim.Break{}
		}
		x.tries = append(x.tries, time.Now())
		return vcsim.Break{Kind: vcsim.Stalled, Stall: x.slow, Fault: x.fault}
	})
	return x
}

// dialing wraps dial, and counts the connections that dial begins.
func (x *lasting) dialing(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		x.mu.Lock()
		x.dials++
		x.mu.Unlock()
		return dial(ctx, network, address)
	}
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// becomes begins the given fault, or ends the present one if fault is nil.
func (x *lasting) becomes(fault types.BaseMethodFault) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fault = fault
}

// since returns how many tries and calls to vCenter there were since it was last called.
func (x *lasting) since() (tries, calls int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	tries, calls = len(x.tries), len(x.calls)
	x.tries, x.calls = nil, nil
	return tries, calls
}

// called makes the hook calls for groups that Metacontroller would make during this time.
func called(t *testing.T, during time.Duration, groups ...*metacontroller.Group) {
	t.Helper()
	end := time.Now().Add(during)
	var all sync.WaitGroup
	for _, g := range groups {
		all.Go(func() {
			for time.Now().Before(end) {
				a, err := g.Sync(within(t))
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(min(a.Resync(), time.Until(end)))
			}
		})
	}
	all.Wait()
}

// allUp makes the hook calls that Metacontroller would make until all groups are up, and returns how long that took.
func allUp(t *testing.T, groups ...*metacontroller.Group) time.Duration {
	t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for _, g := range groups {
		all.Go(func() {
			for time.Since(began) < patience {
				a, err := g.Sync(within(t))
				if err != nil {
					t.Error(err)
					return
				}
				if metacontroller.Running(a) {
					return
				}
				time.Sleep(a.Resync())
			}
			t.Errorf("%s is not up: %s", g.Name, g.Status.LastMessage)
		})
	}
	all.Wait()
	return time.Since(began)
}

// groupsOf makes groups with three members each.
func (x *lasting) groupsOf(n int) (all []*metacontroller.Group) {
	for i := range n {
		all = append(all, x.group(fmt.Sprintf("web%d", i), 3))
	}
	return all
}

// lastingFaults are the faults of clones that affect all groups in the same way.
var lastingFaults = map[string]types.BaseMethodFault{
	"no space":            &types.NoDiskSpace{Datastore: "LocalDS_0"},
	"no host fits":        &types.InsufficientMemoryResourcesFault{},
	"a file":              &types.CannotCreateFile{FileFault: types.FileFault{File: "[LocalDS_0] web-0/web-0.vmx"}},
	"a missing privilege": &types.NoPermission{PrivilegeId: "VirtualMachine.Inventory.CreateFromExisting"},
}

var lastingGroups = flag.Int("lasting.groups", 2, "how many groups have a lasting refusal")

func TestLastingRefusalsAreTriedOnceAMinuteForAllGroups(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for name, fault := range lastingFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { lastingRefusal(t, fault, *lastingGroups) })
		})
	}
}

// lastingRefusal makes all clones of n groups fail for 15 minutes, and checks what the server does and reports.
func lastingRefusal(t *testing.T, fault types.BaseMethodFault, n int) {
	x := newLasting(t, vcsim.Config{}, "CloneVM_Task")
	x.becomes(fault)
	groups := x.groupsOf(n)
	called(t, 6*time.Minute, groups...)
	early, _ := x.since()
	if early < 5*60/10 {
		t.Errorf("%d tries in the first minutes: an operator waits for longer than ten seconds", early)
	}
	texts := make([]string, n)
	for i, g := range groups {
		texts[i] = fmt.Sprint(g.Status)
	}
	logged := x.log.count()
	called(t, 10*time.Minute, groups...)
	tries, calls := x.since()
	t.Logf("%d tries in 6 minutes, then %d with %d calls in 10, %d lines in the log", early, tries, calls, x.log.count()-logged)
	if tries < 5 || tries > 10 {
		t.Errorf("%d tries in ten minutes", tries)
	}
	if calls > 10*tries+idleCalls {
		t.Errorf("%d calls for %d tries", calls, tries)
	}
	if lines := x.log.count() - logged; lines > 0 {
		t.Errorf("%d lines in the log while nothing changed: %s", lines, x.log.all[logged:])
	}
	for i, g := range groups {
		if now := fmt.Sprint(g.Status); now != texts[i] {
			t.Errorf("%s: the status changed:\n%s\n%s", g.Name, texts[i], now)
		}
		if g.Status.Phase != v1alpha1.PhaseError {
			t.Errorf("%s is %s: %s", g.Name, g.Status.Phase, g.Status.LastMessage)
		}
	}
	x.becomes(nil)
	took := allUp(t, groups...)
	calm := newLasting(t, vcsim.Config{})
	without := allUp(t, calm.groupsOf(n)...)
	t.Logf("up %s after the trouble's end, without it %s", took, without)
	if took > 2*time.Minute+without {
		t.Errorf("up %s after the trouble's end, without it %s", took, without)
	}
}

// idleCalls is the maximum number of calls that an idle server makes in ten minutes: for full inventory reads, and to keep its session.
const idleCalls = 20

// While vCenter refuses the clones of other groups, a group whose clones vCenter accepts is created, edited and deleted as fast as if it were alone.
// That holds in the first minutes, when all other groups try to clone, and later, when they have backed off.
func TestNeighboursNoticeNothingOfALastingRefusal(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		alone := newLasting(t, vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}})
		without := alone.lifeOf(t, "calm")
		x := newLasting(t, vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}})
		x.FailTask(vcsim.Clone, func(vm string) bool { return strings.HasPrefix(vm, "web") }, lastingFaults["no space"], 0)
		groups := x.groupsOf(max(10, *lastingGroups))
		var neighbours sync.WaitGroup
		neighbours.Go(func() { called(t, 30*time.Minute, groups...) })
		time.Sleep(2 * time.Minute) // until the first clones of all groups have failed
		x.judgeNeighbour("in the first minutes", x.lifeOf(t, "early"), without)
		time.Sleep(10 * time.Minute)
		x.judgeNeighbour("later", x.lifeOf(t, "late"), without)
		neighbours.Wait()
	})
}

// stretches has the durations of a group's creation, edit and deletion.
type stretches struct{ created, edited, deleted time.Duration }

// A folder is created before a group takes its turn, so groups whose folders vCenter refuses go before all that wait for theirs. A fault that names
// no cause says of each group alone that its next try would fail.
func TestNeighboursNoticeNothingOfRefusedFolders(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	change := func(t *testing.T, x *lasting, g *metacontroller.Group) (s stretches) {
		g.Scale(9)
		s.created = allUp(t, g)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
		s.edited = allUp(t, g)
		s.deleted = x.deletionOf(t, g)
		return s
	}
	for name, trouble := range map[string]struct {
		fault types.BaseMethodFault
		slow  time.Duration // how long vCenter takes to refuse
		first time.Duration // how much later the neighbour is up because each group tries once
	}{
		"with a cause in common":    {&types.NoPermission{PrivilegeId: "Folder.Create"}, 5 * time.Second, 0},
		"without a cause in common": {&types.SystemError{Reason: "vpxd"}, 10 * time.Second, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				alone := newLasting(t, vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}})
				calm := alone.group("calm", 1)
				allUp(t, calm)
				without := change(t, alone, calm)
				x := newLasting(t, vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}}, "CreateFolder")
				g := x.group("calm", 1)
				allUp(t, g)
				x.slow = trouble.slow
				x.becomes(trouble.fault)
				groups := x.groupsOf(max(40, *lastingGroups))
				var neighbours sync.WaitGroup
				neighbours.Go(func() { called(t, 5*time.Minute, groups...) })
				time.Sleep(time.Second)
				with := change(t, x, g)
				tries, _ := x.since()
				t.Logf("%d tries of folders", tries)
				with.created -= trouble.first
				x.judgeNeighbour("in the first minutes", with, without)
				neighbours.Wait()
			})
		})
	}
}

// lifeOf creates a group, replaces its members, and deletes it. The group has another size, so that what is refused to others is not refused to it.
func (x *lasting) lifeOf(t *testing.T, name string) (s stretches) {
	t.Helper()
	g := x.group(name, 3)
	g.Edit(func(s *v1alpha1.VmGroupSpec) { s.CPU++ })
	s.created = allUp(t, g)
	g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
	s.edited = allUp(t, g)
	s.deleted = x.deletionOf(t, g)
	return s
}

// deletionOf deletes a group, and returns how long that took.
func (x *lasting) deletionOf(t *testing.T, g *metacontroller.Group) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Finalized }); err != nil {
		t.Error(err)
	}
	return time.Since(began)
}

// judgeNeighbour checks that another group takes at most a fifth longer than without the fault, plus the time of a hook call.
func (x *lasting) judgeNeighbour(when string, with, without stretches) {
	x.t.Helper()
	x.t.Logf("%s: %+v; alone: %+v", when, with, without)
	for _, took := range []struct {
		what          string
		with, without time.Duration
	}{{"creation", with.created, without.created}, {"edit", with.edited, without.edited}, {"deletion", with.deleted, without.deleted}} {
		if took.with > took.without*6/5+time.Second {
			x.t.Errorf("%s: its %s takes %s beside the trouble, and %s alone", when, took.what, took.with, took.without)
		}
	}
}
