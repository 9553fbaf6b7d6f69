package test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const web = "/DC0/vm/vm-operator/default/web"

func TestAGroupComesUpScalesAndIsRemovedCompletely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTLSRig(t, vcsim.Config{})
		g := r.serve().group("web", 3)

		a := up(t, g)
		equal(t, r.names(web), running(3))
		if a.Status.CurrentReplicas != 3 || a.Status.ReadyReplicas != 3 || a.Status.LastMessage != "successfully reconciled VmGroup" {
			t.Errorf("status %+v", a.Status)
		}
		var members []struct {
			Name  string
			Ready bool
		}
		var child struct{ Data map[string]string }
		must.Succeed(t, json.Unmarshal(g.Children["ConfigMap.v1"]["web-members"], &child))
		if err := json.Unmarshal([]byte(child.Data["members.json"]), &members); err != nil || len(members) != 3 || !members[2].Ready {
			t.Errorf("the ConfigMap doesn't list three members of which the last is ready: %v: %s", err, child.Data)
		}

		for _, n := range []int32{5, 2, 0, 1} {
			g.Scale(n)
			up(t, g)
			equal(t, r.names(web), running(int(n)))
		}
		remove(t, g)
		if f, err := r.find.Folder(context.Background(), web); err == nil {
			t.Errorf("the folder %s is left behind", f.InventoryPath)
		}
		if r.vm("vm-operator-template") == nil {
			t.Error("the template is gone")
		}
	})
}

func TestASettledGroupIsSilent(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 10)
		up(t, g)
		if _, err := g.Sync(within(t)); err != nil { // each call sends the status that the last answer had
			t.Fatal(err)
		}
		calls := func() (n int) {
			for method, count := range r.Calls() {
				switch method {
				case "WaitForUpdatesEx", "CancelWaitForUpdates":
				case "DestroyPropertyCollector", "DestroyView": // the server releases the collector that awaits tasks after half a minute without tasks
				default:
					n += count
				}
			}
			return n
		}
		// The server soon reads the objects that it still has to read after the bring-up. Then it makes no calls.
		last, since := calls(), time.Now()
		eventually(t, patience, "no calls for a second", func() bool {
			if now := calls(); now != last {
				last, since = now, time.Now()
			}
			return time.Since(since) > 10*time.Second
		})
		writes, before := g.Writes, calls()
		for range 300 {
			if _, err := g.Sync(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		if n := calls() - before; n > 0 || g.Writes != writes {
			t.Errorf("300 calls for a settled group caused %d vCenter calls and %d status writes", n, g.Writes-writes)
		}
	})
}

func TestMembersThatAnOperatorBreaksAreHealedWithoutAHookCall(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 3)
		up(t, g)
		ctx := context.Background()
		settled := func() bool { return strings.Join(r.names(web), " ") == strings.Join(running(3), " ") }

		r.task(r.vm(web + "/web-1").PowerOff(ctx))
		t.Logf("powered on again after %s", eventually(t, patience, "web-1 is on again", settled))

		r.must(r.Destroy(web + "/web-2"))
		t.Logf("recreated after %s", eventually(t, patience, "web-2 exists again", settled))
		up(t, g)
	})
}

func TestAMovedAndRenamedMemberStaysAMemberAndGetsNoSecondVM(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		up(t, g)
		ctx := context.Background()
		folder, err := r.find.Folder(ctx, "/DC0/vm")
		must.Succeed(t, err)
		vm := r.vm(web + "/web-0")
		r.task(folder.MoveInto(ctx, []types.ManagedObjectReference{vm.Reference()}))
		r.task(vm.Rename(ctx, "precious"))
		if _, err := g.Until(within(t), func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && a.Status.Members[0].VMName == "precious"
		}); err != nil {
			t.Fatal(err)
		}
		g.Scale(3)
		up(t, g)
		equal(t, r.names(web), []string{"web-1+", "web-2+"})
		remove(t, g)
		if r.vm("/DC0/vm/precious") != nil {
			t.Error("the moved member outlived its group")
		}
	})
}

func TestUnmanagedVMsAreLeftAlone(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		s := r.serve()
		g := s.group("web", 1)
		up(t, g)
		r.unmanaged(web, "web-1")
		r.unmanaged(web, "web-9")
		g.Scale(3)
		a, err := g.Until(within(t), func(a metacontroller.Answer) bool {
			return a.Status.Phase == v1alpha1.PhaseError && a.Status.CurrentReplicas == 2
		})
		must.Succeed(t, err)
		if !strings.Contains(a.Status.LastMessage, web+"/web-1") {
			t.Errorf("the message does not name the unmanaged VM: %s", a.Status.LastMessage)
		}
		g.Scale(0)
		up(t, g)
		equal(t, r.names(web), []string{"web-1", "web-9"})
		remove(t, g)
		equal(t, r.names(web), []string{"web-1", "web-9"})
	})
}

func TestTwoReplicasMakeOneMemberPerOrdinal(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		one, two := r.serve(), r.serve()
		a := one.group("web", 8)
		b := two.groupOf(a.Namespace, a.Name, string(a.UID), 8)
		done := make(chan error, 2)
		for _, g := range []*metacontroller.Group{a, b} {
			go func() { _, err := g.Until(within(t), metacontroller.Running); done <- err }()
		}
		for range 2 {
			must.Succeed(t, <-done)
		}
		equal(t, r.names(web), running(8))

		a.Scale(3)
		b.Scale(3)
		for _, g := range []*metacontroller.Group{a, b} {
			go func() { _, err := g.Until(within(t), metacontroller.Running); done <- err }()
		}
		for range 2 {
			must.Succeed(t, <-done)
		}
		equal(t, r.names(web), running(3))
		remove(t, a)
		if got := r.names(web); len(got) > 0 {
			t.Errorf("the VMs %v are left; want none", got)
		}
	})
}

func TestACloneInProgressWhenTheGroupIsDeletedIsNotLeftBehind(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		for _, restart := range []bool{false, true} {
			s := r.serve()
			g := s.group("web", 4)
			before := r.Calls()["CloneVM_Task"]
			if _, err := g.Until(within(t), func(metacontroller.Answer) bool { return r.Calls()["CloneVM_Task"] >= before+4 }); err != nil {
				t.Fatal(err)
			}
			if restart { // the server that started the clones has stopped, and the next server doesn't know of the clones
				s.stop()
				g.URL = r.serve().url
			}
			remove(t, g)
			if n := r.runningTasks(); n > 0 { // in the simulator such clones fail, because their folder is gone; if the folder were kept, they would create VMs
				t.Errorf("restart %v: finalized while %d tasks are running; want none", restart, n)
			}
			time.Sleep(time.Minute) // longer than a clone takes, so that a clone that was left running has created its VM
			for _, place := range []string{web, "/DC0/vm"} {
				for _, name := range r.names(place) {
					if strings.HasPrefix(name, "web-") {
						t.Errorf("restart %v: %s/%s is left behind", restart, place, name)
					}
				}
			}
		}
	})
}
