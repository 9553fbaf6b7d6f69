package check

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// scratchPrefix begins the names of scratch folders. A namespace's name has no space, so no group's folder is in one.
	scratchPrefix = "vmgroup check "
	// trialKey is where a trial's VM has its stamp: a key of the same form as stamp.Key, but another one, for whatever reads
	// stamps must take it for nobody's member.
	trialKey  = "codeconnect.vmworld.com.vmgroup.check"
	trialPath = `config.extraConfig["` + trialKey + `"]`
	// trialName is the name for which two clones compete.
	trialName = "vmgroup-check-0"
)

// trial shows on a real vCenter what the server's safety rests on. All it makes is in one folder, and all of it is removed again.
type trial struct {
	*checker
	id       string // of the trial; also the instanceUuid of its VM
	stamp    string
	template foundTemplate
	like     *v1alpha1.VmGroup // whose clones the VM is like; nil: nobody's
	draft    *vsphere.Draft
	spec     types.VirtualMachineCloneSpec // of its clones
	told     map[string]string             // the guestinfo in it
	held     map[string]bool               // the privileges in the scratch folder

	scratch, vm types.ManagedObjectReference
	// other is a folder in the scratch folder, whose name is otherName.
	other types.ManagedObjectReference
	// taken reports whether the scratch folder's name was taken already: that folder is not ours to remove.
	taken bool
	mu    sync.Mutex // guards what follows
	// clones are the tasks of the clones, made the VMs that they made, and disks the files of these VMs' disks. folders are those that
	// the trial made in the scratch folder.
	clones        []string
	made, folders []types.ManagedObjectReference
	disks         map[string]bool
	// unsure reports whether a clone may run of which vCenter's answer was lost.
	unsure bool

	race  race
	path  string // of the scratch folder
	view  *trialView
	guest trialGuest
	// first is the host that the clone was put on, and last the one that the VM was on when it left the inventory.
	first, last types.ManagedObjectReference
	// parked is the .vmx file of the VM while it is not in the inventory.
	parked string
	// unregistered and gone are what the VM was when it was unregistered, and destroyed; began is when the trial did.
	unregistered, gone types.ManagedObjectReference
	began              time.Time
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
	t := &trial{checker: c, id: uuid.NewString(), template: c.templates[0], disks: map[string]bool{}, began: c.now(), end: context.WithoutCancel(ctx)}
	running, stop := context.WithCancel(t.end)
	var awaiting sync.WaitGroup
	awaiting.Go(func() { c.parts.Tasks.Run(running) })
	awaiting.Go(func() { c.parts.Reader.Run(running) }) // a power-on without a task is awaited by reads
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
	for _, x := range experiments {
		if ctx.Err() != nil {
			t.add("deep", Skip, "stopped", "run it again for the rest")
			return
		}
		if !t.attempt(ctx, x) {
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
	t.held = held[t.scratch]
	t.ok(check, "%s", t.path)
	return true
}

// prepare puts the clone together, as the server does.
func (t *trial) prepare(ctx context.Context) verdict {
	g := &v1alpha1.VmGroup{}
	g.Name, g.Spec.Template = "vmgroup-check", t.template.name
	g.Spec.CPU = t.template.nature.cpu
	memory := t.template.nature.memory
	at := t.parts.Inventory.OwnFolder()
	if t.like = t.group(at); t.like != nil {
		g, memory = t.like, t.like.Spec.Memory<<10
	}
	var err error
	if t.draft, err = t.checker.draft(plan.Ref{Namespace: g.Namespace, Name: g.Name}, g, at, &t.template, 0, memory); err == nil {
		t.draft.As(t.id, trialName, t.scratch.Value)
		err = t.draft.FillBare(ctx)
	}
	if err != nil {
		return refused(err)
	}
	t.stamp = stamp.Stamp{Cluster: "vmgroup check", Namespace: "vmgroup-check", Name: "vmgroup-check", UID: "vmgroup-check", InstanceUUID: t.id, VCenter: t.s.UUID, Created: stamp.Time(t.now())}.Encode()
	t.spec = t.draft.Spec()
	config := *t.spec.Config
	config.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: trialKey, Value: t.stamp}}
	if t.told, err = t.guestinfo(); err != nil {
		return refused(err)
	}
	for key, value := range t.told {
		config.ExtraConfig = append(config.ExtraConfig, &types.OptionValue{Key: key, Value: value})
		if t.template.nature.vApp {
			config.VAppConfigRemoved = types.NewBool(true) // as fillGuest does, and for its reason
		}
	}
	t.spec.Config = &config
	return verdict{}
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

// readTrial gives the stamp of a trial's VM, which is empty for any other, and its instanceUuid.
func (t *trial) readTrial(ctx context.Context, vm types.ManagedObjectReference) (stamp, instance string, err error) {
	o, err := t.read(ctx, vm, trialPath, "config.instanceUuid")
	stamp, _ = session.Only[types.OptionValue](o).Value.(string)
	return stamp, session.Prop[string](o, "config.instanceUuid"), err
}

// task starts a task about what the trial made, and awaits it.
func (t *trial) task(start func(context.Context, *session.Session) (types.ManagedObjectReference, error)) error {
	_, err := t.v.Task(t.end, start)
	return err
}

// reconfigure changes the trial's VM.
func (t *trial) reconfigure(spec types.VirtualMachineConfigSpec) error {
	return t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.ReconfigVM_Task(ctx, s.Vim, &types.ReconfigVM_Task{This: t.vm, Spec: spec})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
}

// read reads properties of an object.
func (t *trial) read(ctx context.Context, ref types.ManagedObjectReference, paths ...string) (o session.Object, err error) {
	err = t.v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		o, err = session.ReadProps(ctx, s, ref, paths...)
		return err
	})
	return o, err
}

// option reads one entry of a VM's extraConfig, by the key.
func (t *trial) option(ctx context.Context, vm types.ManagedObjectReference, key string) (value string, o session.Object, err error) {
	o, err = t.read(ctx, vm, `config.extraConfig["`+key+`"]`)
	value, _ = session.Only[types.OptionValue](o).Value.(string)
	return value, o, err
}
