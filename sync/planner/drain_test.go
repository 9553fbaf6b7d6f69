package planner_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// leaving is a group of two that is scaled to 1: web-1 is marked, and the EndpointSlices still show its endpoints as ready.
func leaving(t *testing.T, drain int32) plan.Observed {
	o := served(2, v1alpha1.Service{Ports: web, DrainSeconds: drain})
	o.Group.Spec.ScaleIn = v1alpha1.ScaleIn{}
	r := planner.Make(o)
	apply(t, &o, &r)
	*o.Group.Spec.Replicas = 1
	o.State.VMs[1].Marked, o.State.VMs[1].MarkReason, o.State.VMs[1].MarkedAt = true, plan.MarkReasonScaleIn, o.Now
	return o
}

// calls calls the sync hook once after a pause, applies the answer like Metacontroller, and reports whether web-1 is taken down.
func calls(t *testing.T, o *plan.Observed, pause time.Duration) (takenDown bool) {
	o.Now = o.Now.Add(pause)
	o.Called = o.Now
	r := planner.Make(*o)
	apply(t, o, &r)
	return r.Wants("web-1", plan.PowerOff) || r.Wants("web-1", plan.ShutdownGuest)
}

func TestADrainContinuesAfterARestartAndWithAnotherReplica(t *testing.T) {
	t.Parallel()
	o := leaving(t, 60)
	calls(t, &o, time.Second)
	calls(t, &o, time.Second)
	record := objectOf(t, &o, sliceKey)
	if !strings.Contains(record, v1alpha1.AnnotationTerminatingSince) {
		t.Fatalf("nothing is recorded: %s", record)
	}
	seen := o.Now
	o.ChildrenWantedSince, o.FolderSeen, o.NewestStamp = nil, time.Time{}, 0 // nothing is remembered between calls
	for o.Now.Sub(seen) < 58*time.Second {
		if calls(t, &o, time.Second) {
			t.Fatalf("taken down after %s", o.Now.Sub(seen))
		}
		if is := objectOf(t, &o, sliceKey); is != record {
			t.Fatalf("the slice was written again: %s", is)
		}
	}
	if !calls(t, &o, 3*time.Second) {
		t.Error("not taken down when its time is over")
	}
}

func objectOf(t *testing.T, o *plan.Observed, key plan.ChildKey) string {
	r := planner.Make(*o)
	return objects(t, &r)[key]
}

func TestAnEndpointThatIsNotShownDelaysNoRemoval(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*plan.Observed){
		"no address": func(o *plan.Observed) { o.State.VMs[1].IPs = nil },
		"a foreign object has the Service's name": func(o *plan.Observed) {
			o.Children = nil
			o.ChildrenWantedSince = map[plan.ChildKey]time.Time{serviceKey: o.Now}
		},
		"a foreign object has the slices' names": func(o *plan.Observed) {
			six := plan.ChildKey{Kind: plan.KindEndpointSlice, Name: "web-ipv6-0"}
			delete(o.Children, sliceKey)
			delete(o.Children, six)
			o.ChildrenWantedSince = map[plan.ChildKey]time.Time{sliceKey: o.Now, six: o.Now}
		},
	} {
		o := leaving(t, 40)
		change(&o)
		o.Now = o.Now.Add(40 * time.Second)
		if r := planner.Make(o); r.Wants("web-1", plan.PowerOff) {
			t.Errorf("%s: taken down when the mark may be less than 40 s old", name)
		}
		o.Now = o.Now.Add(time.Second)
		if r := planner.Make(o); !r.Wants("web-1", plan.PowerOff) {
			t.Errorf("%s: it does %+v", name, r.Actions)
		}
	}
}

// A ready member in an EndpointSlice is taken down only when the slice has recorded it as terminating for drainSeconds.
func TestAPublishedMemberIsTakenDownOnlyAfterItsSliceRecordsTheDrain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyServed(t)
		r := planner.Make(o)
		apply(t, &o, &r)
		for key, child := range o.Children {
			for name, e := range child.Endpoints {
				e.Terminating = rapid.Bool().Draw(t, "terminating")
				if rapid.Bool().Draw(t, "recorded") {
					e.Since = o.Now.Add(time.Duration(rapid.IntRange(-90, 90).Draw(t, "since")) * time.Second)
				}
				child.Endpoints[name] = e
			}
			o.Children[key] = child
		}
		drain := time.Duration(o.Group.Spec.Service.DrainSeconds) * time.Second
		for _, a := range planner.Make(o).Actions {
			m := find(&o, a.MoRef)
			if drain == 0 || a.Op != plan.ShutdownGuest && a.Op != plan.PowerOff || !m.Quarantined.IsZero() || !ready(&o, m) || halting(&o, m) ||
				o.Group.Spec.Deletion.Policy == v1alpha1.DeletionRetain || len(o.Group.Validate()) > 0 {
				continue
			}
			for key, child := range o.Children {
				if e, is := child.Endpoints[a.Key]; is && (!e.Terminating || o.Now.Sub(e.Since) < drain) {
					t.Fatalf("%s of %s, of which %s shows %+v", a.Op, a.Key, key, e)
				}
			}
		}
	})
}
