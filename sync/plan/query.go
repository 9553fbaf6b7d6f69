package plan

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Query says what a group needs to know from vCenter beyond its own VMs.
type Query struct {
	// Template is spec.template.
	Template string
	// Recorded are the members in the group's status, and at the end the Kept VMs that are off (in quarantine, and standby members). The
	// inventory looks up those that it doesn't see. It is immutable.
	Recorded []v1alpha1.Member
	Kept     int
	// GivenUp are the VMs that the group gave up, by its status. Strays are those that its status lists as strays.
	GivenUp []v1alpha1.GivenUp
	Strays  []v1alpha1.Stray
	// RecordedIn is the vCenter (its about.instanceUuid) that has the recorded VMs; empty if unknown. The server doesn't look them up in
	// another vCenter: there the same moRefs are other VMs, so that vCenter can't say whether these are gone.
	RecordedIn string
	// Awaits reports whether the operator says that VMs from another vCenter may still be on their way to this one.
	Awaits bool
	// group is the group itself, for In.
	group *v1alpha1.VmGroup
	// Names are what names in the spec meant, by the group's status. They are immutable.
	Names []v1alpha1.NamedObject
	// Adopt is spec.adopt.
	Adopt []string
	// Home is where the group's folder is, unless the stamp of a VM says otherwise, and where the template is.
	Home Home
	// Taken are the names that members could not get because other objects have them.
	Taken []string
	// Datastore and StoragePolicy are those of spec.placement.
	Datastore, StoragePolicy string
	// Rules are those of spec.placement.
	Rules Rules
	// Finalizing reports whether the group is being removed: then a VM that lost its stamp was probably released by this server.
	Finalizing bool
	// Preview marks a dry run, perhaps for a group that was never applied. The answer has only what the inventory already knows: the inventory
	// neither remembers the query nor reads anything for it.
	Preview bool
}

// In returns what the group needs to know from a vCenter, if an operator said that this one has its VMs now (Moved). Otherwise it returns q.
func (q Query) In(vcenter string) Query {
	if q.group == nil {
		return q
	}
	moved := Moved(q.group, vcenter)
	if moved == q.group {
		return q
	}
	of := queryOf(moved, q.Finalizing)
	q.Recorded, q.Kept, q.GivenUp, q.Strays, q.Names, q.RecordedIn, q.Awaits = of.Recorded, of.Kept, of.GivenUp, of.Strays, of.Names, of.RecordedIn, true
	return q
}

// Query returns what the group needs to know from vCenter.
func (o *Observed) Query() Query {
	if o.Unselected() {
		return queryOf(o.Group, false)
	}
	ask := queryOf(o.Group, o.Finalizing)
	for name, p := range o.Pending {
		if p.Op == Clone && p.Fault.Reason == ReasonNameConflict {
			ask.Taken = append(ask.Taken, name)
		}
	}
	slices.Sort(ask.Taken)
	ask.Preview = !o.EditedTooOften.IsZero()
	return ask
}

// queryOf returns what a group needs to know from vCenter.
func queryOf(g *v1alpha1.VmGroup, finalizing bool) Query {
	ask := Query{group: g, Template: g.Spec.Template, Recorded: g.Status.Members, GivenUp: g.Status.GivenUp, Strays: g.Status.Strays, RecordedIn: g.Status.VCenterUUID, Names: g.Status.Names, Adopt: g.Spec.Adopt,
		Home: HomeOf(&g.Spec), Datastore: g.Spec.Placement.Datastore, StoragePolicy: g.Spec.Placement.StoragePolicy, Rules: RulesOf(&g.Spec)}
	kept, standby := g.Status.Quarantined, g.Status.Standby
	if ask.Kept = len(kept) + len(standby); ask.Kept > 0 {
		ask.Recorded = slices.Clone(ask.Recorded)
		for i := range kept {
			ask.Recorded = append(ask.Recorded, v1alpha1.Member{Name: kept[i].Name, Ordinal: kept[i].Ordinal, MoRef: kept[i].MoRef, InstanceUUID: kept[i].InstanceUUID, VMPathName: kept[i].VMPathName})
		}
		for i := range standby {
			ask.Recorded = append(ask.Recorded, v1alpha1.Member{Name: standby[i].Name, VMName: standby[i].VMName, Ordinal: standby[i].Ordinal, MoRef: standby[i].MoRef, InstanceUUID: standby[i].InstanceUUID, VMPathName: standby[i].VMPathName})
		}
	}
	if ask.Finalizing = finalizing; finalizing {
		ask.Rules = Rules{}
	}
	return ask
}
