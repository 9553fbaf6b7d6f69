package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// steer finds the steps that lead to exactly the wanted members, all powered on. Wanted ordinals are a set, not
// 0 … n-1: members that exist stay, and new ones take the lowest free ordinals.
func (v *view) steer() {
	surplus := v.ordinals - v.want
	staying := v.choose(surplus)
	v.powerOn(staying)
	v.resolveTwins()
	v.withdraw(surplus)
	v.clone(-surplus - len(v.arriving))
	v.remove(surplus)
	rankSort(v.actions)
	v.collectFaults()
}

// choose splits the members: the result holds, by index, those that stay. On the way down go first those already
// marked, then those that are not well, then the highest ordinals. Duplicates stay: a person decides.
func (v *view) choose(surplus int) (staying []bool) {
	staying = make([]bool, len(v.members))
	for i := range staying {
		staying[i] = true
	}
	if surplus <= 0 {
		return staying
	}
	for _, i := range v.victims()[:min(surplus, len(v.victims()))] {
		staying[i] = false
	}
	return staying
}

// victims are the indices of the members that may be removed, those that go first first.
func (v *view) victims() []int {
	var order []int
	for i := range v.members {
		if !v.members[i].duplicate {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &v.members[a], &v.members[b]
		return cmp.Or(first(x.Marked, y.Marked), first(!x.ready(), !y.ready()), cmp.Compare(y.Ordinal, x.Ordinal))
	})
	return order
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (v *view) powerOn(staying []bool) {
	for i := range v.members {
		m := &v.members[i]
		if !staying[i] || m.Marked || m.duplicate || m.Power == PoweredOn {
			continue
		}
		if m.Reachable {
			v.starting++
			v.act(Action{Op: PowerOn, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef,
				Reason: fmt.Sprintf("the member is %s and shall run", m.Power)})
		}
	}
}

// withdraw takes the mark off members that are marked beyond the surplus: two copies of the server may have
// marked at once, or replicas rose again. The last in the order of removal are kept.
func (v *view) withdraw(surplus int) {
	marked := v.marked()
	for _, i := range marked[min(max(surplus, 0), len(marked)):] {
		m := &v.members[i]
		if m.Reachable {
			v.act(Action{Op: Unmark, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
				Generation: v.Group.Generation, Reason: "it was chosen to be removed, and is wanted after all"})
		}
	}
}

func (v *view) marked() []int {
	var marked []int
	for _, i := range v.victims() {
		if v.members[i].Marked {
			marked = append(marked, i)
		}
	}
	return marked
}

// remove marks the members that are to go, and removes those that bear their mark. While more are marked than
// are to go, none is removed: which ones stay is settled first.
func (v *view) remove(surplus int) {
	if surplus <= 0 {
		return
	}
	v.leaving = surplus
	if len(v.marked()) > surplus {
		return
	}
	victims := v.victims()
	for _, i := range victims[:min(surplus, len(victims))] {
		m := &v.members[i]
		if !m.Reachable {
			continue
		}
		a := v.marking(m, fmt.Sprintf("%d exist, %d are wanted", v.ordinals, v.want))
		if m.Marked {
			a = removal(m)
			a.Marked = true
			a.Reason = fmt.Sprintf("%d exist, %d are wanted; this one is marked to go", v.ordinals, v.want)
		}
		v.act(a)
	}
}

func (v *view) marking(m *member, reason string) Action {
	return Action{Op: Mark, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Generation: v.Group.Generation, Reason: reason}
}

// removal is the next step of removing a member: power it off, then destroy it.
func removal(m *member) Action {
	op := Destroy
	if m.Power != PoweredOff {
		op = PowerOff
	}
	return Action{Op: op, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef}
}

// clone finds the lowest free ordinals for the missing members, and clones those that are not pending.
func (v *view) clone(count int) {
	for ordinal := int32(0); len(v.missing) < count; ordinal++ {
		if !v.taken(ordinal) && !slices.Contains(v.arriving, ordinal) {
			v.missing = append(v.missing, ordinal)
		}
	}
	if len(v.missing) == 0 {
		return
	}
	if fault := v.templateFault(); fault != nil {
		v.faults = append(v.faults, named{Fault: *fault})
		return
	}
	if v.Sight.Folder == "" {
		v.createFolder()
		return
	}
	for _, ordinal := range v.missing {
		v.act(Action{
			Op: Clone, VM: MemberName(v.Group.Name, ordinal), Ordinal: ordinal,
			Folder: v.Sight.Folder, Template: v.Sight.Template.MoRef,
			CPU: v.Group.Spec.CPU, MemoryMB: v.Group.MemoryMB(), Revision: v.revision, Generation: v.Group.Generation,
			Reason: fmt.Sprintf("%d exist, %d are wanted", v.ordinals, v.want),
		})
	}
}

func (v *view) createFolder() {
	if v.Now.Sub(v.Called) > folderGrace || !v.Called.After(v.FolderSeen) {
		v.waitCall = true
		return
	}
	v.act(Action{Op: CreateFolder, VM: FolderKey, Reason: "members need the group's folder " + v.Group.Namespace + "/" + v.Group.Name})
}

// templateFault says why the template cannot be cloned from; nil if it can.
func (v *view) templateFault() *Fault {
	t, name := &v.Sight.Template, v.Group.Spec.Template
	switch {
	case len(t.Paths) == 1:
		return nil
	case len(t.Paths) > 1:
		return &Fault{Reason: ReasonTemplateAmbiguous, Person: true, Message: fmt.Sprintf(
			"template %q is ambiguous: give the inventory path of one of %s", name, strings.Join(t.Paths, ", "))}
	case t.NotTemplate != "":
		return &Fault{Reason: ReasonTemplateNotFound, Person: true, Message: fmt.Sprintf(
			"%q is a VM and no template: mark %s as a template, or name another", name, t.NotTemplate)}
	}
	there := "no templates there"
	if len(t.Others) > 0 {
		there = "templates there: " + strings.Join(t.Others, ", ")
	}
	return &Fault{Reason: ReasonTemplateNotFound, Person: true, Message: fmt.Sprintf(
		"template %q not found in datacenter %s; %s", name, t.Datacenter, there)}
}

// act adds an action unless something is pending for its member: at most one a member, ever. What hindered the
// last try is told as long as the action is wanted.
func (v *view) act(a Action) {
	p, pending := v.Pending[a.VM]
	if !pending || p.State == Due {
		v.actions = append(v.actions, a)
	}
	if p.Fault.Reason != "" && p.Op == a.Op {
		v.faults = append(v.faults, named{who: a.VM, Fault: p.Fault})
	}
}

// rankSort orders actions by rank, then by ordinal: what finishes something begun comes first.
func rankSort(actions []Action) {
	order := []Op{CreateFolder, PowerOn, Unmark, Clone, Mark, PowerOff, Destroy, RemoveFolder, ConfirmGone}
	slices.SortStableFunc(actions, func(a, b Action) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Op), slices.Index(order, b.Op)), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}

// collectFaults adds what hinders members without an action being wanted for them.
func (v *view) collectFaults() {
	for _, ordinal := range v.arriving {
		if f := v.Pending[MemberName(v.Group.Name, ordinal)].Fault; f.Reason != "" {
			v.faults = append(v.faults, named{who: MemberName(v.Group.Name, ordinal), Fault: f})
		}
	}
}
