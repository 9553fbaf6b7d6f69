package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// This file collects what is known of VMs with a group's stamp, for plan.Weigh, which decides whether they are the group's. Package arrival reads
// vCenter's events of those that neither a status nor a task of this process shows to be a group's.

// evidence has what was decided and found out. It belongs to requests, whose mu guards it.
type evidence struct {
	// proofs has the VMs that were shown to be a group's, by moRef. A VM stays the group's as long as it has the same instanceUuid and group.
	proofs map[string]proof
	// making has the instanceUuids of clones that this process began, with their groups. Nobody else knows such a uuid before its VM exists: so the first
	// VM with it, and with the group's stamp, is that clone, even if the reply or the task was lost.
	making goneSet
	// strays are the VMs that were weighed last as strays, and not pending, by moRef.
	strays map[string]proof
	// arrivals are the answers of vCenter's events, and sought the VMs whose events are to be read, by moRef.
	arrivals map[string]arrival
	sought   map[string]*Sought
	// renumbered are the VMs of which vCenter changed the instanceUuid (plan.Renumbered), by moRef.
	renumbered map[string]renumbered
}

func newEvidence() evidence {
	return evidence{proofs: map[string]proof{}, strays: map[string]proof{}, arrivals: map[string]arrival{}, sought: map[string]*Sought{}, renumbered: map[string]renumbered{}}
}

// renumbered is what a VM's stamp says, the instanceUuid that vCenter has for it, and the .vmx file in the member's record.
type renumbered struct {
	proof
	own, file string
}

type proof struct {
	uid          types.UID
	instanceUUID string
}

// copied is what the stamp of a copy says: whose it is, and the instanceUuid that vCenter had changed to.
type copied struct {
	proof
	present string
}

type arrival struct {
	instanceUUID string
	plan.Arrival
}

// Sought is a VM whose arrival is to be found out.
type Sought struct {
	plan.VMID
	// UID is that of the group of which the VM has the stamp.
	UID types.UID
	// Since is when a group first asked. Patient reports whether to ask again for a while if vCenter has no event: it may store events late.
	Since   time.Time
	Patient bool
	// Copy reports whether the VM has a copy of a member's stamp: which instanceUuids it had is to be found out.
	Copy bool
}

// forget forgets a VM that left vCenter. The caller holds requests.mu.
func (e *evidence) forget(moRef string) {
	delete(e.proofs, moRef)
	delete(e.strays, moRef)
	delete(e.arrivals, moRef)
	delete(e.sought, moRef)
	delete(e.renumbered, moRef)
}

func (q *requests) forgetEvidence(moRef string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.evidence.forget(moRef)
}

// Making records that this process is about to clone a VM with that instanceUuid for a group.
func (n *Inventory) Making(uid types.UID, instanceUUID string) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	n.requests.evidence.making.add(string(uid) + "/" + instanceUUID)
}

// isMade reports whether a VM is a clone that this process began, and records that. The caller holds mu.
func (q *requests) isMade(uid types.UID, vm *plan.VM) bool {
	key := string(uid) + "/" + vm.InstanceUUID
	if !q.evidence.making.has(key) {
		return false
	}
	q.evidence.making.drop(key)
	q.evidence.proofs[vm.MoRef] = proof{uid, vm.InstanceUUID}
	return true
}

// Made records that a task of this process made a VM, or adopted it, for a group.
func (n *Inventory) Made(uid types.UID, id plan.VMID) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	n.requests.evidence.making.drop(string(uid) + "/" + id.InstanceUUID)
	n.requests.evidence.proofs[id.MoRef] = proof{uid, id.InstanceUUID}
}

// OnSought makes the inventory call sought, which must not block, whenever a VM's arrival is to be found out. Call it before anything is published.
func (n *Inventory) OnSought(sought func()) { n.seek = sought }

// Sought lists the VMs whose arrivals are to be found out.
func (n *Inventory) Sought() (all []Sought) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	for _, s := range n.requests.evidence.sought {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Sought) int { // those in groups' folders first: they may be members
		if a.Patient != b.Patient {
			return cmp.Compare(oneIf(b.Patient), oneIf(a.Patient))
		}
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.MoRef, b.MoRef))
	})
	return all
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Tell records how a VM came into vCenter's inventory.
func (n *Inventory) Tell(s Sought, a plan.Arrival) {
	a.Read = true
	n.requests.mu.Lock()
	now := n.requests.evidence.sought[s.MoRef]
	same := now != nil && now.VMID == s.VMID
	if same {
		delete(n.requests.evidence.sought, s.MoRef)
		n.requests.evidence.arrivals[s.MoRef] = arrival{s.InstanceUUID, a}
	}
	n.requests.mu.Unlock()
	if same {
		n.changed(s.UID)
	}
}

// renumbers reports whether the VM that has a member's moRef and a copy of its stamp is that member, or it isn't known yet whether it is. The caller
// holds mu.
func (n *Inventory) renumbers(uid types.UID, r *v1alpha1.Member, x *unmanagedVM, preview bool) bool {
	of := proof{uid, r.InstanceUUID}
	if x.copyOf.proof != of || r.InstanceUUID == "" {
		return false
	}
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	e := &n.requests.evidence
	a, read := e.arrivals[r.MoRef]
	switch read = read && a.instanceUUID == x.instanceUUID; {
	case !read && !preview:
		n.seekLocked(Sought{VMID: plan.VMID{MoRef: r.MoRef, InstanceUUID: x.instanceUUID}, UID: uid, Patient: true, Copy: true})
	case read && !plan.Renumbered(a.Had, "", "", r.InstanceUUID, x.copyOf.present):
		return false
	case read && !preview && n.want != nil && e.renumbered[r.MoRef] != (renumbered{of, x.instanceUUID, r.VMPathName}):
		e.renumbered[r.MoRef] = renumbered{of, x.instanceUUID, r.VMPathName}
		n.want(r.MoRef) // which shows its .vmx file; then it is a member again
	}
	return true
}

// isRenumbered reports whether a copy, of which all properties were read, is the member whose stamp it has.
func (q *requests) isRenumbered(m *Machine, of copied) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	is, a := q.evidence.renumbered[m.MoRef], q.evidence.arrivals[m.MoRef]
	if !m.Whole || is.proof != of.proof || is.own != m.InstanceUUID || a.instanceUUID != m.InstanceUUID {
		return false
	}
	if !plan.Renumbered(a.Had, m.File, is.file, of.instanceUUID, of.present) {
		a.Had = nil
		q.evidence.arrivals[m.MoRef] = a
		return false
	}
	return true
}

// isProven reports whether a VM was shown to be a group's. The caller holds requests.mu.
func (q *requests) isProven(uid types.UID, moRef, instanceUUID string) bool {
	return q.evidence.proofs[moRef] == proof{uid, instanceUUID}
}

// IsStray reports whether a member was last found to be a stray.
func (n *Inventory) IsStray(m *Member) bool {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	return n.requests.isStray(m.Stamp.UID, m.MoRef, m.InstanceUUID)
}

// proven returns a group without the VMs that are not known to be its own; the group itself if there are none. The caller holds mu.
func (n *Inventory) proven(uid types.UID) *group {
	g := n.objects.groups[uid]
	if g == nil {
		return nil
	}
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	unproven := func(moRef string, m *Member) bool { return !n.requests.isProven(uid, moRef, m.InstanceUUID) }
	for ref, m := range g.refs {
		if unproven(ref, m) {
			some := *g
			some.refs = maps.Clone(g.refs)
			maps.DeleteFunc(some.refs, unproven)
			return &some
		}
	}
	return g
}

func (q *requests) isStray(uid types.UID, moRef, instanceUUID string) bool {
	return q.evidence.strays[moRef] == proof{uid, instanceUUID}
}

// split separates the VMs of a group that are shown to be the group's by this process, or by the group's status, from the others. It returns vms
// itself if there are no others. The caller holds mu.
func (n *Inventory) split(uid types.UID, vms []plan.VM, ask *plan.Query) (ours, others []plan.VM) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	var known *records
	var shown []bool
	for i := range vms {
		vm := &vms[i]
		is := n.requests.isProven(uid, vm.MoRef, vm.InstanceUUID) || n.requests.isMade(uid, vm)
		if !is {
			if known == nil {
				known = n.recordsOf(ask)
			}
			if is = lists(known.members, vm); is && !ask.Preview {
				n.requests.evidence.proofs[vm.MoRef] = proof{uid, vm.InstanceUUID}
			}
		}
		if is = is && !vm.IsTemplate; is {
			delete(n.requests.evidence.strays, vm.MoRef)
		}
		if !is && shown == nil {
			shown = make([]bool, len(vms))
			for j := range i {
				shown[j] = true
			}
		}
		if shown != nil {
			shown[i] = is
		}
	}
	if shown == nil {
		return vms, nil
	}
	for i := range vms {
		if shown[i] {
			ours = append(ours, vms[i])
		} else {
			others = append(others, vms[i])
		}
	}
	return ours, others
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
	return is && sameVM(id, vm.InstanceUUID)
}

func (n *Inventory) recordsOf(ask *plan.Query) *records {
	return recordsOf(ask, ask.RecordedIn == "" || ask.RecordedIn == n.vcenter)
}

// straysMost bounds the strays that a group is told of, beyond those that concern its ordinals or its status.
const straysMost = 2 * v1alpha1.MaxStrays

// weigh decides about the VMs with the group's stamp that split didn't find to be the group's. in are the moRefs of the group's folder and of its
// quarantine folder; unknown reports whether these aren't known. The caller holds mu.
func (n *Inventory) weigh(ref plan.Ref, ours, others []plan.VM, ask *plan.Query, in []string, unknown bool) (all []plan.VM, strays []plan.Stray) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	e, known := &n.requests.evidence, n.recordsOf(ask)
	formers := n.formers(ref.UID)
	all = slices.Clip(ours)
	filled := make(map[int32]bool, len(ours))
	for i := range ours {
		filled[ours[i].Ordinal] = filled[ours[i].Ordinal] || ours[i].Quarantined.IsZero()
	}
	for i := range others {
		vm := &others[i]
		c := plan.Evidence{VM: vm, InFolder: vm.Folder != "" && slices.Contains(in, vm.Folder), FolderUnknown: unknown,
			Recorded: n.requests.isProven(ref.UID, vm.MoRef, vm.InstanceUUID) || lists(known.members, vm),
			Filled:   filled[vm.Ordinal] && vm.Quarantined.IsZero(),
			Listed:   slices.ContainsFunc(ask.Strays, func(s v1alpha1.Stray) bool { return s.MoRef == vm.MoRef && sameVM(s.InstanceUUID, vm.InstanceUUID) })}
		c.Named = vm.Former.Entry != "" && slices.Contains(ask.Adopt, vm.Former.Entry) && (c.InFolder || vm.Folder != "" && vm.Folder == vm.Former.Folder && vm.VCenter == n.vcenter)
		c.Former, c.FormerFile = n.formerOf(vm, known, formers)
		c.Moved = plan.VCenterOf(known.former[vm.InstanceUUID].moRef) != "" && c.Former != ""
		if a, read := e.arrivals[vm.MoRef]; read && a.instanceUUID == vm.InstanceUUID {
			c.Arrival = a.Arrival
		}
		proven, stray := plan.Weigh(ref.Name, &c)
		if proven != "" {
			all = append(all, *vm)
			filled[vm.Ordinal] = filled[vm.Ordinal] || vm.Quarantined.IsZero()
			if !ask.Preview {
				n.requests.prove(ref.UID, vm)
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
			if is := (proof{ref.UID, vm.InstanceUUID}); e.strays[vm.MoRef] != is {
				e.strays[vm.MoRef] = is
				delete(n.requests.adoptions, ref.UID)
			}
		case !c.Arrival.Read:
			n.seekLocked(Sought{VMID: plan.VMID{MoRef: vm.MoRef, InstanceUUID: vm.InstanceUUID}, UID: ref.UID, Patient: c.InFolder || c.Former != ""})
		}
	}
	if len(all) > len(ours) {
		slices.SortFunc(all, compareVMs)
	}
	return all, strays
}

// prove records that a VM is a group's. A member that was missing under another moRef is there again. The caller holds mu.
func (q *requests) prove(uid types.UID, vm *plan.VM) {
	q.evidence.proofs[vm.MoRef] = proof{uid, vm.InstanceUUID}
	delete(q.evidence.strays, vm.MoRef)
	delete(q.evidence.sought, vm.MoRef)
	delete(q.ruleChecks, uid)
	delete(q.adoptions, uid)
	for id := range q.missing.all {
		if id.InstanceUUID == vm.InstanceUUID && id.MoRef != vm.MoRef {
			q.missing.finish(id, plan.Actor{})
		}
	}
}

// seekLocked asks for the arrival of a VM. The caller holds requests.mu.
func (n *Inventory) seekLocked(s Sought) {
	e := &n.requests.evidence
	if now := e.sought[s.MoRef]; now != nil && now.VMID == s.VMID {
		now.Patient, now.Copy = now.Patient || s.Patient, now.Copy || s.Copy
		return
	}
	if n.seek == nil { // the check asks nobody
		return
	}
	s.Since = time.Now()
	e.sought[s.MoRef] = &s
	n.seek()
}

// formers returns VMs with the instanceUuids of a group's, in vCenter or not: those that it shows, those that are missing, and those that were destroyed.
// Of several with one instanceUuid it has two at most. The caller holds mu and requests.mu.
func (n *Inventory) formers(uid types.UID) map[string][]former {
	all := map[string][]former{}
	add := func(instanceUUID, moRef, file string) {
		if len(all[instanceUUID]) < 2 {
			all[instanceUUID] = append(all[instanceUUID], former{moRef: moRef, file: file})
		}
	}
	if g := n.objects.groups[uid]; g != nil {
		for moRef, m := range g.refs {
			add(m.InstanceUUID, moRef, m.File)
		}
	}
	for id, m := range n.requests.missing.all {
		add(id.InstanceUUID, id.MoRef, m.File)
	}
	for key := range n.requests.missing.destroyed {
		moRef, instanceUUID, _ := strings.Cut(key, "/")
		add(instanceUUID, moRef, "")
	}
	return all
}

// formerOf returns what became of another VM with the instanceUuid of this one, and its .vmx file. The status comes first, then what this process knows.
// The caller holds mu and requests.mu.
func (n *Inventory) formerOf(vm *plan.VM, known *records, formers map[string][]former) (fate plan.Fate, file string) {
	recorded, is := known.former[vm.InstanceUUID]
	if is = is && recorded.moRef != vm.MoRef; is && !recorded.gone {
		return n.fateOf(plan.VMID{MoRef: recorded.moRef, InstanceUUID: vm.InstanceUUID}, vm.MoRef), recorded.file
	}
	for _, x := range formers[vm.InstanceUUID] {
		if x.moRef != vm.MoRef {
			return n.fateOf(plan.VMID{MoRef: x.moRef, InstanceUUID: vm.InstanceUUID}, vm.MoRef), x.file
		}
	}
	if is {
		return plan.HasVanished, recorded.file
	}
	return "", ""
}

// fateOf returns what became of a VM that a record names, for the VM of. vCenter has one VM with an instanceUuid. So another one that it shows is the same
// VM under its former moRef, unless the stamp of one of them says that vCenter changed it. The caller holds mu and requests.mu.
func (n *Inventory) fateOf(id plan.VMID, of string) plan.Fate {
	shown := n.objects.members[id.MoRef]
	if shown != nil && shown.InstanceUUID != id.InstanceUUID {
		shown = nil
	}
	unstamped := shown == nil && n.objects.unmanaged[id.MoRef].instanceUUID == id.InstanceUUID
	missing, own := &n.requests.missing, ""
	if its := n.objects.members[of]; its != nil {
		own = its.Own
	}
	m := missing.find(id)
	switch {
	case plan.VCenterOf(id.MoRef) != "" && m == nil: // in quarantine, or on standby
		return plan.Left
	case shown != nil && shown.Own != own, unstamped && id.InstanceUUID != own:
		return plan.There
	case shown != nil:
		return plan.Sought
	case missing.destroyed[id.MoRef+"/"+id.InstanceUUID]:
		return plan.Destroyed
	case m != nil && m.How != "":
		return plan.HasVanished
	case m == nil && missing.isDone(id):
		return plan.Left
	}
	return plan.Sought
}
