package plan

import (
	"fmt"
	"strings"
)

// fill finds the members that are missing, and has them brought back from quarantine, adopted, or cloned. During an
// update there may be maxSurge more than replicas.
func (v *view) fill() {
	keep, rolling := v.ordinals+len(v.arriving), false
	for i := range v.members {
		m := &v.members[i]
		if m.retire != "" || m.leaves {
			keep--
		}
		rolling = rolling || m.retire != "" && m.retire != WhyHealing
	}
	helpers := v.helpers()
	most := v.want
	if rolling || helpers > 0 {
		most += v.policy.surge
	}
	count := min(v.want+helpers-keep, most-v.ordinals-len(v.arriving))
	v.returning = v.bringBack(count)
	count -= v.returning
	count -= v.adopt(max(0, min(count, v.want-v.ordinals-len(v.arriving))))
	v.clone(count)
}

// clone finds the lowest free ordinals for members that are to be made.
func (v *view) clone(count int) {
	if count <= 0 {
		return
	}
	v.missing = count
	v.cloning += count
	if fault := v.templateFault(); fault != nil {
		v.faults = append(v.faults, named{Fault: *fault})
		return
	}
	if v.Sight.Folder == "" {
		v.createFolder()
		return
	}
	ordinal := int32(-1)
	for range count {
		ordinal = v.freeOrdinal(ordinal + 1)
		v.act(Action{
			Op: Clone, VM: MemberName(v.Group.Name, ordinal), Ordinal: ordinal,
			Folder: v.Sight.Folder, Template: v.Sight.Template.MoRef, Fingerprint: v.Sight.Template.Fingerprint,
			CPU: v.Group.Spec.CPU, MemoryMB: v.Group.MemoryMB(), Revision: v.revision, Generation: v.Group.Generation,
			Reason: fmt.Sprintf("%d exist, %s wanted", v.ordinals, are(v.want)),
		})
	}
}

// freeOrdinal is the lowest one, from an ordinal on, that a new member can have.
func (v *view) freeOrdinal(ordinal int32) int32 {
	for v.taken(ordinal) {
		ordinal++
	}
	return ordinal
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
