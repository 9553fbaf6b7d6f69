package planner_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// scenario is one edit of one group. Generation 1 is before the edit, generation 2 after it.
type scenario struct {
	edit               string // scale, roll, resize, delete or retain
	from, to           int32  // replicas
	surge, unavailable int32
	standby            int32
	unmanaged          int   // the ordinal whose name an unmanaged VM has in the group's folder; none, or another name
	kills              uint8 // number of processes that can be killed
	recorded           bool  // the status has the members of before the edit
	inOrder            bool  // what a replica sees is vCenter as it was at one moment; else each VM as it was at another
}

const anotherName = manyOrdinals

func (s *scenario) String() string {
	text := fmt.Sprintf("%s %d", s.edit, s.from)
	if s.to != s.from {
		text += fmt.Sprintf(" to %d", s.to)
	}
	if !s.deletes() {
		text += fmt.Sprintf(", surge %d, unavailable %d", s.surge, s.unavailable)
	}
	if s.standby > 0 {
		text += fmt.Sprintf(", standby %d", s.standby)
	}
	switch s.unmanaged {
	case none:
	case anotherName:
		text += ", an unmanaged VM in the folder"
	default:
		text += fmt.Sprintf(", an unmanaged VM named web-%d", s.unmanaged)
	}
	if s.recorded {
		text += ", recorded"
	}
	if s.inOrder {
		text += ", seen in order"
	}
	if s.kills > 0 {
		text += fmt.Sprintf(", %d killed", s.kills)
	}
	return text
}

func (s *scenario) deletes() bool { return s.edit == "delete" || s.edit == "retain" }

// waitsForLeases reports whether the end of a lease is waited for at the end.
func (s *scenario) waitsForLeases() bool {
	return s.edit == "retain" || s.deletes() && s.unmanaged != none
}

// group is the group at a generation.
func (s *scenario) group(gen uint8) *v1alpha1.VmGroup {
	g := group(s.from)
	g.Generation = int64(gen)
	u, zero := &g.Spec.Update, int32(0)
	surge, unavailable := intstr.FromInt32(s.surge), intstr.FromInt32(s.unavailable)
	u.MaxSurge, u.MaxUnavailable = &surge, &unavailable
	g.Spec.Deletion.ShutdownTimeoutSeconds = &zero
	g.Spec.Standby = s.standby
	g.Spec.CPU = int32(s.size(gen))
	g.Spec.Template = fmt.Sprintf("template-%d", s.revision(gen))
	if s.edit == "retain" {
		g.Spec.Deletion.Policy = v1alpha1.DeletionRetain
	}
	if gen == 2 {
		g.Spec.Replicas = &s.to
	}
	for i := int32(0); s.recorded && i < s.from; i++ {
		g.Status.Members = append(g.Status.Members, v1alpha1.Member{Name: plan.MemberName("web", i), Ordinal: i, MoRef: fmt.Sprintf("vm-first-%d", i),
			InstanceUUID: firstUUID(uint8(i)), PowerState: string(plan.PoweredOn)})
	}
	return g
}

// firstUUID is the instanceUuid of the member of that ordinal that was there when the life began.
func firstUUID(ordinal uint8) string { return fmt.Sprintf("first-%d", ordinal) }

func (s *scenario) size(gen uint8) uint8     { return 1 + oneWhere(s.edit == "resize" && gen == 2) }
func (s *scenario) revision(gen uint8) uint8 { return 1 + oneWhere(s.edit == "roll" && gen == 2) }

func oneWhere(is bool) uint8 {
	if is {
		return 1
	}
	return 0
}

// promised is the number of members that a spec promises to be available.
func (s *scenario) promised(gen uint8) int {
	if gen == 2 {
		return int(s.to - s.unavailable)
	}
	return int(s.from - s.unavailable)
}

// search is a breadth-first search through all places of a scenario.
type search struct {
	*scenario
	defect    string // the planted one; see without and decide
	groups    [3]*v1alpha1.VmGroup
	revisions [3]string
	plans     map[string]*decision // by what a replica knows
	effects   map[effect]machine   // what plan.Apply says of steps
	cut       int                  // moves left out because a place holds only so many VMs and steps
}

func newSearch(s scenario, defect string) *search {
	x := &search{scenario: &s, defect: defect, plans: map[string]*decision{}, effects: map[effect]machine{}}
	for gen := range uint8(2) {
		x.groups[gen+1] = s.group(gen + 1)
		x.revisions[s.revision(gen+1)] = plan.Revision(&x.groups[gen+1].Spec)
	}
	return x
}

// without reports whether a guard is removed, to see whether the search finds what it prevents.
func (x *search) without(guard string) bool { return x.defect == guard }

// decision is the part of a plan that matters here.
type decision struct {
	actions   []flight
	finalized bool
}

// decide makes the plan of a replica. It is made once for all places in which the replica knows the same.
func (x *search) decide(p *place, r int8) *decision {
	c := p.replicas[r] // without what it does not know
	c.asked = false
	for i := range c.seen {
		c.seen[i].current = false
	}
	for k := range c.running {
		if c.failed[k].op != 0 && searchOps[c.failed[k].op] == plan.Unmark && x.without("the uncertainty after a failed Unmark") {
			c.failed[k] = failure{vm: none}
		}
		f := &c.running[k]
		f.current, f.called, f.void, f.awaited = false, false, false, [2]bool{}
	}
	var room [256]byte
	key := room[:0]
	for i := range p.n {
		if c.seen[i].seen {
			key = append(key, p.vms[i].ordinal<<4|p.vms[i].revision<<2|bits(p.vms[i].first), p.vms[i].folder)
		}
	}
	key = c.append(append(key, 255), p.n)
	if d := x.plans[string(key)]; d != nil {
		return d
	}
	o := x.observed(p, &c)
	result := planner.Make(o)
	d := &decision{finalized: result.Finalized}
	for i := range result.Actions {
		f := x.flight(&result.Actions[i], p, &c)
		if f.is(plan.Mark) && x.without("the mark before a member is taken down") && !c.finalizing {
			f.op = uint8(slices.Index(searchOps, plan.PowerOff))
		}
		d.actions = append(d.actions, f)
	}
	x.plans[string(key)] = d
	return d
}

func vmName(i int8) string { return fmt.Sprintf("vm-%d", i) }

// observed is what a replica passes to its planner: group.observe in sync/loop, and Inventory.State in vsphere.
func (x *search) observed(p *place, c *replica) plan.Observed {
	g := x.groups[c.gen]
	o := plan.Observed{Group: g, Finalizing: c.finalizing, Now: now, Called: now.Add(-30 * time.Second), NewestStamp: int64(c.newest),
		Emptied: c.emptied, Lease: 90 * time.Second, Resync: 30 * time.Second,
		State: plan.VCenterState{Known: true, VCenter: vcenter, Folder: folderName(c.folder),
			Template: plan.Template{MoRef: "vm-t", Paths: []string{"/DC0/vm/" + g.Spec.Template}, Datacenter: "DC0"}}}
	if c.call == fresh {
		o.Called = now.Add(-4 * time.Second)
	}
	if c.folderSince {
		o.FolderSeen = o.Called.Add(time.Second)
	}
	if c.finalizing {
		deleted, at := *g, metav1.NewTime(o.Called)
		deleted.DeletionTimestamp, o.Group = &at, &deleted
		o.FinalizingSince = now.Add(-time.Second)
	}
	if c.leaseOver {
		o.FinalizingSince = now.Add(-100 * time.Second)
	}
	for i := range uint8(8) {
		if c.owned&(1<<i) != 0 {
			o.OwnFolders = append(o.OwnFolders, cmp.Or(folderName(i), "group-before"))
		}
	}
	for i := range int8(p.n) {
		if c.seen[i].seen {
			o.State.VMs = append(o.State.VMs, x.vm(&p.vms[i], &c.seen[i], i, o.Called))
		}
	}
	x.countUnconfirmed(p, c, &o)
	o.Pending = map[string]plan.Pending{}
	for k := range uint8(keys) {
		ordinal := int32(0)
		if k < manyOrdinals {
			ordinal = int32(k)
		}
		if f := &c.running[k]; f.op != 0 {
			q := plan.Pending{Op: searchOps[f.op], Ordinal: ordinal, MoRef: c.moRef(f.vm), State: plan.Running, MarkReason: searchWhy[f.why]}
			if q.Standby = f.standby; f.is(plan.Clone) {
				q.Home = plan.HomeOf(&g.Spec).String()
			}
			q.Tried = searchOps[c.failed[k].before(f)]
			o.Pending[keyName(k)] = q
		} else if f := &c.failed[k]; f.op != 0 {
			q := plan.Pending{Op: searchOps[f.op], Ordinal: ordinal, MoRef: c.moRef(f.vm), State: plan.Due,
				Fault: plan.Fault{Reason: "Trouble", Message: "it failed", Transient: !f.final}}
			if f.cycle {
				q.MarkReason = plan.MarkReasonPowerCycle
			}
			q.Tried = searchOps[f.tried]
			if f.final && q.Op == plan.RemoveFolder {
				q.Fault.Reason = plan.ReasonFolderHoldsStranger
			}
			o.Pending[keyName(k)] = q
		}
	}
	return o
}

// countUnconfirmed plants the defect that a recorded member that vCenter doesn't show counts as present, so others are removed instead.
func (x *search) countUnconfirmed(p *place, c *replica, o *plan.Observed) {
	if !x.without("the unconfirmed as leaving") {
		return
	}
	here := 0
	for i := range p.n {
		here += int(oneWhere(c.seen[i].seen && p.vms[i].first))
	}
	o.Group = o.Group.DeepCopy()
	*o.Group.Spec.Replicas -= int32(len(o.Group.Status.Members) - here)
}

func (x *search) vm(m *machine, g *glimpse, i int8, called time.Time) plan.VM {
	made := x.groups[1]
	vm := plan.VM{MoRef: vmName(i), Name: plan.MemberName("web", int32(m.ordinal)), Ordinal: int32(m.ordinal), Revision: x.revisions[m.revision],
		Created: now.Add(time.Duration(i)*time.Second - 24*time.Hour), Generation: int64(g.gen), Standby: g.standby, Marked: g.marked, MarkReason: searchWhy[g.why], Power: plan.PoweredOff, Reachable: true, CPU: int32(g.size),
		MemoryMB: made.MemoryMB(), Folder: folderName(m.folder), ChangeVersion: "of " + vmName(i), VCenter: vcenter, Home: plan.HomeOf(&made.Spec).String()}
	if m.first && x.recorded {
		vm.InstanceUUID = firstUUID(m.ordinal)
	}
	if g.on {
		vm.Power, vm.BootTime = plan.PoweredOn, now.Add(-time.Hour)
	}
	if g.marked {
		vm.MarkedAt = called.Add(-time.Second)
	}
	return vm
}

// moRef returns the moRef of a VM in Pending; for a VM that is gone, one that no seen VM has.
func (c *replica) moRef(vm int8) string {
	switch {
	case vm == none:
		return ""
	case vm == departed:
		return "vm-before"
	}
	return vmName(vm)
}

func folderName(folder uint8) string {
	if folder == 0 {
		return ""
	}
	return fmt.Sprintf("group-v%d", folder)
}

func keyName(k uint8) string {
	switch k {
	case folderAt:
		return plan.FolderKey
	case confirmAt:
		return plan.ConfirmKey
	}
	return plan.MemberName("web", int32(k))
}

// flight is a step as the search keeps it. It checks what the search assumes of a step.
func (x *search) flight(a *plan.Action, p *place, c *replica) flight {
	f := flight{op: uint8(slices.Index(searchOps, a.Op)), vm: none, why: uint8(slices.Index(searchWhy, plan.ArgsOf[plan.MarkArgs](a.Args).Reason)), gen: c.gen, marked: a.Marked, never: plan.ArgsOf[plan.DestroyArgs](a.Args).NeverOn,
		standby: a.Standby(), guarded: a.ChangeVersion != ""}
	for f.key = 0; keyName(f.key) != a.Key; f.key++ {
	}
	for i := range int8(p.n) {
		if c.seen[i].seen && a.MoRef == vmName(i) {
			f.vm = i
		}
	}
	whole := true
	switch a.Op {
	case plan.Clone:
		f.folder = c.folder
		whole = plan.ArgsOf[plan.CloneArgs](a.Args).CPU == int32(x.size(c.gen)) && plan.ArgsOf[plan.CloneArgs](a.Args).Revision == x.revisions[x.revision(c.gen)] && a.Generation == int64(c.gen) && a.Folder() == folderName(c.folder)
	case plan.Mark, plan.Unmark:
		whole = f.vm >= 0 && a.Generation == int64(c.gen)
	case plan.Reconfigure:
		to := plan.ArgsOf[plan.ResizeArgs](a.Args)
		whole = f.vm >= 0 && to.CPU == int32(x.size(c.gen)) && !to.Hot
	case plan.PowerOn, plan.PowerOff, plan.Release, plan.Destroy:
		whole = f.vm >= 0 && !(plan.ArgsOf[plan.DestroyArgs](a.Args).NeverOn && a.Op != plan.Destroy) && (!a.Standby() || a.Generation == int64(c.gen))
	case plan.RemoveFolder:
		f.folder = c.folder
		whole = a.MoRef == folderName(c.folder)
	case plan.CreateFolder, plan.ConfirmGone:
	default:
		whole = false
	}
	if !whole {
		panic(fmt.Sprintf("%s: a step that the search does not know: %+v", x, a))
	}
	return f
}
