package check

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/retry"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// scratchPrefix is the prefix of scratch folders' names. Namespaces have no spaces, so it never collides with a group's folder.
	scratchPrefix = "vmgroup check "
	// trialKey is the extraConfig key of the trial VM's stamp. It differs from stamp.Key, so that nothing that reads stamps takes the VM
	// for a member.
	trialKey = "codeconnect.vmworld.com.vmgroup.check"
	// trialName is the name for which two clones compete.
	trialName = "vmgroup-check-0"
)

// trial tests the server's assumptions on a real vCenter. It creates everything in one folder and removes all of it.
type trial struct {
	*checker
	id        string // also the instanceUuid of the VM
	stamp     string
	template  foundTemplate
	like      *v1alpha1.VmGroup // the group whose clone the VM resembles; nil: none
	draft     *vsphere.Draft
	spec      types.VirtualMachineCloneSpec // of the clones
	guestinfo map[string]string             // the guestinfo in spec, by key
	held      map[string]bool               // privileges in the scratch folder

	scratch, vm types.ManagedObjectReference
	path        string // of the scratch folder
	// other is the folder otherName in the scratch folder.
	other types.ManagedObjectReference
	// taken reports whether the scratch folder's name was in use. The trial does not remove that folder.
	taken bool
	// made are the VMs that the trial's clones created, disks the files of these VMs' disks, and folders those in the scratch folder.
	made, folders []types.ManagedObjectReference
	disks         map[string]bool
	// unsure reports whether a clone may be running whose reply was lost.
	unsure bool

	race race
	disk trialDisk
	view *trialView
	// vmGroup is the DRS VM group that the trial adds.
	vmGroup trialVMGroup
	// copied is the VM's copy, while the trial keeps it, and rules are the DRS rules of the two.
	copied types.ManagedObjectReference
	rules  trialRules
	guest  trialGuest
	// last is the VM's host when it left the inventory, and parked its .vmx file while it is unregistered.
	last   types.ManagedObjectReference
	parked string
	// unregistered and gone are the VM's moRefs before it was unregistered and before it was destroyed; began is the start of the trial.
	unregistered, gone types.ManagedObjectReference
	began              time.Time
	// end is ctx without cancellation by the user: the trial waits for the end of what it began, so that it can remove the result.
	end context.Context
}

// deep runs the trial, if requested and possible.
func (c *checker) deep(ctx context.Context) {
	const check = "deep"
	switch {
	case !c.Deep:
		return
	case slices.ContainsFunc(c.findings, Finding.failed):
		c.add(check, Skip, "nothing was created because of the failures above", "correct them and run the check again")
		return
	case !c.asked:
		c.add(check, Fail, "nothing was created: vCenter did not return the account's privileges, so the clean-up might fail", "see the warning about privileges")
		return
	case len(c.templates) == 0:
		c.add(check, Fail, "nothing was created: no template given", "name a template with --template or a group with -f")
		return
	}
	t := &trial{checker: c, id: uuid.NewString(), template: c.templates[0], disks: map[string]bool{}, began: c.now(), end: context.WithoutCancel(ctx)}
	running, stop := context.WithCancel(t.end)
	var awaiting sync.WaitGroup
	awaiting.Go(func() { c.parts.Tasks.Run(running) })
	awaiting.Go(func() { c.parts.Reader.Run(running) }) // a power-on without a task is detected by reads
	defer awaiting.Wait()
	defer stop()
	t.run(ctx)
}

// run creates the scratch folder, runs the experiments until one on which others depend fails, and always cleans up.
func (t *trial) run(ctx context.Context) {
	name := scratchPrefix + t.id[:8]
	t.path = t.at.RootPath + "/" + name
	t.progress("creating the scratch folder %q; it is removed at the end, even after Ctrl-C", t.path)
	defer t.sweep(name)
	if !t.makeScratch(name) {
		return
	}
	defer func() {
		if t.view != nil {
			inventory.CloseCollector(t.end, t.view.s, t.view.pc)
		}
	}()
	for _, x := range experiments {
		if ctx.Err() != nil {
			t.add("deep", Skip, "stopped", "run the check again for the rest")
			return
		}
		if !t.attempt(ctx, x) {
			return
		}
	}
}

// makeScratch creates the scratch folder and checks that the permissions propagate to it, so that its contents can be removed.
func (t *trial) makeScratch(name string) bool {
	const check = "deep: scratch folder"
	var err error
	if t.scratch, err = t.createFolder(t.at.Root, name); err != nil {
		t.taken = vcfault.Has[*types.DuplicateName](err)
		t.failed(check, err)
		return false
	}
	held, err := t.privileges(t.end, []types.ManagedObjectReference{t.scratch})
	if err != nil {
		t.failed(check, err)
		return false
	}
	t.held = held[t.scratch]
	for _, p := range role.Least() {
		if slices.Contains(p.On, role.OnFolder) && p.Needed() && !t.held[p.ID] {
			t.add(check, Fail, p.ID+" is not granted in a new folder", "grant it on "+t.at.RootPath+" with propagation to children")
			return false
		}
	}
	t.ok(check, "%s", t.path)
	return true
}

// prepare prepares the clone like the server.
func (t *trial) prepare(ctx context.Context) outcome {
	g := &v1alpha1.VmGroup{}
	g.Name, g.Spec.Template = "vmgroup-check", t.template.name
	g.Spec.CPU = t.template.info.cpu
	memory := t.template.info.memory
	at := t.parts.Inventory.OwnFolder()
	if t.like = t.group(at); t.like != nil {
		g, memory = t.like, t.like.Spec.Memory<<10
	}
	var err error
	if t.draft, err = t.checker.draft(plan.Ref{Namespace: g.Namespace, Name: g.Name}, g, at, &t.template, 0, memory); err == nil {
		t.draft.As(t.id, trialName, t.scratch.Value)
		err = t.draft.FillBare(ctx)
	}
	if err == nil {
		t.guestinfo, err = t.guestValues()
	}
	if err != nil {
		return failedBy(err)
	}
	t.stamp = stamp.Stamp{Cluster: "vmgroup check", Namespace: "vmgroup-check", Name: "vmgroup-check", UID: "vmgroup-check", InstanceUUID: t.id, VCenter: t.s.UUID, Created: stamp.Time(t.now())}.Encode()
	t.spec = t.draft.Spec()
	config := *t.spec.Config
	config.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: trialKey, Value: t.stamp}}
	for key, value := range t.guestinfo {
		config.ExtraConfig = append(config.ExtraConfig, &types.OptionValue{Key: key, Value: value})
		if t.template.info.VApp {
			config.VAppConfigRemoved = types.NewBool(true) // cloud-init would prefer the vApp properties to guestinfo
		}
	}
	t.spec.Config = &config
	return outcome{}
}

// group returns the first group that uses the template and the trial's datacenter, or nil: the pool or snapshot of another would not fit.
func (t *trial) group(at *inventory.GroupFolder) *v1alpha1.VmGroup {
	for _, g := range t.Groups {
		if g.Spec.Placement.Datacenter != "" {
			continue
		}
		if x, _, _ := t.parts.Inventory.FindTemplate(at, g.Spec.Template, g.Status.Names); x.MoRef == t.template.moRef || g.Spec.Template == t.template.name {
			return g
		}
	}
	return nil
}

// ended is the end of a clone.
type ended struct {
	vm   types.ManagedObjectReference
	err  error
	info *types.TaskInfo // nil if the task did not begin, or is lost
}

// clone creates a clone, waits for it, and records what it created.
func (t *trial) clone(of types.ManagedObjectReference, name string, spec types.VirtualMachineCloneSpec) ended {
	e := t.cloneTask(of, name, spec, func(types.ManagedObjectReference) {})
	t.record(e)
	return e
}

// cloneTask creates a clone, and waits for it; begun is called with its task. It may run beside others.
func (t *trial) cloneTask(of types.ManagedObjectReference, name string, spec types.VirtualMachineCloneSpec, begun func(types.ManagedObjectReference)) (e ended) {
	e.info, e.err = t.task(func(ctx context.Context, s *session.Session) (*object.Task, error) {
		task, err := object.NewVirtualMachine(s.Vim, of).Clone(ctx, object.NewFolder(s.Vim, t.scratch), name, spec)
		if err == nil {
			begun(task.Reference())
		}
		return task, err
	})
	if e.err == nil {
		e.vm, _ = e.info.Result.(types.ManagedObjectReference)
	}
	return e
}

// record records what a clone created, before anyone else can change it.
func (t *trial) record(e ended) {
	if e.err != nil {
		reason := vcfault.Classify("", e.err).Reason
		t.unsure = t.unsure || reason == vcfault.ReasonVCenterUnreachable || reason == vcfault.ReasonTaskLost
		return
	}
	t.made = append(t.made, e.vm)
	now, err := t.v.ReadFresh(t.end, e.vm)
	if err != nil {
		return // unknown disks are not destroyed
	}
	for file := range filesOf(now.Devices) {
		if !filesOf(t.draft.Devices())[file] {
			t.disks[file] = true
		}
	}
}

// task starts a task and waits for it, also when the user has stopped the check.
func (t *trial) task(start func(context.Context, *session.Session) (*object.Task, error)) (*types.TaskInfo, error) {
	return t.v.Task(t.end, func(ctx context.Context, s *session.Session) (ref types.ManagedObjectReference, err error) {
		task, err := start(ctx, s)
		if err == nil {
			ref = task.Reference()
		}
		return ref, err
	})
}

// do starts a task of a VM and waits for it, like task.
func (t *trial) do(vm types.ManagedObjectReference, start func(*object.VirtualMachine, context.Context) (*object.Task, error)) error {
	_, err := t.task(func(ctx context.Context, s *session.Session) (*object.Task, error) {
		return start(object.NewVirtualMachine(s.Vim, vm), ctx)
	})
	return err
}

func (t *trial) reconfigure(spec types.VirtualMachineConfigSpec) error {
	return t.do(t.vm, func(vm *object.VirtualMachine, ctx context.Context) (*object.Task, error) {
		return vm.Reconfigure(ctx, spec)
	})
}

func (t *trial) powerOff(vm types.ManagedObjectReference) error {
	err := t.do(vm, (*object.VirtualMachine).PowerOff)
	if vcfault.AlreadyIn(err, types.VirtualMachinePowerStatePoweredOff) {
		return nil
	}
	return err
}

// createFolder creates a folder. The caller records a folder in the scratch folder, so that sweep removes it.
func (t *trial) createFolder(in types.ManagedObjectReference, name string) (made types.ManagedObjectReference, err error) {
	err = t.v.Call(t.end, func(ctx context.Context, s *session.Session) error {
		folder, err := object.NewFolder(s.Vim, in).CreateFolder(ctx, name)
		if err == nil {
			made = folder.Reference()
		}
		return err
	})
	return made, err
}

// read reads properties of an object.
func (t *trial) read(ctx context.Context, ref types.ManagedObjectReference, all ...session.Property) (o session.Object, err error) {
	err = t.v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		o, err = session.ReadProps(ctx, s, ref, all...)
		return err
	})
	return o, err
}

// readTrial returns the trial stamp of a VM, "" for other VMs, and its instanceUuid.
func (t *trial) readTrial(ctx context.Context, vm types.ManagedObjectReference) (stamp, instance string, err error) {
	_, err = t.read(ctx, vm, session.Option(trialKey, &stamp), session.To("config.instanceUuid", &instance))
	return stamp, instance, err
}

// option reads one extraConfig value of a VM by its key.
func (t *trial) option(ctx context.Context, vm types.ManagedObjectReference, key string) (value string, o session.Object, err error) {
	o, err = t.read(ctx, vm, session.Option(key, &value))
	return value, o, err
}

// within polls until a condition is met, the time is over or ctx ends.
func within(ctx context.Context, most time.Duration, holds func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	polls := retry.Backoff{First: 100 * time.Millisecond, Most: 2 * time.Second}
	for tries := 1; !holds(ctx); tries++ {
		if !session.Sleep(ctx, polls.After(tries)) {
			return false
		}
	}
	return true
}
