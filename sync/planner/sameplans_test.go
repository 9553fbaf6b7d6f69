package planner_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

var (
	samePlans = flag.String("plans", "", "TestSamePlans compares its plans with the hashes in this file, or writes them if the file does not exist")
	showPlan  = flag.String("plans.show", "", "TestSamePlans prints the plan with this name, such as anything/17/3")
)

// The test shows that a change of the planner's structure changes no plan. Before the change, and after it:
//
//	go test ./sync/planner -run TestSamePlans -v -plans /tmp/plans
//
// It makes the plans of all stories, of lives that begin with what the properties draw, and of random ways through the small worlds, always the same
// ones, and keeps a hash of each whole plan. To see how a plan differs, print it in both checkouts: -plans.show anything/17/3.
//
// Each kind of step, of verdict and of Event has to be in many of the plans: otherwise the test shows too little.
func TestSamePlans(t *testing.T) {
	if *samePlans == "" && *showPlan == "" {
		t.Skip("give -plans")
	}
	was := readPlans(t, *samePlans)
	seen := map[string]int{}
	var lines, differ []string
	everyPlan(t, func(name string, r *plan.Result) {
		text := planText(r)
		if name == *showPlan {
			t.Log("\n" + text)
		}
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:20]
		lines = append(lines, name+" "+sum)
		if len(was) > 0 && was[name] != sum {
			differ = append(differ, name)
		}
		for kind := range kindsIn(r) {
			seen[kind]++
		}
	})
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%7d %s", seen[kind], kind)
	}
	t.Logf("%d plans", len(lines))
	if *showPlan != "" {
		return
	}
	if len(differ) > 0 {
		t.Errorf("%d of %d plans differ, the first: %s", len(differ), len(lines), plan.AtMost(differ, 20))
	}
	if len(was) > 0 && len(was) != len(lines) {
		t.Errorf("%d plans, and there were %d", len(lines), len(was))
	}
	for _, kind := range kindsWanted(t) {
		if seen[kind] < 1000 {
			t.Errorf("%s is in %d plans only", kind, seen[kind])
		}
	}
	if len(was) == 0 {
		must.Succeed(t, os.WriteFile(*samePlans, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	}
}

// readPlans returns the hashes of plans by name; none if the file doesn't exist.
func readPlans(t *testing.T, file string) map[string]string {
	t.Helper()
	all := map[string]string{}
	f, err := os.Open(file)
	if err != nil {
		return all
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, sum, _ := strings.Cut(lines.Text(), " ")
		all[name] = sum
	}
	return all
}

// planText is the whole plan. Times that JSON can't have are in its parts as an error.
func planText(r *plan.Result) string {
	var text strings.Builder
	for _, part := range []any{r.Status, r.Children, r.Actions, r.Verdicts, r.Finalized, r.Resync, r.InProgress, r.Wake, r.SlowStart, r.Events, r.Refusal} {
		b, err := json.MarshalIndent(part, "", " ")
		fmt.Fprintln(&text, string(b), err)
	}
	return text.String()
}

// kindsIn are the kinds of steps, verdicts, Events and conditions in a plan.
func kindsIn(r *plan.Result) map[string]bool {
	all := map[string]bool{"phase " + string(r.Status.Phase): true, fmt.Sprintf("finalized %t", r.Finalized): true, fmt.Sprintf("in progress %t", r.InProgress): true,
		fmt.Sprintf("next call within %s", r.Resync): true, fmt.Sprintf("slow start %t", r.SlowStart): true}
	for i := range r.Actions {
		a := &r.Actions[i]
		all["step "+string(a.Op)] = true
		all["step "+string(a.Op)+string(plan.ArgsOf[plan.MarkArgs](a.Args).Reason)+": "+general(a.Reason)] = true
	}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		all["verdict "+string(v.Is)] = true
		all["verdict "+string(v.Is)+": "+general(v.Reason)] = true
		all["verdict waits for "+general(v.WaitsFor)] = true
	}
	for i := range r.Events {
		all["event "+r.Events[i].Reason] = true
	}
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		all["condition "+c.Type+"="+string(c.Status)] = true
		all["condition "+c.Type+" "+c.Reason] = true
	}
	for i := range r.Status.Members {
		all["member "+r.Status.Members[i].Reason] = true
	}
	if r.Refusal != nil {
		all["refusal"] = true
	}
	return all
}

var numbers = regexp.MustCompile(`"[^"]*"|\d+`)

// general is a text without names and numbers.
func general(text string) string {
	text = strings.ToValidUTF8(numbers.ReplaceAllString(text, "N"), "?")
	return text[:min(len(text), 70)]
}

// kindsWanted are the kinds that have to be in a thousand plans.
func kindsWanted(t *testing.T) (all []string) {
	for _, op := range opsOf(t) {
		all = append(all, "step "+string(op))
	}
	for _, is := range []plan.Decision{plan.Keep, plan.Update, plan.Remove, plan.Heal, plan.Create, plan.Wait} {
		all = append(all, "verdict "+string(is))
	}
	return all
}

// everyPlan makes the plans.
func everyPlan(t *testing.T, heard func(name string, r *plan.Result)) {
	t.Helper()
	stories := allStories()
	for _, name := range slices.Sorted(maps.Keys(stories)) {
		s, n := newStory(), 0
		s.heard = func(r *plan.Result) {
			n++
			heard(fmt.Sprintf("story/%s/%d", strings.ReplaceAll(name, " ", "-"), n), r)
		}
		stories[name](s)
	}
	for _, d := range drawnLives {
		for seed := range d.lives {
			o := rapid.Custom(d.draw).Example(seed)
			l := drawnLife{o: o, random: rand.New(rand.NewPCG(uint64(seed), 61))}
			for round := range d.rounds {
				r := planner.Make(l.o)
				heard(fmt.Sprintf("%s/%d/%d", d.kind, seed, round), &r)
				if round+1 < d.rounds {
					l.next(t, &r)
				}
			}
		}
	}
	for n := range scenarios {
		x, random := newSearch(scenarios[n].scenario, ""), rand.New(rand.NewPCG(uint64(n), 61))
		for way := range 10 {
			p := x.begin()
			for at := range 25 {
				for r := range p.replicas {
					if c := p.replicas[r]; c.gen > 0 {
						result := planner.Make(x.observed(p, &c))
						heard(fmt.Sprintf("world/%d/%d/%d/%d", n, way, at, r), &result)
					}
				}
				var next []place
				x.moves(p, func(_ move, q *place, _ string) { next = append(next, *q) })
				if len(next) == 0 {
					break
				}
				p = &next[random.IntN(len(next))]
				p.tidy(x.scenario)
			}
		}
	}
}

// drawnLives are how lives begin, how many there are, and how many plans of each are made.
var drawnLives = []struct {
	kind          string
	draw          func(*rapid.T) plan.Observed
	lives, rounds int
}{
	{"anything", anything, 4_000, 5},
	{"healthy", healthy, 3_000, 8},
	{"nonsense", nonsense, 4_000, 1},
	{"settled", func(t *rapid.T) plan.Observed { return settled(t, func(*spec) {}, nothing) }, 2_000, 12},
	{"adopting", func(t *rapid.T) plan.Observed { return settled(t, func(s *spec) { s.Disks = nil }, adopting) }, 1_200, 8},
	{"kept", func(t *rapid.T) plan.Observed { return settled(t, kept, shrinking) }, 2_500, 10},
	{"owning", func(t *rapid.T) plan.Observed { return settled(t, owning, shrinking) }, 1_500, 8},
	{"ill", func(t *rapid.T) plan.Observed { return settled(t, curable, sick) }, 1_200, 8},
	{"losing", func(t *rapid.T) plan.Observed { return settled(t, func(s *spec) { s.Replicas = in(6) }, losing) }, 1_000, 6},
	{"renumbered", func(t *rapid.T) plan.Observed { return settled(t, func(s *spec) { s.Replicas = in(5) }, renumbered) }, 800, 5},
	{"ending", func(t *rapid.T) plan.Observed { return settled(t, func(*spec) {}, ending) }, 1_500, 12},
}

// settled draws a group whose members are as its spec says, with every kind of feature, so that what happens then is planned for. shape changes the spec
// before that.
func settled(t *rapid.T, shape func(*spec), then func(*plan.Observed)) plan.Observed {
	one := func(label string, n int) bool { return rapid.IntRange(0, n-1).Draw(t, label) == 0 }
	o := observed(rapid.Int32Range(0, 5).Draw(t, "replicas"))
	s := &o.Group.Spec
	policies(t, s)
	features(t, &o)
	s.Update.Windows, s.Update.Paused, s.Update.Strategy = nil, false, ""
	if one("has disks", 3) && len(s.Disks) == 0 {
		s.Disks = []v1alpha1.Disk{{Name: "log", SizeGiB: 5}}
	}
	if len(s.Disks) == 0 {
		s.Standby = rapid.Int32Range(0, 2).Draw(t, "standby members")
	}
	shape(s)
	for round := 0; round < 30; round++ {
		r := planner.Make(o)
		store(t, &o, &r)
		for _, a := range r.Actions {
			plan.Apply(&o, a)
		}
		o.Now = o.Now.Add(max(time.Second, min(r.Wake, time.Hour)))
		o.Called = o.Now
		if len(r.Actions) == 0 && r.Wake == 0 {
			break
		}
	}
	o.Group = o.Group.DeepCopy()
	then(&o)
	return o
}

// adopting names two VMs in spec.adopt, and makes room for them.
func adopting(o *plan.Observed) {
	for n := range 2 {
		c := plan.Candidate{Entry: fmt.Sprintf("/DC0/vm/old/db-%d", n), MoRef: fmt.Sprintf("vm-%d", 700+n), Name: fmt.Sprintf("db-%d", n), Folder: "group-v9", Ordinal: -1}
		o.Group.Spec.Adopt = append(o.Group.Spec.Adopt, c.Entry)
		o.State.Candidates = append(o.State.Candidates, c)
	}
	*o.Group.Spec.Replicas += 2
	o.Group.Generation++
}

// kept lets removed members be kept in quarantine.
func kept(s *spec) {
	s.Replicas, s.Deletion.QuarantineSeconds, s.Disks = in(4), 300, nil
}

// owning gives members persistent disks that go with them.
func owning(s *spec) {
	s.Replicas, s.Deletion.QuarantineSeconds, s.Standby = in(4), 0, 0
	s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true, Retention: v1alpha1.DiskRetention{WhenDeleted: v1alpha1.RetentionDelete, WhenScaled: v1alpha1.RetentionDelete}}}
}

// shrinking scales the group to one member.
func shrinking(o *plan.Observed) {
	o.Group.Spec.Replicas = in(1)
	o.Group.Generation++
}

// curable lets healing restart and replace members that stay unready.
func curable(s *spec) {
	s.Replicas, s.Readiness = in(4), v1alpha1.Readiness{Check: v1alpha1.ReadyToolsRunning, TimeoutSeconds: in(30)}
	s.Healing = v1alpha1.Healing{MaxUnhealthy: of(3)}
}

// sick lets the guests of two members fall ill after a power-on.
func sick(o *plan.Observed) {
	for i := range o.State.VMs[:min(2, len(o.State.VMs))] {
		m := &o.State.VMs[i]
		m.BootTime = o.Now
		m.Tools, m.Reported, m.IPs = false, false, nil
	}
	o.Now = o.Now.Add(time.Minute)
	o.Called = o.Now
}

// losing lets most members be destroyed at once.
func losing(o *plan.Observed) {
	for _, m := range o.State.VMs[:len(o.State.VMs)*3/4] {
		o.State.Gone = append(o.State.Gone, plan.Gone{MoRef: m.MoRef, By: plan.Actor{User: "CORP\\admin"}})
	}
	o.State.VMs = o.State.VMs[len(o.State.VMs)*3/4:]
}

// renumbered lets vCenter change the instanceUuids of some VMs, and others come from another vCenter.
func renumbered(o *plan.Observed) {
	o.Group.Status.VCenterUUID = o.State.VCenter
	for i := range o.State.VMs {
		switch m := &o.State.VMs[i]; i % 3 {
		case 0:
			m.InstanceUUID, m.Renumbered = "id-before", "id-now"
		case 1:
			m.VCenter = "another"
		}
	}
}

// ending deletes the group.
func ending(o *plan.Observed) { remove(o) }

// drawnLife is a group to which something happens between two plans.
type drawnLife struct {
	o      plan.Observed
	random *rand.Rand
}

// next stores the status, carries out some of the steps, lets others run or fail, and lets time pass and something happen.
func (l *drawnLife) next(t *testing.T, r *plan.Result) {
	o := &l.o
	if o.LastPlannedStatus = &r.Status; l.random.IntN(4) > 0 {
		store(t, o, r)
	} else {
		o.Group = o.Group.DeepCopy()
	}
	o.State.VMs = slices.Clone(o.State.VMs)
	pending := map[string]plan.Pending{}
	for i := range r.Actions {
		a := &r.Actions[i]
		p := plan.Pending{Op: a.Op, Ordinal: a.Ordinal, MoRef: a.MoRef, Standby: a.Standby() && a.Op == plan.Clone, Home: plan.HomeOf(&o.Group.Spec).String(), MarkReason: plan.ArgsOf[plan.MarkArgs](a.Args).Reason}
		switch l.random.IntN(12) {
		case 0:
			p.State = plan.Running
			pending[a.Key] = p
		case 1:
			p.State, p.Fault = pick(l.random, plan.BackingOff, plan.Due), pick(l.random, faults...)
			pending[a.Key] = p
		default:
			plan.Apply(o, *a)
		}
	}
	o.Pending = pending
	o.Now = o.Now.Add(pick(l.random, time.Second, time.Second, max(time.Second, min(r.Wake, 24*time.Hour)), max(time.Second, min(r.Wake, 24*time.Hour)), 2*time.Minute, 15*time.Minute))
	if l.random.IntN(8) > 0 {
		o.Called = o.Now
	}
	if l.random.IntN(3) == 0 {
		happenings[l.random.IntN(len(happenings))](l)
	}
}

var faults = []plan.Fault{
	{Reason: "DatastoreFull", Message: "The datastore is full.", Transient: true},
	{Reason: "DatastoreFull", Message: "The datastore is full: free some.", NeedsOperator: true},
	{Reason: plan.ReasonNameConflict, Message: "another VM has the name", NeedsOperator: true, Untried: true},
	{Reason: plan.ReasonResizeRefused, Message: "vCenter refuses the size", NeedsOperator: true},
	{Reason: plan.ReasonHostFull, Message: "the host has no room"},
	{Reason: plan.ReasonFolderHoldsStranger, Message: "the folder has other VMs", NeedsOperator: true},
	{Reason: plan.ReasonCloneRunning, Message: "another replica clones it", Transient: true},
	{Reason: plan.ReasonChangeUndone, Message: "the change was undone", NeedsOperator: true},
	{Reason: plan.ReasonToolsUnavailable, Message: "Tools do not run"},
	{Reason: plan.ReasonDuplicateMember, Message: "it was on", NeedsOperator: true},
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// vm is one of the VMs; nil if there is none.
func (l *drawnLife) vm() *plan.VM {
	if len(l.o.State.VMs) == 0 {
		return &plan.VM{}
	}
	return &l.o.State.VMs[l.random.IntN(len(l.o.State.VMs))]
}

// spec is the spec, for an edit.
func (l *drawnLife) spec() *v1alpha1.VmGroupSpec {
	l.o.Group.Generation++
	return &l.o.Group.Spec
}

// end deletes the group.
func (l *drawnLife) end() {
	if !l.o.Finalizing {
		remove(&l.o)
	}
}

// lose takes a VM out of vCenter's inventory.
func (l *drawnLife) lose() plan.VM {
	all := l.o.State.VMs
	if len(all) == 0 {
		return plan.VM{MoRef: "vm-none"}
	}
	i := l.random.IntN(len(all))
	vm := all[i]
	l.o.State.VMs = slices.Delete(all, i, i+1)
	return vm
}

var happenings = []func(*drawnLife){
	func(l *drawnLife) { n := int32(l.random.IntN(6)); l.spec().Replicas = &n },
	func(l *drawnLife) { n := int32(l.random.IntN(6)); l.spec().Replicas = &n },
	func(l *drawnLife) { l.spec().Template = pick(l.random, "ubuntu", "debian", "fedora") },
	func(l *drawnLife) { l.spec().CPU = int32(1 + l.random.IntN(4)) },
	func(l *drawnLife) { l.spec().Memory = int32(2 + l.random.IntN(4)) },
	func(l *drawnLife) {
		l.spec().Tags = []v1alpha1.Tag{{Category: "team", Name: pick(l.random, "shop", "bank")}}
	},
	func(l *drawnLife) { l.spec().Hardware.CPUReservationMHz = int32(l.random.IntN(3) * 500) },
	func(l *drawnLife) {
		if s := l.spec(); len(s.Disks) > 0 {
			s.Disks = slices.Clone(s.Disks)
			s.Disks[0].SizeGiB++
		}
	},
	func(l *drawnLife) {
		if s := l.spec(); len(s.Disks) == 0 {
			s.Standby = int32(l.random.IntN(3))
		}
	},
	func(l *drawnLife) {
		vm := l.vm()
		s := l.spec()
		s.Replace = append(slices.Clone(s.Replace), v1alpha1.Replacement{Name: plan.MemberName("web", vm.Ordinal), MoRef: vm.MoRef})
		l.o.NewReplace = s.Replace[len(s.Replace)-1:]
	},
	func(l *drawnLife) { l.spec().Paused = !l.o.Group.Spec.Paused },
	func(l *drawnLife) { l.spec().Deletion.QuarantineSeconds = int32(l.random.IntN(2) * 300) },
	func(l *drawnLife) { l.spec().Placement.Folder = pick(l.random, "", "elsewhere") },
	func(l *drawnLife) { l.spec().CPU = -1 },
	func(l *drawnLife) { l.end() },
	func(l *drawnLife) {
		l.end()
		l.o.Group.Spec.Deletion.Policy = v1alpha1.DeletionRetain
	},
	func(l *drawnLife) {
		l.end()
		l.o.Cascade = pick(l.random, metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground)
	},
	func(l *drawnLife) {
		l.end()
		l.o.Group.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
	},
	func(l *drawnLife) { l.o.Finalizing, l.o.FinalizingSince = true, l.o.Now },
	func(l *drawnLife) {
		vm := l.vm()
		vm.Power, vm.Tools, vm.IPs, vm.BootTime = plan.PoweredOff, false, nil, time.Time{}
	},
	func(l *drawnLife) { vm := l.vm(); vm.Power, vm.BootTime, vm.Tools = plan.PoweredOn, l.o.Now, true },
	func(l *drawnLife) { vm := l.vm(); vm.Tools, vm.Reported, vm.IPs = false, false, nil },
	func(l *drawnLife) { vm := l.vm(); vm.Tools, vm.Reported, vm.IPs = false, false, nil },
	func(l *drawnLife) { vm := l.vm(); vm.Reachable, vm.Unreachable = false, "disconnected" },
	func(l *drawnLife) { l.vm().Question = "Was it moved? (choices: No, Yes)" },
	func(l *drawnLife) { l.vm().UnreportedAddresses = []string{"10.0.0.10"} },
	func(l *drawnLife) { l.vm().Name = "renamed" },
	func(l *drawnLife) { l.vm().Home = "elsewhere" },
	func(l *drawnLife) { l.vm().Generation += 5 },
	func(l *drawnLife) { l.vm().InstanceUUID = fmt.Sprintf("id-%d", l.random.IntN(5)) },
	func(l *drawnLife) {
		vm := *l.vm()
		if vm.MoRef == "" {
			return
		}
		vm.MoRef += "-twin"
		vm.Power, vm.BootTime, vm.Disks = pick(l.random, plan.PoweredOn, plan.PoweredOff), time.Time{}, ""
		l.o.State.VMs = append(l.o.State.VMs, vm)
	},
	func(l *drawnLife) {
		l.o.State.Gone = append(slices.Clone(l.o.State.Gone), plan.Gone{MoRef: l.lose().MoRef})
	},
	func(l *drawnLife) {
		l.o.State.Gone = append(slices.Clone(l.o.State.Gone), plan.Gone{MoRef: l.lose().MoRef, By: plan.Actor{User: "CORP\\admin"}})
	},
	func(l *drawnLife) {
		l.o.State.Gone = append(slices.Clone(l.o.State.Gone), plan.Gone{MoRef: l.lose().MoRef, By: plan.Actor{User: "CORP\\vmgroup", Ours: true}})
	},
	func(l *drawnLife) { l.lose() },
	func(l *drawnLife) {
		vm := l.lose()
		l.o.State.Vanished = append(slices.Clone(l.o.State.Vanished), plan.Vanished{MoRef: vm.MoRef, InstanceUUID: vm.InstanceUUID, Name: vm.Name, Ordinal: vm.Ordinal,
			How: pick(l.random, "", "its host was removed by CORP\\admin")})
	},
	func(l *drawnLife) {
		vm := l.lose()
		l.o.State.Strays = append(slices.Clone(l.o.State.Strays), plan.Stray{VM: vm, Why: "it was created by backup", Holds: true, Pending: l.random.IntN(2) == 0})
	},
	func(l *drawnLife) {
		l.o.State.Known, l.o.State.UnknownSince = !l.o.State.Known, l.o.Now.Add(-pick(l.random, time.Second, time.Minute))
		l.o.State.Fault = pick(l.random, nil, &plan.Fault{Reason: "VCenterUnreachable", Message: "vCenter does not answer"}, &plan.Fault{Reason: "LoginRefused", Message: "vCenter refuses the login", NeedsOperator: true})
		if l.o.State.Known {
			l.o.State.UnknownSince, l.o.State.Fault = time.Time{}, nil
		}
	},
	func(l *drawnLife) { l.o.State.VCenter = pick(l.random, vcenter, "another") },
	func(l *drawnLife) { l.o.State.Template.Fingerprint = pick(l.random, "now", "later") },
	func(l *drawnLife) {
		l.o.State.Template.Paths = pick(l.random, nil, []string{"/DC0/vm/ubuntu"}, []string{"/a", "/b"})
	},
	func(l *drawnLife) { l.o.State.RulesOff = true },
	func(l *drawnLife) { l.o.State.Folder, l.o.State.Quarantine = "", "" },
	func(l *drawnLife) { l.o.State.FolderUnknown = true },
	func(l *drawnLife) { l.o.Answers.Suppressed = !l.o.Answers.Suppressed },
	func(l *drawnLife) { l.o.Answers.NoneAllowed = !l.o.Answers.NoneAllowed },
	func(l *drawnLife) { plan.AnswerSoon(&l.o) },
	func(l *drawnLife) { l.o.Related.Unrecognized = "the user data is in no format that guests read" },
	func(l *drawnLife) { l.o.SharedClaims = "10.0.0.10-10.0.0.99 (of default/other)" },
	func(l *drawnLife) { l.o.Group.Finalizers = []string{"metacontroller.io/compositecontroller-other"} },
	func(l *drawnLife) {
		vm := l.vm()
		annotate("holder", vm.Name+"/"+vm.MoRef)(&l.o)
		l.o.Group.Spec.Deletion.HoldTimeoutSeconds = 300
	},
	func(l *drawnLife) {
		vm := l.vm()
		l.o.State.Stalled = map[string]plan.Fault{vm.Name: {Reason: "TaskStalled", Message: "its task makes no progress", NeedsOperator: true}}
	},
}
