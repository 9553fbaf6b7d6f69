package test

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// change returns an operation that edits the spec. edit returns a description of what it changed.
func change(name string, weight int, edit func(*life, *v1alpha1.VmGroupSpec) string) operation {
	return operation{name, weight, func(l *life) { l.edited("%s: %s", name, edit(l, &l.group.Spec)) }}
}

// noTemplate is a name that no template has.
const noTemplate = "nonesuch"

// edits lists what users do.
var edits = []operation{
	change("scale", 9, func(l *life, s *v1alpha1.VmGroupSpec) string {
		n := int32(l.rand.IntN(7))
		s.Replicas = &n
		return fmt.Sprint(n)
	}),
	change("template", 4, func(_ *life, s *v1alpha1.VmGroupSpec) string {
		s.Template = map[string]string{"vm-operator-template": otherTemplate, otherTemplate: golden, golden: appliance, appliance: "vm-operator-template", noTemplate: "vm-operator-template"}[s.Template]
		return s.Template
	}),
	change("a typo in the template", 2, func(_ *life, s *v1alpha1.VmGroupSpec) string {
		s.Template = noTemplate
		return s.Template
	}),
	change("standby", 3, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Standby = int32(l.rand.IntN(3))
		return fmt.Sprint(s.Standby)
	}),
	change("cpu", 3, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.CPU = int32(1 + l.rand.IntN(4))
		return fmt.Sprint(s.CPU)
	}),
	change("memory", 3, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Memory = int32(1 + l.rand.IntN(4))
		return fmt.Sprint(s.Memory)
	}),
	change("quarantine", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Deletion.QuarantineSeconds = pick(l.rand, []int32{0, 60, 600})
		return fmt.Sprint(s.Deletion.QuarantineSeconds)
	}),
	change("way to resize", 1, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Update.Resize = pick(l.rand, []v1alpha1.ResizeWay{v1alpha1.ResizeAuto, v1alpha1.ResizeInPlace, v1alpha1.ResizeReplace})
		return string(s.Update.Resize)
	}),
	change("budgets", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		some := []*intstr.IntOrString{nil, number(0), number(1)}
		s.Update.MaxUnavailable, s.Update.MaxSurge = pick(l.rand, some), pick(l.rand, []*intstr.IntOrString{nil, number(1)}) // the API server refuses a spec in which both are 0
		return fmt.Sprintf("maxUnavailable %v, maxSurge %v", s.Update.MaxUnavailable, s.Update.MaxSurge)
	}),
	change("replace", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		if members := l.group.Status.Members; len(members) > 0 {
			m := pick(l.rand, members)
			if slices.ContainsFunc(l.OutsideInventory(), func(vm vcsim.VM) bool { return vm.First == m.InstanceUUID }) {
				l.watch.excuse(m.InstanceUUID)
			}
			s.Replace = []v1alpha1.Replacement{{Name: fmt.Sprintf("web-%d", m.Ordinal), MoRef: m.MoRef}}
		}
		return fmt.Sprint(s.Replace)
	}),
	change("remove first", 1, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.ScaleIn.Remove = []string{fmt.Sprintf("web-%d", l.rand.IntN(5))}
		return fmt.Sprint(s.ScaleIn.Remove)
	}),
	change("pause", 2, func(_ *life, s *v1alpha1.VmGroupSpec) string { s.Paused = !s.Paused; return fmt.Sprint(s.Paused) }),
	change("continue", 3, func(_ *life, s *v1alpha1.VmGroupSpec) string { s.Paused = false; return "paused false" }),
	change("user data", 4, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.CustomizationSpec = ""
		s.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
		text := fmt.Sprintf("#cloud-config %d", l.rand.IntN(2))
		l.group.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": text}}}
		return text
	}),
	change("customization", 1, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.CustomizationSpec = ""
		beyond := slices.ContainsFunc(s.Networks, func(n v1alpha1.Network) bool { return n.IPv4 == nil || len(n.IPv4.AdditionalRanges) > 0 })
		if s.UserData == nil && !beyond && l.rand.IntN(3) > 0 {
			s.CustomizationSpec = "linux"
		}
		return s.CustomizationSpec
	}),
	{"another Secret", 1, func(l *life) { // an edit of the Secret doesn't change the group's generation
		text := fmt.Sprintf("#cloud-config %d", l.rand.IntN(3))
		l.say("the Secret is %s", text)
		l.group.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": text}}}
	}},
	{"the Secret is gone", 1, func(l *life) { l.group.Related = nil }},
	change("tags", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Tags = []v1alpha1.Tag{{Category: "team", Name: pick(l.rand, []string{"shop", "bank"}), Create: true}}
		if l.rand.IntN(3) == 0 {
			s.Tags = nil
		}
		return fmt.Sprint(s.Tags)
	}),
	change("attributes", 1, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.CustomAttributes = map[string]string{"owner": pick(l.rand, []string{"ann", "bob"})}
		if l.rand.IntN(3) == 0 {
			s.CustomAttributes = nil
		}
		return fmt.Sprint(s.CustomAttributes)
	}),
	change("disks", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		if n := len(s.Disks); n == 0 || n < 3 && l.rand.IntN(2) == 0 {
			s.Disks = append(slices.Clip(s.Disks), v1alpha1.Disk{Name: fmt.Sprintf("disk%d", n), SizeGiB: 1})
		} else {
			s.Disks = slices.Clone(s.Disks)
			s.Disks[l.rand.IntN(n)].SizeGiB++
		}
		return fmt.Sprint(s.Disks)
	}),
	change("anti-affinity", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Placement.AntiAffinity = pick(l.rand, []v1alpha1.AntiAffinity{"", v1alpha1.AntiAffinityPreferred, v1alpha1.AntiAffinityRequired})
		if l.profile.heedsRules && s.Placement.AntiAffinity == v1alpha1.AntiAffinityRequired {
			s.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred
		}
		s.Placement.HostGroup = pick(l.rand, []*v1alpha1.HostGroup{nil, nil, {Names: []string{siteA}, Rule: v1alpha1.HostRuleRequired}, {Names: []string{siteA, siteB}}})
		return fmt.Sprint(s.Placement.AntiAffinity, s.Placement.HostGroup)
	}),
	change("hardware", 1, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Hardware.CPUShares = pick(l.rand, []*intstr.IntOrString{nil, new(intstr.FromString(v1alpha1.SharesLow)), new(intstr.FromInt32(3000))})
		s.Hardware.Version = pick(l.rand, []int32{0, 0, 15})
		s.Hardware.VTPM = s.Hardware.Version > 0 && l.rand.IntN(2) == 0
		s.Hardware.BootFirst = pick(l.rand, []v1alpha1.BootDevice{"", v1alpha1.BootDisk, v1alpha1.BootNetwork})
		if s.Placement.StoragePolicy = pick(l.rand, []string{"", "", encryptingPolicy}); s.HasPersistentDisks() { // persistent disks can't be encrypted
			s.Placement.StoragePolicy = ""
		}
		if s.Hardware.PCIDevices = pick(l.rand, [][]string{nil, {"10de:1eb8"}, {"grid_t4-4c"}}); len(s.Hardware.PCIDevices) > 0 {
			s.Hardware.Version = v1alpha1.MinPCIDeviceVersion
		}
		s.ExtraConfig = pick(l.rand, []map[string]string{nil, {"sched.cpu.latencySensitivity": "high"}})
		return fmt.Sprint(plan.AllocationOf(s), s.Hardware.WithoutAllocation(), s.ExtraConfig, s.Placement.StoragePolicy)
	}),
	change("zones", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Placement.Zones = pick(l.rand, [][]string{nil, {"DC0_C0", "DC0_C1"}})
		return fmt.Sprint(s.Placement.Zones)
	}),
	change("networks", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Networks = nil
		if l.rand.IntN(2) == 0 {
			s.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.99"}, PrefixLength: 24}}}
		}
		if len(s.Networks) > 0 && s.CustomizationSpec == "" && l.rand.IntN(2) == 0 {
			s.Networks[0].IPv4.AdditionalRanges = []string{"10.0.0.110-10.0.0.199"}
		}
		if len(s.Networks) > 0 && s.CustomizationSpec == "" && l.rand.IntN(2) == 0 { // adds a network without addresses before the other one
			s.Networks = slices.Insert(s.Networks, 0, v1alpha1.Network{Network: "VM Network", DHCP: new(false)})
		}
		return fmt.Sprint(len(s.Networks))
	}),
	change("service", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Service = nil
		if l.rand.IntN(3) > 0 {
			s.Service = &v1alpha1.Service{Ports: []v1alpha1.ServicePort{{Port: 80}}, DrainSeconds: int32(30 * l.rand.IntN(2))}
		}
		return fmt.Sprint(s.Service != nil)
	}),
	change("how old members become", 1, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Update.MaxAgeSeconds = pick(l.rand, []*int32{nil, seconds(3600)})
		return fmt.Sprint(s.Update.MaxAgeSeconds != nil)
	}),
	change("windows", 1, func(l *life, s *v1alpha1.VmGroupSpec) string { // a window for half of each hour, which begins at a random minute
		s.Update.Windows = nil
		for begin, h := l.rand.IntN(60), 0; begin > 10 && h < v1alpha1.MaxWindows; h++ {
			s.Update.Windows = append(s.Update.Windows, v1alpha1.Window{Start: fmt.Sprintf("%02d:%02d", h, begin), DurationSeconds: 1800})
		}
		return fmt.Sprint(len(s.Update.Windows))
	}),
	change("how long members can be held", 2, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Deletion.HoldTimeoutSeconds = pick(l.rand, []int32{0, 60, 300})
		return fmt.Sprint(s.Deletion.HoldTimeoutSeconds)
	}),
	{"a user holds members, or lets them go", 4, func(l *life) { // annotations don't change the generation
		l.group.Annotations = map[string]string{}
		for _, m := range l.group.Status.Members {
			if l.rand.IntN(2) == 0 {
				l.group.Annotations[v1alpha1.AnnotationHold+m.MoRef] = fmt.Sprintf("web-%d/%s", m.Ordinal, m.MoRef)
			}
		}
		l.say("held: %v", l.group.Annotations)
	}},
	change("deletion policy", 1, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Deletion.Policy = pick(l.rand, []v1alpha1.DeletionPolicy{"", v1alpha1.DeletionRetain})
		return string(s.Deletion.Policy)
	}),
	change("when the template changes", 1, func(l *life, s *v1alpha1.VmGroupSpec) string {
		s.Update.OnTemplateChange = pick(l.rand, []v1alpha1.TemplateChange{v1alpha1.TemplateChangeIgnore, v1alpha1.TemplateChangeReplace})
		return string(s.Update.OnTemplateChange)
	}),
	change("back to an earlier spec", 3, func(l *life, s *v1alpha1.VmGroupSpec) string {
		i := l.rand.IntN(len(l.specs))
		paused := s.Paused
		disks := s.Disks // the API server refuses to remove or shrink persistent disks
		*s = *l.specs[i].DeepCopy()
		s.Disks = disks
		s.Paused = paused && s.Paused // so that a life isn't paused most of the time
		return fmt.Sprintf("%d: %d replicas of %s", i, *s.Replicas, s.Template)
	}),
	{"the label is removed, and set again", 3, (*life).unselect},
	{"delete, and recreate", 3, func(l *life) {
		if !l.deleting {
			l.deleting = true
			l.say("%s is deleted, generation %d", l.group.UID, l.group.Generation+1)
			l.promises()
		}
	}},
}

// unselect makes the CompositeController not select the group for a while, so that Metacontroller calls replicas to finalize a group that isn't deleted.
// The server must remove no VM of the group, and may answer "finalized" only if vCenter has no VM of the group. Sometimes the time is longer than a
// lease. If the group was as its spec says before, unselect also checks that every member is kept.
func (l *life) unselect() {
	if l.deleting {
		return
	}
	// A label that changes twice within a third of a lease may reach different replicas: a known limit (docs/design.md, "A finalize
	// without deletionTimestamp").
	if since := time.Since(l.asked); since <= leaseTime/3 {
		time.Sleep(leaseTime/3 - since + time.Second)
	}
	d, pause := time.Duration(l.rand.IntN(3000))*time.Millisecond, 100*time.Millisecond
	var were []string
	if l.rand.IntN(2) == 0 {
		if l.settle(); l.off() == "" && l.group.Spec.Update.MaxAgeSeconds == nil {
			were = refsOf(l.mine())
		}
		d, pause = time.Duration(l.rand.IntN(200))*time.Second, 2*time.Second
	}
	for began := time.Now(); ; time.Sleep(pause) {
		l.asked = time.Now()
		c := l.any()
		l.group.URL = c.url
		finalized, said, err := l.group.Unselect(within(l.t))
		if err == nil || !c.dead.Load() {
			l.sayOnce("%s, not selected: finalized %t, %s", c.agent, finalized, said)
			l.checkUnselected(l.group, finalized, err)
		}
		for _, ref := range were {
			if !slices.Contains(refsOf(l.mine()), ref) {
				l.t.Fatalf("%s loses %s", unselectedWrong, ref)
			}
		}
		if time.Since(began) >= d {
			return
		}
	}
}

// times lists the operations that let time pass, with or without hook calls.
var times = []operation{
	{"time passes", 12, func(l *life) {
		d := time.Duration(20+l.rand.IntN(400)) * time.Second
		least := []time.Duration{0, seldom}[l.rand.IntN(2)]
		for began := time.Now(); time.Since(began) < d; {
			a := l.call(l.any())
			time.Sleep(max(a.Resync(), least))
		}
	}},
	{"until it is as the spec says, or a quarter of an hour", 6, (*life).settle},
}

// stale is a hook call with an older version of the parent, from Metacontroller's cache or in a call that arrives late. In half of the cases, the life
// stores the answer's status and children, as Metacontroller would.
var stale = []operation{{"a stale parent", 5, func(l *life) {
	if len(l.past) == 0 || l.deleting {
		return
	}
	c := l.any()
	old := *l.group
	old.VmGroup = *l.past[l.rand.IntN(len(l.past))].DeepCopy()
	keep := l.rand.IntN(2) == 0
	if l.rand.IntN(3) == 0 { // the current spec and generation, but an older status
		old.Spec, old.Generation = *l.group.Spec.DeepCopy(), l.group.Generation
	}
	l.say("%s gets generation %d", c.agent, old.Generation)
	old.URL = c.url
	if _, err := old.Sync(within(l.t)); err != nil {
		if !c.dead.Load() {
			l.t.Fatalf("a hook failed: %v", err)
		}
		return
	}
	if keep {
		l.group.Status, l.group.Children = old.Status, old.Children
	}
}}}

// settle makes hook calls until all replicas report that the group is as its spec says, for at most 15 minutes. If they do, the watch checks the promised
// availability from then on.
func (l *life) settle() {
	for began := time.Now(); time.Since(began) < 15*time.Minute; time.Sleep(seldom) {
		l.reap()
		if l.deleting {
			l.call(l.any())
			continue
		}
		was := l.group.UID
		if !slices.ContainsFunc(l.awake(), func(c *chaosReplica) bool { return !metacontroller.Running(l.call(c)) || c.dead.Load() }) && l.group.UID == was {
			l.watch.promised(l.leastOf(&l.group.Spec))
			l.say("settled")
			return
		}
	}
}
