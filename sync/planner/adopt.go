package planner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Adoption is the stamp: from then on the VM is a member, which is moved into the group's folder and renamed. Its
// former name and folder stay in the stamp.

// adopt adopts up to count of the VMs that spec.adopt names, in place of missing members, and returns how many. An entry that
// cannot be carried out reserves one missing member, which is not cloned: an operator corrects or removes the entry.
func (v *steps) adopt(count int) (used int) {
	for _, c := range v.State.Candidates {
		if c.Done || slices.Contains(v.Group.Status.Adopted, c.Entry) {
			continue
		}
		switch {
		case c.Fault != nil:
			v.adoption = append(v.adoption, fmt.Sprintf("%s: %s", c.Entry, strings.TrimSuffix(c.Fault.Message, ".")))
			if used < count {
				used++
				if !c.Fault.Transient {
					v.faults = append(v.faults, named{Who: c.Entry, Fault: *c.Fault})
				}
			}
		case v.beingAdopted(c.MoRef):
		case used == count:
			v.adoption = append(v.adoption, c.Entry+": no member is missing; it is adopted when replicas rise")
		default:
			used++
			v.adoptOne(&c)
		}
	}
	return used
}

// beingAdopted reports whether the step that adopts a VM is running.
func (v *facts) beingAdopted(moRef string) bool {
	for _, p := range v.Pending {
		if p.Op == plan.Adopt && p.MoRef == moRef && p.State == plan.Running {
			return true
		}
	}
	return false
}

// adoptOne adopts one VM.
func (v *steps) adoptOne(c *plan.Candidate) {
	m := v.vacancy(fmt.Sprintf("spec.adopt names %s, and a member is missing", c.Entry))
	if v.State.Folder == "" {
		m.begins(adopting, v.createFolder())
		return
	}
	ordinal := v.ordinalFor(c)
	v.assign(m, ordinal)
	m.MoRef, m.Reachable = c.MoRef, true
	details, _ := v.details(ordinal)
	if fault := v.Related.Fault; fault != nil { // the revision for its stamp is not known
		v.faults = append(v.faults, named{Who: c.Entry, Fault: *fault})
		m.awaits = fault.Message
		return
	}
	v.arriving = append(v.arriving, ordinal)
	m.begins(adopting, v.act(plan.Action{Op: plan.Adopt, VM: plan.MemberName(v.Group.Name, ordinal), Ordinal: ordinal, MoRef: c.MoRef, ChangeVersion: c.ChangeVersion,
		Args: plan.AdoptArgs{Entry: c.Entry, Details: details, Revision: v.revision, Fingerprint: v.State.Template.Fingerprint}, Generation: v.Group.Generation,
		Reason: m.why}))
}

// ordinalFor returns the ordinal that a VM had before, the one in its name, or the lowest free one.
func (v *sets) ordinalFor(c *plan.Candidate) int32 {
	if c.Ordinal >= 0 && !v.taken(c.Ordinal) {
		return c.Ordinal
	}
	if digits, is := strings.CutPrefix(c.Name, v.Group.Name+"-"); is {
		n, err := strconv.ParseUint(digits, 10, 16)
		if ordinal := int32(n); err == nil && plan.MemberName(v.Group.Name, ordinal) == c.Name && !v.taken(ordinal) {
			return ordinal
		}
	}
	return newZonePicker(1, 0, v.taken).Pick() // the lowest free one, of whichever zone
}

// finishAdoption moves and renames an adopted member to a member's folder and name, once.
func (v *steps) finishAdoption(m *member, why string) {
	a := plan.Action{VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, Reason: why}
	switch {
	case m.VM.Folder == m.Former.Folder && m.VM.Folder != v.State.Folder:
		if v.State.Folder == "" {
			v.createFolder()
			return
		}
		a.Op, a.Args = plan.Move, plan.MoveArgs{Folder: v.State.Folder}
	default:
		a.Op, a.ChangeVersion, a.Args = plan.Rename, m.ChangeVersion, plan.RenameArgs{Name: m.name}
	}
	v.act(a)
}

// adoptedEntries are the entries of spec.adopt that have been carried out, now or earlier.
func (v *report) adoptedEntries() []string {
	var done []string
	for _, entry := range v.Group.Spec.Adopt {
		is := slices.Contains(v.Group.Status.Adopted, entry) ||
			slices.ContainsFunc(v.State.Candidates, func(c plan.Candidate) bool { return c.Done && c.Entry == entry })
		if is {
			done = append(done, entry)
		}
	}
	return done
}
