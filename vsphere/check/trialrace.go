package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/fresh"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// staggered is the delay of the third clone.
const staggered = time.Second

// lookClosely is how long the clones are polled at a short interval.
const lookClosely = 10 * time.Second

// race is what was observed of clones that compete for one name.
type race struct {
	all    []ended
	winner *ended
	took   time.Duration
	// looks counts the polls of the tasks; found reports whether one listed a clone of the trial.
	looks int
	found bool
	// seen counts the polls that returned the VM, and bare those with its instanceUuid but without its stamp.
	seen, bare int
	// third reports whether a third clone began during the first, folder is the result of creating a folder with that name, and made
	// whether vCenter created it.
	third, made bool
	folder      error
	folderAt    time.Time
}

// ended is the end of a clone.
type ended struct {
	vm  types.ManagedObjectReference
	err error
	// at is the time on this machine's clock, and theirs on vCenter's, if known.
	at, theirs time.Time
}

// before reports whether a clone ended before another.
func (e ended) before(other ended) bool {
	if !e.theirs.IsZero() && !other.theirs.IsZero() {
		return e.theirs.Before(other.theirs)
	}
	return e.at.Before(other.at)
}

// clone creates a clone and waits for it.
func (t *trial) clone(of types.ManagedObjectReference, name string, spec types.VirtualMachineCloneSpec) (e ended) {
	info, err := t.v.Task(t.end, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.CloneVM_Task(ctx, s.Vim, &types.CloneVM_Task{This: of, Folder: t.scratch, Name: name, Spec: spec})
		if err == nil {
			task = res.Returnval
			t.mu.Lock()
			t.clones = append(t.clones, task.Value)
			t.mu.Unlock()
		}
		return task, err
	})
	e.at = t.now()
	if info != nil && info.CompleteTime != nil {
		e.theirs = *info.CompleteTime
	}
	if e.err = err; err == nil {
		e.vm, _ = info.Result.(types.ManagedObjectReference)
	}
	t.note(e)
	return e
}

// note records what a clone created, before anyone else can change it.
func (t *trial) note(e ended) {
	now := new(fresh.VM)
	if e.vm.Value != "" {
		now, _ = t.v.ReadFresh(t.end, e.vm) // unknown disks are not destroyed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.vm.Value != "" {
		t.made = append(t.made, e.vm)
	}
	for file := range filesOf(now.Devices) {
		if !filesOf(t.draft.Devices())[file] {
			t.disks[file] = true
		}
	}
	if e.err != nil {
		reason := vcfault.Classify("", e.err).Reason
		t.unsure = t.unsure || reason == vcfault.ReasonVCenterUnreachable || reason == vcfault.ReasonTaskLost
	}
}

// compete starts two clones with one name at once and a third one later: vCenter's uniqueness of names in a folder is the lock on a
// member's ordinal. Meanwhile it polls the running clones, as the end of a group does, and the new VM.
func (t *trial) compete(ctx context.Context) outcome {
	t.progress("cloning %s (disks of %d GB) twice in parallel with one name", t.template.path, t.template.info.space>>30)
	r, ends, running := &t.race, make(chan ended, 3), 2
	begin := func() { ends <- t.clone(inventory.VMRef(t.template.moRef), trialName, t.spec) }
	began := t.now()
	go begin()
	go begin()
	look, later, long := time.NewTicker(50*time.Millisecond), time.After(staggered), time.After(lookClosely)
	defer look.Stop()
	for running > 0 {
		select {
		case e := <-ends:
			running--
			if r.all = append(r.all, e); e.err == nil && r.winner == nil {
				r.winner, r.took = &e, t.now().Sub(began)
			}
		case <-look.C:
			r.looks++
			r.found = r.found || t.cloning()
			t.lookInside()
		case <-long:
			look.Reset(250 * time.Millisecond)
		case <-later:
			if r.winner == nil && len(r.all) < 2 && ctx.Err() == nil {
				r.third = true
				running++
				go begin()
				t.folderMeanwhile()
			}
		}
	}
	t.lookInside()
	return t.judge()
}

// judge evaluates the ends of the clones.
func (t *trial) judge() outcome {
	r, made := &t.race, 0
	var err error
	for _, e := range r.all {
		if e.err == nil {
			made++
		} else if err == nil || !vcfault.Has[*types.DuplicateName](e.err) {
			err = e.err
		}
	}
	facts := Facts{"clones": count(len(r.all)), "made": count(made), "cloneMs": millis(r.took)}
	switch {
	case r.winner == nil:
		return failedBy(err)
	case made > 1:
		t.vm = r.winner.vm
		return outcome{result: Fail, seen: "vCenter created two VMs with one name in one folder",
			advice: "do not use this server here: its only lock on members does not hold. Report this to the project with vCenter's version"}.with(facts)
	}
	t.vm = r.winner.vm
	if !vcfault.Has[*types.DuplicateName](err) {
		return failedBy(err)
	}
	return confirmed("one VM (%s) after %s, DuplicateName for the other%s", t.vm.Value, r.took.Round(time.Millisecond), map[bool]string{true: "s"}[made < len(r.all)-1]).with(facts)
}

// cloning reports whether a clone of the trial is among those that the end of a group waits for.
func (t *trial) cloning() bool {
	var running []string
	_ = t.v.Call(t.end, func(ctx context.Context, s *session.Session) (err error) { // the next poll may succeed
		running, err = tasks.Clones(ctx, s)
		return err
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.clones, func(task string) bool { return slices.Contains(running, task) })
}

// lookInside reads the VMs in the scratch folder with the properties by which the inventory identifies members.
func (t *trial) lookInside() {
	spec := types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: t.scratch, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "Folder", Path: "childEntity"}}}},
		PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"config.instanceUuid", trialPath}}},
	}
	var objects []session.Object
	_ = t.v.Call(t.end, func(ctx context.Context, s *session.Session) (err error) { // the next poll may succeed
		objects, err = session.ReadObjects(ctx, s, spec)
		return err
	})
	for _, o := range objects {
		t.race.seen++
		if stamp, _ := session.Only[types.OptionValue](o).Value.(string); stamp == "" && session.Prop[string](o, "config.instanceUuid") != "" {
			t.race.bare++
		}
	}
}

// folderMeanwhile creates a folder with the name of a running clone.
func (t *trial) folderMeanwhile() {
	r := &t.race
	made, err := t.createFolder(t.scratch, trialName)
	r.folder, r.folderAt, r.made = err, t.now(), err == nil
	if err == nil {
		_ = t.removeFolder(made) // otherwise the clean-up does
	}
}

func (t *trial) runningClone(context.Context) outcome {
	switch r := &t.race; {
	case r.found:
		return confirmed("found among vCenter's recent tasks while it ran")
	case r.took < time.Second:
		return inconclusive(fmt.Sprintf("the clone ended before it could be found (%s)", r.took), "try a larger template")
	default:
		return refuted(fmt.Sprintf("not found among the recent tasks of %s in %d polls", t.s.User, r.looks), "the end of a group could miss a running clone")
	}
}

// nameHeld checks that other uses of the name failed while the clone ran, not only at its end.
func (t *trial) nameHeld(context.Context) outcome {
	const consequence = "a second server would learn only after a whole clone that it is not needed, and vCenter runs only a few clones at once"
	r := &t.race
	late := 0
	for _, e := range r.all {
		if e.err != nil && !e.before(*r.winner) {
			late++
		}
	}
	facts := Facts{"late": count(late), "staggered": yes(r.third), "folderMade": yes(r.made)}
	switch {
	case r.made:
		return refuted("a folder was created with the name of a running clone", "the clone would fail at its end").with(facts)
	case !r.third || r.folderAt.After(r.winner.at):
		return inconclusive(fmt.Sprintf("the clone ended too soon to test its name (%s)", r.took.Round(time.Millisecond)), "try a larger template")
	case late > 0:
		return refuted("DuplicateName came only after the end of the first clone", consequence).with(facts)
	case !vcfault.Has[*types.DuplicateName](r.folder):
		return failedBy(r.folder)
	}
	return confirmed("DuplicateName came during the first clone: at once, %s later, and for a folder with that name", staggered).with(facts)
}

func (t *trial) stampAtFirstSight(context.Context) outcome {
	r := &t.race
	facts := Facts{"looks": count(r.seen), "bare": count(r.bare)}
	if r.bare > 0 {
		return refuted(fmt.Sprintf("in %d of %d polls, the VM had its instanceUuid but not yet its stamp", r.bare, r.seen), "a member could be mistaken for an unmanaged VM").with(facts)
	}
	return confirmed("the VM had its stamp in each of %d polls", r.seen).with(facts)
}
