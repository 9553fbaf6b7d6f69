package vcsim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// inventory implements the calls and tasks for which the simulator is not strict enough. The world lock guards fields without a lock of their own.
type inventory struct {
	course // of clients' tasks

	world    *world
	objects  *simulator.Registry // of the world
	profiles *storagePolicies
	disks    *fcds
	guest    Guest // as configured
	latency  Latency
	behavior Behavior

	// The guests of VMs, the last boot time, and the guests that have booted while IgnoreGuestinfo matched them.
	guestStates map[types.ManagedObjectReference]*guestState
	lastBoot    time.Time
	ignores     map[types.ManagedObjectReference]bool

	firstIDs  map[string]string // the instanceUuids that RenewInstanceUUID changed, by their successors
	questions questions
	placement placement
	events    eventState

	// Properties with which a VM was created and that its configuration lacks, and the names of VMs in creation.
	customized map[types.ManagedObjectReference]*types.CustomizationSpec
	policies   map[types.ManagedObjectReference]requested
	contents   map[diskID]string // hidden contentIds
	reserved   map[place]types.ManagedObjectReference
	due        map[types.ManagedObjectReference]bool // guests whose customization has not ended

	// The VMs and hosts outside the inventory, and the moRefs that a restore has freed.
	removedVMs   []*removedVM
	removedHosts []*removedHost
	reused       []string

	lastMAC int

	mu       sync.Mutex // guards captures
	captures map[types.ManagedObjectReference]*capture
}

// newInventory returns an inventory. It registers for the objects that are added to the world from now on.
func newInventory(w *world, p *storagePolicies, disks *fcds, guest Guest) *inventory {
	v := &inventory{
		world: w, objects: w.Objects, profiles: p, disks: disks, guest: guest,
		guestStates: make(map[types.ManagedObjectReference]*guestState), ignores: make(map[types.ManagedObjectReference]bool), firstIDs: make(map[string]string),
		questions:  questions{pending: make(map[types.ManagedObjectReference]*pendingQuestion)},
		placement:  placement{drs: make(map[types.ManagedObjectReference]DRS), full: make(map[types.ManagedObjectReference]bool), starting: make(map[types.ManagedObjectReference]bool)},
		customized: make(map[types.ManagedObjectReference]*types.CustomizationSpec),
		policies:   make(map[types.ManagedObjectReference]requested),
		contents:   make(map[diskID]string), due: make(map[types.ManagedObjectReference]bool),
		events:   eventState{chains: make(map[int32]int32), visibleAt: make(map[int32]time.Time), hidden: make(map[int32]bool)},
		reserved: make(map[place]types.ManagedObjectReference),
		captures: make(map[types.ManagedObjectReference]*capture),
	}
	v.objects.AddHandler(&listener{TaskManager: v.taskManager(), v: v})
	return v
}

// wrap returns an object's wrapper for one call; nil if the simulator's own object answers.
func (v *inventory) wrap(m *simulator.Method, obj mo.Reference, c *call) mo.Reference {
	switch o := obj.(type) {
	case *simulator.VirtualMachine:
		return &machine{VirtualMachine: o, call: c, v: v}
	case *simulator.Folder:
		return &folder{Folder: o, call: c, v: v}
	case *simulator.ClusterComputeResource:
		return &cluster{ClusterComputeResource: o, call: c, v: v}
	case *simulator.Datacenter:
		if m.Name == "PowerOnMultiVM_Task" {
			return &datacenter{Datacenter: o, call: c, v: v}
		}
	case *simulator.StorageResourceManager:
		return &storageManager{StorageResourceManager: o}
	case *simulator.EventManager:
		return &eventManager{EventManager: o, v: v}
	}
	return nil
}

// ForgetTasks removes all tasks, as a restart does. Running work still completes.
func (v *inventory) ForgetTasks() {
	v.world.Lock()
	defer v.world.Unlock()
	ctx := v.world.Context()
	for _, task := range v.objects.AllReference("Task") {
		v.objects.Remove(ctx, task.Reference())
	}
	for _, e := range v.objects.All("") {
		e.Entity().RecentTask = nil
	}
	tm := v.taskManager()
	tm.Lock()
	defer tm.Unlock()
	v.objects.Update(ctx, tm, []types.PropertyChange{{Name: "recentTask", Val: []types.ManagedObjectReference{}}})
}

func (v *inventory) taskManager() *simulator.TaskManager {
	content := v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content
	return v.objects.Get(*content.TaskManager).(*simulator.TaskManager)
}

// VM is the current state of a VM, regardless of privileges.
type VM struct {
	Ref          types.ManagedObjectReference
	Path         string // in the inventory: /DC0/vm/folder/name
	Name         string
	Power        types.VirtualMachinePowerState
	Template     bool
	CPUs         int32
	MemoryMB     int32
	InstanceUUID string
	First        string    // the instanceUuid that the VM had before RenewInstanceUUID changed it
	Boot         time.Time // when the VM was powered on; zero while it is off
	Tools        bool      // VMware Tools run
	IP           string
	ExtraConfig  map[string]string
}

// VMs lists all VMs and templates, sorted by path.
func (v *inventory) VMs() []VM {
	v.world.Lock()
	defer v.world.Unlock()
	return v.inside()
}

// inside describes the VMs in the inventory, sorted by path. The caller holds the world lock.
func (v *inventory) inside() (vms []VM) {
	for _, e := range v.objects.All("VirtualMachine") {
		vms = append(vms, v.look(e.(*simulator.VirtualMachine)))
	}
	slices.SortFunc(vms, func(a, b VM) int { return strings.Compare(a.Path, b.Path) })
	return vms
}

// look describes a VM. The caller holds the world lock.
func (v *inventory) look(vm *simulator.VirtualMachine) (one VM) {
	one = VM{
		Ref: vm.Self, Name: vm.Name, Power: vm.Runtime.PowerState, Template: vm.Config.Template,
		CPUs: vm.Config.Hardware.NumCPU, MemoryMB: vm.Config.Hardware.MemoryMB,
		InstanceUUID: vm.Config.InstanceUuid, Tools: toolsRun(vm), IP: vm.Guest.IpAddress, ExtraConfig: make(map[string]string),
	}
	one.First = cmp.Or(v.firstIDs[one.InstanceUUID], one.InstanceUUID)
	if vm.Runtime.BootTime != nil {
		one.Boot = *vm.Runtime.BootTime
	}
	for _, o := range vm.Config.ExtraConfig {
		one.ExtraConfig[o.GetOptionValue().Key] = fmt.Sprint(o.GetOptionValue().Value)
	}
	one.Path = v.world.Path(vm.Self)
	return one
}

// Find returns the object at an inventory path or, if where does not begin with "/", the only VM with this name.
func (v *inventory) Find(where string) (types.ManagedObjectReference, error) {
	if !strings.HasPrefix(where, "/") {
		var found []VM
		for _, vm := range v.VMs() {
			if vm.Name == where {
				found = append(found, vm)
			}
		}
		if len(found) != 1 {
			return types.ManagedObjectReference{}, fmt.Errorf("%d VMs are named %s", len(found), where)
		}
		return found[0].Ref, nil
	}
	v.world.Lock()
	defer v.world.Unlock()
	if ref := v.world.At(where); ref != nil {
		return *ref, nil
	}
	return types.ManagedObjectReference{}, fmt.Errorf("%s does not exist", where)
}

// findAll returns the objects at paths, or the VMs with names.
func (v *inventory) findAll(all []string) (refs []types.ManagedObjectReference, err error) {
	for _, where := range all {
		ref, err := v.Find(where)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// Details is the rest of a VM's configuration, regardless of privileges.
type Details struct {
	VM
	NICs  []NIC
	Disks []Disk
	// Pool, Host and Datastore (of the VM home) are inventory paths. A template has no pool.
	Pool, Host, Datastore string
	// Policies are the ids of the storage policies requested for the VM home, at creation or later.
	Policies []string
	// Customization is the specification given at creation.
	Customization *types.CustomizationSpec
	// TPM is the secret of its virtual TPM; empty without one.
	TPM string
	// HostName is the host name that the guest reports.
	HostName string
	// Config is the configuration as it is now.
	Config types.VirtualMachineConfigInfo
}

// NIC is a network adapter.
type NIC struct {
	Key     int32
	Network string // name
	MAC     string
	Type    string // "vmxnet3", "e1000", ...
}

// Disk is a virtual disk.
type Disk struct {
	Key       int32
	Datastore string // inventory path
	File      string // "[datastore] directory/file.vmdk"
	Parent    string // the file of its parent disk; empty if none
	Policies  []string
	Encrypted bool
}

// Details describes the VM or template with a path or name.
func (v *inventory) Details(where string) (d Details, err error) {
	err = v.changeVM("details of", where, func(_ *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		d = Details{VM: v.look(vm), Policies: v.policies[vm.Self].home}
		if spec := v.customized[vm.Self]; spec != nil {
			d.Customization = copyCustomization(*spec)
		}
		v.detail(vm, &d)
		return nil
	})
	return d, err
}

// detail reads the VM's own properties. The caller holds its lock.
func (v *inventory) detail(vm *simulator.VirtualMachine, d *Details) {
	dc := v.world.DatacenterOf(vm.Self)
	d.HostName, d.Config = vm.Guest.HostName, *vm.Config
	if tpm := tpmOf(vm.Config.Hardware.Device); tpm != nil {
		d.TPM = string(tpm.EndorsementKeyCertificate[0])
	}
	if vm.ResourcePool != nil {
		d.Pool = v.world.Path(*vm.ResourcePool)
	}
	if vm.Runtime.Host != nil {
		d.Host = v.world.Path(*vm.Runtime.Host)
	}
	d.Datastore = v.datastorePath(dc, vm.Config.Files.VmPathName)
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	for _, device := range devices {
		key := device.GetVirtualDevice().Key
		switch o := device.(type) {
		case types.BaseVirtualEthernetCard:
			card := o.GetVirtualEthernetCard()
			name, _ := v.networkOf(dc, card.Backing)
			d.NICs = append(d.NICs, NIC{Key: key, Network: name, MAC: card.MacAddress, Type: strings.ToLower(strings.TrimPrefix(devices.TypeName(device), "Virtual"))})
		case *types.VirtualDisk:
			disk := Disk{Key: key, Policies: v.policies[vm.Self].disks[key]}
			if b, ok := o.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
				disk.File, disk.Datastore, disk.Encrypted = b.FileName, v.datastorePath(dc, b.FileName), b.KeyId != nil
				if b.Parent != nil {
					disk.Parent = b.Parent.FileName
				}
			}
			d.Disks = append(d.Disks, disk)
		}
	}
}

// datastorePath returns the inventory path of a file's datastore.
func (v *inventory) datastorePath(dc *simulator.Datacenter, file string) string {
	var path object.DatastorePath
	path.FromString(file)
	if ds := v.objects.FindByName(path.Datastore, dc.Datastore); ds != nil {
		return v.world.Path(ds.Reference())
	}
	return ""
}

// at calls do for the object at a path, or the VM with a name, under the world lock. It is for changes that need several calls of vCenter's API, or
// for which the API has none.
func at[T mo.Reference](v *inventory, what, where string, do func(T) types.BaseMethodFault) error {
	ref, err := v.Find(where)
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, where, err)
	}
	v.world.Lock()
	defer v.world.Unlock()
	o, ok := v.objects.Get(ref).(T)
	if !ok {
		return fmt.Errorf("%s %s: not a %T", what, where, o)
	}
	if fault := do(o); fault != nil {
		return fmt.Errorf("%s %s: %w", what, where, soap.WrapVimFault(fault))
	}
	return nil
}

// SetName gives an object, but no VM, a name that others of its folder may have. vCenter has such networks, which its own API does not create:
// a standard port group and a distributed one ([terraform] #1143), and the opaque network of a segment and its port group in each switch
// ([govmomi] #1997, eks-anywhere #3162).
func (v *inventory) SetName(where, name string) error {
	return at(v, "rename", where, func(o mo.Entity) types.BaseMethodFault {
		changes := []types.PropertyChange{{Name: "name", Val: name}}
		switch x := o.(type) {
		case *simulator.DistributedVirtualPortgroup:
			changes = append(changes, types.PropertyChange{Name: "config.name", Val: name})
		case *mo.OpaqueNetwork:
			summary := *x.Summary.(*types.OpaqueNetworkSummary)
			summary.Name = name
			changes = append(changes, types.PropertyChange{Name: "summary", Val: &summary})
		}
		o.Entity().Name = name
		v.objects.AtomicUpdate(v.world.Context(), o, changes)
		return nil
	})
}

// changeVM is at for a VM or template.
func (v *inventory) changeVM(what, where string, do func(*simulator.Context, *simulator.VirtualMachine) types.BaseMethodFault) error {
	return at(v, what, where, func(vm *simulator.VirtualMachine) types.BaseMethodFault { return do(v.world.Context(), vm) })
}

// BeginTask begins a task on the root folder. It ends when end is called, with a fault if that is not nil, otherwise with a result.
func (v *inventory) BeginTask(kind Kind) (ref types.ManagedObjectReference, end func(types.AnyType, types.BaseMethodFault)) {
	v.world.Lock()
	defer v.world.Unlock()
	root := v.objects.Get(v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.RootFolder)
	j := v.newJob("", kind, root.(mo.Entity), adminUser)
	return j.Self, func(result types.AnyType, fault types.BaseMethodFault) { v.finish(v.world.Context(), j, result, fault) }
}

// SetIP makes the guest report an address, until it halts or its Tools stop; "" removes it.
func (v *inventory) SetIP(where, ip string) error {
	return v.changeVM("set the address of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.report(ctx, vm, func(g *types.GuestInfo) { setAddress(g, ip) })
		return nil
	})
}

// SetConnected has vCenter lose, or find again, the host at a path. What vCenter shows of the host's VMs stays as it was ([doc]
// HostSystemConnectionState: "notResponding"; VirtualMachineConnectionState: "disconnected").
func (v *inventory) SetConnected(path string, connected bool) error {
	return at(v, "set the connection of", path, func(host *simulator.HostSystem) types.BaseMethodFault {
		ctx, of, ofVMs := v.world.Context(), types.HostSystemConnectionStateNotResponding, types.VirtualMachineConnectionStateDisconnected
		if connected {
			of, ofVMs = types.HostSystemConnectionStateConnected, types.VirtualMachineConnectionStateConnected
		}
		v.objects.Update(ctx, host, []types.PropertyChange{{Name: "runtime.connectionState", Val: of}})
		for _, ref := range host.Vm {
			v.objects.Update(ctx, v.objects.Get(ref).(*simulator.VirtualMachine), []types.PropertyChange{{Name: "runtime.connectionState", Val: ofVMs}})
		}
		return nil
	})
}

// SetTools starts or stops VMware Tools in a powered-on VM until the next power change or reset, regardless of Config.Guest. The guest continues
// to run and keeps its addresses; after a start, Tools report an address after Guest.IP.
func (v *inventory) SetTools(where string, running bool) error {
	return v.changeVM("set the tools of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOn(vm); fault != nil {
			return fault
		}
		v.setTools(ctx, vm, running)
		return nil
	})
}

func (v *inventory) setTools(ctx *simulator.Context, vm *simulator.VirtualMachine, running bool) {
	s := v.guestStateOf(vm.Self)
	if running {
		s.silent = nil
		v.report(ctx, vm, toolsStart)
		v.scheduleAddress(ctx, vm, s)
		return
	}
	s.end()
	v.report(ctx, vm, func(g *types.GuestInfo) {
		for _, nic := range g.Net {
			if ofAdapter(nic) {
				s.silent = append(s.silent, nic.IpAddress...)
			}
		}
		toolsStop(g)
	})
}

// SetHealth sets the health of a guest. If the VM is on, a guest that becomes healthy starts as after a reset. A guest in a powered-off
// VM can't be HungUntilReset.
func (v *inventory) SetHealth(where string, health Health) error {
	return v.changeVM("change the health of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		fault := mustBeOn(vm)
		if fault != nil && health == HungUntilReset {
			return fault
		}
		s := v.guestStateOf(vm.Self)
		s.health = health
		switch {
		case health != Healthy:
			s.end()
			v.report(ctx, vm, toolsStop)
		case fault == nil:
			v.startTools(ctx, vm, s)
		}
		return nil
	})
}

// Report makes the first adapter of a guest with running Tools report these addresses, in this order, with their states, origins and prefixes, and
// makes primary the guest's primary address.
func (v *inventory) Report(where, primary string, addresses ...types.NetIpConfigInfoIpAddress) error {
	return v.changeVM("change the addresses of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustHaveTools(vm); fault != nil {
			return fault
		}
		v.report(ctx, vm, func(g *types.GuestInfo) {
			setAddress(g, primary)
			for i := range g.Net {
				if !ofAdapter(g.Net[i]) {
					continue
				}
				g.Net[i].IpAddress, g.Net[i].IpConfig = nil, &types.NetIpConfigInfo{IpAddress: addresses}
				for _, a := range addresses {
					g.Net[i].IpAddress = append(g.Net[i].IpAddress, a.IpAddress)
				}
				break
			}
		})
		return nil
	})
}

// SetHotAdd sets whether CPUs and memory of a VM, or of a template's clones, can be hot-added. The VM must be off. (In a real vCenter, a
// template must become a VM for this.)
func (v *inventory) SetHotAdd(where string, cpu, memory bool) error {
	return v.changeVM("set the hot-add of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOff(vm); fault != nil {
			return fault
		}
		v.Amend(ctx, vm,
			types.PropertyChange{Name: "config.cpuHotAddEnabled", Val: cpu},
			types.PropertyChange{Name: "config.memoryHotAddEnabled", Val: memory})
		return nil
	})
}

// Republish changes the contents of a template's disks, as an operator does who patches the template in place.
func (v *inventory) Republish(where string) error {
	return v.changeVM("republish", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOff(vm); fault != nil {
			return fault
		}
		v.Amend(ctx, vm, types.PropertyChange{Name: "config.hardware.device", Val: rewritten(vm.Config.Hardware.Device)})
		return nil
	})
}

// BumpChangeVersion changes only the changeVersion of the VM with a path or name, as vCenter does when it rewrites a VM's configuration file.
func (v *inventory) BumpChangeVersion(where string) error {
	return v.changeVM("bump the changeVersion of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "config.changeVersion", Val: laterVersion(vm)}})
		return nil
	})
}

// ShiftBootTime moves the bootTime of the powered-on VM with a path or name, as a vMotion to a host with another offset of its clock may.
func (v *inventory) ShiftBootTime(where string, by time.Duration) error {
	return v.changeVM("shift the boot time of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOn(vm); fault != nil {
			return fault
		}
		boot := vm.Runtime.BootTime.Add(by)
		v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "runtime.bootTime", Val: boot}, {Name: "summary.runtime.bootTime", Val: boot}})
		return nil
	})
}
