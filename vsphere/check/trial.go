package check

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// scratchPrefix begins the names of scratch folders. A namespace's name has no space, so no group's folder is in one.
	scratchPrefix = "vmgroup check "
	// trialKey is where a trial's VM bears its stamp: a key of the same form as stamp.Key, but another one, for whatever reads
	// stamps must take it for nobody's member.
	trialKey  = "codeconnect.vmworld.com.vmgroup.check"
	trialPath = `config.extraConfig["` + trialKey + `"]`
	// trialName is the name for which two clones compete.
	trialName = "vmgroup-check-0"
)

// trial shows on a real vCenter what the server's safety rests on. All it makes is one folder and one VM in it (two, if
// vCenter is not as it should be), and all of it is removed again.
type trial struct {
	*checker
	id       string // of the trial; also the instanceUuid of its VM
	stamp    string
	template foundTemplate
	draft    *vsphere.Draft
	spec     types.VirtualMachineCloneSpec // of its clones

	scratch, vm types.ManagedObjectReference
	// taken reports whether the scratch folder's name was somebody's already: that folder is not ours to remove.
	taken bool
	mu    sync.Mutex // guards what follows
	// clones are the tasks of the clones, made the VMs that they made, and disks the files of these VMs' disks.
	clones []string
	made   []types.ManagedObjectReference
	disks  map[string]bool
	// unsure reports whether a clone may run of which vCenter's answer was lost.
	unsure bool
	path   string // of the scratch folder
	view   *trialView
	// end is without the end that the user may bring about: what was begun is awaited, so that it can be removed.
	end context.Context
}

// deep makes the trial, if that was asked for and all that it needs is there.
func (c *checker) deep(ctx context.Context) bool {
	switch {
	case !c.Deep:
		return true
	case slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Result == Fail }):
		c.add("deep", Skip, "nothing was made, because of the failures above", "correct them, and run it again")
		return true
	case !c.asked:
		c.add("deep", Fail, "nothing was made: vCenter does not say which privileges are held, so it is not certain that what is made can be removed", "see the warning about privileges")
		return true
	case len(c.templates) == 0:
		c.add("deep", Fail, "nothing was made: no template was named", "name one by --template, or a group by -f")
		return true
	}
	t := &trial{checker: c, id: uuid.NewString(), template: c.templates[0], disks: map[string]bool{}, end: context.WithoutCancel(ctx)}
	running, stop := context.WithCancel(t.end)
	var awaiting sync.WaitGroup
	awaiting.Go(func() { c.parts.Tasks.Run(running) })
	defer awaiting.Wait()
	defer stop()
	t.run(ctx)
	return true
}

// run makes the scratch folder, goes through the steps until one cannot be built upon, and cleans up in any case.
func (t *trial) run(ctx context.Context) {
	name := scratchPrefix + t.id[:8]
	t.path = t.at.RootPath + "/" + name
	t.progress("making the scratch folder %q; it is removed at the end, also after Ctrl-C", t.path)
	defer t.sweep(name)
	if !t.makeFolder(name) {
		return
	}
	defer func() {
		if t.view != nil {
			inventory.CloseCollector(t.end, t.view.s, t.view.pc)
		}
	}()
	for _, step := range []func(context.Context) bool{t.prepare, t.watch, t.compete, t.readStamp, t.seen, t.powerOn, t.hotAdd, t.shutDown, t.destroy} {
		if ctx.Err() != nil {
			t.add("deep", Skip, "stopped", "run it again for the rest")
			return
		}
		if !step(ctx) {
			return
		}
	}
}

// makeFolder makes the scratch folder, and looks whether what is in it can be removed: whether the permissions propagate.
func (t *trial) makeFolder(name string) bool {
	const check = "deep: scratch folder"
	err := t.v.Call(t.end, func(ctx context.Context, s *session.Session) error {
		res, err := methods.CreateFolder(ctx, s.Vim, &types.CreateFolder{This: t.at.Root, Name: name})
		if err == nil {
			t.scratch = res.Returnval
		}
		return err
	})
	if err != nil {
		t.taken = vcfault.Has[*types.DuplicateName](err)
		t.failed(check, err)
		return false
	}
	held, err := t.privileges(t.end, []types.ManagedObjectReference{t.scratch})
	if err != nil {
		t.failed(check, err)
		return false
	}
	for _, p := range role.Least() {
		if slices.Contains(p.On, role.OnFolder) && p.Needed() && !held[t.scratch][p.ID] {
			t.add(check, Fail, p.ID+" is not held in a new folder", "grant it on "+t.at.RootPath+" with propagation to what is inside")
			return false
		}
	}
	t.ok(check, "%s", t.path)
	return true
}

// prepare puts the clone together, as the server does.
func (t *trial) prepare(ctx context.Context) bool {
	g := &v1alpha1.VmGroup{}
	g.Name, g.Spec.Template = "vmgroup-check", t.template.name
	g.Spec.CPU, g.Spec.Memory = t.template.nature.cpu, t.template.nature.memory>>10
	at := t.parts.Inventory.OwnFolder()
	like := t.group(at)
	if like != nil {
		g = like
	}
	memory := g.Spec.Memory << 10
	if like == nil {
		memory = t.template.nature.memory
	}
	var err error
	if t.draft, err = t.checker.draft(plan.Ref{Namespace: g.Namespace, Name: g.Name}, g, at, &t.template, 0, memory); err == nil {
		t.draft.As(t.id, trialName, t.scratch.Value)
		err = t.draft.FillBare(ctx)
	}
	if err != nil {
		t.failed("deep: clone", err)
		return false
	}
	t.stamp = stamp.Stamp{Cluster: "vmgroup check", Namespace: "vmgroup-check", Name: "vmgroup-check", UID: "vmgroup-check", InstanceUUID: t.id, VCenter: t.s.UUID, Created: stamp.Time(t.now())}.Encode()
	config := *t.draft.Spec().Config
	config.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: trialKey, Value: t.stamp}}
	t.spec = t.draft.Spec()
	t.spec.Config = &config
	return true
}

// group is the first one that is made from the template, where it is tried; nil if there is none: another's pool or snapshot
// would not fit.
func (t *trial) group(at *inventory.GroupFolder) *v1alpha1.VmGroup {
	for _, g := range t.Groups {
		if g.Spec.Placement.Datacenter != "" {
			continue
		}
		if x, _, _ := t.parts.Inventory.FindTemplate(at, g.Spec.Template); x.MoRef == t.template.moRef {
			return g
		}
	}
	return nil
}

// ended is how a clone ended.
type ended struct {
	vm  types.ManagedObjectReference
	err error
}

// clone makes one of the clones and awaits it.
func (t *trial) clone() (e ended) {
	info, err := t.v.Task(t.end, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.CloneVM_Task(ctx, s.Vim, &types.CloneVM_Task{This: inventory.VMRef(t.template.moRef), Folder: t.scratch, Name: trialName, Spec: t.spec})
		if err == nil {
			task = res.Returnval
			t.mu.Lock()
			t.clones = append(t.clones, task.Value)
			t.mu.Unlock()
		}
		return task, err
	})
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

// compete makes two clones of one name at once: vCenter's rule of one name in one folder is the lock on a member's ordinal.
// Meanwhile it looks whether a running clone can be found, as the end of a group does.
func (t *trial) compete(context.Context) bool {
	t.progress("cloning %s (disks of %d GB) twice at once, under one name", t.template.path, t.template.nature.space>>30)
	both := make(chan ended, 2)
	for range 2 {
		go func() { both <- t.clone() }()
	}
	var all []ended
	found, looks, began := false, 0, t.now()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for len(all) < 2 {
		select {
		case e := <-both:
			all = append(all, e)
		case <-look.C:
			looks++
			found = found || t.cloning()
		}
	}
	took := t.now().Sub(began).Round(time.Millisecond)
	good := t.judge(all, took)
	const check = "deep: running clone"
	switch {
	case found:
		t.ok(check, "found among vCenter's recent tasks while it ran")
	case took < time.Second:
		t.add(check, Skip, fmt.Sprintf("the clone ended before it could be looked for (%s)", took), "try a larger template")
	default:
		t.add(check, Fail, fmt.Sprintf("not found among the recent tasks of %s in %d looks", t.s.User, looks), "the end of a group could miss a clone that is under way: tell the project, with the vCenter's version and the task's descriptionId")
	}
	return good
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

// judge looks at how the two clones ended.
func (t *trial) judge(all []ended, took time.Duration) bool {
	const check = "deep: one name, one VM"
	var refused error
	for _, e := range all {
		if e.err != nil {
			refused = e.err
		} else {
			t.vm = e.vm
		}
	}
	var taken *types.DuplicateName
	switch {
	case t.vm.Value == "":
		t.failed("deep: clone", refused)
		return false
	case refused == nil:
		t.add(check, Fail, "vCenter made two VMs of one name in one folder", "do not use this server here: its one lock on members does not hold. Tell the project, with the vCenter's version")
		return false
	}
	if _, is := fault.As(refused, &taken); !is {
		t.failed(check, refused)
		return true
	}
	t.ok(check, "one VM (%s) after %s, and one DuplicateName", t.vm.Value, took)
	return true
}

// readStamp reads what the clone was given, by its key.
func (t *trial) readStamp(ctx context.Context) bool {
	const check = "deep: stamp"
	stamp, instance, err := t.readTrial(ctx, t.vm)
	switch {
	case err != nil:
		t.failed(check, err)
	case stamp != t.stamp:
		t.add(check, Fail, "the clone does not have the extraConfig that was in its spec, or it cannot be read by its key", "members could not be told from unmanaged VMs: tell the project, with the vCenter's version")
	case instance != t.id:
		t.add(check, Fail, "the clone has another instanceUuid than its spec had", "members would be taken for copies: tell the project, with the vCenter's version")
	default:
		t.ok(check, "%d bytes, written by the clone itself and read by their key; the instanceUuid is the one in the spec", len(stamp))
		return true
	}
	return false
}

// readTrial gives the stamp of a trial's VM, which is empty for any other, and its instanceUuid.
func (t *trial) readTrial(ctx context.Context, vm types.ManagedObjectReference) (stamp, instance string, err error) {
	err = t.v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, vm, trialPath, "config.instanceUuid")
		stamp, _ = session.Only[types.OptionValue](o).Value.(string)
		instance = session.Prop[string](o, "config.instanceUuid")
		return err
	})
	return stamp, instance, err
}

// task starts a task about the trial's VM, and awaits it.
func (t *trial) task(start func(context.Context, *session.Session) (types.ManagedObjectReference, error)) error {
	_, err := t.v.Task(t.end, start)
	return err
}
