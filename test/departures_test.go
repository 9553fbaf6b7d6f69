package test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const quarantine = web + "/quarantine"

func TestAGuestThatDoesNotShutDownInTimeIsPoweredOff(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		r.Behave(func(b *vcsim.Behavior) { b.HangShutdown = func(vm vcsim.VM) bool { return vm.Name == "web-1" } })
		g := r.serve().group("web", 2)
		g.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
		g.Spec.Deletion.ShutdownTimeoutSeconds = seconds(60)
		up(t, g)
		began := time.Now()
		remove(t, g)
		if took := time.Since(began); took < time.Minute {
			t.Errorf("the guest got %s to shut down, want at least 1m0s", took)
		}
		if calls := r.Calls(); calls["ShutdownGuest"] != 2 || calls["PowerOffVM_Task"] != 1 {
			t.Errorf("%d guests were asked, %d VMs powered off; want 2 and 1", calls["ShutdownGuest"], calls["PowerOffVM_Task"])
		}
	})
}

func TestRetainedVMsKeepRunningAndAreUnmanaged(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		r.must(r.RegisterExtension("com.vmworld.codeconnect.vmgroup"))
		g := r.serve().group("web", 3)
		g.Spec.Deletion.Policy = v1alpha1.DeletionRetain
		up(t, g)
		was := r.members()
		remove(t, g)
		equal(t, r.names(web), running(3))
		if d := r.details(webFolder + "web-0"); !strings.Contains(d.Config.Annotation, "Formerly") || d.Config.ManagedBy != nil && d.Config.ManagedBy.ExtensionKey != "" {
			t.Errorf("web-0 has the notes %q, and is managed by %+v", d.Config.Annotation, d.Config.ManagedBy)
		}
		for _, before := range was {
			for _, vm := range r.VMs() {
				if vm.Ref == before.Ref && (vm.ExtraConfig[stamp.Key] != "" || !vm.Boot.Equal(before.Boot)) {
					t.Errorf("a retained VM has a stamp or was restarted: %+v", vm)
				}
			}
		}
	})
}

func TestARetainedMemberIsNotRecreatedByAReplicaUnawareOfTheDeletion(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		one, two := r.serve(), r.serve()
		g := one.group("web", 2)
		g.Spec.Deletion.Policy, g.Spec.ScaleIn.Remove = v1alpha1.DeletionRetain, []string{"web-0"}
		up(t, g)
		g.Scale(1) // removes web-0, so that a replica could clone a new web-0
		for _, s := range []*serverReplica{one, two, one} {
			upAt(t, g, s.url)
		}
		remove(t, g)
		equal(t, r.names(web), []string{"web-1+"})
		if n := r.Calls()["CloneVM_Task"]; n != 2 {
			t.Errorf("%d clones, want 2", n)
		}
	})
}

// A PowerOn of another replica can be delayed, and then power on a VM that is already in quarantine, as an operator could.
func TestAVMThatComesOnRightAfterItWentIntoQuarantineIsPoweredOff(t *testing.T) {
	inChangeRig(t, vcsim.Guest{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		g.Spec.Deletion.QuarantineSeconds = 3600
		up(t, g)
		g.Scale(1)
		until(t, g, "web-1 is in quarantine", func(a metacontroller.Answer) bool { return metacontroller.Running(a) && len(r.names(quarantine)) == 1 })
		kept := quarantine + "/" + r.names(quarantine)[0]
		runs := func() bool {
			return slices.ContainsFunc(r.VMs(), func(vm vcsim.VM) bool { return vm.Path == kept && isOn(vm) })
		}
		r.must(r.PowerOn(kept))
		until(t, g, "the VM that was kept is off", func(metacontroller.Answer) bool { return !runs() })

		time.Sleep(5 * time.Minute)
		r.must(r.PowerOn(kept))
		time.Sleep(10 * time.Minute)
		up(t, g)
		if !runs() {
			t.Error("the VM that an operator powered on after the quarantine began is off")
		}
	})
}

func TestAPausedGroupStaysAsItIsAndPlanShowsWhatWouldBeDone(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		g.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
		up(t, g)
		g.Edit(func(s *spec) { s.Paused, s.Template = true, otherTemplate })
		g.Scale(3)
		r.must(r.Destroy(web + "/web-1"))
		a := until(t, g, "the operator's change is observed", func(a metacontroller.Answer) bool { return a.Status.CurrentReplicas == 1 })
		if a.Status.Phase != v1alpha1.PhasePending || condition(a, v1alpha1.ConditionPaused).Status != "True" {
			t.Errorf("the phase is not PENDING, or Paused is not True: %+v", a.Status)
		}
		before := r.Calls()
		_, steps := planOf(t, g)
		for _, want := range []string{"Clone web-1", "Clone web-2", "ShutdownGuest web-0", "Destroy web-0"} {
			if !strings.Contains(steps, want) {
				t.Errorf("/plan lacks %s:\n%s", want, steps)
			}
		}
		for began := time.Now(); time.Since(began) < 5*time.Minute; time.Sleep(5 * time.Second) {
			if a, err := g.Sync(within(t)); err != nil || a.Status.Phase != v1alpha1.PhasePending {
				t.Fatalf("%v, %+v", err, a.Status)
			}
		}
		equal(t, r.names(web), []string{"web-0+"})
		for method, n := range r.Calls() {
			if strings.HasSuffix(method, "_Task") && n > before[method] || method == "ShutdownGuest" {
				t.Errorf("%s was called", method)
			}
		}
		g.Edit(func(s *spec) { s.Paused = false })
		up(t, g)
		if n := tally(r.members(), isOfOther); n != 3 || len(r.members()) != 3 {
			t.Errorf("%d new members: %v", n, refs(r.members()))
		}
	})
}

// planOf returns a group's phase, and the steps of its plan: "PowerOn web-1", one step a line. The stored status doesn't change.
func planOf(t *testing.T, g *metacontroller.Group) (message, steps string) {
	t.Helper()
	body, err := g.Body(false)
	must.Succeed(t, err)
	response, err := g.Client.Post(g.URL+"/plan", "application/json", bytes.NewReader(body))
	must.Succeed(t, err)
	defer response.Body.Close() //nolint:errcheck // closing a body that was read can't lose data
	var answer struct {
		Message string
		Steps   []struct{ Op, VM string }
	}
	must.Succeed(t, json.NewDecoder(response.Body).Decode(&answer))
	var lines []string
	for _, s := range answer.Steps {
		lines = append(lines, s.Op+" "+s.VM)
	}
	return answer.Message, strings.Join(lines, "\n")
}
