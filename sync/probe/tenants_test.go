package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// tenant is a namespace whose groups have one member each.
type tenant struct {
	namespace         string
	groups            int
	period, threshold int32
}

// readiness returns the probe of the tenant's groups.
func (x *tenant) readiness() v1alpha1.Readiness {
	r := byTCP
	r.PeriodSeconds, r.FailureThreshold = &x.period, &x.threshold
	return r
}

// latest is how long a dead member of the tenant can be taken for one that answers, whatever one other tenant does: lateTimes as long as without that one.
func (x *tenant) latest() time.Duration {
	return time.Duration(lateTimes*x.threshold+1) * time.Duration(x.period) * time.Second
}

func (x *tenant) uid(i int) types.UID { return types.UID(fmt.Sprint(x.namespace, "-", i)) }

// ask has the groups probed at addresses in 10.<net>.0.0/16, and returns these with the port.
func (x *tenant) ask(p *Prober, net int) (at []string) {
	for i := range x.groups {
		address := fmt.Sprintf("10.%d.%d.%d", net, i/200, i%200+1)
		a := asked(x.readiness(), true, address)
		a.Namespace = x.namespace
		p.Ask(x.uid(i), a, time.Now().Add(24*time.Hour))
		at = append(at, address+":5432")
	}
	return at
}

// silentAfter returns how long a member of a group of one is dead before it is silent, beside a tenant whose groups behave as behave has it, and the
// groups of others that answer. It gives up after givesUp.
func silentAfter(t *testing.T, dead, stranger tenant, others int, behave func(ctx context.Context, g *guests, at []string)) (d time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		p, g := start(t, func(c *Config) {
			c.Jitter = func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }
		})
		at := dead.ask(p, 1)[0]
		g.set(at, ok)
		for i := range others {
			x := tenant{namespace: fmt.Sprint("other-", i), groups: 1, period: 10, threshold: 3}
			g.set(x.ask(p, 10+i)[0], ok)
		}
		theirs := stranger.ask(p, 2)
		for _, s := range theirs {
			g.set(s, ok)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go behave(ctx, g, theirs)
		time.Sleep(time.Minute + 3*time.Second)
		g.set(at, "")
		probe := dead.readiness()
		for began := time.Now(); d < givesUp; time.Sleep(time.Second) {
			if d = time.Since(began); p.Answers(dead.uid(0), &probe).Of["vm-0"].Concluded == plan.Silent {
				break
			}
		}
	})
	return d
}

const givesUp = 3 * time.Hour

// flaps has services answer and fail for as long as each draw says, one independently of the other.
func flaps(draw func(service int, answers bool) time.Duration) func(context.Context, *guests, []string) {
	return func(ctx context.Context, g *guests, at []string) {
		var all sync.WaitGroup
		for i, to := range at {
			all.Go(func() {
				for answers := true; ; answers = !answers {
					g.set(to, map[bool]string{true: ok}[answers])
					select {
					case <-time.After(draw(i, answers)):
					case <-ctx.Done():
						return
					}
				}
			})
		}
		all.Wait()
	}
}

func always(answers bool) func(context.Context, *guests, []string) {
	return flaps(func(_ int, is bool) time.Duration {
		if is == answers {
			return 24 * time.Hour
		}
		return time.Nanosecond
	})
}

// F2 of an attack: two or three groups of one, each probed once a second, whose probes fail now and then, hid another tenant's dead member for 49 minutes.
func TestFailingProbesOfOneTenantHideNoDeadMemberOfAnother(t *testing.T) {
	dead := tenant{namespace: "team-a", groups: 1, period: 10, threshold: 3}
	for _, c := range []struct {
		why    string
		others int
		behave func(context.Context, *guests, []string)
	}{
		{"they fail now and then, and 20 other groups answer", 20, flaps(func(i int, answers bool) time.Duration {
			return time.Duration(2+i) * time.Second
		})},
		{"they always fail, and 20 other groups answer", 20, always(false)},
		{"they fail now and then, and there is nobody else", 0, flaps(func(i int, answers bool) time.Duration {
			return time.Duration(2+i) * time.Second
		})},
		{"they always fail, and there is nobody else", 0, always(false)},
	} {
		for _, groups := range []int{1, 2, 3, 8} {
			stranger := tenant{namespace: "team-b", groups: groups, period: 1, threshold: 1}
			alone := silentAfter(t, dead, stranger, c.others, always(true))
			got := silentAfter(t, dead, stranger, c.others, c.behave)
			if t.Logf("%d groups of another tenant; %s: %s instead of %s", groups, c.why, got, alone); got > dead.latest() {
				t.Errorf("%d groups of another tenant; %s: a dead member is silent after %s instead of %s; want at most %s", groups, c.why, got, alone, dead.latest())
			}
		}
	}
}

// Whatever one tenant's groups do, another tenant's dead member is silent in lateTimes the time at most.
func TestWhateverOneTenantDoesItHidesNoDeadMemberOfAnother(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		among := func(n ...int32) int32 { return n[r.IntN(len(n))] }
		dead := tenant{namespace: "team-a", groups: 1, period: among(1, 5, 10, 60), threshold: among(1, 3, 5)}
		stranger := tenant{namespace: "team-b", groups: 1 + r.IntN(12), period: among(1, 1, 10, 300), threshold: among(1, 1, 3, 10)}
		others := int(among(0, 1, 20))
		longest := time.Duration(among(1, 10, 60, 1000)) * time.Second
		together := r.IntN(2) == 0
		draws := make([]*rand.Rand, stranger.groups)
		for i := range draws {
			if draws[i] = rand.New(rand.NewPCG(seed, uint64(i))); together {
				draws[i] = rand.New(rand.NewPCG(seed, 0))
			}
		}
		behave := flaps(func(i int, _ bool) time.Duration { return 1 + time.Duration(draws[i].Int64N(int64(longest))) })
		if got := silentAfter(t, dead, stranger, others, behave); got > dead.latest()+time.Second {
			t.Errorf("seed %d: %+v beside %+v and %d others, together %t, up to %s: silent after %s; want at most %s", seed, dead, stranger, others, together, longest, got, dead.latest())
		}
	}
}

// A tenant whose services accept connections and say nothing leaves connections to others.
func TestOneTenantDoesNotUseUpTheConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := start(t, func(c *Config) { c.AtOnce, c.Jitter = 16, rand.N[time.Duration] })
		hanging, long, often := byHTTP, int32(60), int32(1)
		hanging.ProbeTimeoutSeconds, hanging.PeriodSeconds = &long, &often
		for i := range 200 {
			address := fmt.Sprintf("10.2.0.%d", i+1)
			g.set(address+":80", "silence")
			a := asked(hanging, true, address)
			a.Namespace = "team-b"
			p.Ask(types.UID(fmt.Sprint("hanging-", i)), a, time.Now().Add(24*time.Hour))
		}
		time.Sleep(5 * time.Minute)
		x := tenant{namespace: "team-a", groups: 1, period: 10, threshold: 3}
		at := x.ask(p, 1)[0]
		g.set(at, ok)
		time.Sleep(5 * time.Minute)
		if n := g.count(at); n < 25 {
			t.Errorf("a member was probed %d times in 5 minutes; want about 30", n)
		}
	})
}

// A guest can report the address of another tenant's member, and its tenant chooses a port that never answers.
func TestOneTenantDoesNotKeepAnAddressBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := start(t, func(c *Config) { c.Jitter = rand.N[time.Duration] })
		x := tenant{namespace: "team-a", groups: 1, period: 10, threshold: 3}
		at := x.ask(p, 1)[0]
		g.set(at, ok)
		hanging, long, often := byHTTP, int32(60), int32(1)
		hanging.ProbeTimeoutSeconds, hanging.PeriodSeconds = &long, &often
		g.set("10.1.0.1:80", "silence")
		a := asked(hanging, true, "10.1.0.1")
		a.Namespace = "team-b"
		p.Ask("hanging", a, time.Now().Add(24*time.Hour))
		time.Sleep(10 * time.Minute)
		if n := g.count(at); n < 50 {
			t.Errorf("a member was probed %d times in 10 minutes; want about 60", n)
		}
	})
}

// The status of a group of one says that the path was suspected. After a restart of the server, answers of others end that, as without a restart.
func TestASuspicionOfAGroupOfOneEndsAfterARestartToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := start(t)
		for i := range 3 {
			x := tenant{namespace: fmt.Sprint("other-", i), groups: 1, period: 10, threshold: 3}
			g.set(x.ask(p, 10+i)[0], ok)
		}
		a := asked(byTCP, true, "10.1.0.1")
		a.Namespace, a.Suppressed = "team-a", true
		p.Ask("a", a, time.Now().Add(24*time.Hour))
		time.Sleep(2 * time.Minute)
		expect(t, p, byTCP, "vm-0 Silent (connection refused)")
	})
}
