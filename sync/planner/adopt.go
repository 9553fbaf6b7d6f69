package planner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A VM is adopted by writing a member's stamp into it. Then it is moved into the group's folder and renamed. The stamp keeps its former name and
// folder.

// toAdopt makes a VM that spec.adopt names a member. toFinishAdoption moves and renames it.
var (
	toAdopt          = &concern{next: (*steps).adoptOne}
	toFinishAdoption = &concern{why: (*decision).whyAdopt, next: (*steps).finishAdoption}
)

// adopting: a VM becomes a member.
var adopting = &plan.Activity{Says: "adopting %s", Noun: "VM"}

// adopt decides which of the VMs that spec.adopt names become members, up to count, in place of missing ones, and returns how many. An entry
// that cannot be carried out reserves one missing member, which is not cloned: an operator corrects or removes the entry.
func (d *decision) adopt(count int) (used int) {
	for _, c := range d.facts.State.Candidates {
		if c.Done || slices.Contains(d.facts.Group.Status.Adopted, c.Entry) {
			continue
		}
		switch {
		case c.Fault != nil:
			d.adoption = append(d.adoption, fmt.Sprintf("%s: %s", c.Entry, strings.TrimSuffix(c.Fault.Message, ".")))
			if used < count {
				used++
				if !c.Fault.Transient {
					d.incorrect = append(d.incorrect, plan.FaultOf{Who: c.Entry, Fault: *c.Fault})
				}
			}
		case d.facts.beingAdopted(c.MoRef):
		case used == count:
			d.adoption = append(d.adoption, c.Entry+": the group has all its members: raise replicas to adopt the VM, or remove the entry")
		default:
			used++
			d.adoptAs(&c)
		}
	}
	return used
}

// beingAdopted reports whether the step that adopts a VM is running.
func (f *facts) beingAdopted(moRef string) bool {
	for _, p := range f.Pending {
		if p.Op == plan.Adopt && p.MoRef == moRef && p.State == plan.Running {
			return true
		}
	}
	return false
}

// adoptAs decides which ordinal an adopted VM gets.
func (d *decision) adoptAs(c *plan.Candidate) {
	m := d.vacancy(fmt.Sprintf("spec.adopt names %s, and a member is missing", c.Entry))
	m.Former.Entry = c.Entry
	m.wants(toAdopt, m.why)
	if d.facts.State.Folder == "" {
		return
	}
	m.assign(d.facts.Group.Name, d.ordinalFor(c))
	m.MoRef, m.ChangeVersion, m.Reachable = c.MoRef, c.ChangeVersion, true
	if fault := d.facts.Related.Fault; fault != nil { // the revision for its stamp is unknown
		m.awaits = fault.Message
		return
	}
	d.arriving = append(d.arriving, m.Ordinal)
}

// adoptOne adopts one VM.
func (s *steps) adoptOne(m *member, why string) {
	switch details, _ := s.facts.details(m.Ordinal); {
	case s.facts.State.Folder == "":
		m.begins(adopting, s.createFolder())
	case s.facts.Related.Fault != nil:
		s.faults = append(s.faults, plan.FaultOf{Who: m.Former.Entry, Fault: *s.facts.Related.Fault})
	default:
		m.begins(adopting, s.act(plan.Action{Op: plan.Adopt, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
			Args: plan.AdoptArgs{Entry: m.Former.Entry, Details: details, Revision: s.facts.revision, Fingerprint: s.facts.State.Template.Fingerprint}, Generation: s.facts.Group.Generation,
			Reason: why}))
	}
}

// ordinalFor returns the ordinal that a VM had before, the one in its name, or the lowest free one.
func (d *decision) ordinalFor(c *plan.Candidate) int32 {
	if c.Ordinal >= 0 && !d.taken(c.Ordinal) {
		return c.Ordinal
	}
	if digits, is := strings.CutPrefix(c.Name, d.facts.Group.Name+"-"); is {
		n, err := strconv.ParseUint(digits, 10, 16)
		if ordinal := int32(n); err == nil && plan.MemberName(d.facts.Group.Name, ordinal) == c.Name && !d.taken(ordinal) {
			return ordinal
		}
	}
	return newZonePicker(1, 0, d.taken).Pick() // the lowest free one, of whichever zone
}

// whyAdopt: a member that an operator moves or renames later is left there.
func (d *decision) whyAdopt(m *member) string {
	moves := m.VM.Folder == m.Former.Folder && m.VM.Folder != d.facts.State.Folder
	renames := m.VM.Name == m.Former.Name && m.VM.Name != m.name
	return textIf(m.Former.Name != "" && !m.duplicate && !m.leaves() && m.Reachable && (moves || renames), "adopted: moved to the group's folder, with a member's name")
}

// finishAdoption moves and renames an adopted member to a member's folder and name, once.
func (s *steps) finishAdoption(m *member, why string) {
	a := plan.Action{Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, Reason: why}
	switch {
	case m.VM.Folder == m.Former.Folder && m.VM.Folder != s.facts.State.Folder:
		if s.facts.State.Folder == "" {
			s.createFolder()
			return
		}
		a.Op, a.Args = plan.Move, plan.MoveArgs{Folder: s.facts.State.Folder}
	default:
		a.Op, a.ChangeVersion, a.Args = plan.Rename, m.ChangeVersion, plan.RenameArgs{Name: m.name}
	}
	s.act(a)
}
