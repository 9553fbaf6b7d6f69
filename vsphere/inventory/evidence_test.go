package inventory

import (
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// forged is a VM in another folder with the stamp of a member of web, and with an instanceUuid of its own.
func forged(moRef string, ordinal int32, change func(*stamp.Stamp)) Machine {
	m := machine("uid-web", ordinal)
	m.MoRef, m.InstanceUUID, m.Name, m.Parent, m.Folder, m.File = moRef, "id-"+moRef, "own", "vm", "vm", "[ds] own/own.vmx"
	s, err := stamp.Decode(m.StampText)
	if err != nil {
		panic(err)
	}
	s.InstanceUUID = m.InstanceUUID
	change(&s)
	m.StampText = s.Encode()
	return m
}

// sought is an inventory whose VMs nobody vouches for. The answers about their arrivals come from the test.
func sought(machines ...Machine) *filled {
	s := newFilled()
	s.Evidence.OnSought(func() {})
	s.Publish(Reading{VCenter: "vc", Machines: machines})
	return s
}

func (s *filled) tellAll(a plan.Arrival) {
	for _, x := range s.Evidence.Sought() {
		s.Evidence.Tell(x, a)
	}
}

func moRefs(vms []plan.VM) (all []string) {
	for i := range vms {
		all = append(all, vms[i].MoRef)
	}
	return all
}

// A recorded VM is the group's at once. One that isn't recorded is a stray until vCenter's events, which are asked for once, say otherwise.
func TestAVMIsTheGroupsByItsRecordOrByVCentersEvents(t *testing.T) {
	t.Parallel()
	recorded, other, eves := machine("uid-web", 0), machine("uid-web", 1), forged("vm-9", 2, func(*stamp.Stamp) {})
	other.Folder = "web"
	s := sought(recorded, other, eves)
	ask := plan.Query{Recorded: []v1alpha1.Member{{MoRef: recorded.MoRef, InstanceUUID: recorded.InstanceUUID}}}
	now := s.State(web, ask)
	if got := moRefs(now.VMs); !slices.Equal(got, []string{recorded.MoRef}) || len(now.Strays) != 2 || !now.Strays[0].Pending || !now.Strays[0].Holds || now.Strays[1].Holds {
		t.Fatalf("before vCenter's events are read, the group has %v and the strays %+v; want the recorded VM, and one stray that holds its ordinal", got, now.Strays)
	}
	if n := len(s.Evidence.Sought()); n != 2 {
		t.Errorf("%d VMs are sought; want 2", n)
	}
	s.notified = nil
	s.tellAll(plan.Arrival{})
	if now = s.State(web, ask); !slices.Equal(moRefs(now.VMs), []string{recorded.MoRef, other.MoRef}) || len(now.Strays) != 1 || now.Strays[0].Pending || now.Strays[0].MoRef != "vm-9" {
		t.Errorf("without an event, the group has %v and the strays %+v; want the VM in its folder, and the stray vm-9", moRefs(now.VMs), now.Strays)
	}
	if len(s.notified) != 2 || len(s.Evidence.Sought()) != 0 {
		t.Errorf("%d notifications, and %v sought; want one for each answer, and none", len(s.notified), s.Evidence.Sought())
	}
	if now = s.State(web, plan.Query{}); !slices.Equal(moRefs(now.VMs), []string{recorded.MoRef, other.MoRef}) {
		t.Errorf("without its status, the group has %v; want what was found out before", moRefs(now.VMs))
	}
}

// A preview asks vCenter nothing.
func TestAPreviewSeeksNoVM(t *testing.T) {
	t.Parallel()
	s := sought(machine("uid-web", 0))
	s.State(web, plan.Query{Preview: true})
	if n := len(s.Evidence.Sought()); n != 0 {
		t.Errorf("%d VMs are sought for a preview; want none", n)
	}
}

// A stamp of another home must not move the group's folder.
func TestAStraysHomeIsNotTheGroups(t *testing.T) {
	t.Parallel()
	s := sought(forged("vm-9", 2, func(s *stamp.Stamp) { s.Home = "DC1:" }))
	if folder := s.State(web, plan.Query{}).Folder; folder != "web" {
		t.Errorf("the group's folder is %q; want web", folder)
	}
}

func TestRulesNameNoStray(t *testing.T) {
	t.Parallel()
	s := newFilled()
	here := func(m Machine) Machine { m.HostRef = "host-1"; return m }
	s.publish(here(machine("uid-web", 0)), here(machine("uid-web", 1)))
	s.Publish(Reading{VCenter: "vc", Machines: []Machine{here(forged("vm-9", 2, func(*stamp.Stamp) {}))},
		Clusters: []Cluster{{MoRef: "domain-1", DRS: true, Hosts: []string{"host-1"}}}})
	s.tellAll(plan.Arrival{})
	apart := plan.Rules{AntiAffinity: preferred}
	s.State(web, plan.Query{Rules: apart})
	changes, _ := s.RuleChanges(web, apart)
	if len(changes) != 1 || len(changes[0].Set) != 1 || len(changes[0].Set[0].VMs) != 2 || slices.Contains(changes[0].Set[0].VMs, "vm-9") {
		t.Errorf("got the changes %+v; want a rule for the two members", changes)
	}
	if on := s.MembersByHost("uid-web"); on["host-1"] != 2 {
		t.Errorf("%d members are on the host; want 2", on["host-1"])
	}
}

func TestOrphansOutsideOfTheirFolderAreStrays(t *testing.T) {
	t.Parallel()
	in := machine("uid-web", 0)
	s := sought(in, forged("vm-9", 1, func(*stamp.Stamp) {}))
	orphans, _ := s.Orphans("test", []string{"root"}, func(plan.Ref) bool { return false })
	if len(orphans) != 1 || !slices.Equal(orphans[0].VMs, []string{"/DC0/vm/vm-operator/shop/web/web-0"}) || !slices.Equal(orphans[0].Strays, []string{"/DC0/vm/own"}) {
		t.Errorf("got the orphans %+v; want web-0, and the stray own", orphans)
	}
}

// The lists have groups that never called only by VMs in their own folder.
func TestListsHaveNoGroupThatOnlyAStampNames(t *testing.T) {
	t.Parallel()
	in := machine("uid-web", 0)
	in.Folder = "web"
	s := sought(in, forged("vm-9", 0, func(s *stamp.Stamp) { s.UID, s.Namespace, s.Name = "uid-eve", "kube-system", "apiserver" }),
		forged("vm-10", 3, func(s *stamp.Stamp) { s.Name = "\x1b[2J" }))
	groups, _ := s.ListGroups("test")
	if len(groups) != 1 || groups[0].Name != "web" || len(groups[0].VMs) != 1 {
		t.Errorf("got the groups %+v; want web with one VM", groups)
	}
	if !s.HasMembers("uid-web") || s.HasMembers("uid-eve") {
		t.Errorf("web has VMs: %t, and eve: %t; want those of web alone", s.HasMembers("uid-web"), s.HasMembers("uid-eve"))
	}
	s.folders.own = nil
	if !s.HasMembers("uid-web") {
		t.Error("while the server doesn't know its folder, the group has no VMs")
	}
}

// A VM whose arrival isn't known may be a late clone of another replica: while a group is being deleted, it counts until it is known to be a stray.
func TestADeletionWaitsForVMsThatAreNotDecided(t *testing.T) {
	t.Parallel()
	late := machine("uid-web", 0)
	late.Folder = "web"
	s := sought(late, forged("vm-9", 2, func(*stamp.Stamp) {}))
	s.State(web, plan.Query{Finalizing: true})
	if names := s.MemberNames("uid-web"); len(names) != 2 {
		t.Errorf("before vCenter's events are read, the group has %v; want both VMs", names)
	}
	s.tellAll(plan.Arrival{How: plan.Created, User: "backup"})
	s.State(web, plan.Query{Finalizing: true})
	if names := s.MemberNames("uid-web"); len(names) != 0 {
		t.Errorf("the group has %v; want none but strays", names)
	}
}
