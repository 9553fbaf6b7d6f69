package inventory

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// freshFor is the time after the server came to know vCenter's state for which it waits for vCenter's events of VMs outside of their group's folder.
const freshFor = time.Minute

// split separates the VMs of a group that are shown to be the group's by this process, or by the group's status, from the others. The caller holds mu.
func (n *Inventory) split(uid types.UID, vms []plan.VM, ask *plan.Query) (ours, others []plan.VM) {
	var known *records
	return n.Evidence.split(uid, vms, ask.Preview, func(vm *plan.VM) bool {
		if known == nil {
			known = n.recordsOf(ask)
		}
		return lists(known.members, vm)
	})
}

// weigh decides about the VMs with the group's stamp that split didn't find to be the group's. in are the moRefs of the group's folder and of its
// quarantine folder; unknown reports whether these aren't known. The caller holds mu.
func (n *Inventory) weigh(ref plan.Ref, ours, others []plan.VM, ask *plan.Query, in []string, unknown bool) (all []plan.VM, strays []plan.Stray) {
	known, formers := n.recordsOf(ask), n.formers(ref.UID)
	all = slices.Clip(ours)
	filled := make(map[int32]bool, len(ours))
	for i := range ours {
		filled[ours[i].Ordinal] = filled[ours[i].Ordinal] || ours[i].Quarantined.IsZero()
	}
	for i := range others {
		vm := &others[i]
		c := plan.Evidence{VM: vm, InFolder: vm.Folder != "" && slices.Contains(in, vm.Folder), FolderUnknown: unknown,
			Fresh:          time.Since(n.knownSince) < freshFor,
			InFormerFolder: n.Evidence.wasHome(vm.Folder, ref.UID),
			Recorded:       n.Evidence.isProven(ref.UID, vm.ID()) || lists(known.members, vm),
			Filled:         filled[vm.Ordinal] && vm.Quarantined.IsZero(),
			Listed: slices.ContainsFunc(ask.Strays, func(s v1alpha1.Stray) bool {
				return vm.ID().Is(plan.VMID{MoRef: s.MoRef, InstanceUUID: s.InstanceUUID})
			}),
			Arrival: n.Evidence.arrivalOf(vm.ID())}
		c.Named = vm.Former.Entry != "" && slices.Contains(ask.Adopt, vm.Former.Entry) && (c.InFolder || vm.Folder != "" && vm.Folder == vm.Former.Folder && vm.VCenter == n.vcenter)
		var by string
		c.Former, c.FormerFile, by = n.formerOf(vm, known, formers)
		if m := n.objects.members[by]; m != nil {
			if c.Claimed = !n.Evidence.isProven(ref.UID, m.ID()) && !slices.Contains(in, m.Parent) && !n.Evidence.wasHome(m.Parent, ref.UID); c.Claimed {
				c.Former, c.FormerFile = "", ""
			}
		}
		c.Moved = plan.VCenterOf(known.former[vm.InstanceUUID].moRef) != "" && c.Former != ""
		proven, stray := plan.Weigh(ref.Name, &c)
		if proven != "" {
			all = append(all, *vm)
			filled[vm.Ordinal] = filled[vm.Ordinal] || vm.Quarantined.IsZero()
			if !ask.Preview {
				n.prove(ref.UID, vm.ID())
			}
			continue
		}
		if len(strays) < straysMost || stray.Holds || c.Listed {
			stray.Path = n.objects.places.path(vm.Folder, vm.Name)
			strays = append(strays, *stray)
		}
		switch {
		case ask.Preview:
		case !stray.Pending:
			if n.Evidence.setStray(ref.UID, vm.ID()) {
				n.adoptions.forgetAnswer(ref.UID)
			}
		case !c.Arrival.Read:
			n.Evidence.seekArrival(Sought{VMID: vm.ID(), UID: ref.UID, Patient: c.InFolder || c.InFormerFolder || c.Former != ""})
		}
	}
	if len(all) > len(ours) {
		slices.SortFunc(all, compareVMs)
	}
	return all, strays
}

// prove records that a VM is a group's. A member that was missing under another moRef is there again.
func (n *Inventory) prove(uid types.UID, id plan.VMID) {
	n.Evidence.prove(uid, id)
	n.MissingVMs.found(id)
	n.ruleRequests.forgetCheck(uid)
	n.adoptions.forgetAnswer(uid)
}

// proven returns a group without the VMs that are not known to be its own; the group itself if there are none. The caller holds mu.
func (n *Inventory) proven(uid types.UID) *group {
	g := n.objects.groups[uid]
	if g == nil {
		return nil
	}
	return n.Evidence.provenOf(uid, g)
}

// formers returns VMs with the instanceUuids of a group's, in vCenter or not: those that it shows, those that are missing, and those that were destroyed.
// Of several with one instanceUuid it has two at most. The caller holds mu.
func (n *Inventory) formers(uid types.UID) map[string][]former {
	all := map[string][]former{}
	add := func(id plan.VMID, file string) {
		if len(all[id.InstanceUUID]) < 2 {
			all[id.InstanceUUID] = append(all[id.InstanceUUID], former{moRef: id.MoRef, file: file})
		}
	}
	if g := n.objects.groups[uid]; g != nil {
		for _, m := range g.refs {
			add(m.ID(), m.File)
		}
	}
	n.MissingVMs.each(add)
	return all
}

// formerOf returns what became of another VM with the instanceUuid of this one, and its .vmx file. The status comes first, then what this process knows:
// then it also returns the moRef. The caller holds mu.
func (n *Inventory) formerOf(vm *plan.VM, known *records, formers map[string][]former) (fate plan.Fate, file, moRef string) {
	recorded, is := known.former[vm.InstanceUUID]
	if is = is && recorded.moRef != vm.MoRef; is && !recorded.gone {
		return n.fateOf(plan.VMID{MoRef: recorded.moRef, InstanceUUID: vm.InstanceUUID}, vm.MoRef), recorded.file, ""
	}
	for _, x := range formers[vm.InstanceUUID] {
		if x.moRef != vm.MoRef {
			return n.fateOf(plan.VMID{MoRef: x.moRef, InstanceUUID: vm.InstanceUUID}, vm.MoRef), x.file, x.moRef
		}
	}
	if is {
		return plan.HasVanished, recorded.file, ""
	}
	return "", "", ""
}

// fateOf returns what became of a VM that a record names, for the VM of. vCenter has one VM with an instanceUuid. So another one that it shows is the same
// VM under its former moRef, unless the stamp of one of them says that vCenter changed it. The caller holds mu.
func (n *Inventory) fateOf(id plan.VMID, of string) plan.Fate {
	shown := n.objects.members[id.MoRef]
	if shown != nil && shown.InstanceUUID != id.InstanceUUID {
		shown = nil
	}
	unstamped := shown == nil && n.objects.unmanaged[id.MoRef].instanceUUID == id.InstanceUUID
	own := ""
	if its := n.objects.members[of]; its != nil {
		own = its.Own
	}
	fate, missing := n.MissingVMs.fateOf(id)
	switch {
	case plan.VCenterOf(id.MoRef) != "" && !missing: // in quarantine, or on standby
		return plan.Left
	case shown != nil && shown.Own != own, unstamped && id.InstanceUUID != own:
		return plan.There
	case shown != nil:
		return plan.Sought
	}
	return fate
}

// records has what a group's status lists, for look-ups: anybody can write the group's stamp into any number of VMs. It is made when a VM needs it.
type records struct {
	members map[string]string // instanceUuids by moRef, also of members that were converted to templates
	strays  map[string]string // likewise, of the strays
	former  map[string]former // by instanceUuid
}

// former is a VM of which a record, or the inventory, has the instanceUuid.
type former struct {
	moRef, file string
	gone        bool // it was given up
}

func recordsOf(ask *plan.Query, here bool) *records {
	r := &records{members: map[string]string{}, strays: map[string]string{}, former: map[string]former{}}
	for i := range ask.GivenUp {
		g := &ask.GivenUp[i]
		r.former[g.InstanceUUID] = former{g.MoRef, g.VMPathName, true}
	}
	for i := range ask.Strays {
		x := &ask.Strays[i]
		if r.strays[x.MoRef] = x.InstanceUUID; x.Template && here {
			r.members[x.MoRef] = x.InstanceUUID
		}
	}
	for i := range ask.Recorded {
		if m := &ask.Recorded[i]; here {
			r.members[m.MoRef] = m.InstanceUUID
			r.former[m.InstanceUUID] = former{m.MoRef, m.VMPathName, false}
		}
	}
	delete(r.former, "")
	return r
}

// lists reports whether a VM is among recorded ones.
func lists(recorded map[string]string, vm *plan.VM) bool {
	id, is := recorded[vm.MoRef]
	return is && vm.ID().Is(plan.VMID{MoRef: vm.MoRef, InstanceUUID: id})
}

func (n *Inventory) recordsOf(ask *plan.Query) *records {
	return recordsOf(ask, ask.RecordedIn == "" || ask.RecordedIn == n.vcenter)
}

// straysMost bounds the strays that a group is told of, beyond those that concern its ordinals or its status.
const straysMost = 2 * v1alpha1.MaxStrays
