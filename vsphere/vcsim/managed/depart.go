package managed

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// VMs leave the inventory, and go on: with a host that is removed, by being unregistered, or because vCenter is restored from a
// backup that is older than they are. They come back with the host, or when they are registered, with another moRef; their files,
// and so their instanceUuid and extraConfig, are what they were.

// Unregister and DestroyHost are the kinds of the tasks, by the descriptionId, that take VMs off the inventory and leave them be.
const (
	Unregister  Kind = "VirtualMachine.unregister"
	DestroyHost Kind = "HostSystem.destroy"
)

// discovered is the folder in which vCenter puts the VMs of a host that is added.
const discovered = "Discovered virtual machine"

// departed is a VM that is not in the inventory, and exists. The world guards it.
type departed struct {
	vm     *simulator.VirtualMachine
	host   string // its name
	folder types.ManagedObjectReference
	pool   types.ManagedObjectReference
	health Health
	asked  *asked // what it asks and goes on asking; nil: nothing
}

// departedHost is a host that is not in the inventory.
type departedHost struct {
	host    *simulator.HostSystem
	cluster types.ManagedObjectReference
	stores  map[types.ManagedObjectReference]types.DatastoreHostMount
}

// Away lists the VMs that exist and are not in the inventory. Their Ref is the one they had; they have no Path.
func (v *Objects) Away() (vms []VM) {
	v.world.RLock()
	defer v.world.RUnlock()
	ctx := v.world.Context()
	for _, d := range v.away {
		one := v.look(ctx, d.vm)
		one.Path = ""
		vms = append(vms, one)
	}
	return vms
}

// adminContext is a context of the admin's. The caller holds the world.
func (v *Objects) adminContext() *simulator.Context {
	ctx := v.world.Context()
	session := *ctx.Session
	session.UserName = world.AdminUser
	ctx.Session = &session
	return ctx
}

// leave takes a VM off the inventory, whatever its power. The caller holds the world.
func (v *Objects) leave(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	d := &departed{vm: vm}
	if host, ok := v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem); ok {
		d.host = host.Name
	}
	if vm.Parent != nil {
		d.folder = *vm.Parent
	}
	if vm.ResourcePool != nil {
		d.pool = *vm.ResourcePool
	}
	if l, ok := v.lives[vm.Self]; ok {
		l.end()
		d.health = l.health
		delete(v.lives, vm.Self)
	}
	v.mu.Lock()
	if q := v.asks.of[vm.Self]; q != nil { // it goes on asking, but the task that waits for the answer is over
		close(q.left)
		d.asked = &asked{id: q.id, choices: q.choices, answered: make(chan string, 1), left: make(chan struct{})}
		delete(v.asks.of, vm.Self)
	}
	v.mu.Unlock()
	v.objects.WithLock(ctx, vm.Self, func() {
		power := vm.Runtime.PowerState
		vm.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff // else the simulator refuses
		vm.UnregisterVM(ctx, &types.UnregisterVM{This: vm.Self})
		vm.Runtime.PowerState = power
	})
	v.away = append(v.away, d)
}

// admitVM puts a VM into the inventory, with that moRef or, if it is empty, a new one. The caller holds the world.
func (v *Objects) admitVM(ctx *simulator.Context, d *departed, folder *simulator.Folder, host *simulator.HostSystem, moRef string) *simulator.VirtualMachine {
	vm := *d.vm
	config, guest := *vm.Config, *vm.Guest
	vm.Config, vm.Guest = &config, &guest
	vm.Self = types.ManagedObjectReference{Type: "VirtualMachine", Value: moRef}
	vm.RecentTask = nil
	for n := 1; v.taken(place{folder.Self, vm.Name}, nil) != nil; n++ { // as vCenter names a VM whose name is taken
		vm.Name = fmt.Sprintf("%s (%d)", d.vm.Name, n)
	}
	vm.Runtime.Host = &host.Self
	vm.Summary.Runtime.Host = &host.Self
	if v.objects.Get(d.pool) != nil {
		vm.ResourcePool = &d.pool
	}
	v.objects.PutEntity(folder, &vm)
	v.objects.AppendReference(ctx, folder, &folder.ChildEntity, vm.Self)
	v.objects.AppendReference(ctx, host, &host.Vm, vm.Self)
	for _, ref := range vm.Datastore {
		ds := v.objects.Get(ref).(*simulator.Datastore)
		v.objects.AppendReference(ctx, ds, &ds.Vm, vm.Self)
	}
	if pool, ok := v.objects.Get(*vm.ResourcePool).(*simulator.ResourcePool); ok {
		v.objects.AppendReference(ctx, pool, &pool.Vm, vm.Self)
	}
	if d.asked != nil {
		v.mu.Lock()
		v.asks.of[vm.Self] = d.asked
		v.mu.Unlock()
	}
	v.world.Mark(folder.Self, vm.Self)
	if d.health != Well {
		v.lifeOf(vm.Self).health = d.health
	} else if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn && !toolsRun(&vm) {
		v.boot(ctx, &vm)
	}
	return &vm
}

// back takes a VM off the list of those that are away. The caller holds the world.
func (v *Objects) back(d *departed) {
	v.away = slices.DeleteFunc(v.away, func(x *departed) bool { return x == d })
}

// RemoveHost removes the host at an inventory path, in a cluster, from the inventory, and its VMs with it. All go on running. (Its
// templates go to another host of the cluster, if there is one.)
func (v *Objects) RemoveHost(path string) error {
	ref, err := v.Find(path)
	if err != nil {
		return fmt.Errorf("remove host: %w", err)
	}
	v.world.Lock()
	defer v.world.Unlock()
	host, ok := v.objects.Get(ref).(*simulator.HostSystem)
	if !ok {
		return fmt.Errorf("remove host %s: it is none", path)
	}
	cluster, ok := v.objects.Get(*host.Parent).(*simulator.ClusterComputeResource)
	if !ok {
		return fmt.Errorf("remove host %s: it is in no cluster", path)
	}
	ctx := v.adminContext()
	gone := &departedHost{host: host, cluster: cluster.Self, stores: map[types.ManagedObjectReference]types.DatastoreHostMount{}}
	v.chain(ctx, DestroyHost, host, func() {
		for _, ref := range slices.Clone(host.Vm) {
			vm := v.objects.Get(ref).(*simulator.VirtualMachine)
			if !vm.Config.Template || !v.moveTemplate(ctx, vm, cluster) {
				v.leave(ctx, vm)
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
	v.hosts = append(v.hosts, gone)
	return nil
}

// AddHost adds a host that was removed back to its cluster. The host and its VMs have other moRefs; the VMs are in the folder
// "Discovered virtual machine".
func (v *Objects) AddHost(name string) error {
	v.world.Lock()
	defer v.world.Unlock()
	i := slices.IndexFunc(v.hosts, func(h *departedHost) bool { return h.host.Name == name })
	if i < 0 {
		return fmt.Errorf("add host %s: no such host was removed", name)
	}
	was, ctx := v.hosts[i], v.adminContext()
	v.hosts = slices.Delete(v.hosts, i, i+1)
	host := *was.host
	host.Self, host.Vm = types.ManagedObjectReference{Type: "HostSystem"}, nil
	cluster := v.objects.Get(was.cluster).(*simulator.ClusterComputeResource)
	v.objects.PutEntity(cluster, &host)
	v.objects.AppendReference(ctx, cluster, &cluster.Host, host.Self)
	for ref, mount := range was.stores {
		ds := v.objects.Get(ref).(*simulator.Datastore)
		mount.Key = host.Self
		ds.Host = append(slices.Clone(ds.Host), mount)
	}
	v.world.Mark(cluster.Self)
	folder := v.discoveredIn(ctx, v.world.DatacenterOf(cluster.Self))
	for _, d := range slices.Clone(v.away) {
		if d.host == name {
			v.admitVM(ctx, d, folder, &host, "")
			v.back(d)
		}
	}
	return nil
}

// discoveredIn is the folder for the VMs of a host that was added. The caller holds the world.
func (v *Objects) discoveredIn(ctx *simulator.Context, dc *simulator.Datacenter) *simulator.Folder {
	parent := v.objects.Get(dc.VmFolder).(*simulator.Folder)
	if found := v.objects.FindByName(discovered, parent.ChildEntity); found != nil {
		return found.(*simulator.Folder)
	}
	made := parent.CreateFolder(ctx, &types.CreateFolder{This: parent.Self, Name: discovered}).(*methods.CreateFolderBody).Res.Returnval
	v.world.Mark(parent.Self)
	return v.objects.Get(made).(*simulator.Folder)
}

// UnregisterVM leaves the VM's files, from which it can be registered again.
func (vm *machine) UnregisterVM(ctx *simulator.Context, _ *types.UnregisterVM) soap.HasFault {
	if fault := mustBeOff(vm.VirtualMachine); fault != nil {
		return &methods.UnregisterVMBody{Fault_: simulator.Fault("", fault)}
	}
	vm.v.chain(ctx, Unregister, vm.VirtualMachine, func() { vm.v.leave(ctx, vm.VirtualMachine) })
	return &methods.UnregisterVMBody{Res: new(types.UnregisterVMResponse)}
}

// Register registers a VM that is away, by the instanceUuid in its files: in the folder it was in, or, if that is gone, in the one for
// what is discovered.
func (v *Objects) Register(instanceUUID string) error {
	v.world.Lock()
	defer v.world.Unlock()
	i := slices.IndexFunc(v.away, func(d *departed) bool { return d.vm.Config.InstanceUuid == instanceUUID })
	if i < 0 {
		return fmt.Errorf("register %s: no such VM is away", instanceUUID)
	}
	d, ctx := v.away[i], v.adminContext()
	host := v.hostNamed(d.host)
	if host == nil {
		return fmt.Errorf("register %s: its host %s is not in the inventory", d.vm.Name, d.host)
	}
	folder, ok := v.objects.Get(d.folder).(*simulator.Folder)
	if !ok {
		folder = v.discoveredIn(ctx, v.world.DatacenterOf(host.Self))
	}
	vm := v.admitVM(ctx, d, folder, host, "")
	v.back(d)
	v.post(ctx, &types.VmRegisteredEvent{VmEvent: v.vmEvent(vm)})
	return nil
}

// filedAt is a VM that was unregistered, by the path of its .vmx file; nil if there is none. The caller holds the world.
func (v *Objects) filedAt(path string) *departed {
	for _, d := range v.away {
		if d.vm.Config.Files.VmPathName == path {
			return d
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, k := range v.kept {
		if k.Path == path {
			return k.departed
		}
	}
	return nil
}

// registered registers it in a folder. The caller holds the world.
func (v *Objects) registered(ctx *simulator.Context, d *departed, folder *simulator.Folder, req *types.RegisterVM_Task) (types.AnyType, types.BaseMethodFault) {
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
	vm := v.admitVM(ctx, d, folder, host, "")
	v.back(d)
	v.mu.Lock()
	v.kept = slices.DeleteFunc(v.kept, func(k Kept) bool { return k.departed == d })
	v.mu.Unlock()
	v.post(ctx, &types.VmRegisteredEvent{VmEvent: v.vmEvent(vm)})
	return vm.Self, nil
}

// hostNamed is the host of that name in the inventory; nil if there is none. The caller holds the world.
func (v *Objects) hostNamed(name string) *simulator.HostSystem {
	for _, e := range v.objects.All("HostSystem") {
		if host := e.(*simulator.HostSystem); host.Name == name {
			return host
		}
	}
	return nil
}

// RemovedHosts are the names of the hosts that were removed.
func (v *Objects) RemovedHosts() (names []string) {
	v.world.RLock()
	defer v.world.RUnlock()
	for _, h := range v.hosts {
		names = append(names, h.host.Name)
	}
	return names
}

func (v *Objects) hostEvent(host *simulator.HostSystem) types.Event {
	in, dc := v.objects.Get(*host.Parent).(mo.Entity).Entity(), v.world.DatacenterOf(*host.Parent)
	return types.Event{
		Host:            &types.HostEventArgument{Host: host.Self, EntityEventArgument: types.EntityEventArgument{Name: host.Name}},
		ComputeResource: &types.ComputeResourceEventArgument{ComputeResource: in.Self, EntityEventArgument: types.EntityEventArgument{Name: in.Name}},
		Datacenter:      &types.DatacenterEventArgument{Datacenter: dc.Self, EntityEventArgument: types.EntityEventArgument{Name: dc.Name}},
	}
}

func (v *Objects) vmEvent(vm *simulator.VirtualMachine) types.VmEvent {
	e := v.hostEvent(v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem))
	e.Vm = &types.VmEventArgument{Vm: vm.Self, EntityEventArgument: types.EntityEventArgument{Name: vm.Name}}
	return types.VmEvent{Event: e}
}

// moveTemplate gives a template to another host of a cluster, as an operator does before its own is removed; false: there is none.
// The caller holds the world.
func (v *Objects) moveTemplate(ctx *simulator.Context, vm *simulator.VirtualMachine, cluster *simulator.ClusterComputeResource) bool {
	from := v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem)
	for _, ref := range cluster.Host {
		if to := v.objects.Get(ref).(*simulator.HostSystem); to != from {
			v.objects.RemoveReference(ctx, from, &from.Vm, vm.Self)
			v.objects.AppendReference(ctx, to, &to.Vm, vm.Self)
			v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "runtime.host", Val: &to.Self}, {Name: "summary.runtime.host", Val: &to.Self}})
			return true
		}
	}
	return false
}

// Backup is what a backup of vCenter knows.
type Backup struct {
	key int32
	vms map[types.ManagedObjectReference]bool
}

// Backup takes one.
func (v *Objects) Backup() *Backup {
	v.world.Lock()
	defer v.world.Unlock()
	b := &Backup{key: v.newestKey(v.adminContext()), vms: map[types.ManagedObjectReference]bool{}}
	for _, e := range v.objects.All("VirtualMachine") {
		b.vms[e.Reference()] = true
	}
	return b
}

// ForgetSince takes off the inventory what is younger than a backup, and the events since; what they were called is given again.
func (v *Objects) ForgetSince(b *Backup) {
	v.world.Lock()
	defer v.world.Unlock()
	ctx := v.adminContext()
	v.reused = nil
	for _, e := range v.objects.All("VirtualMachine") {
		if vm := e.(*simulator.VirtualMachine); !b.vms[vm.Self] {
			v.reused = append(v.reused, vm.Self.Value)
			v.leave(ctx, vm)
		}
	}
	slices.Sort(v.reused)
	newest := v.newestKey(ctx)
	v.mu.Lock()
	v.events.lost = append(v.events.lost, span{b.key, newest})
	v.mu.Unlock()
}

// renumbered gives a VM that was just made a moRef that a restore has freed, if there is one. The caller holds the world.
func (v *Objects) renumbered(ctx *simulator.Context, vm *simulator.VirtualMachine) *simulator.VirtualMachine {
	if len(v.reused) == 0 {
		return vm
	}
	moRef := v.reused[0]
	v.reused = v.reused[1:]
	v.leave(ctx, vm)
	d := v.away[len(v.away)-1]
	v.back(d)
	host := v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem)
	again := v.admitVM(ctx, d, v.objects.Get(d.folder).(*simulator.Folder), host, moRef)
	v.post(ctx, &types.VmCreatedEvent{VmEvent: v.vmEvent(again)})
	return again
}
