//go:build unix

package promises

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// TestRandomLivesKeepThePromises leads groups through random lives, while the server is killed, stopped and cut off.
func TestRandomLivesKeepThePromises(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1_000_000)
	}
	for i := range uint64(*lives) {
		replicas := 1 + int((first+i)%2)
		t.Run(fmt.Sprintf("seed %d with %d replicas", first+i, replicas), func(t *testing.T) {
			t.Parallel()
			t.Logf("repeat it with -run TestRandomLives -promises.lives 1 -promises.seed %d", first+i)
			randomLives(t, first+i, replicas)
		})
	}
}

const (
	groupsAtOnce = 3
	chapters     = 4
)

func randomLives(t *testing.T, seed uint64, replicas int) {
	s := newStage(t, seed, replicas)
	s.strangers()
	var all []*led
	var busy sync.WaitGroup
	for i := range groupsAtOnce {
		random := rand.New(rand.NewPCG(seed, 100+uint64(i)))
		m := s.apply(t, random, fmt.Sprintf("web%d", i), anySpec(random))
		all = append(all, m)
		busy.Go(m.live)
	}
	ended := make(chan struct{})
	var mischief sync.WaitGroup
	mischief.Go(func() { s.mischief(rand.New(rand.NewPCG(seed, 3)), ended) })
	busy.Wait()
	close(ended)
	mischief.Wait()
	for _, m := range all {
		m.verdict()
	}
	s.untouched()
}

// strangers puts VMs that are nobody's where groups are.
func (s *stage) strangers() {
	for name, kind := range map[string]string{"/DC0/vm/web0-0": "vm-operator-template", "/DC0/vm/other": "vm-operator-template-2"} {
		ref := s.vc.foreign(kind, "/DC0/vm", name[len("/DC0/vm/"):])
		s.mu.Lock()
		s.foreign[ref] = vm{}
		s.mu.Unlock()
	}
	var now sight
	eventually(s.t, "the strangers run", func() bool {
		now = s.vc.now()
		for ref := range s.foreign {
			if !now.vms[ref].on {
				return false
			}
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, v := range now.vms { // the embedded vCenter has VMs and templates, too
		s.foreign[ref] = v
	}
}

// untouched checks that the strangers are as they were.
func (s *stage) untouched() {
	s.t.Helper()
	now := s.vc.now()
	for ref, was := range s.foreign {
		if is := now.vms[ref]; is.changed != was.changed || is.String() != was.String() || is.folder != was.folder {
			s.t.Errorf("of a VM that is nobody's, %s (version %s), became %s (version %s)", was, was.changed, is, is.changed)
		}
	}
}

// mischief does to the server and its network what happens to any, until ended is closed.
func (s *stage) mischief(random *rand.Rand, ended <-chan struct{}) {
	pause := func(most time.Duration) {
		select {
		case <-ended:
		case <-time.After(time.Duration(random.Int64N(int64(most)))):
		}
	}
	for {
		pause(4 * time.Second)
		select {
		case <-ended:
			return
		default:
		}
		i := random.IntN(len(s.servers))
		switch random.IntN(6) {
		case 0, 1:
			s.kill(i)
			pause(time.Second)
			s.serve(i)
		case 2:
			s.terminate(i)
			s.serve(i)
		case 3:
			s.say("%s stands still", s.servers[i].name)
			s.servers[i].signal(syscall.SIGSTOP)
			pause(3 * time.Second)
			s.servers[i].signal(syscall.SIGCONT)
		case 4:
			s.say("the network to vCenter is cut")
			s.link.cut()
			pause(3 * time.Second)
			s.link.mend()
		case 5:
			s.say("vCenter stands still")
			s.machine.signal(syscall.SIGSTOP)
			pause(2 * time.Second)
			s.machine.signal(syscall.SIGCONT)
		}
	}
}

// anySpec draws a group's first spec.
func anySpec(random *rand.Rand) v1alpha1.VmGroupSpec {
	s := spec(int32(1 + random.IntN(7)))
	anyLimits(random, &s)
	switch random.IntN(4) {
	case 0:
		s.Standby = int32(1 + random.IntN(2))
	case 1:
		s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
		return s
	}
	if random.IntN(3) == 0 {
		s.Deletion.QuarantineSeconds = 3600
	}
	return s
}

// anyLimits draws what bounds updates and chooses members that go.
func anyLimits(random *rand.Rand, s *v1alpha1.VmGroupSpec) {
	limits := []string{"", "0", "1", "2", "10%", "25%", "50%", "100%"}
	drawn := func() *intstr.IntOrString {
		text := limits[random.IntN(len(limits))]
		if text == "" {
			return nil
		}
		value := intstr.Parse(text)
		return &value
	}
	none := intstr.FromInt32(0)
	s.Update.MaxSurge, s.Update.MaxUnavailable = drawn(), drawn()
	if s.Update.MaxSurge != nil && s.Update.MaxUnavailable != nil && *s.Update.MaxSurge == none && *s.Update.MaxUnavailable == none {
		s.Update.MaxUnavailable = nil // both 0 is refused
	}
	s.ScaleIn.Order = []v1alpha1.ScaleInOrder{"", v1alpha1.ScaleInHighestOrdinal, v1alpha1.ScaleInOldest, v1alpha1.ScaleInNewest}[random.IntN(4)]
	s.Update.Resize = []v1alpha1.ResizeWay{"", v1alpha1.ResizeAuto, v1alpha1.ResizeInPlace, v1alpha1.ResizeReplace}[random.IntN(4)]
	s.Readiness.Check = []v1alpha1.ReadinessCheck{"", v1alpha1.ReadyToolsRunning, v1alpha1.ReadyGuestIP}[random.IntN(3)]
}

// live leads a group from its creation through some changes to its end.
func (m *led) live() {
	m.settle(false)
	chaptersOf := []func(*led){(*led).scale, (*led).scale, (*led).scaleInAndBack, (*led).roll, (*led).rollAndBack, (*led).resize, (*led).replaceOne,
		(*led).standby, (*led).limits, (*led).both, (*led).destroyed, (*led).poweredOff}
	for range chapters {
		if m.broken() {
			return
		}
		chaptersOf[m.random.IntN(len(chaptersOf))](m)
	}
	if !m.broken() {
		m.end()
	}
}

// moment waits for a moment in the midst of what the server does.
func (m *led) moment() { time.Sleep(time.Duration(m.random.IntN(2000)) * time.Millisecond) }

// scale sets replicas. Whoever stays keeps its VM.
func (m *led) scale() {
	before, to := m.refs(false), int32(m.random.IntN(9))
	from := *m.now().Spec.Replicas
	m.edit(fmt.Sprintf("scale from %d to %d", from, to), func(s *v1alpha1.VmGroupSpec) { s.Replicas = &to })
	m.settle(false)
	m.kept(before, int(max(from-to, 0)))
}

// kept checks that all members but a number of them are still there, with the VM that they had.
func (m *led) kept(before map[string]string, but int) {
	gone := 0
	after := m.refs(false)
	for name, ref := range before {
		if after[name] != ref {
			gone++
		}
	}
	if gone > but && m.acts() == 0 && !m.broken() {
		m.history.broke("%d of %v went, %d were to go: %v", gone, before, but, after)
	}
}

func (m *led) acts() int {
	_, _, acts := m.history.window()
	return acts
}

// scaleInAndBack takes a scale-in back.
func (m *led) scaleInAndBack() {
	from := *m.now().Spec.Replicas
	to := int32(m.random.IntN(int(from) + 1))
	m.edit(fmt.Sprintf("scale from %d to %d", from, to), func(s *v1alpha1.VmGroupSpec) { s.Replicas = &to })
	m.moment()
	m.edit(fmt.Sprintf("scale back from %d to %d", to, from), func(s *v1alpha1.VmGroupSpec) { s.Replicas = &from })
	m.settle(false)
}

func other(template string) string {
	if template == "vm-operator-template" {
		return "vm-operator-template-2"
	}
	return "vm-operator-template"
}

// roll updates the members to the other template.
func (m *led) roll() {
	m.edit("roll", func(s *v1alpha1.VmGroupSpec) { s.Template = other(s.Template) })
	m.settle(false)
}

// rollAndBack takes a roll back.
func (m *led) rollAndBack() {
	m.edit("roll", func(s *v1alpha1.VmGroupSpec) { s.Template = other(s.Template) })
	m.moment()
	m.edit("roll back", func(s *v1alpha1.VmGroupSpec) { s.Template = other(s.Template) })
	m.settle(false)
}

func (m *led) resize() {
	m.edit("resize", func(s *v1alpha1.VmGroupSpec) { s.CPU = 5 - s.CPU })
	m.settle(false)
}

// both scales and updates at once.
func (m *led) both() {
	to := int32(1 + m.random.IntN(8))
	m.edit(fmt.Sprintf("roll, and scale to %d", to), func(s *v1alpha1.VmGroupSpec) {
		s.Template, s.Replicas = other(s.Template), &to
	})
	m.settle(false)
}

// some returns a member, by name and moRef.
func (m *led) some(running bool) (name, ref string) {
	refs := m.refs(running)
	var names []string
	for name := range refs {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "", ""
	}
	slices.Sort(names)
	name = names[m.random.IntN(len(names))]
	return name, refs[name]
}

// replaceOne names a member in spec.replace: it goes, and no other.
func (m *led) replaceOne() {
	before := m.refs(false)
	name, ref := m.some(true)
	if ref == "" {
		return
	}
	m.edit("replace "+name, func(s *v1alpha1.VmGroupSpec) { s.Replace = []v1alpha1.Replacement{{Name: name, MoRef: ref}} })
	m.until(ref+" is replaced", func(_ v1alpha1.VmGroup, all sight) bool {
		members, _ := m.members(all)
		_, stays := byRef(members, ref)
		return !stays
	})
	m.settle(false)
	m.edit("replace nobody", func(s *v1alpha1.VmGroupSpec) { s.Replace = nil })
	m.settle(false)
	m.kept(before, 1+len(before)-len(m.refs(true))) // a standby member may have been powered on
}

// standby changes how many standby members there are.
func (m *led) standby() {
	if o := m.now(); o.Spec.HasPersistentDisks() {
		return
	}
	to := int32(m.random.IntN(3))
	m.edit(fmt.Sprintf("%d standby members", to), func(s *v1alpha1.VmGroupSpec) { s.Standby = to })
	m.settle(false)
}

// limits draws other limits. They apply to what comes next.
func (m *led) limits() {
	way := m.now().Spec.Update.Resize
	m.edit("other limits", func(s *v1alpha1.VmGroupSpec) {
		anyLimits(m.random, s)
		s.Update.Resize = way
	})
	m.settle(false)
}

// destroyed has an administrator destroy a member.
func (m *led) destroyed() {
	name, ref := m.some(true)
	if ref == "" {
		return
	}
	m.history.touch(ref)
	m.say("%s: an administrator destroys %s (%s)", m.name, name, ref)
	machine := m.vc.vm(ref)
	if task, err := machine.PowerOff(m.vc.ctx); err == nil {
		_ = task.Wait(m.vc.ctx) // the server may power it on again
	}
	if task, err := machine.Destroy(m.vc.ctx); err == nil {
		_ = task.Wait(m.vc.ctx) // the same
	}
	m.settle(false)
}

// poweredOff has an administrator power a member off.
func (m *led) poweredOff() {
	name, ref := m.some(true)
	if ref == "" {
		return
	}
	m.history.touch(ref)
	m.say("%s: an administrator powers %s (%s) off", m.name, name, ref)
	m.vc.task(m.vc.vm(ref).PowerOff(m.vc.ctx))
	m.settle(false)
}
