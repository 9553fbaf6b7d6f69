//go:build unix

package promises

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// TestRandomLivesKeepThePromises makes random changes to groups, while the server is killed, stopped, and cut off from vCenter.
func TestRandomLivesKeepThePromises(t *testing.T) {
	thin.NotThin(t, "it takes half a minute")
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1_000_000)
	}
	for i := range uint64(*lives) {
		replicas := 1 + int((first+i)%2)
		t.Run(fmt.Sprintf("seed %d with %d replicas", first+i, replicas), func(t *testing.T) {
			t.Parallel()
			t.Logf("repeat this life with -run TestRandomLives -promises.lives 1 -promises.seed %d", first+i)
			randomLives(t, first+i, replicas)
		})
	}
}

const (
	groupsAtOnce      = 3
	operationsPerLife = 4
)

func randomLives(t *testing.T, seed uint64, replicas int) {
	s := newStage(t, seed, replicas)
	s.strangers()
	var all []*watchedGroup
	var busy sync.WaitGroup
	for i := range groupsAtOnce {
		random := rand.New(rand.NewPCG(seed, 100+uint64(i)))
		m := s.apply(t, random, fmt.Sprintf("web%d", i), anySpec(random), func(g *group) {
			g.pace = []time.Duration{0, 0, 300 * time.Millisecond, 2 * time.Second}[random.IntN(4)]
		})
		all = append(all, m)
		busy.Go(m.live)
	}
	ended := make(chan struct{})
	var disrupt sync.WaitGroup
	disrupt.Go(func() { s.disrupt(rand.New(rand.NewPCG(seed, 3)), ended) })
	busy.Wait()
	close(ended)
	disrupt.Wait()
	for _, m := range all {
		m.verdict()
	}
	s.untouched()
}

// strangers creates VMs that the server doesn't own, one of them with the name of a member, and records them in foreign.
func (s *stage) strangers() {
	for name, kind := range map[string]string{"/DC0/vm/web0-0": "vm-operator-template", "/DC0/vm/other": "vm-operator-template-2"} {
		ref := s.vc.foreign(kind, "/DC0/vm", name[len("/DC0/vm/"):])
		s.mu.Lock()
		s.foreign[ref] = vm{}
		s.mu.Unlock()
	}
	var now inventory
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
	for ref, v := range now.vms { // the embedded vCenter also has VMs and templates of its own
		s.foreign[ref] = v
	}
}

// untouched checks that the VMs that the server doesn't own have not changed.
func (s *stage) untouched() {
	s.t.Helper()
	now := s.vc.now()
	for ref, was := range s.foreign {
		if is := now.vms[ref]; is.changed != was.changed || is.String() != was.String() || is.folder != was.folder {
			s.t.Errorf("a VM without an owner, %s (version %s), became %s (version %s)", was, was.changed, is, is.changed)
		}
	}
}

// disrupt kills, stops and cuts off the server's replicas until ended is closed, often a moment after an edit.
func (s *stage) disrupt(random *rand.Rand, ended <-chan struct{}) {
	pause := func(most time.Duration) {
		select {
		case <-ended:
		case <-time.After(time.Duration(random.Int64N(int64(most)))):
		}
	}
	for {
		if random.IntN(4) == 0 {
			pause(20 * time.Second) // let the server finish what it began
		}
		select {
		case <-ended:
			return
		case <-s.edited:
			pause(1500 * time.Millisecond)
		case <-time.After(time.Duration(random.Int64N(int64(4 * time.Second)))):
		}
		i := random.IntN(len(s.servers))
		switch random.IntN(9) {
		case 0, 1, 2:
			s.kill(i)
			pause(time.Second)
			s.serve(i)
		case 3:
			s.terminate(i)
			s.serve(i)
		case 4:
			s.say("%s is suspended", s.servers[i].Name)
			s.servers[i].Signal(syscall.SIGSTOP)
			pause(3 * time.Second)
			s.servers[i].Signal(syscall.SIGCONT)
		case 5:
			s.say("the network from %s to vCenter is cut", s.servers[i].Name)
			s.links[i].cut()
			pause(3 * time.Second)
			s.links[i].mend()
		case 6:
			s.say("vCenter is suspended")
			s.machine.Signal(syscall.SIGSTOP)
			pause(2 * time.Second)
			s.machine.Signal(syscall.SIGCONT)
		case 7:
			s.say("vCenter ends the server's sessions")
			s.vc.endSessions(s.sdk.User.Username())
		case 8:
			s.preview(random)
		}
	}
}

// preview asks a replica for the plan of another spec, which must change nothing.
func (s *stage) preview(random *rand.Rand) {
	url, err := s.service.choose()
	if err != nil {
		return
	}
	s.mu.Lock()
	of := s.all[random.IntN(len(s.all))]
	s.mu.Unlock()
	o := of.now()
	o.Spec = anySpec(random)
	o.Status.Members = append(o.Status.Members, v1alpha1.Member{Name: o.Name + "-77", Ordinal: 77, MoRef: "vm-77777"})
	manifest, _ := json.Marshal(o)
	plan := exec.Command(*binary, "plan", "-f", "-", "--server", url)
	plan.Stdin = bytes.NewReader(manifest)
	said, err := plan.CombinedOutput()
	first, _, _ := strings.Cut(string(said), "\n")
	s.say("vmgroup plan: %s (%v)", first, err)
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

// anyLimits draws the limits of updates, the order of scale-ins, and the ways to resize and to check readiness.
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
		s.Update.MaxUnavailable = nil // the API refuses a spec in which both are 0
	}
	s.ScaleIn.Order = []v1alpha1.ScaleInOrder{"", v1alpha1.ScaleInHighestOrdinal, v1alpha1.ScaleInOldest, v1alpha1.ScaleInNewest}[random.IntN(4)]
	s.Update.Resize = []v1alpha1.ResizeWay{"", v1alpha1.ResizeAuto, v1alpha1.ResizeInPlace, v1alpha1.ResizeReplace}[random.IntN(4)]
	s.Readiness.Check = []v1alpha1.ReadinessCheck{"", v1alpha1.ReadyToolsRunning, v1alpha1.ReadyGuestIP}[random.IntN(3)]
}

// operations are the changes of which a life consists, by the names for -promises.only.
var operations = map[string]func(*watchedGroup){
	"scale": (*watchedGroup).scale, "scaleInAndBack": (*watchedGroup).scaleInAndBack, "roll": (*watchedGroup).roll, "rollAndBack": (*watchedGroup).rollAndBack, "resize": (*watchedGroup).resize,
	"replace": (*watchedGroup).replaceOne, "standby": (*watchedGroup).standby, "limits": (*watchedGroup).limits, "both": (*watchedGroup).both, "destroyed": (*watchedGroup).destroyed,
	"poweredOff": (*watchedGroup).poweredOff, "impossible": (*watchedGroup).impossible, "canary": (*watchedGroup).canary,
}

// live waits for a new group to match its spec, makes some changes, and deletes the group.
func (m *watchedGroup) live() {
	m.settle(false)
	names := slices.Sorted(maps.Keys(operations))
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	for range operationsPerLife {
		if m.broken() {
			return
		}
		operations[names[m.random.IntN(len(names))]](m)
	}
	if m.random.IntN(4) == 0 {
		m.edit("Retain", func(s *v1alpha1.VmGroupSpec) { s.Deletion.Policy = v1alpha1.DeletionRetain })
		m.settle(false)
	}
	if !m.broken() {
		m.end()
	}
}

// moment waits for a random time, so that the next edit comes while the server works.
func (m *watchedGroup) moment() { time.Sleep(time.Duration(m.random.IntN(2000)) * time.Millisecond) }

// scale sets replicas, and checks that the right members were removed, and that the others kept their VMs.
func (m *watchedGroup) scale() {
	before, to := m.refs(false), int32(m.random.IntN(9))
	from := *m.now().Spec.Replicas
	members, _ := m.members(m.vc.now())
	m.edit(fmt.Sprintf("scale from %d to %d", from, to), func(s *v1alpha1.VmGroupSpec) { s.Replicas = &to })
	m.settle(false)
	m.kept(before, int(max(from-to, 0)))
	m.inOrder(members)
}

// inOrder checks that a scale-in removed members in the order of spec.scaleIn.
func (m *watchedGroup) inOrder(before []vm) {
	o, after := m.now(), m.refs(false)
	order := o.Spec.ScaleIn.Order
	if o.Spec.HasPersistentDisks() {
		order = v1alpha1.ScaleInHighestOrdinal
	}
	for _, gone := range before {
		for _, stays := range before {
			if after[gone.name] == gone.ref || after[stays.name] != stays.ref || !gone.on || !stays.on || m.broken() {
				continue
			}
			const alike = 5 * time.Second // VMs made within this time count as equally old
			if (order == "" || order == v1alpha1.ScaleInHighestOrdinal) && m.ordinal(gone) < m.ordinal(stays) ||
				order == v1alpha1.ScaleInOldest && gone.created.After(stays.created.Add(alike)) ||
				order == v1alpha1.ScaleInNewest && gone.created.Before(stays.created.Add(-alike)) {
				m.history.broke("the scale-in removed %s and kept %s, in the order %q", gone, stays, order)
			}
		}
	}
}

func (m *watchedGroup) ordinal(v vm) (n int) {
	_, _ = fmt.Sscanf(v.name[len(m.name):], "-%d", &n)
	return n
}

// kept checks that at most but members have lost the VM that they had.
func (m *watchedGroup) kept(before map[string]string, but int) {
	gone := 0
	after := m.refs(false)
	for name, ref := range before {
		if after[name] != ref {
			gone++
		}
	}
	if gone > but && m.acts() == 0 && !m.broken() {
		m.history.broke("%d of %v lost their VMs, want at most %d; now: %v", gone, before, but, after)
	}
}

func (m *watchedGroup) acts() int {
	_, _, acts := m.history.window()
	return acts
}

// scaleInAndBack begins a scale-in, and reverts it while the server works.
func (m *watchedGroup) scaleInAndBack() {
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
func (m *watchedGroup) roll() {
	m.edit("roll", func(s *v1alpha1.VmGroupSpec) { s.Template = other(s.Template) })
	m.settle(false)
}

// rollAndBack begins an update, and reverts it while the server works.
func (m *watchedGroup) rollAndBack() {
	m.edit("roll", func(s *v1alpha1.VmGroupSpec) { s.Template = other(s.Template) })
	m.moment()
	m.edit("roll back", func(s *v1alpha1.VmGroupSpec) { s.Template = other(s.Template) })
	m.settle(false)
}

// canary tries a change on some members, and then completes or reverts it.
func (m *watchedGroup) canary() {
	before := m.now()
	many := []intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%")}[m.random.IntN(3)]
	replicas := int(*before.Spec.Replicas)
	want := min(limit(&many, "", replicas, true), replicas)
	m.edit("canary of "+many.String(), func(s *v1alpha1.VmGroupSpec) {
		s.Template, s.Update.Canary = other(s.Template), &many
	})
	m.settle(true)
	if n := m.made(other(before.Spec.Template), m.vc.now()); n != want && !m.broken() {
		m.history.broke("a canary of %s of %d updated %d", many.String(), replicas, n)
	}
	if m.random.IntN(2) == 0 {
		m.edit("go on", func(s *v1alpha1.VmGroupSpec) { s.Update.Canary = nil })
		m.settle(false)
		return
	}
	m.edit("roll the canary back", func(s *v1alpha1.VmGroupSpec) { s.Template = before.Spec.Template })
	m.settle(false)
	m.edit("no canary", func(s *v1alpha1.VmGroupSpec) { s.Update.Canary = nil })
	m.settle(false)
}

// impossible makes an edit that cannot succeed, and reverts it.
func (m *watchedGroup) impossible() {
	if o := m.now(); *o.Spec.Replicas+o.Spec.Standby == 0 {
		return // nothing is cloned, so nothing can be blocked
	}
	if m.random.IntN(2) == 0 {
		m.blocked("a typo in template", func(s *v1alpha1.VmGroupSpec) { s.Template = "nonesuch" })
	} else {
		m.blocked("a typo in datastore", func(s *v1alpha1.VmGroupSpec) { s.Placement.Datastore = "nonesuch" })
	}
}

func (m *watchedGroup) resize() {
	m.edit("resize", func(s *v1alpha1.VmGroupSpec) { s.CPU = 5 - s.CPU })
	m.settle(false)
}

// both scales and updates at once.
func (m *watchedGroup) both() {
	to := int32(1 + m.random.IntN(8))
	m.edit(fmt.Sprintf("roll, and scale to %d", to), func(s *v1alpha1.VmGroupSpec) {
		s.Template, s.Replicas = other(s.Template), &to
	})
	m.settle(false)
}

// some returns a member, by name and moRef.
func (m *watchedGroup) some(running bool) (name, ref string) {
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

// replaceOne names a member in spec.replace: the server replaces that member, and no other.
func (m *watchedGroup) replaceOne() {
	before := m.refs(false)
	name, ref := m.some(true)
	if ref == "" {
		return
	}
	m.edit("replace "+name, func(s *v1alpha1.VmGroupSpec) { s.Replace = []v1alpha1.Replacement{{Name: name, MoRef: ref}} })
	m.until(ref+" is replaced", func(_ v1alpha1.VmGroup, all inventory) bool {
		members, _ := m.members(all)
		_, stays := byRef(members, ref)
		return !stays
	})
	m.settle(false)
	m.edit("replace none", func(s *v1alpha1.VmGroupSpec) { s.Replace = nil })
	m.settle(false)
	m.kept(before, 1+len(before)-len(m.refs(true))) // a standby member may have taken the place of the replaced one
}

// standby changes how many standby members there are.
func (m *watchedGroup) standby() {
	if o := m.now(); o.Spec.HasPersistentDisks() {
		return
	}
	to := int32(m.random.IntN(3))
	m.edit(fmt.Sprintf("%d standby members", to), func(s *v1alpha1.VmGroupSpec) { s.Standby = to })
	m.settle(false)
}

// limits draws other limits, for the changes that follow.
func (m *watchedGroup) limits() {
	way := m.now().Spec.Update.Resize
	m.edit("other limits", func(s *v1alpha1.VmGroupSpec) {
		anyLimits(m.random, s)
		s.Update.Resize = way
	})
	m.settle(false)
}

// destroyed has an administrator destroy a member.
func (m *watchedGroup) destroyed() {
	name, ref := m.some(true)
	if ref == "" {
		return
	}
	m.history.touch(ref)
	m.say("%s: an administrator destroys %s (%s)", m.name, name, ref)
	machine := m.vc.vm(ref)
	if task, err := machine.PowerOff(m.vc.ctx); err == nil {
		_ = task.Wait(m.vc.ctx) // this can fail: the server may act on the VM at the same time
	}
	if task, err := machine.Destroy(m.vc.ctx); err == nil {
		_ = task.Wait(m.vc.ctx) // can fail for the same reason
	}
	m.settle(false)
}

// poweredOff has an administrator power a member off.
func (m *watchedGroup) poweredOff() {
	name, ref := m.some(true)
	if ref == "" {
		return
	}
	m.history.touch(ref)
	m.say("%s: an administrator powers %s (%s) off", m.name, name, ref)
	m.vc.task(m.vc.vm(ref).PowerOff(m.vc.ctx))
	m.settle(false)
}
