package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

const (
	vcenterID = "11111111-2222-3333-4444-555555555555"
	elsewhere = "group-elsewhere" // the folder that operators move VMs into
)

// machine is a VM in vCenter. The fields of plan.VM that come from the stamp count only while uid is set.
type machine struct {
	plan.VM
	uid     types.UID    // of the group in its stamp; empty without a stamp
	foreign bool         // an operator made it
	stray   bool         // it has a stamp, and the server neither made nor adopted it
	arrival plan.Arrival // how a stray came
	gone    bool
	// departed: the VM exists, but left the inventory. again is the machine as which it came back; nil while it is away.
	departed bool
	again    *machine
	hidden   bool      // its configuration cannot be read
	asked    time.Time // when its guest was asked to halt; otherwise zero
	halts    bool      // the guest obeys the request within haltTimeout
	wasOn    bool
	marked   bool // the VM was marked at some time
	takenFor int  // how many members the specs in use wanted when a step last took the VM down
	// tampered: an operator renamed, moved, or restored the VM, so its name no longer keeps another VM from getting its ordinal.
	tampered bool
	// faulty: a cause other than a step made the VM stop working, and it hasn't worked since.
	faulty bool
	// serves: the guest's service answers. heard: it has answered a replica, and the VM was not marked before.
	serves, heard bool
	attached      []*disk // persistent disks
	taken         []*disk // persistent disks that an operator detached
	parted        bool    // a step has detached persistent disks
	snapshot      bool
	outOfRule     bool // the stamp says that the group's rule leaves it out while it is off
	tagged        bool // it has the tags of the spec with which it was prepared last
	version       int  // of its configuration: the changeVersion
	state         int  // counts all changes, for the views
}

// haltTimeout is how long a guest can take to halt after it was asked: a guest that takes longer ignores the request.
const haltTimeout = 110 * time.Second

// halting reports whether the guest will halt.
func (m *machine) halting() bool { return m.halts && time.Since(m.asked) < haltTimeout }

func (m *machine) changed() { m.state++ }

// away reports whether the VM exists, but outside the inventory.
func (m *machine) away() bool { return m.departed && m.again == nil }

// destroyed reports whether the VM no longer exists under any moRef.
func (m *machine) destroyed() bool {
	for m.again != nil {
		m = m.again
	}
	return m.gone && !m.departed
}

func (m *machine) reconfigured() {
	m.version++
	m.VM.ChangeVersion = strconv.Itoa(m.version)
	m.changed()
}

// member reports whether the VM in the inventory is a member of this group, or claims to be.
func (m *machine) member(uid types.UID) bool {
	return !m.gone && !m.stray && m.uid == uid && uid != "" && m.Quarantined.IsZero()
}

// claims is like member, and includes a VM that is away.
func (m *machine) claims(uid types.UID) bool {
	return m.member(uid) || m.away() && m.uid == uid && m.Quarantined.IsZero()
}

// vcenter is the one vCenter that all replicas use. It changes only while nothing else runs.
type vcenter struct {
	*world
	vms                []*machine
	next               int
	folder, quarantine string
	folders            int // counts the changes of the two
	disks              []*disk
	data               map[owner]*disk               // the disk that a guest wrote to last
	storageOut         bool                          // no datastore can be read
	rules              map[types.UID]map[string]bool // the VMs that the rule of a group keeps apart, by moRef
}

func (v *vcenter) ref(kind string) string {
	v.next++
	return kind + "-" + strconv.Itoa(100+v.next)
}

func (v *vcenter) find(moRef string) *machine {
	for _, m := range v.vms {
		if m.MoRef == moRef {
			return m
		}
	}
	return nil
}

// named returns the VM with this name in this folder.
func (v *vcenter) named(folder, name string) *machine {
	for _, m := range v.vms {
		if !m.gone && m.Folder == folder && m.Name == name {
			return m
		}
	}
	return nil
}

func (v *vcenter) standing(folder string) bool {
	return folder == elsewhere || folder != "" && (folder == v.folder || folder == v.quarantine)
}

// apply changes a VM as a successful action does, by the planner's own model.
func (v *vcenter) apply(m *machine, a plan.Action) {
	o := plan.Observed{Group: &noGroup, Now: seconds(time.Now()), State: plan.VCenterState{VMs: []plan.VM{m.VM}}}
	plan.Apply(&o, a)
	m.VM = o.State.VMs[0]
	m.marked = m.marked || m.Marked
}

var noGroup v1alpha1.VmGroup

// add makes a VM as a clone does.
func (v *vcenter) add(uid types.UID, a plan.Action) *machine {
	o := plan.Observed{Group: &noGroup, Now: seconds(time.Now()), State: plan.VCenterState{VCenter: vcenterID}}
	plan.Apply(&o, a)
	m := &machine{VM: o.State.VMs[0], uid: uid}
	m.MoRef = v.ref("vm")
	m.InstanceUUID = "id-of-" + m.MoRef
	m.reconfigured()
	v.vms = append(v.vms, m)
	return m
}

// power changes a VM's power. A guest boots later, and then reports that it runs.
func (v *vcenter) power(m *machine, on bool) {
	if on {
		m.Power, m.BootTime, m.wasOn = plan.PoweredOn, time.Now(), true
		v.write(m)
	} else {
		m.Power, m.BootTime = plan.PoweredOff, time.Time{}
	}
	m.guestStops()
	m.changed()
}

func (m *machine) guestStops() {
	m.Tools, m.IPs, m.asked, m.serves, m.heard = false, nil, time.Time{}, false, false
}

func (v *vcenter) boots(m *machine) {
	if v.hasAilment(m, noTool) {
		return
	}
	m.Tools, m.IPs = true, []string{"192.0.2.1"}
	if v.hasAilment(m, noAddress) {
		m.IPs = nil
	}
	if v.hasAilment(m, noCustomization) {
		m.Customization.State = plan.CustomizationFailed
	}
	m.changed()
}

func (v *vcenter) removes(m *machine) {
	m.gone = true
	m.changed()
}

// comesBack returns a VM that is away to the inventory, with another moRef.
func (v *vcenter) comesBack(m *machine) *machine {
	again := *m
	again.MoRef, again.gone, again.departed, again.hidden, again.faulty, again.tagged = v.ref("vm"), false, false, false, false, false
	again.changed()
	m.again = &again
	v.vms = append(v.vms, &again)
	return &again
}

// text describes the whole vCenter, with a line for each object.
func (v *vcenter) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "folder %q %q;", v.folder, v.quarantine)
	for _, m := range v.vms {
		if m.gone && !m.away() {
			continue
		}
		fmt.Fprintf(&b, " %s=%s@%s", m.MoRef, m.Name, m.Folder)
		if m.uid != "" {
			fmt.Fprintf(&b, "[%s/%d g%d %s %d cpu v%d]", m.uid, m.Ordinal, m.Generation, m.Revision, m.CPU, m.version)
		}
		if m.Power == plan.PoweredOn {
			b.WriteString(" on")
		}
		for _, f := range []struct {
			is   bool
			word string
		}{{m.Marked, " marked:" + string(m.MarkReason)}, {!m.Quarantined.IsZero(), " quarantined"}, {m.hidden, " hidden"}, {m.away(), " away"}, {m.foreign, " foreign"}, {m.stray, " stray"}, {m.IsTemplate, " template"},
			{m.Tools, " tools"}, {m.serves, " serves"}, {m.halting(), " halting"}, {m.faulty, " faulty"}, {m.tampered, " tampered"}, {m.snapshot, " snapshot"}} {
			if f.is {
				b.WriteString(f.word)
			}
		}
		for _, d := range m.attached {
			b.WriteString(" " + d.id)
		}
		b.WriteByte(';')
	}
	for _, d := range v.disks {
		if !d.gone {
			fmt.Fprintf(&b, " %s=%s bound:%v lost:%v open:%v boots:%d;", d.id, d.owner, d.bound, d.lost, d.open, len(d.log))
		}
	}
	return b.String()
}

// seconds rounds a time as stamps do.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// seenVM is what a replica has seen of a VM.
type seenVM struct {
	vm    plan.VM
	uid   types.UID
	blind bool // the VM was never readable
	gone  bool
	over  bool // another VM took its place after it vanished
	// outOfRule: its stamp says that the group's rule leaves it out while it is off.
	outOfRule bool
	state     int
}

// view is what a replica has seen of vCenter. The stream updates it, one change at a time; so do the reads of the replica's own
// steps.
type view struct {
	vcenter            *vcenter
	known              bool
	vms                map[string]*seenVM
	folder, quarantine string
	folders            int
	wanted             map[string]bool // VMs with a requested read
}

func newView(v *vcenter) *view {
	return &view{vcenter: v, vms: map[string]*seenVM{}, wanted: map[string]bool{}}
}

// late lists the changes that the replica has not seen yet: VMs in the order in which they were made, and "" for the folders.
func (v *view) late() (refs []string) {
	if v.folders != v.vcenter.folders {
		refs = append(refs, "")
	}
	for _, m := range v.vcenter.vms {
		g := v.vms[m.MoRef]
		if v.wanted[m.MoRef] || g == nil && !m.gone || g != nil && g.state != m.state {
			refs = append(refs, m.MoRef)
		}
	}
	return refs
}

// read updates one VM in the view, or the folders if ref is empty.
func (v *view) read(ref string) {
	if ref == "" {
		v.folder, v.quarantine, v.folders = v.vcenter.folder, v.vcenter.quarantine, v.vcenter.folders
		return
	}
	delete(v.wanted, ref)
	m := v.vcenter.find(ref)
	if m == nil {
		return
	}
	g := v.vms[ref]
	if g == nil {
		g = &seenVM{blind: true}
		v.vms[ref] = g
	}
	g.state, g.gone = m.state, m.gone
	switch {
	case m.gone:
	case m.hidden:
		g.vm.Reachable, g.vm.Unreachable = false, "hidden"
	default:
		g.blind, g.over, g.vm, g.uid, g.outOfRule = false, false, m.VM, m.uid, m.outOfRule
		g.vm.IPs = slices.Clone(m.IPs)
	}
}

// readAll reads the whole inventory.
func (v *view) readAll() {
	v.known = true
	for _, ref := range v.late() {
		v.read(ref)
	}
}

// state is what loop.VCenter.State returns.
func (v *view) state(ref plan.Ref, ask plan.Query) plan.VCenterState {
	s := plan.VCenterState{Known: v.known, VCenter: vcenterID}
	hidesAsGone := v.vcenter.set.defect == hidesAsGone
	for _, m := range v.vcenter.vms {
		if g := v.vms[m.MoRef]; g != nil && !g.gone && !g.blind && g.uid == ref.UID && (g.vm.Reachable || !hidesAsGone) {
			s.VMs = append(s.VMs, g.vm)
			if last := &s.VMs[len(s.VMs)-1]; v.vcenter.set.defect == seesAllWell && !last.Marked && !last.Standby {
				last.Power, last.Tools = plan.PoweredOn, true
			}
		}
	}
	s.VMs, s.Strays = slices.DeleteFunc(s.VMs, func(vm plan.VM) bool { return vm.IsTemplate || v.vcenter.find(vm.MoRef).stray }), v.strays(ref.UID)
	slices.SortStableFunc(s.VMs, func(a, b plan.VM) int { return int(a.Ordinal - b.Ordinal) })
	if !v.known {
		s.Fault = &plan.Fault{Reason: "VCenterUnreachable", Message: "vCenter does not answer", Transient: true}
		return s
	}
	for i := range ask.Recorded {
		moRef := ask.Recorded[i].MoRef
		g := v.vms[moRef]
		switch m := v.vcenter.find(moRef); {
		case g == nil:
			v.wanted[moRef] = true
		case g.gone && i >= len(ask.Recorded)-ask.Kept:
			s.Gone = append(s.Gone, plan.Gone{MoRef: moRef, InstanceUUID: ask.Recorded[i].InstanceUUID})
		case g.gone && m != nil && m.departed && !m.destroyed() && v.vcenter.set.defect != awayIsGone:
			s.Vanished = append(s.Vanished, vanishedAs(m))
		case g.gone, hidesAsGone && !g.vm.Reachable, !g.blind && g.uid != ref.UID:
			s.Gone = append(s.Gone, plan.Gone{MoRef: moRef, InstanceUUID: ask.Recorded[i].InstanceUUID})
		}
	}
	members := ask.Recorded[:len(ask.Recorded)-ask.Kept]
	for _, m := range v.vcenter.vms { // VMs that vanished, and that the replica remembers as members
		if g := v.vms[m.MoRef]; v.vcenter.set.defect != awayIsGone && g != nil && g.gone && g.uid == ref.UID && m.departed && !m.destroyed() &&
			g.vm.Quarantined.IsZero() && !g.vm.IsStandby() && !slices.ContainsFunc(members, func(r v1alpha1.Member) bool { return r.MoRef == m.MoRef }) {
			x := vanishedAs(m)
			records := plan.RecordsOf(members, s.VMs)
			if g.over = g.over || records.Supersede(&x) && !ask.Preview; !g.over {
				s.Vanished = append(s.Vanished, x)
			}
		}
	}
	s.RulesOff = v.rulesOff(ref.UID, ask.Rules)
	s.Folder, s.Quarantine = v.folder, v.quarantine
	if s.Template = (plan.Template{Datacenter: "DC0"}); ask.Template == noTemplate && v.vcenter.set.defect != hopeful {
		return s
	}
	s.Template = plan.Template{MoRef: "template-" + ask.Template, Paths: []string{"/DC0/vm/" + ask.Template}, Datacenter: "DC0"}
	return s
}

func vanishedAs(m *machine) plan.Vanished {
	return plan.Vanished{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, Name: m.Name, Ordinal: m.Ordinal, How: "its host was removed"}
}

// own returns the member that an action is for, as the replica knows it.
func (v *view) own(ref plan.Ref, a plan.Action) (*plan.VM, error) {
	g := v.vms[a.MoRef]
	if g == nil || g.gone || g.blind || g.uid != ref.UID || g.vm.Ordinal != a.Ordinal {
		return nil, notOurs
	}
	return &g.vm, nil
}
