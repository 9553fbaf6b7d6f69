package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// race is what was observed of clones that compete for one name.
type race struct {
	tasks         []types.ManagedObjectReference
	winner, loser *ended
	// found and missed count the polls of vCenter's recent tasks that listed a clone of the trial, and those that did not although one ran.
	found, missed int
	// seen counts the polls that returned the VM, and bare those with its instanceUuid but without its stamp.
	seen, bare int
}

// took is the time of the clone, by vCenter's clock.
func (r *race) took() time.Duration {
	_, ran := tasks.Times(r.winner.info)
	return ran
}

// compete starts two clones with one name at once: vCenter's uniqueness of names in a folder is the lock on a member's ordinal. While they
// run, it polls the list of running clones, as the deletion of a group does, and the new VM.
func (t *trial) compete(context.Context) outcome {
	t.progress("cloning %s (disks of %d GiB) twice in parallel with one name", t.template.path, t.template.info.space>>30)
	r, begun, ends := &t.race, make(chan types.ManagedObjectReference, 2), make(chan ended, 2)
	for range 2 {
		go func() {
			ends <- t.cloneTask(inventory.VMRef(t.template.moRef), trialName, t.spec, func(task types.ManagedObjectReference) { begun <- task })
		}()
	}
	var all []ended
	for pause := 50 * time.Millisecond; len(all) < 2; pause = min(pause+time.Millisecond, 250*time.Millisecond) {
		select {
		case e := <-ends:
			t.record(e)
			all = append(all, e)
		case task := <-begun:
			r.tasks = append(r.tasks, task)
		case <-time.After(pause):
			t.lookForClones()
			t.lookInside()
		}
	}
	t.lookInside()
	if all[0].err != nil {
		all[0], all[1] = all[1], all[0]
	}
	r.winner, r.loser = &all[0], &all[1]
	facts := Facts{"made": count(len(t.made)), "cloneMs": millis(r.took())}
	t.vm = r.winner.vm
	switch {
	case r.winner.err != nil:
		return failedBy(r.winner.err)
	case r.loser.err == nil:
		return outcome{result: Fail, seen: "vCenter created two VMs with one name in one folder",
			advice: "do not use this server here: its only lock on members does not work. Report this to the project with vCenter's version"}.with(facts)
	case !vcfault.Has[*types.DuplicateName](r.loser.err):
		return failedBy(r.loser.err)
	}
	return confirmed("one VM (%s) after %s, DuplicateName for the other", t.vm.Value, r.took().Round(time.Millisecond)).with(facts)
}

// lookForClones polls the list of running clones that the deletion of a group waits for. A clone that a poll does not list counts as missed
// only if it still runs after that poll.
func (t *trial) lookForClones() {
	_ = t.v.Call(t.end, func(ctx context.Context, s *session.Session) error { // the next poll may succeed
		running, err := tasks.Clones(ctx, s)
		for _, task := range t.race.tasks {
			switch {
			case err != nil:
			case slices.Contains(running, task.Value):
				t.race.found++
			default:
				var info types.TaskInfo
				_, _ = session.ReadProps(ctx, s, task, session.To("info.state", &info.State))
				if tasks.Unfinished(&info) {
					t.race.missed++
				}
			}
		}
		return err
	})
}

// lookInside reads the VMs in the scratch folder with the properties by which the inventory identifies members.
func (t *trial) lookInside() {
	var stamp, instance string
	all := session.Properties{session.To("config.instanceUuid", &instance), session.Option(trialKey, &stamp)}
	spec := types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: t.scratch, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "Folder", Path: "childEntity"}}}},
		PropSet: []types.PropertySpec{{Type: session.VMType, PathSet: all.Paths()}},
	}
	_ = t.v.Call(t.end, func(ctx context.Context, s *session.Session) error { // the next poll may succeed
		objects, err := session.ReadObjects(ctx, s, spec)
		for _, o := range objects {
			t.race.seen++
			stamp, instance = "", ""
			if o.Into(all); stamp == "" && instance != "" {
				t.race.bare++
			}
		}
		return err
	})
}

func (t *trial) runningClone(context.Context) outcome {
	switch r := &t.race; {
	case r.found > 0:
		return confirmed("found among vCenter's recent tasks while it ran")
	case r.missed > 0:
		return refuted(fmt.Sprintf("not found among the recent tasks of %s in %d polls", t.s.User, r.missed), "the deletion of a group could miss a running clone")
	}
	return inconclusive(fmt.Sprintf("the clone ended before it could be found (%s)", t.race.took()), "try a larger template")
}

// nameHeld checks that the second clone was refused while the first one ran, not only at its end. All times are vCenter's, and in
// proportion to the first clone's: vCenter may report late that it refused a clone at once, and a clone that began when the first one had
// nearly ended proves nothing.
func (t *trial) nameHeld(context.Context) outcome {
	first, second := t.race.winner.info, t.race.loser.info
	if second == nil || second.CompleteTime == nil || first.CompleteTime == nil || second.QueueTime.Sub(first.QueueTime) > first.CompleteTime.Sub(second.QueueTime) {
		return inconclusive(fmt.Sprintf("the clone ended too soon to test its name (%s)", t.race.took().Round(time.Millisecond)), "try a larger template")
	}
	waited, rest := second.CompleteTime.Sub(second.QueueTime), first.CompleteTime.Sub(second.QueueTime)
	if waited > rest/2 {
		return refuted("DuplicateName came only at the end of the first clone",
			"a second server would learn only after a whole clone that it is not needed, and vCenter runs only a few clones at once").with(Facts{"waitedMs": millis(waited)})
	}
	return confirmed("DuplicateName came while the first clone ran, after %s", waited.Round(time.Millisecond)).with(Facts{"waitedMs": millis(waited)})
}

func (t *trial) stampAtFirstSight(context.Context) outcome {
	r := &t.race
	facts := Facts{"looks": count(r.seen), "bare": count(r.bare)}
	if r.bare > 0 {
		return refuted(fmt.Sprintf("in %d of %d polls, the VM had its instanceUuid but not yet its stamp", r.bare, r.seen), "a member could be mistaken for an unmanaged VM").with(facts)
	}
	return confirmed("the VM had its stamp in each of %d polls", r.seen).with(facts)
}
