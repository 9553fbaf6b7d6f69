// Package probe probes members' services (spec.readiness.tcpSocket and httpGet), as a kubelet probes a Pod's containers. Its code calls a
// probe "asking" a member.
//
// It probes only the addresses that vCenter reports for members of groups under lease, and only within the networks that the server's
// settings allow. Config.AtOnce bounds the connections; each member has one at a time, and so has each address, for the members of a namespace. conclude.go says what
// follows from the answers.
package probe

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metrics"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

const (
	// defaultAtOnce bounds the simultaneous connections of all groups. It is less than the number of files that a process may open (1,024, by
	// default).
	defaultAtOnce = 256
	// addressGap is the shortest time between two connections to one address, however many members of a namespace report it.
	addressGap = 100 * time.Millisecond
	// soon bounds the time until a member that isn't ready is first asked.
	soon = time.Second
)

// Config are the prober's settings. All but Networks and Changed can be zero.
type Config struct {
	Networks Networks
	// Dial connects; nil: the network of the process.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Changed is called when a conclusion about a group changed.
	Changed func(uid types.UID)
	// AtOnce bounds the simultaneous connections. One namespace's groups have half of them at most.
	AtOnce int
	// Jitter returns a time of at least 0 and less than most; nil draws at random.
	Jitter  func(most time.Duration) time.Duration
	Metrics prometheus.Registerer
}

// Prober probes members. Its methods can be called at any time from any goroutine.
type Prober struct {
	cfg   Config
	tried *prometheus.CounterVec
	took  *prometheus.HistogramVec
	wake  chan struct{}
	tries sync.WaitGroup

	mu          sync.Mutex // guards what follows
	groups      map[types.UID]*group
	due         dues
	running     int            // tries
	byNamespace map[string]int // of these
	paces       map[place]*pacing
}

// group is a group whose members are asked.
type group struct {
	namespace string
	readiness v1alpha1.Readiness
	until     time.Time // the end of the group's lease
	targets   map[string]*target
	refused   map[string]netip.Addr
	down      map[string]bool // members that are not asked, as they are down
	path
}

// target is a member that is asked.
type target struct {
	uid   types.UID
	moRef string
	place
	next time.Time
	gone bool
	down bool // the member was down, and has not answered since
	streak
}

// place is an address that members of a namespace's groups report.
type place struct {
	namespace string
	address   netip.Addr
}

// pacing limits the connections to one place, which several members may have. Members of other namespaces that report the address don't count: a tenant
// can choose a port of another's member that accepts connections and says nothing.
type pacing struct {
	targets int
	busy    bool
	next    time.Time
}

// New returns a prober that asks no member until Run.
func New(cfg Config) *Prober {
	if cfg.AtOnce == 0 {
		cfg.AtOnce = defaultAtOnce
	}
	if cfg.Jitter == nil {
		cfg.Jitter = rand.N[time.Duration]
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{KeepAlive: -1}).DialContext
	}
	p := &Prober{cfg: cfg, wake: make(chan struct{}, 1), groups: map[types.UID]*group{}, byNamespace: map[string]int{}, paces: map[place]*pacing{},
		tried: metrics.Probes.Counter(cfg.Metrics), took: metrics.ProbeDuration.Histogram(cfg.Metrics)}
	gauge := func(m *metrics.Metric, read func() int) {
		m.Gauge(cfg.Metrics, func(set func(float64, ...string)) {
			p.mu.Lock()
			defer p.mu.Unlock()
			set(float64(read()))
		})
	}
	gauge(metrics.ProbesRunning, func() int { return p.running })
	gauge(metrics.GroupsProbesSuppressed, func() int { return p.suspected() })
	return p
}

// Ask makes the prober ask a group's members until a time. A call without members stops that. The prober keeps what it knows about a member
// as long as the member's address and the spec's probe don't change.
func (p *Prober) Ask(uid types.UID, ask plan.Ask, until time.Time) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.groups[uid]
	none := len(ask.Members)+len(ask.Down) == 0
	if g != nil && (none || !until.After(now) || !sameQuestion(&g.readiness, &ask.Readiness)) {
		p.drop(uid, g)
		g = nil
	}
	if none || !until.After(now) {
		return
	}
	isNew := g == nil
	if isNew {
		g = &group{namespace: ask.Namespace, readiness: *ask.Readiness.DeepCopy(), targets: map[string]*target{}}
		p.groups[uid] = g
	}
	g.until, g.refused = until, map[string]netip.Addr{}
	stay := make(map[string]bool, len(ask.Members))
	for _, m := range ask.Members {
		if !p.cfg.Networks.Allow(m.Address) {
			g.refused[m.MoRef] = m.Address
			continue
		}
		stay[m.MoRef] = true
		if t := g.targets[m.MoRef]; t == nil || t.address != m.Address {
			p.remove(g, t)
			p.add(uid, g, m, t != nil && t.down, now)
		}
	}
	g.down = map[string]bool{}
	for _, moRef := range ask.Down {
		g.down[moRef] = true
	}
	if isNew && ask.Suppressed {
		g.suspect(now, len(ask.Members) == 1)
	}
	for moRef, t := range g.targets {
		if !stay[moRef] {
			p.remove(g, t)
		}
	}
	p.signal()
}

// sameQuestion reports whether two specs have the same probe.
func sameQuestion(a, b *v1alpha1.Readiness) bool {
	x, y := *a, *b
	x.Check, x.InitialDelaySeconds, x.TimeoutSeconds = y.Check, y.InitialDelaySeconds, y.TimeoutSeconds
	return reflect.DeepEqual(x, y)
}

// add adds a member to those that are asked. was reports whether the member was down, and has not answered since.
func (p *Prober) add(uid types.UID, g *group, m plan.Asked, was bool, now time.Time) {
	t := &target{uid: uid, moRef: m.MoRef, place: place{g.namespace, m.Address}, down: was || g.down[m.MoRef]}
	t.settled = m.Ready && !t.down
	first := period(g)
	if !t.settled {
		first = min(first, soon)
	}
	t.next = now.Add(p.cfg.Jitter(first))
	g.targets[m.MoRef] = t
	at := p.paces[t.place]
	if at == nil {
		at = &pacing{}
		p.paces[t.place] = at
	}
	at.targets++
	p.due.add(t)
}

func period(g *group) time.Duration {
	return plan.Seconds(g.readiness.PeriodSeconds, v1alpha1.DefaultProbePeriod)
}

// remove forgets a member; t can be nil. The caller holds mu.
func (p *Prober) remove(g *group, t *target) {
	if t == nil {
		return
	}
	t.gone = true
	delete(g.targets, t.moRef)
	if at := p.paces[t.place]; at != nil {
		if at.targets--; at.targets == 0 && !at.busy {
			delete(p.paces, t.place)
		}
	}
}

// drop forgets a group. The caller holds mu.
func (p *Prober) drop(uid types.UID, g *group) {
	for _, t := range g.targets {
		p.remove(g, t)
	}
	delete(p.groups, uid)
}

// Answers returns what is known about a group's members, if they are probed as this spec says.
func (p *Prober) Answers(uid types.UID, r *v1alpha1.Readiness) plan.Answers {
	if !r.Probes() {
		return plan.Answers{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.groups[uid]
	if g == nil || !sameQuestion(&g.readiness, r) || time.Now().After(g.until) {
		return plan.Answers{NoneAllowed: len(p.cfg.Networks.Allowed) == 0}
	}
	all := plan.Answers{Of: make(map[string]plan.Answer, len(g.targets)), Suppressed: g.suspected, NoneAllowed: len(p.cfg.Networks.Allowed) == 0}
	for moRef, t := range g.targets {
		all.Of[moRef] = plan.Answer{Address: t.address, Concluded: t.concluded, Failure: t.failure, Down: t.down}
	}
	for moRef := range g.down {
		all.Of[moRef] = plan.Answer{Down: true}
	}
	for moRef, address := range g.refused {
		all.Of[moRef] = plan.Answer{Address: address, Refused: true}
	}
	return all
}
