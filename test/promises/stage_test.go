//go:build unix

package promises

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/process"
)

// stage is the environment of the groups: vCenter, the network to it, the replicas of the server, and a cluster.
type stage struct {
	t       testing.TB
	ctx     context.Context
	random  *rand.Rand // only for the test's own goroutine
	vc      *vcenter
	machine *process.Process // the process of vCenter
	sdk     *url.URL
	links   []*link // by replica
	service *service
	servers []*process.Process
	foreign map[string]vm // by moRef: the VMs that the server doesn't own, as they were in the beginning
	groups  sync.WaitGroup
	edited  chan struct{} // signals that a group was edited

	mu    sync.Mutex
	all   []*watchedGroup
	diary []string
	names int
}

// newStage starts vCenter and replicas of the server.
func newStage(t testing.TB, seed uint64, replicas int) *stage {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &stage{t: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, 1)), foreign: map[string]vm{}, edited: make(chan struct{})}
	t.Cleanup(func() {
		if t.Failed() || *keepLog {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("what happened:\n%s", strings.Join(s.diary, "\n"))
		}
	})
	s.machine, s.sdk = startVCenter(t)
	s.vc = connect(t, s.sdk)
	for template, kind := range templates {
		s.vc.tell(template, kind)
	}
	s.service = &service{random: rand.New(rand.NewPCG(seed, 2))}
	s.servers = make([]*process.Process, replicas)
	for i := range replicas {
		s.links = append(s.links, newLink(t, s.sdk.Host))
		s.serve(i)
	}
	t.Cleanup(func() { cancel(); s.groups.Wait() })
	return s
}

// say writes a line into the diary, which is logged if the test fails.
func (s *stage) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.diary = append(s.diary, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// lease is how long a server may act after a hook call.
const lease = 10 * time.Second

// serve starts a replica of the server.
func (s *stage) serve(replica int) {
	password, _ := s.sdk.User.Password()
	s.mu.Lock()
	s.names++
	name := fmt.Sprintf("replica %d (process %d)", replica, s.names)
	s.mu.Unlock()
	p := start(s.t, name, "serve", "--host", s.links[replica].listener.Addr().String(), "--user", s.sdk.User.Username(), "--password", password, "--insecure",
		"--listen", "127.0.0.1:0", "--health-listen", "", "--resync", "5s", "--lease", lease.String())
	address := p.Said(s.t, "listen")
	s.say("%s serves at %s", name, address)
	s.servers[replica] = p
	s.service.set(replica, "http://"+address)
}

// kill ends a replica with SIGKILL.
func (s *stage) kill(replica int) {
	s.say("SIGKILL for %s", s.servers[replica].Name)
	s.service.set(replica, "")
	s.servers[replica].Kill()
}

// terminate ends a replica with SIGTERM.
func (s *stage) terminate(replica int) {
	s.say("SIGTERM for %s", s.servers[replica].Name)
	s.service.set(replica, "")
	s.servers[replica].Terminate()
}

// watchedGroup is a group on a stage, with the checker of its promises and its source of random choices.
type watchedGroup struct {
	*stage
	*checker
	t      testing.TB
	vc     *vcenter
	random *rand.Rand
}

// spec returns the spec of a group whose guests need no time to shut down.
func spec(replicas int32) v1alpha1.VmGroupSpec {
	return v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "vm-operator-template", Replicas: new(replicas),
		Deletion: v1alpha1.Deletion{ShutdownTimeoutSeconds: new(int32(0))}}
}

// apply applies a group.
func (s *stage) apply(t testing.TB, random *rand.Rand, name string, spec v1alpha1.VmGroupSpec, with ...func(*group)) *watchedGroup {
	ofGroup := rand.New(rand.NewPCG(random.Uint64(), 0)) // the group runs on a goroutine of its own
	g := newGroup(s.service, ofGroup, name, spec, func(format string, args ...any) { s.say(name+": "+format, args...) })
	m := &watchedGroup{stage: s, checker: newChecker(g, s.isForeign), t: t, vc: s.vc.as(t), random: random}
	for _, set := range with {
		set(g)
	}
	s.mu.Lock()
	s.all = append(s.all, m)
	s.mu.Unlock()
	s.vc.onChange(m.saw)
	s.groups.Go(func() { g.run(s.ctx) })
	return m
}

// edit changes the spec, as kubectl edit does.
func (m *watchedGroup) edit(why string, change func(*v1alpha1.VmGroupSpec)) {
	m.checker.edit(why, change)
	select {
	case m.edited <- struct{}{}:
	default:
	}
}

func (s *stage) isForeign(ref string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.foreign[ref]
	return is
}

// broken reports whether the checker has found a broken promise.
func (m *watchedGroup) broken() bool { return len(m.history.violations()) > 0 }

// until waits until a condition is met by the group and vCenter, or a promise is broken.
func (m *watchedGroup) until(what string, holds func(o v1alpha1.VmGroup, all inventory) bool) {
	m.t.Helper()
	last := ""
	defer func() {
		if m.t.Failed() {
			m.say("%s: waited until %s; last: %s", m.name, what, last)
		}
	}()
	eventually(m.t, m.name+": "+what, func() bool {
		o := m.now()
		last = fmt.Sprintf("%s %q of generation %d of %d", o.Status.Phase, o.Status.LastMessage, o.Status.ObservedGeneration, o.Generation)
		m.vc.mu.Lock()
		seen := m.vc.last
		m.vc.mu.Unlock()
		return m.broken() || holds(o, seen)
	})
}

// settle waits until the group matches its spec. held: an update may be held.
func (m *watchedGroup) settle(held bool) {
	m.t.Helper()
	settled := func(o v1alpha1.VmGroup, all inventory) bool {
		return o.Status.Phase == v1alpha1.PhaseRunning && o.Status.ObservedGeneration == o.Generation && m.wrong(all, held) == ""
	}
	m.until("the group is as its spec says", func(o v1alpha1.VmGroup, all inventory) bool {
		return settled(o, all) && settled(m.now(), m.vc.now())
	})
	m.say("%s: settled", m.name)
	m.history.settled()
}

// refs returns the moRefs of the members by name: of all members, or only of those that run.
func (m *watchedGroup) refs(running bool) map[string]string {
	m.t.Helper()
	members, _ := m.members(m.vc.now())
	refs := map[string]string{}
	for _, v := range members {
		if v.on || !running {
			refs[v.name] = v.ref
		}
	}
	return refs
}

// end deletes the group, and checks that only the members of spec.deletion.policy Retain, and the persistent disks, are left.
func (m *watchedGroup) end() {
	m.t.Helper()
	before, _ := m.members(m.vc.now())
	retain := m.now().Spec.Deletion.Policy == v1alpha1.DeletionRetain
	m.remove()
	m.until("the group is gone", func(v1alpha1.VmGroup, inventory) bool { return m.isGone() })
	members, quarantined := m.members(m.vc.now())
	if m.broken() {
		return
	}
	for _, v := range before {
		if is, stays := byRef(members, v.ref); retain && v.on && (!stays || !is.on) {
			m.history.broke("the group is gone, and so is %s, which Retain must keep", v)
		}
	}
	for _, v := range slices.Concat(members, quarantined) {
		if was, known := byRef(before, v.ref); !retain || !known || !was.on {
			m.history.broke("the group is gone, but %s is left", v)
		}
	}
	for disk, of := range m.owner {
		if !m.vc.hasDisk(disk) {
			m.history.broke("the persistent disk %s of %s is gone with the group", disk, of)
		}
	}
}

func (m *watchedGroup) mu() *sync.Mutex { return &m.checker.group.mu }

// verdict fails the test with all promises that were broken.
func (m *watchedGroup) verdict() {
	m.t.Helper()
	m.checkEvents()
	for _, broken := range m.history.violations() {
		m.t.Errorf("%s: %s", m.name, broken)
	}
}
