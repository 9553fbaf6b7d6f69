package test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// lifetimes are how long tasks take in a vCenter under a normal load, where a full clone takes between 20 s and a few minutes, and a power-on a
// few seconds.
var lifetimes = vcsim.Latency{Clone: 40 * time.Second, Power: 5 * time.Second, Reconfigure: 2 * time.Second, Other: time.Second}

// bootTime is how long a guest takes until its Tools run.
const bootTime = 30 * time.Second

// otherTemplate is the second template, for lives with updates.
const otherTemplate = "other"

// newChangeRig starts a vCenter with guests and two templates.
func newChangeRig(t *testing.T, guest vcsim.Guest) *rig {
	t.Helper()
	return newRig(t, vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}, Guest: guest})
}

// inChangeRig is inRig for a rig of newChangeRig.
func inChangeRig(t *testing.T, guest vcsim.Guest, test func(*testing.T, *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newChangeRig(t, guest)) })
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func number(n int) *intstr.IntOrString {
	v := intstr.FromInt(n)
	return &v
}

func seconds(n int32) *int32 { return &n }

// members returns the VMs that have a stamp and are not in quarantine.
func (r *rig) members() []vcsim.VM {
	return slices.DeleteFunc(r.VMs(), func(vm vcsim.VM) bool {
		stamp, err := stamp.Decode(vm.ExtraConfig[stamp.Key])
		return err != nil || vm.Template || !stamp.Quarantined.IsZero()
	})
}

// unselectedWrong begins the errors about a wrong answer to a finalize of a group that isn't being deleted.
const unselectedWrong = "a group that is not selected"

// checkUnselected checks the answer to a finalize of a group that isn't being deleted (Group.Unselect): it is finalized only if vCenter has
// no VM of the group.
func (r *rig) checkUnselected(g *metacontroller.Group, finalized bool, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", unselectedWrong, err)
	}
	for _, vm := range r.VMs() {
		if stamp, err := stamp.Decode(vm.ExtraConfig[stamp.Key]); finalized && err == nil && stamp.Owned(g.UID, vm.InstanceUUID) && !isStray(vm) {
			r.t.Errorf("%s is finalized, and has %s (%s)", unselectedWrong, vm.Path, vm.Ref.Value)
		}
	}
}

// refs returns the moRefs of VMs, by name.
func refs(vms []vcsim.VM) map[string]string {
	all := map[string]string{}
	for _, vm := range vms {
		all[vm.Name] = vm.Ref.Value
	}
	return all
}

// sameVMs checks that the members are still the same VMs.
func (r *rig) sameVMs(was map[string]string) {
	r.t.Helper()
	if is := refs(r.members()); fmt.Sprint(is) != fmt.Sprint(was) {
		r.t.Errorf("members: %v, want %v as before", is, was)
	}
}

// tally counts VMs.
func tally(vms []vcsim.VM, of func(vcsim.VM) bool) (n int) {
	for _, vm := range vms {
		if of(vm) {
			n++
		}
	}
	return n
}

func isOn(vm vcsim.VM) bool     { return vm.Power == types.VirtualMachinePowerStatePoweredOn }
func hasTools(vm vcsim.VM) bool { return isOn(vm) && vm.Tools }

// isOfOther reports whether a VM is a member that was cloned from the other template.
func isOfOther(vm vcsim.VM) bool {
	stamp, err := stamp.Decode(vm.ExtraConfig[stamp.Key])
	return err == nil && stamp.Revision == plan.Revision(&v1alpha1.VmGroupSpec{Template: otherTemplate})
}

// extremes are the minimum and the maximum of a count.
type extremes struct{ least, most, looks int }

// sample calls count whenever vCenter changes, until the caller calls stop, which returns the smallest and the largest count.
func (r *rig) sample(count func() int) (stop func() extremes) {
	seen := extremes{least: 1 << 30}
	end := r.onChange(func() {
		n := count()
		seen.least, seen.most, seen.looks = min(seen.least, n), max(seen.most, n), seen.looks+1
	})
	r.t.Cleanup(end)
	return func() extremes {
		end()
		r.t.Logf("%+v", seen)
		return seen
	}
}

// onChange calls look immediately, after each change in vCenter, and once more at the end.
func (r *rig) onChange(look func()) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for over := false; !over; {
			next := r.Changed()
			look()
			select {
			case <-next:
			case <-stop:
				look()
				over = true
			}
		}
	}()
	return sync.OnceFunc(func() { close(stop); <-done })
}

// until syncs a group until the answer is as expected.
func until(t testing.TB, g *metacontroller.Group, what string, holds func(metacontroller.Answer) bool) metacontroller.Answer {
	t.Helper()
	a, err := g.Until(within(t), holds)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return a
}

// steady syncs a group for a while, during which it must stay RUNNING and cause none of these calls.
func (r *rig) steady(g *metacontroller.Group, during time.Duration, methods ...string) {
	r.t.Helper()
	before := r.Calls()
	for began := time.Now(); time.Since(began) < during; {
		a, err := g.Sync(within(r.t))
		if err != nil || a.Status.Phase != v1alpha1.PhaseRunning {
			r.t.Fatalf("%v, %s: %s; want no error and %s", err, a.Status.Phase, a.Status.LastMessage, v1alpha1.PhaseRunning)
		}
		time.Sleep(5 * time.Second)
	}
	for after, methods := r.Calls(), methods; len(methods) > 0; methods = methods[1:] {
		if n := after[methods[0]] - before[methods[0]]; n > 0 {
			r.t.Errorf("%d calls of %s; want none", n, methods[0])
		}
	}
}
