package vsphere

import (
	"fmt"
	"strings"
	"testing"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const legacy = "/DC0/vm/legacy"

// startAdopting starts a server that allows the namespace shop to adopt VMs in the folder legacy.
func (w *world) startAdopting() *process {
	w.t.Helper()
	if _, err := w.MakeFolder(legacy); err != nil {
		w.t.Fatal(err)
	}
	cfg := w.config()
	cfg.AdoptFrom = []inventory.AdoptRule{{Namespace: "shop", Folder: legacy}}
	v, err := New(cfg)
	w.must(err)
	return w.run(v)
}

// offered is a VM in the folder legacy that can be adopted.
func (p *process) offered(name string) vim.ManagedObjectReference {
	p.t.Helper()
	ref, err := p.world.AddVM(legacy, name)
	p.world.must(err)
	p.until("the VM can be adopted", func() bool { return p.candidate(ref.Value).Fault == nil })
	return ref
}

// candidate waits until an entry was read, and returns its candidate.
func (p *process) candidate(entry string) plan.Candidate {
	p.t.Helper()
	var c plan.Candidate
	p.until(entry+" is read", func() bool {
		s := p.State(web, plan.Query{Template: "ubuntu", Adopt: []string{entry}})
		if !s.Known || len(s.Candidates) != 1 {
			return false
		}
		c = s.Candidates[0]
		return c.Fault == nil || c.Fault.Reason != vcfault.ReasonAdoptReading
	})
	return c
}

func taking(c plan.Candidate, ordinal int32) plan.Action {
	return plan.Action{Op: plan.Adopt, Key: plan.MemberName("web", ordinal), Ordinal: ordinal, MoRef: c.MoRef, ChangeVersion: c.ChangeVersion,
		Args: plan.AdoptArgs{Entry: c.Entry, Revision: "r1", Fingerprint: "0123456789"}, Generation: 3}
}

func TestAnAdoptedVMIsAMemberAndItsStampSaysWhatItWas(t *testing.T) {
	inABubbleOf(t, (*world).startAdopting, func(t *testing.T, w *world, p *process) {
		ref, err := w.AddVM(legacy, "db-a")
		w.must(err)
		w.must(w.PowerOn("db-a"))
		p.do(plan.Action{Op: plan.CreateFolder})
		entry := legacy + "/db-a"
		p.until("the VM can be adopted", func() bool { return p.candidate(entry).Fault == nil })
		c := p.candidate(entry)
		if c.MoRef != ref.Value || c.Name != "db-a" || c.Ordinal != -1 || c.ChangeVersion == "" || c.Folder == "" || c.Done {
			t.Fatalf("got the candidate %+v; want db-a, unadopted and without an ordinal", c)
		}
		p.do(taking(c, 2))
		p.do(taking(c, 2)) // the VM is already adopted: success
		vm := p.vm(ref.Value)
		if vm.Ordinal != 2 || vm.Revision != "r1" || vm.Generation != 3 || vm.Fingerprint != "0123456789" || vm.Created.IsZero() ||
			vm.Power != plan.PoweredOn || vm.Former != (plan.Former{Entry: entry, Name: "db-a", Folder: c.Folder}) || vm.VCenter != p.state().VCenter {
			t.Errorf("got the member %+v; want the ordinal, revision and generation of the adoption, and the former name and folder", vm)
		}
		if s, err := stamp.Decode(w.stampOf("db-a")); err != nil || !disks.Identified(s.Disks) || disks.Count(s.Disks) != 1 {
			t.Errorf("got the stamp %+v and the error %v; want the uuid of the VM's disk in it", s, err)
		}
		p.do(moving(vm, p.state().Folder))
		p.do(renaming(vm, "web-2"))
		for _, name := range []string{entry, ref.Value} { // no VM is at the path any more
			if c := p.candidate(name); !c.Done || c.Fault != nil || c.MoRef != ref.Value || c.Ordinal != 2 {
				t.Errorf("%s: got the candidate %+v; want %s adopted, with the ordinal 2", name, c, ref.Value)
			}
		}
		if n := p.inventory.Count().Candidates; n != 0 {
			t.Errorf("the inventory keeps details of %d candidates; want none, because the VM is a member", n)
		}
	})
}

func TestOfTwoServersThatAdoptAVMOneSucceeds(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		one, two := w.startAdopting(), w.startAdopting()
		ref, err := w.AddVM(legacy, "db-a")
		w.must(err)
		for _, p := range []*process{one, two} {
			p.until("the VM can be adopted", func() bool { return p.candidate(ref.Value).Fault == nil })
		}
		a, b := taking(one.candidate(ref.Value), 0), taking(two.candidate(ref.Value), 1)
		one.do(a)
		two.do(b) // the VM is already the group's, with another ordinal, which the next plan corrects
		if vm := two.vm(ref.Value); vm.Ordinal != 0 {
			t.Errorf("got the member %+v; want ordinal 0", vm)
		}
	})
}

func TestAnAdoptionChecksAgainAllThatItWasPlannedFrom(t *testing.T) {
	inABubbleOf(t, (*world).startAdopting, func(t *testing.T, w *world, p *process) {
		for i, c := range []struct {
			what   string
			change func(name string)
			reason string
		}{
			{"changed", func(name string) { w.must(w.SetExtraConfig(name, "x", "y")) }, vcfault.ReasonConcurrentAccess},
			{"moved out", func(name string) { w.must(w.Move(name, "/DC0/vm")) }, vcfault.ReasonAdoptNotFound},
			{"made a template", func(name string) { w.must(w.ToTemplate(name)) }, vcfault.ReasonAdoptTemplate},
			{"another group's", func(name string) { w.must(w.SetExtraConfig(name, stamp.Key, foreignStamp(w, name))) }, vcfault.ReasonAdoptStamped},
			{"gone", func(name string) { w.must(w.Destroy(name)) }, vcfault.ReasonAdoptNotFound},
		} {
			name := fmt.Sprint("db-", i)
			ref, err := w.AddVM(legacy, name)
			w.must(err)
			p.until("the VM can be adopted", func() bool { return p.candidate(ref.Value).Fault == nil })
			a := taking(p.candidate(ref.Value), 0)
			c.change(name)
			if f := p.fault(a); f.Reason != c.reason {
				t.Errorf("%s after the plan: got the fault %+v; want %s", c.what, f, c.reason)
			}
			if len(p.state().VMs) != 0 {
				t.Fatalf("%s after the plan: the VM was adopted all the same: %+v", c.what, p.state().VMs)
			}
		}
		if n := w.Calls()["ReconfigVM_Task"]; n != 0 {
			t.Errorf("the refused adoptions reconfigured %d VMs; want none", n)
		}
		f := p.fault(taking(plan.Candidate{Entry: "/DC0/vm/unmanaged", MoRef: w.Unmanaged.Value}, 0))
		if f.Reason != vcfault.ReasonAdoptNotFound || !f.NeedsOperator || !strings.Contains(f.Message, "can be adopted") {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q", f, vcfault.ReasonAdoptNotFound, "can be adopted")
		}
	})
}

// foreignStamp is a valid stamp of another group, for that VM.
func foreignStamp(w *world, name string) string {
	return stamp.Stamp{Cluster: "test", Namespace: "shop", Name: "db", UID: "uid-db", InstanceUUID: w.Look(name).InstanceUUID}.Encode()
}

func TestARetryMakesUpForALostReplyToAnAdoption(t *testing.T) {
	inABubbleOf(t, (*world).startAdopting, func(t *testing.T, w *world, p *process) {
		ref := p.offered("db-a")
		a := taking(p.candidate(ref.Value), 0)
		w.LoseReply("ReconfigVM_Task", 1)
		if f := p.fault(a); f.Reason != vcfault.ReasonVCenterUnreachable {
			t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonVCenterUnreachable)
		}
		p.until("the VM is a member", func() bool { return p.state().Known && p.vm(ref.Value).MoRef != "" })
		p.do(a)
		if n := w.Calls()["ReconfigVM_Task"]; n != 1 {
			t.Errorf("the adoption and its repetition reconfigured the VM %d times; want once", n)
		}
	})
}

func TestASettledGroupThatAdoptedAsksForNothing(t *testing.T) {
	inABubbleOf(t, (*world).startAdopting, func(t *testing.T, w *world, p *process) {
		p.do(plan.Action{Op: plan.CreateFolder})
		ask := plan.Query{Template: "ubuntu"}
		for ordinal := range int32(3) {
			name := fmt.Sprint("db-", ordinal)
			ref, err := w.AddVM(legacy, name)
			w.must(err)
			entry := []string{legacy + "/" + name, ref.Value, "legacy/" + name}[ordinal]
			p.until("the VM can be adopted", func() bool { return p.candidate(entry).Fault == nil })
			p.do(taking(p.candidate(entry), ordinal))
			vm := p.vm(ref.Value)
			p.do(moving(vm, p.state().Folder))
			p.do(renaming(vm, plan.MemberName("web", ordinal)))
			ask.Adopt, ask.Recorded = append(ask.Adopt, entry), append(ask.Recorded, v1alpha1.Member{MoRef: ref.Value})
		}
		time.Sleep(time.Minute) // until all reads have ended
		before := w.Calls()["RetrievePropertiesEx"]
		for range 1000 {
			s := p.State(web, ask)
			for i, c := range s.Candidates {
				if !c.Done || c.Fault != nil || c.MoRef != ask.Recorded[i].MoRef || c.Ordinal != int32(i) {
					t.Fatalf("got the candidate %+v with the fault %+v; want %s, adopted with the ordinal %d, without a fault", c, c.Fault, ask.Recorded[i].MoRef, i)
				}
			}
			if len(s.VMs) != 3 || len(s.Gone) != 0 {
				t.Fatalf("got the state %+v; want three VMs, and none gone", s)
			}
		}
		time.Sleep(time.Minute)
		if reads, n := w.Calls()["RetrievePropertiesEx"]-before, p.inventory.Count().Candidates; reads != 0 || n != 0 {
			t.Errorf("%d reads were asked for; more is kept of %d VMs; want 0 and 0", reads, n)
		}
	})
}

func TestAFormerIncarnationsVMIsAdoptedUnderItsOrdinal(t *testing.T) {
	inABubbleOf(t, (*world).startAdopting, func(t *testing.T, w *world, p *process) {
		vm := p.member(4)
		w.must(w.Move("web-4", legacy))
		reborn := plan.Ref{Namespace: web.Namespace, Name: web.Name, UID: "uid-reborn"}
		ask := plan.Query{Adopt: []string{vm.MoRef}}
		var c plan.Candidate
		p.until("the new group can adopt the VM", func() bool { c = p.State(reborn, ask).Candidates[0]; return c.Fault == nil })
		if c.Ordinal != 4 || c.Done || c.ChangeVersion == "" {
			t.Fatalf("got the candidate %+v; want ordinal 4, not adopted", c)
		}
		must.Succeed(t, p.Do(t.Context(), reborn, taking(c, 4)))
		s := p.State(reborn, ask)
		if len(s.VMs) != 1 || s.VMs[0].Ordinal != 4 || !s.Candidates[0].Done || len(p.state().VMs) != 0 {
			t.Errorf("the new group has %+v, and the former one %+v; want the adopted ordinal 4, and no member", s, p.state().VMs)
		}
	})
}

func TestANameConflictNamesTheClusterInTheVMsStamp(t *testing.T) {
	t.Parallel()
	const folder = "/DC0/vm/vm-operator/shop/web"
	for _, c := range []struct{ ours, its, want string }{
		{"prod", "prod", "a VM of a former shop/web (UID uid-was). To adopt the VM, list its path in spec.adopt, and start the server with --adopt-from shop=" + folder + ". "},
		{"", "", "a VM of a former shop/web, or of one in another cluster (UID uid-was). To adopt the VM, remove the key " + stamp.Key + " from its configuration, list its path"},
		{"prod", "test", `a VM of shop/web in the cluster "test" (UID uid-was): give each cluster a --folder of its own, or rename, move or remove the VM.`},
	} {
		err := errFormerMember(plan.Ref{Namespace: "shop", Name: "web", UID: "uid-is"}, c.ours, &stamp.Stamp{Cluster: c.its, UID: "uid-was"}, folder+"/web-0")
		if f := vcfault.Classify("", err); f.Reason != plan.ReasonNameConflict || !f.NeedsOperator || !strings.HasPrefix(f.Message, "The name is taken in "+folder+" by "+c.want) {
			t.Errorf("for the cluster %q, and a holder of %q: got the fault %+v; want %s, for an operator, with %q", c.ours, c.its, f.Fault, plan.ReasonNameConflict, c.want)
		}
	}
}
