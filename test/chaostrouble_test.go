package test

import (
	"math/rand/v2"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Some lives end with a lasting trouble, which begins when the group is as its spec says. An edit replaces all members, and from then on one kind of step
// always fails or is taken back, new guests never become ready, or vCenter or Metacontroller does nothing. The trouble lasts for hours, and may cost at most one serving member. Then either the trouble ends and the
// group becomes as its spec says, or the group is deleted during the trouble.

// trouble is a lasting trouble of a life.
type trouble struct {
	kind  troubleKind
	lasts time.Duration
	ends  bool
}

// troubleKind is a kind of trouble. begins starts the trouble; converge ends it. isNew reports whether a VM was created during the trouble.
type troubleKind struct {
	name   string
	only   func(profile) bool // the lives that can have this trouble; nil: all
	edit   func(*v1alpha1.VmGroupSpec)
	begins func(l *life, isNew func(vcsim.VM) bool)
}

func nothing(*v1alpha1.VmGroupSpec) {}

// troubleKinds lists the steps between a clone and a member that is ready.
var troubleKinds = []troubleKind{
	{"no clone succeeds", nil, nothing, func(l *life, _ func(vcsim.VM) bool) { l.FailTask(vcsim.Clone, nil, pick(l.rand, chaosFaults), 0) }},
	{"no tag is attached", nil, func(s *v1alpha1.VmGroupSpec) {
		s.Tags = []v1alpha1.Tag{{Category: "team", Name: "trouble", Create: true}}
	}, func(l *life, _ func(vcsim.VM) bool) { l.Deny(attachTags, "InventoryService.Tagging.AttachTag") }},
	{"no upgrade succeeds", nil, func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version = 17 }, func(l *life, _ func(vcsim.VM) bool) {
		l.FailTask(vcsim.Upgrade, nil, pick(l.rand, chaosFaults), 0)
	}},
	{"nothing is encrypted", func(p profile) bool { return !p.persistent }, func(s *v1alpha1.VmGroupSpec) {
		s.Placement.StoragePolicy = encryptingPolicy
	}, func(l *life, _ func(vcsim.VM) bool) { l.RemoveKeyProviders() }},
	{"no virtual TPM is added", nil, func(s *v1alpha1.VmGroupSpec) { s.Hardware.Version, s.Hardware.VTPM = 17, true }, func(l *life, _ func(vcsim.VM) bool) {
		l.RemoveKeyProviders()
	}},
	{"no rule is written", nil, func(s *v1alpha1.VmGroupSpec) {
		s.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{siteA}, Rule: v1alpha1.HostRuleRequired}
	}, func(l *life, _ func(vcsim.VM) bool) {
		l.FailTask(vcsim.ReconfigureCluster, nil, pick(l.rand, chaosFaults), 0)
	}},
	{"no VM is powered on", nil, nothing, func(l *life, _ func(vcsim.VM) bool) { l.FailTask(vcsim.PowerOn, nil, pick(l.rand, chaosFaults), 0) }},
	{"no customization succeeds", nil, func(s *v1alpha1.VmGroupSpec) {
		s.UserData, s.CustomizationSpec, s.Networks = nil, "linux", nil // it gives each adapter an address
	}, func(l *life, isNew func(vcsim.VM) bool) {
		l.Behave(func(b *vcsim.Behavior) { b.FailCustomizations, b.CustomizationError = isNew, "trouble" })
	}},
	{"no new guest has Tools", func(p profile) bool { return p.tools }, nothing, func(l *life, isNew func(vcsim.VM) bool) {
		l.Behave(func(b *vcsim.Behavior) { b.BreakGuests = isNew })
	}},
	{noServiceAnswers, func(p profile) bool { return p.answers }, nothing, func(*life, func(vcsim.VM) bool) {}},
	{"vCenter keeps no VM group", nil, func(s *v1alpha1.VmGroupSpec) {
		s.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{siteA}, Rule: v1alpha1.HostRuleRequired}
	}, func(l *life, _ func(vcsim.VM) bool) { l.Rewrite(withoutVMGroups) }},
	{vCenterAway, nil, nothing, func(l *life, _ func(vcsim.VM) bool) { l.Down() }},
	{metacontrollerSilent, nil, nothing, func(*life, func(vcsim.VM) bool) {}},
}

// The troubles that checks treat apart.
const (
	noServiceAnswers     = "no new service answers"
	vCenterAway          = "vCenter is away"
	metacontrollerSilent = "Metacontroller is silent"
)

// troubleOf returns the trouble of the life of a seed. Every eighth life has one.
func troubleOf(seed uint64, p profile) *trouble {
	if seed%8 != 3 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 4))
	kinds := slices.DeleteFunc(slices.Clone(troubleKinds), func(k troubleKind) bool { return k.only != nil && !k.only(p) })
	kind := pick(r, kinds)
	// Without vCenter or hook calls, no group can be deleted.
	return &trouble{kind: kind, lasts: time.Duration(20+r.IntN(160)) * time.Minute, ends: r.IntN(2) == 0 || kind.name == vCenterAway || kind.name == metacontrollerSilent}
}

// endure begins a trouble, and makes hook calls until its time is over.
func (l *life) endure(t *trouble) {
	all, was := refsOf(l.mine()), refsOf(slices.DeleteFunc(l.mine(), func(vm vcsim.VM) bool { return !isOn(vm) }))
	isNew := func(vm vcsim.VM) bool { return !slices.Contains(all, vm.Ref.Value) }
	l.say("trouble: %s, for %s; then it ends: %v", t.kind.name, t.lasts, t.ends)
	t.kind.begins(l, isNew)
	s := &l.group.Spec
	s.Update.Canary, s.Update.Strategy = nil, ""
	if s.Template = otherTemplate; l.specs[len(l.specs)-1].Template == otherTemplate {
		s.Template = "vm-operator-template"
	}
	t.kind.edit(s)
	l.edited("the spec of the trouble, %s", s.Template)
	for began := time.Now(); time.Since(began) < t.lasts; time.Sleep(2 * seldom) {
		l.reap()
		if t.kind.name != metacontrollerSilent {
			l.call(l.any())
		}
		l.checkTrouble(was)
		for _, vm := range l.mine() {
			if t.kind.name == noServiceAnswers && isNew(vm) {
				l.StopService(vm.Ref.Value, true)
			}
		}
	}
}

// checkTrouble checks that a trouble costs at most one of the members that served before: for each further lost member, a new member must be ready. One
// replica that reports it ready is enough, because the replica that was called last may not have probed the new member yet.
func (l *life) checkTrouble(was []string) {
	var lost []string
	serve := refsOf(slices.DeleteFunc(l.mine(), func(vm vcsim.VM) bool { return !isOn(vm) }))
	for _, ref := range was {
		if !slices.Contains(serve, ref) {
			lost = append(lost, ref)
		}
	}
	ready := int(l.group.Status.ReadyReplicas)
	for _, c := range l.awake() {
		if len(lost) > 1 && ready < len(was)-1 {
			ready = max(ready, int(l.call(c).Status.ReadyReplicas))
		}
	}
	if len(lost) > 1 && ready < len(was)-1 {
		l.t.Fatalf("%v are lost, and %d members are ready", lost, ready)
	}
}
