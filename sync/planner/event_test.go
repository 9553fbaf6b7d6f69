package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestNotesThatDifferOnlyInTheMemberAreOneEvent(t *testing.T) {
	var notes []plan.Event
	for i, member := range []string{"web-10", "web-9", "web-9", "db"} {
		n, worth := (&plan.Action{Op: plan.Destroy, Key: member, MoRef: fmt.Sprint("vm-", i), Reason: "scale-in"}).Event(now.Add(time.Duration(i) * time.Second))
		if !worth {
			t.Fatal("a removal is no Event")
		}
		notes = append(notes, n)
	}
	notes[3].Why = "healing"
	together, left := plan.Together(notes)
	if len(together) != 3 || len(left) != 1 || left[0].Why != "healing" {
		t.Fatalf("%+v and %+v", together, left)
	}
	ref := plan.Ref{Namespace: "shop", Name: "web", UID: "u"}
	e := plan.EventOf(ref, together)
	f := e.Fields.(plan.EventFields)
	if f.Message != "Removed web-9 (vm-1), web-9 (vm-2), web-10 (vm-0): scale-in" || f.Count != 3 || f.Reason != "MemberRemoved" || f.Type != "Normal" ||
		!f.FirstTimestamp.Time.Equal(now) || !f.LastTimestamp.Time.Equal(now.Add(2*time.Second)) {
		t.Errorf("the Event doesn't report three removals together: %+v", f)
	}
	together[0], together[2] = together[2], together[0]
	if again := plan.EventOf(ref, together); again.Key != e.Key || !strings.HasPrefix(e.Key.Name, "web.") || e.Key.Kind != plan.KindEvent {
		t.Errorf("%+v, and in another order %+v", e.Key, again.Key)
	}
	ref.UID = "v"
	if other := plan.EventOf(ref, together); other.Key == e.Key {
		t.Error("a group applied again under that name has the Event of the former one")
	}
}

func TestTheAPIServerAcceptsTheMessageOfAnEvent(t *testing.T) {
	long := plan.Event{Reason: "TemplateNotFound", What: strings.Repeat("ü", 600) + "\n", At: now}
	for shift := range 3 {
		long.What = strings.Repeat("x", shift) + long.What
		m := plan.EventOf(plan.Ref{}, []plan.Event{long}).Fields.(plan.EventFields).Message
		if len(m) > 1024 || len(m) < 1020 || !utf8.ValidString(m) || !strings.HasSuffix(m, "…") {
			t.Errorf("%d bytes: %q", len(m), m)
		}
	}
	if m := plan.EventOf(plan.Ref{}, []plan.Event{{What: "a\x1b[2J"}}).Fields.(plan.EventFields).Message; m != `a\x1b[2J` {
		t.Errorf("%q", m)
	}
}

// An action that creates or removes a VM produces an Event; the steps before it don't.
func TestWhichActionsAreEvents(t *testing.T) {
	want := map[plan.Op]bool{plan.Clone: true, plan.Adopt: true, plan.Reset: true, plan.Reconfigure: true, plan.Quarantine: true, plan.Release: true, plan.Destroy: true}
	for _, op := range opsOf(t) {
		a := plan.Action{Op: op, Key: "web-0", MoRef: "vm-1", Reason: "because"}
		if n, worth := a.Event(now); worth != want[op] || worth && (n.Why != "because" || n.Key == "" || n.What == "") {
			t.Errorf("%s is an Event: %v, %+v", op, worth, n)
		}
	}
	back := plan.Action{Op: plan.Unmark, Key: plan.QuarantineName("web", 0, "vm-1"), MoRef: "vm-1", ChangeVersion: "7", Reason: "because"}
	if n, worth := back.Event(now); !worth || n.Reason != "MemberReturned" || n.Member != "web-0-vm-1" || n.Key != "MemberReturned/vm-1/7" {
		t.Errorf("back from quarantine: %v, %+v", worth, n)
	}
}

func TestAnUpdateThatIsRevertedIsNotFinished(t *testing.T) {
	o := observed(1)
	o.State.VMs = []plan.VM{vm(&o, 0)}
	o.Group.Status = planner.Make(o).Status
	as := func(template string) (reasons []string) {
		edit(func(spec *v1alpha1.VmGroupSpec) { spec.Template = template })(&o)
		r := planner.Make(o)
		o.Group.Status = r.Status
		for _, n := range r.Events {
			reasons = append(reasons, n.Reason)
		}
		return reasons
	}
	was := o.Group.Spec.Template
	if got := as("another"); !slices.Equal(got, []string{"UpdateStarted"}) {
		t.Errorf("another template: %v", got)
	}
	if got := as(was); !slices.Equal(got, []string{"UpdateWithdrawn"}) {
		t.Errorf("taken back: %v", got)
	}
}

func TestADeletedGroupTellsOnceWhichPersistentDisksStay(t *testing.T) {
	kept := func(members int, finalizing bool, disks ...v1alpha1.PersistentDisk) (what []string) {
		o := observed(1)
		o.Group.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true},
			{Name: "logs", SizeGiB: 1, Persistent: true, Retention: v1alpha1.DiskRetention{WhenDeleted: v1alpha1.RetentionDelete}}}
		for range members {
			o.State.VMs = []plan.VM{vm(&o, 0)}
		}
		o.Group.Status = planner.Make(o).Status
		for _, m := range o.State.VMs {
			o.State.Gone = append(o.State.Gone, plan.Gone{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID})
		}
		o.State.VMs, o.Group.Status.Disks = nil, disks
		if finalizing {
			remove(&o)
		}
		for range 2 {
			r := planner.Make(o)
			o.Group.Status = r.Status
			for _, n := range r.Events {
				if n.Reason == "DisksKept" {
					what = append(what, n.What)
				}
			}
		}
		return what
	}
	data := v1alpha1.PersistentDisk{Name: "data", ID: "d", State: v1alpha1.DiskAttached, MoRef: "vm-0"}
	logs, old := data, v1alpha1.PersistentDisk{Name: "logs", Ordinal: 1, ID: "o", State: v1alpha1.DiskDetached}
	logs.Name, logs.ID = "logs", "l"
	if got := kept(1, true, data, logs, old); len(got) != 1 || got[0] != "Persistent disks kept in vCenter: data of web-0 (d), logs of web-1 (o); to give them to a new group with this name, annotate it with vm.codeconnect.vmworld.com/take-disks-of: uid-web" {
		t.Errorf("with a member: %q", got)
	}
	if got := kept(0, true, old); len(got) != 1 {
		t.Errorf("scaled to 0: %q", got)
	}
	if got := slices.Concat(kept(1, true, logs), kept(0, false, old)); len(got) != 0 {
		t.Errorf("nothing stays, or nothing goes: %q", got)
	}
}
