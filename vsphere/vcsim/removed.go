package vcsim

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// A VM leaves the inventory, and keeps running, when it is unregistered, when its host is removed, or when vCenter is restored from an
// older backup. It returns when it is registered or its host is added. It then has a new moRef but the same files, so its instanceUuid and
// extraConfig have not changed.

// The kinds of the tasks that remove VMs from the inventory without destroying them.
const (
	unregister  Kind = "VirtualMachine.unregister"
	destroyHost Kind = "HostSystem.destroy"
)

// discovered is the folder in which vCenter puts the VMs of an added host.
const discovered = "Discovered virtual machine"

// removedVM is a VM outside the inventory. The world lock guards it.
type removedVM struct {
	vm       *simulator.VirtualMachine
	host     string // its name
	folder   types.ManagedObjectReference
	pool     types.ManagedObjectReference
	health   Health
	question *pendingQuestion // nil: none
}

// removedHost is a host outside the inventory.
type removedHost struct {
	host    *simulator.HostSystem
	cluster types.ManagedObjectReference
	stores  map[types.ManagedObjectReference]types.DatastoreHostMount
}

// OutsideInventory lists the VMs that exist outside the inventory. Ref is their last moRef, and Path their .vmx file.
func (v *inventory) OutsideInventory() (vms []VM) {
	v.world.Lock()
	defer v.world.Unlock()
	return v.outside()
}

// AllVMs returns what VMs and OutsideInventory return, as of one moment. With separate calls, a VM that leaves or returns between them would
// be in both lists or in neither.
func (v *inventory) AllVMs() (inside, outside []VM) {
	v.world.Lock()
	defer v.world.Unlock()
	return v.inside(), v.outside()
}

// outside describes the VMs outside the inventory. The caller holds the world lock.
func (v *inventory) outside() (vms []VM) {
	for _, d := range v.removedVMs {
		one := v.look(d.vm)
		one.Path = d.vm.Config.Files.VmPathName
		vms = append(vms, one)
	}
	return vms
}

// adminContext returns a context with the admin's user name. The caller holds the world lock.
func (v *inventory) adminContext() *simulator.Context {
	ctx := v.world.Context()
	session := *ctx.Session
	session.UserName = adminUser
	ctx.Session = &session
	return ctx
}

// removeVM removes a VM from the inventory in any power state. The caller holds the world lock.
func (v *inventory) removeVM(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	d := &removedVM{vm: vm}
	if host, ok := v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem); ok {
		d.host = host.Name
	}
	if vm.Parent != nil {
		d.folder = *vm.Parent
	}
	if vm.ResourcePool != nil {
		d.pool = *vm.ResourcePool
	}
	if s, ok := v.guestStates[vm.Self]; ok {
		s.end()
		d.health = s.health
		delete(v.guestStates, vm.Self)
	}
	if q := v.questions.pending[vm.Self]; q != nil { // the VM keeps its question, but the task that waits for the answer ends
		close(q.removed)
		d.question = &pendingQuestion{id: q.id, choices: q.choices, answered: make(chan string, 1), removed: make(chan struct{})}
		delete(v.questions.pending, vm.Self)
	}
	power := vm.Runtime.PowerState
	vm.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff // the simulator requires it
	vm.UnregisterVM(ctx, &types.UnregisterVM{This: vm.Self})
	vm.Runtime.PowerState = power
	v.removedVMs = append(v.removedVMs, d)
}

// addVM adds a VM to the inventory with this moRef, or with a new one if it is empty. The caller holds the world lock.
func (v *inventory) addVM(ctx *simulator.Context, d *removedVM, folder *simulator.Folder, host *simulator.HostSystem, moRef string) *simulator.VirtualMachine {
	vm := *d.vm
	config, guest := *vm.Config, *vm.Guest
	vm.Config, vm.Guest = &config, &guest
	vm.Self = types.ManagedObjectReference{Type: "VirtualMachine", Value: moRef}
	vm.RecentTask = nil
	for n := 1; v.taken(place{folder.Self, vm.Name}, nil) != nil; n++ { // as vCenter resolves a name conflict
		vm.Name = fmt.Sprintf("%s (%d)", d.vm.Name, n)
	}
	vm.Runtime.Host = &host.Self
	vm.Summary.Runtime.Host = &host.Self
	if v.objects.Get(d.pool) != nil {
		vm.ResourcePool = &d.pool
	}
	v.objects.PutEntity(folder, &vm)
	if spec := v.customized[d.vm.Self]; spec != nil {
		v.customized[vm.Self], v.due[vm.Self] = spec, v.due[d.vm.Self]
	}
	for _, snapshot := range v.snapshotsOf(&vm) {
		snapshot.Vm = vm.Self
	}
	v.objects.AppendReference(ctx, folder, &folder.ChildEntity, vm.Self)
	v.objects.AppendReference(ctx, host, &host.Vm, vm.Self)
	for _, ref := range vm.Datastore {
		ds := v.objects.Get(ref).(*simulator.Datastore)
		v.objects.AppendReference(ctx, ds, &ds.Vm, vm.Self)
	}
	if vm.ResourcePool != nil { // a template has none
		if pool, ok := v.objects.Get(*vm.ResourcePool).(*simulator.ResourcePool); ok {
			v.objects.AppendReference(ctx, pool, &pool.Vm, vm.Self)
		}
	}
	if d.question != nil {
		v.questions.pending[vm.Self] = d.question
	}
	v.world.Mark(folder.Self, vm.Self)
	if d.health != Healthy {
		v.guestStateOf(vm.Self).health = d.health
	} else if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn && !toolsRun(&vm) {
		v.boot(ctx, &vm)
	}
	return &vm
}

// AddCopies adds a copy of a VM with each name to a folder, on all hosts of its cluster in turn. The copies have no files, tasks or events of
// clones, so that an inventory can have many thousands. set can replace properties of a copy, but must not change the values to which they
// point: the copies share them with the VM.
func (v *inventory) AddCopies(of, folderPath string, names []string, set func(i int, vm *mo.VirtualMachine)) error {
	folder, err := v.Find(folderPath)
	if err != nil {
		return fmt.Errorf("copy %s: %w", of, err)
	}
	return v.changeVM("copy", of, func(ctx *simulator.Context, source *simulator.VirtualMachine) types.BaseMethodFault {
		in, hosts := v.objects.Get(folder).(*simulator.Folder), v.clusterOf(source.Runtime.Host).Host
		for i, name := range names {
			vm := *source
			vm.Name = name
			host := v.objects.Get(hosts[i%len(hosts)]).(*simulator.HostSystem)
			added := v.addVM(ctx, &removedVM{vm: &vm, pool: *source.ResourcePool}, in, host, "")
			summary := *added.Summary.Guest
			added.Summary.Guest, added.Config.InstanceUuid = &summary, uuid.NewString()
			set(i, &added.VirtualMachine)
		}
		return nil
	})
}

// forgetRemoved deletes a VM from the list of removed ones. The caller holds the world lock.
func (v *inventory) forgetRemoved(d *removedVM) {
	v.removedVMs = slices.DeleteFunc(v.removedVMs, func(x *removedVM) bool { return x == d })
}

// RemoveHost removes the host at a path, which must be in a cluster, and its VMs from the inventory. All keep running. Templates move to
// another host of the cluster, if there is one.
func (v *inventory) RemoveHost(path string) error {
	return at(v, "remove host", path, func(host *simulator.HostSystem) types.BaseMethodFault {
		ctx := v.adminContext()
		cluster, ok := v.objects.Get(*host.Parent).(*simulator.ClusterComputeResource)
		if !ok {
			return &types.InvalidArgument{InvalidProperty: "host.parent"}
		}
		gone := &removedHost{host: host, cluster: cluster.Self, stores: map[types.ManagedObjectReference]types.DatastoreHostMount{}}
		v.chain(ctx, destroyHost, host, func() {
			for _, ref := range slices.Clone(host.Vm) {
				vm := v.objects.Get(ref).(*simulator.VirtualMachine)
				if !vm.Config.Template || !v.toHost(ctx, vm, cluster, func(ref types.ManagedObjectReference) bool { return ref != host.Self }) {
					v.removeVM(ctx, vm)
				}
			}
			v.post(ctx, &types.HostRemovedEvent{HostEvent: types.HostEvent{Event: v.hostEvent(host)}})
		})
		for _, e := range v.objects.All("Datastore") {
			ds := e.(*simulator.Datastore)
			if i := slices.IndexFunc(ds.Host, func(m types.DatastoreHostMount) bool { return m.Key == host.Self }); i >= 0 {
				gone.stores[ds.Self] = ds.Host[i]
				ds.Host = slices.Delete(slices.Clone(ds.Host), i, i+1)
			}
		}
		v.objects.RemoveReference(ctx, cluster, &cluster.Host, host.Self)
		v.objects.Remove(ctx, host.Self)
		v.world.Mark(cluster.Self)
		v.removedHosts = append(v.removedHosts, gone)
		return nil
	})
}

// AddHost returns a removed host to its cluster. The host and its VMs get new moRefs; the VMs appear in the folder "Discovered virtual
// machine", with an event of vCenter's own ([doc] VmDiscoveredEvent: "a virtual machine discovery").
func (v *inventory) AddHost(name string) error {
	v.world.Lock()
	defer v.world.Unlock()
	i := slices.IndexFunc(v.removedHosts, func(h *removedHost) bool { return h.host.Name == name })
	if i < 0 {
		return fmt.Errorf("add host %s: not a removed host", name)
	}
	was, ctx := v.removedHosts[i], v.adminContext()
	v.removedHosts = slices.Delete(v.removedHosts, i, i+1)
	host := *was.host
	host.Self, host.Vm = types.ManagedObjectReference{Type: "HostSystem"}, nil
	cluster := v.objects.Get(was.cluster).(*simulator.ClusterComputeResource)
	v.objects.PutEntity(cluster, &host)
	v.objects.AppendReference(ctx, cluster, &cluster.Host, host.Self)
	// govmomi's simulator reads from here what a host supports, such as hardware versions.
	browser := v.objects.Get(*cluster.EnvironmentBrowser).(*simulator.EnvironmentBrowser)
	for _, supported := range browser.QueryConfigOptionDescriptorResponse.Returnval {
		if i := slices.Index(supported.Host, was.host.Self); i >= 0 {
			supported.Host[i] = host.Self
		}
	}
	for ref, mount := range was.stores {
		ds := v.objects.Get(ref).(*simulator.Datastore)
		mount.Key = host.Self
		ds.Host = append(slices.Clone(ds.Host), mount)
	}
	v.world.Mark(cluster.Self)
	folder := v.discoveredIn(ctx, v.world.DatacenterOf(cluster.Self))
	for _, d := range slices.Clone(v.removedVMs) {
		if d.host == name {
			vm := v.addVM(ctx, d, folder, &host, "")
			v.forgetRemoved(d)
			end := asUser(ctx, "")
			v.post(ctx, &types.VmDiscoveredEvent{VmEvent: v.vmEvent(vm)})
			end()
		}
	}
	return nil
}

// discoveredIn returns the folder for the VMs of an added host, and creates it if necessary. The caller holds the world lock.
func (v *inventory) discoveredIn(ctx *simulator.Context, dc *simulator.Datacenter) *simulator.Folder {
	parent := v.objects.Get(dc.VmFolder).(*simulator.Folder)
	if found := v.objects.FindByName(discovered, parent.ChildEntity); found != nil {
		return found.(*simulator.Folder)
	}
	made := parent.CreateFolder(ctx, &types.CreateFolder{This: parent.Self, Name: discovered}).(*methods.CreateFolderBody).Res.Returnval
	v.world.Mark(parent.Self)
	return v.objects.Get(made).(*simulator.Folder)
}

// UnregisterVM keeps the VM's files, so that it can be registered again.
func (vm *machine) UnregisterVM(ctx *simulator.Context, _ *types.UnregisterVM) soap.HasFault {
	if vm.v.objects.Get(vm.Self) == nil { // the VM left while this call waited for the world lock
		return &methods.UnregisterVMBody{Fault_: simulator.Fault("", &types.ManagedObjectNotFound{Obj: vm.Self})}
	}
	if fault := mustBeOff(vm.VirtualMachine); fault != nil {
		return &methods.UnregisterVMBody{Fault_: simulator.Fault("", fault)}
	}
	vm.v.chain(ctx, unregister, vm.VirtualMachine, func() { vm.v.removeVM(ctx, vm.VirtualMachine) })
	return &methods.UnregisterVMBody{Res: new(types.UnregisterVMResponse)}
}

// Register registers a VM of OutsideInventory by its instanceUuid: in its former folder or, if that is gone, in the one for discovered VMs.
func (v *inventory) Register(instanceUUID string) error {
	v.world.Lock()
	defer v.world.Unlock()
	i := slices.IndexFunc(v.removedVMs, func(d *removedVM) bool { return d.vm.Config.InstanceUuid == instanceUUID })
	if i < 0 {
		return fmt.Errorf("register %s: no VM outside the inventory has this instanceUuid", instanceUUID)
	}
	d, ctx := v.removedVMs[i], v.adminContext()
	host := v.hostNamed(d.host)
	if host == nil {
		return fmt.Errorf("register %s: host %s is not in the inventory", d.vm.Name, d.host)
	}
	folder, ok := v.objects.Get(d.folder).(*simulator.Folder)
	if !ok {
		folder = v.discoveredIn(ctx, v.world.DatacenterOf(host.Self))
	}
	vm := v.addVM(ctx, d, folder, host, "")
	v.forgetRemoved(d)
	v.post(ctx, &types.VmRegisteredEvent{VmEvent: v.vmEvent(vm)})
	return nil
}

// removedAt returns the unregistered VM whose .vmx file has this path, or nil. The caller holds the world lock.
func (v *inventory) removedAt(path string) *removedVM {
	for _, d := range v.removedVMs {
		if d.vm.Config.Files.VmPathName == path {
			return d
		}
	}
	return nil
}

// registerRemoved registers an unregistered VM in a folder. The caller holds the world lock.
func (v *inventory) registerRemoved(ctx *simulator.Context, d *removedVM, folder *simulator.Folder, req *types.RegisterVM_Task) (types.AnyType, types.BaseMethodFault) {
	host := v.hostNamed(d.host)
	if host == nil {
		return nil, new(types.NoCompatibleHost)
	}
	if req.Pool != nil {
		d.pool = *req.Pool
	}
	if req.Name != "" {
		d.vm.Name = escape(req.Name)
	}
	vm := v.addVM(ctx, d, folder, host, "")
	v.forgetRemoved(d)
	v.post(ctx, &types.VmRegisteredEvent{VmEvent: v.vmEvent(vm)})
	return vm.Self, nil
}

// hostNamed returns the host with this name, or nil. The caller holds the world lock.
func (v *inventory) hostNamed(name string) *simulator.HostSystem {
	for _, e := range v.objects.All("HostSystem") {
		if host := e.(*simulator.HostSystem); host.Name == name {
			return host
		}
	}
	return nil
}

// RemovedHosts lists the names of the removed hosts.
func (v *inventory) RemovedHosts() (names []string) {
	v.world.Lock()
	defer v.world.Unlock()
	for _, h := range v.removedHosts {
		names = append(names, h.host.Name)
	}
	return names
}

func (v *inventory) hostEvent(host *simulator.HostSystem) types.Event {
	e := v.clusterEvent(*host.Parent)
	e.Host = &types.HostEventArgument{Host: host.Self, EntityEventArgument: types.EntityEventArgument{Name: host.Name}}
	return e
}

// clusterEvent returns an event of a cluster, or of a host that is in none.
func (v *inventory) clusterEvent(compute types.ManagedObjectReference) types.Event {
	in, dc := v.objects.Get(compute).(mo.Entity).Entity(), v.world.DatacenterOf(compute)
	return types.Event{
		ComputeResource: &types.ComputeResourceEventArgument{ComputeResource: in.Self, EntityEventArgument: types.EntityEventArgument{Name: in.Name}},
		Datacenter:      &types.DatacenterEventArgument{Datacenter: dc.Self, EntityEventArgument: types.EntityEventArgument{Name: dc.Name}},
	}
}

func (v *inventory) vmEvent(vm *simulator.VirtualMachine) types.VmEvent {
	e := v.hostEvent(v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem))
	e.Vm = &types.VmEventArgument{Vm: vm.Self, EntityEventArgument: types.EntityEventArgument{Name: vm.Name}}
	return types.VmEvent{Event: e}
}

// Backup is the state of vCenter that a backup has.
type Backup struct {
	key int32
	vms map[types.ManagedObjectReference]bool
}

// Backup takes a backup.
func (v *inventory) Backup() *Backup {
	v.world.Lock()
	defer v.world.Unlock()
	b := &Backup{key: v.newestKey(v.adminContext()), vms: map[types.ManagedObjectReference]bool{}}
	for _, e := range v.objects.All("VirtualMachine") {
		b.vms[e.Reference()] = true
	}
	return b
}

// ForgetSince removes VMs and events newer than a backup, and returns the VMs. Their moRefs and event keys are reused.
func (v *inventory) ForgetSince(b *Backup) (vms []types.ManagedObjectReference) {
	v.world.Lock()
	defer v.world.Unlock()
	ctx := v.adminContext()
	v.reused = nil
	for _, e := range v.objects.All("VirtualMachine") {
		if vm := e.(*simulator.VirtualMachine); !b.vms[vm.Self] {
			v.reused, vms = append(v.reused, vm.Self.Value), append(vms, vm.Self)
			v.removeVM(ctx, vm)
		}
	}
	slices.Sort(v.reused)
	newest := v.newestKey(ctx)
	v.events.lost = append(v.events.lost, span{b.key, newest})
	return vms
}

// renumbered gives a new VM a moRef that a restore has freed, if there is one. The caller holds the world lock.
func (v *inventory) renumbered(ctx *simulator.Context, vm *simulator.VirtualMachine) *simulator.VirtualMachine {
	if len(v.reused) == 0 {
		return vm
	}
	moRef := v.reused[0]
	v.reused = v.reused[1:]
	v.removeVM(ctx, vm)
	d := v.removedVMs[len(v.removedVMs)-1]
	v.forgetRemoved(d)
	host := v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem)
	return v.addVM(ctx, d, v.objects.Get(d.folder).(*simulator.Folder), host, moRef)
}
