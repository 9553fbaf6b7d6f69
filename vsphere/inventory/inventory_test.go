package inventory

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// filled is an inventory that gets its readings from the test, not from a vCenter.
type filled struct {
	*Inventory
	notified []types.UID
	asked    []string
}

func newFilled() *filled {
	s := &filled{}
	s.Inventory = New(func(uid types.UID) { s.notified = append(s.notified, uid) })
	s.want = func(moRef string) { s.asked = append(s.asked, moRef) }
	s.Publish(Reading{VCenter: "vc", Complete: true, Places: somePlaces()})
	s.locate("dc", "DC0", "vm", "root")
	s.SetKnown()
	s.notified = nil
	return s
}

// locate sets where groups' folders and templates are: the moRefs of a datacenter, of its VM folder and of the root
// folder in it.
func (n *Inventory) locate(datacenter, name, vmFolder, root string) {
	n.mu.RLock()
	var path []string
	for p := range n.objects.places.above(root) {
		if p.MoRef == vmFolder {
			break
		}
		path = append([]string{p.Name}, path...)
	}
	n.mu.RUnlock()
	n.SetSettings(&Settings{Datacenter: vim.ManagedObjectReference{Type: "Datacenter", Value: datacenter}, datacenterName: name,
		VMFolder: FolderRef(vmFolder), Root: FolderRef(root), path: path}, nil)
}

func somePlaces() []Place {
	return []Place{{"top", "Folder", "Datacenters", ""}, {"dc", "Datacenter", "DC0", "top"}, {"vm", "Folder", "vm", "dc"},
		{"root", "Folder", "vm-operator", "vm"}, {"shop", "Folder", "shop", "root"}, {"web", "Folder", "web", "shop"},
		{"dc1", "Datacenter", "DC1", "top"}, {"vm1", "Folder", "vm", "dc1"}}
}

func (s *filled) publish(machines ...Machine) {
	s.vouch(machines)
	s.Publish(Reading{VCenter: "vc", Machines: machines})
}

func machine(uid types.UID, ordinal int32) Machine {
	id := fmt.Sprintf("id-%s-%d", uid, ordinal)
	stamp := stamp.Stamp{Cluster: "test", Namespace: "shop", Name: "web", UID: uid, Generation: 1, Ordinal: ordinal, Revision: "r1", InstanceUUID: id, VCenter: "vc"}
	return Machine{VM: plan.VM{MoRef: fmt.Sprintf("vm-%s-%d", uid, ordinal), Name: plan.MemberName("web", ordinal), Power: plan.PoweredOn, Reachable: true, CPU: 2, MemoryMB: 1024, File: fmt.Sprintf("[ds] %s-%d/web.vmx", uid, ordinal)},
		Parent: "web", Readable: true, InstanceUUID: id, StampText: stamp.Encode()}
}

// vouch makes the VMs with a stamp members that this process cloned.
func (n *Inventory) vouch(machines []Machine) {
	for _, m := range machines {
		if has, owner := stamp.Read(m.StampText, m.InstanceUUID, m.Readable); owner == stamp.Ours {
			n.Evidence.Made(has.UID, plan.VMID{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID})
		}
	}
}

func template(moRef, name, parent string) Machine {
	return Machine{VM: plan.VM{MoRef: moRef, Name: name}, Parent: parent, Readable: true, Template: true, InstanceUUID: moRef}
}

func (s *filled) look(recorded ...string) plan.VCenterState {
	return s.State(web, plan.Query{Template: "ubuntu", Recorded: members(recorded...)})
}

// members returns the members of a status that has only their moRefs.
func members(moRefs ...string) []v1alpha1.Member {
	all := make([]v1alpha1.Member, len(moRefs))
	for i, moRef := range moRefs {
		all[i].MoRef = moRef
	}
	return all
}

func TestOnlyAValidStampMakesAMember(t *testing.T) {
	copied := machine("uid-web", 1)
	copied.InstanceUUID = "another"
	garbled := machine("uid-web", 2)
	garbled.StampText = "{"
	bare := machine("uid-web", 3)
	bare.StampText = ""
	newer := machine("uid-web", 4)
	newer.StampText = `{"v":99}`
	s := newFilled()
	s.publish(machine("uid-web", 0), copied, garbled, bare, newer)
	if vms := s.look().VMs; len(vms) != 1 || vms[0].Ordinal != 0 {
		t.Fatalf("members: %+v", vms)
	}
	if n := s.Count().StampsUnknown; n != 1 {
		t.Errorf("%d unknown stamps counted, not 1", n)
	}
	if now := s.look(copied.MoRef, garbled.MoRef, bare.MoRef, newer.MoRef); len(now.Gone) != 3 || now.IsGone(newer.MoRef, "") {
		t.Errorf("gone: %v, not all but the one that only a newer server understands", now.Gone)
	}
}

func TestAMemberThatCannotBeReadIsKeptAsItWasAndNeverGone(t *testing.T) {
	s := newFilled()
	s.publish(machine("uid-web", 0))
	ref := s.look().VMs[0].MoRef
	s.publish(Machine{VM: plan.VM{MoRef: ref, Unreachable: hidden}})
	got := s.look(ref)
	if len(got.VMs) != 1 || got.VMs[0].Reachable || got.VMs[0].Unreachable != hidden || got.VMs[0].CPU != 2 || len(got.Gone) != 0 {
		t.Fatalf("the state is %+v, want the member as it was read before, but hidden", got)
	}
	s.Publish(Reading{VCenter: "vc", Complete: true, Places: somePlaces()}) // absent from a list
	if got = s.look(ref); len(got.VMs) != 1 || len(got.Gone) != 0 {
		t.Fatalf("absent counts as gone: %+v", got)
	}
	s.publish(machine("uid-web", 0))
	if got = s.look(ref); !got.VMs[0].Reachable {
		t.Fatalf("the state is %+v, want the member reachable after it was read again", got)
	}
}

// The account can't see a member (hidden), and its VM is registered again: vCenter gives it another moRef.
func TestAHiddenMemberWhoseInstanceUUIDAnotherVMHasIsThatVM(t *testing.T) {
	s, lost := newFilled(), 0
	s.MissingVMs.OnMissing(func() { lost++ })
	s.publish(machine("uid-web", 0), machine("uid-web", 1))
	former, other, again := machine("uid-web", 0).MoRef, machine("uid-web", 1).MoRef, machine("uid-web", 0)
	s.publish(Machine{VM: plan.VM{MoRef: former, Unreachable: hidden}}, Machine{VM: plan.VM{MoRef: other, Unreachable: hidden}})
	again.MoRef = "vm-again"
	s.publish(again)
	if got := s.look(former, other); len(got.VMs) != 2 || !got.IsGone(former, "") || got.IsGone(other, "") || lost != 0 {
		t.Fatalf("the group has %d VMs, and %+v are gone, %d missing; want vm-again and %s, and %s gone", len(got.VMs), got.Gone, lost, other, former)
	}
	s.publish(Machine{VM: plan.VM{MoRef: former, Unreachable: hidden}}) // the account can't see the VM
	if got := s.look(former); len(got.VMs) != 2 {
		t.Errorf("the group has %d VMs, want 2: %s is none of them any more", len(got.VMs), former)
	}
}

func TestAnUnreadableVMThatWasNeverAMemberIsNotGone(t *testing.T) {
	s := newFilled()
	s.publish(Machine{VM: plan.VM{MoRef: "vm-x", Unreachable: "inaccessible"}})
	if got := s.look("vm-x"); len(got.Gone) != 0 || len(s.asked) != 0 {
		t.Fatalf("%+v, asked %v", got, s.asked)
	}
}

func TestAGroupIsNotifiedOnlyOfItsOwnChanges(t *testing.T) {
	s := newFilled()
	s.look()
	s.publish(machine("uid-web", 0))
	s.publish(machine("uid-web", 0)) // without a change
	s.publish(machine("uid-db", 0))
	s.publish(Machine{VM: plan.VM{MoRef: "vm-x", Name: "x"}, Readable: true, Parent: "vm", InstanceUUID: "x"})
	if want := []types.UID{"uid-web", "uid-db"}; !slices.Equal(s.notified, want) {
		t.Errorf("notified %v, not %v", s.notified, want)
	}
	s.notified = nil
	s.Publish(Reading{VCenter: "vc", Gone: []string{"web"}}) // the group's folder
	if want := []types.UID{"uid-web"}; !slices.Equal(s.notified, want) || s.look().Folder != "" {
		t.Errorf("notified %v, not %v, of the folder", s.notified, want)
	}
	s.notified = nil
	s.publish(template("vm-t", "ubuntu", "vm"))
	if want := []types.UID{""}; !slices.Equal(s.notified, want) {
		t.Errorf("notified %v, not %v, of the template", s.notified, want)
	}
}

func TestEveryFactOfAVMCounts(t *testing.T) {
	v := reflect.ValueOf(&plan.VM{}).Elem()
	for i := range v.NumField() {
		var x plan.VM
		switch f := reflect.ValueOf(&x).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x"}))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Struct:
			switch f.Interface().(type) {
			case time.Time:
				f.Set(reflect.ValueOf(time.Unix(1, 0).UTC()))
			case plan.Moment:
				f.Set(reflect.ValueOf(plan.Moment{Boot: time.Unix(1, 0).UTC()}))
			case plan.Customization:
				f.Set(reflect.ValueOf(plan.Customization{Error: "x"}))
			case plan.Tagged:
				f.Set(reflect.ValueOf(plan.Tagged{MoRef: "x"}))
			case plan.Former:
				f.Set(reflect.ValueOf(plan.Former{Folder: "x"}))
			default:
				t.Fatalf("unknown type %s", f.Type())
			}
		default:
			f.SetInt(1)
		}
		if equalVMs([]plan.VM{x}, []plan.VM{{}}) {
			t.Errorf("a change of %s is not seen", v.Type().Field(i).Name)
		}
	}
}

func TestTwoVMsOfOneOrdinalAreBothShown(t *testing.T) {
	a, b := machine("uid-web", 0), machine("uid-web", 0)
	b.MoRef = "vm-z"
	s := newFilled()
	s.publish(b, a, machine("uid-web", 1))
	var refs []string
	for _, vm := range s.look().VMs {
		refs = append(refs, vm.MoRef)
	}
	if want := []string{"vm-uid-web-0", "vm-z", "vm-uid-web-1"}; !slices.Equal(refs, want) {
		t.Errorf("%v, not %v", refs, want)
	}
}

func TestAnotherVCenterEmptiesTheInventory(t *testing.T) {
	s := newFilled()
	s.publish(machine("uid-web", 0))
	s.Publish(Reading{VCenter: "vc2", Complete: true})
	if got := s.look("vm-uid-web-0"); len(got.VMs) != 0 || len(got.Gone) != 0 || got.VCenter != "vc2" {
		t.Fatalf("the state is %+v, want no VM, none gone, and vc2", got)
	}
}

func TestIdentifyFindsGroupsByTheStampsOfOurCluster(t *testing.T) {
	s := newFilled()
	s.publish(machine("uid-web", 0), machine("uid-db", 0))
	if got := s.Identify("test", "shop", "web"); !slices.Equal(got, []types.UID{"uid-db", "uid-web"}) {
		t.Errorf("the groups are %v, want uid-db and uid-web", got)
	}
	if got := s.Identify("other", "shop", "web"); got != nil {
		t.Errorf("of another cluster: %v", got)
	}
}

func TestTheListOfGoneVMsIsBounded(t *testing.T) {
	var g goneSet[string]
	for i := range 3 * goneMax {
		g.add(fmt.Sprint(i))
	}
	if len(g.refs) != goneMax || !g.has(fmt.Sprint(3*goneMax-1)) || g.has("0") {
		t.Errorf("%d remembered", len(g.refs))
	}
}

var web = plan.Ref{Namespace: "shop", Name: "web", UID: "uid-web"}

// While a process that was just started reads vCenter, the stored status must stay, as in any short outage.
func TestVCenterIsUnknownSinceTheStart(t *testing.T) {
	before := time.Now()
	n := New(nil)
	if since := n.Health().UnknownSince; since.Before(before) || since.After(time.Now()) {
		t.Errorf("unknown since %s", since)
	}
	n.SetKnown()
	if since := n.Health().UnknownSince; !since.IsZero() {
		t.Errorf("known, and unknown since %s", since)
	}
}
