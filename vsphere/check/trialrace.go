package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// staggered is how much later than the first two clones the third one begins.
const staggered = time.Second

// lookClosely is how long the clones are looked at many times a second; then it is some times.
const lookClosely = 10 * time.Second

// race is what was seen of clones that compete for one name.
type race struct {
	all    []ended
	winner *ended
	took   time.Duration
	// looks counts those at the tasks, and found reports whether a clone was among them.
	looks int
	found bool
	// seen counts the looks at which the VM was there, and bare those at which it had its instanceUuid and not its stamp.
	seen, bare int
	// third reports whether a third clone was begun while the first ran, and folder what became of a folder of that name; made reports
	// whether vCenter made it.
	third, made bool
	folder      error
	folderAt    time.Time
}

// ended is how a clone ended.
type ended struct {
	vm  types.ManagedObjectReference
	err error
	// at is when, by this machine's clock, and by vCenter's if it says so.
	at, theirs time.Time
}

// before reports whether a clone ended before another one.
func (e ended) before(other ended) bool {
	if !e.theirs.IsZero() && !other.theirs.IsZero() {
		return e.theirs.Before(other.theirs)
	}
	return e.at.Before(other.at)
}

// clone makes a clone and awaits it.
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

// note keeps what a clone made, as it is before anybody else can have changed it.
func (t *trial) note(e ended) {
	now := new(vsphere.FreshVM)
	if e.vm.Value != "" {
		now, _ = t.v.ReadFresh(t.end, e.vm) // what is not known of its disks is not destroyed
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

// compete makes two clones of one name at once, and a third one a while later: vCenter's rule of one name in one folder is the lock on
// a member's ordinal. Meanwhile it looks whether a running clone can be found, as the end of a group does, and how the VM appears.
func (t *trial) compete(ctx context.Context) verdict {
	t.progress("cloning %s (disks of %d GB) twice at once, under one name", t.template.path, t.template.nature.space>>30)
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

// judge looks at how the clones ended.
func (t *trial) judge() verdict {
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
		return refused(err)
	case made > 1:
		t.vm = r.winner.vm
		return verdict{result: Fail, seen: "vCenter made two VMs of one name in one folder",
			advice: "do not use this server here: its one lock on members does not hold. Tell the project, with the vCenter's version"}.with(facts)
	}
	t.vm = r.winner.vm
	if !vcfault.Has[*types.DuplicateName](err) {
		return refused(err)
	}
	return held("one VM (%s) after %s, and DuplicateName for the other%s", t.vm.Value, r.took.Round(time.Millisecond), map[bool]string{true: "s"}[made < len(r.all)-1]).with(facts)
}

// cloning reports whether one of the trial's clones is among those that the end of a group waits for.
func (t *trial) cloning() bool {
	var running []string
	_ = t.v.Call(t.end, func(ctx context.Context, s *session.Session) (err error) { // the next look may succeed
		running, err = tasks.Clones(ctx, s)
		return err
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.clones, func(task string) bool { return slices.Contains(running, task) })
}

// lookInside looks at the VMs in the scratch folder as the inventory does, each by what tells whose it is.
func (t *trial) lookInside() {
	spec := types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: t.scratch, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "Folder", Path: "childEntity"}}}},
		PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"config.instanceUuid", trialPath}}},
	}
	var objects []session.Object
	_ = t.v.Call(t.end, func(ctx context.Context, s *session.Session) (err error) { // the next look may succeed
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

// folderMeanwhile makes a folder of the name that a clone is being given.
func (t *trial) folderMeanwhile() {
	r := &t.race
	made, err := t.createFolder(t.scratch, trialName)
	r.folder, r.folderAt, r.made = err, t.now(), err == nil
	if err == nil {
		_ = t.removeFolder(made) // else the clean-up does
	}
}

func (t *trial) runningClone(context.Context) verdict {
	switch r := &t.race; {
	case r.found:
		return held("found among vCenter's recent tasks while it ran")
	case r.took < time.Second:
		return untold(fmt.Sprintf("the clone ended before it could be looked for (%s)", r.took), "try a larger template")
	default:
		return broken(fmt.Sprintf("not found among the recent tasks of %s in %d looks", t.s.User, r.looks), "the end of a group could miss a clone that is under way")
	}
}

// nameHeld looks whether others were refused while the clone ran, and not only at its end.
func (t *trial) nameHeld(context.Context) verdict {
	const consequence = "a second server would wait for its whole clone to learn that it is not needed, and vCenter has room for few at once"
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
		return broken("a folder was made under the name that a clone was being given", "the clone would fail at its end").with(facts)
	case !r.third || r.folderAt.After(r.winner.at):
		return untold(fmt.Sprintf("the clone ended too soon for a look at what it holds (%s)", r.took.Round(time.Millisecond)), "try a larger template")
	case late > 0:
		return broken("DuplicateName came only when the first clone had ended", consequence).with(facts)
	case !vcfault.Has[*types.DuplicateName](r.folder):
		return refused(r.folder)
	}
	return held("DuplicateName came while the first clone ran: at once, %s later, and for a folder of that name", staggered).with(facts)
}

func (t *trial) stampAtFirstSight(context.Context) verdict {
	r := &t.race
	facts := Facts{"looks": count(r.seen), "bare": count(r.bare)}
	if r.bare > 0 {
		return broken(fmt.Sprintf("in %d of %d looks the VM had its instanceUuid, and not yet its stamp", r.bare, r.seen), "a member could be taken for an unmanaged VM").with(facts)
	}
	return held("in each of %d looks at the VM, its stamp was there", r.seen).with(facts)
}
