package managed

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/course"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Objects implements the calls and tasks for which the simulator is not strict enough.
type Objects struct {
	course.Course // of clients' tasks; it has locks of its own

	world    *world.World
	objects  *simulator.Registry // of the world
	profiles profiles
	disks    firstClass
	guest    Guest // as configured

	// The world lock guards these: the guests of VMs, the last boot time, and the guests to break or to hang (nil: none).
	guestStates               map[types.ManagedObjectReference]*guestState
	lastBoot                  time.Time
	broken, hanging, ignoring func(VM) bool
	ignores                   map[types.ManagedObjectReference]bool // guests that have booted while ignoring matched them

	questions questions // see there for what guards them
	placement placement

	// The world lock guards these, too: what a VM was created with that is not in its configuration.
	customized map[types.ManagedObjectReference]*types.CustomizationSpec
	policies   map[types.ManagedObjectReference]policies
	contents   map[diskID]string // hidden contentIds
	customizing

	// The world lock guards the VMs and hosts outside the inventory, and the moRefs that a restore has freed.
	removedVMs   []*removedVM
	removedHosts []*removedHost
	reused       []string

	refuseLate, idDirectories atomic.Bool

	mu       sync.Mutex // guards what follows
	events   eventState
	latency  course.Latency
	reserved map[place]types.ManagedObjectReference
	captures map[types.ManagedObjectReference]*capture
	kept     []Kept
	lastRule int32
	lastMAC  int
}

// profiles are the storage policies.
type profiles interface {
	// Has reports whether a policy with this id exists.
	Has(id string) bool
}

// New registers for everything that is added to the world from now on.
func New(w *world.World, p profiles, disks firstClass, guest Guest) *Objects {
	v := &Objects{
		world: w, objects: w.Objects, profiles: p, disks: disks, guest: guest,
		guestStates: make(map[types.ManagedObjectReference]*guestState), ignores: make(map[types.ManagedObjectReference]bool),
		questions:  questions{pending: make(map[types.ManagedObjectReference]*pendingQuestion)},
		placement:  placement{drs: make(map[types.ManagedObjectReference]DRS), full: make(map[types.ManagedObjectReference]bool)},
		customized: make(map[types.ManagedObjectReference]*types.CustomizationSpec),
		policies:   make(map[types.ManagedObjectReference]policies),
		contents:   make(map[diskID]string), customizing: customizing{due: make(map[types.ManagedObjectReference]bool)},
		events:   eventState{chains: make(map[int32]int32), visibleAt: make(map[int32]time.Time)},
		reserved: make(map[place]types.ManagedObjectReference),
		captures: make(map[types.ManagedObjectReference]*capture),
	}
	v.objects.AddHandler(&taskListener{TaskManager: v.taskManager(), v: v})
	v.objects.AddHandler(ruleCleaner{v})
	return v
}

// Wrap returns an object's wrapper for one call; nil if the simulator's own object answers.
func (v *Objects) Wrap(m *simulator.Method, obj mo.Reference, g *world.Guard) mo.Reference {
	switch o := obj.(type) {
	case *simulator.VirtualMachine:
		g.Protect(o.Self, !strings.HasSuffix(m.Name, "_Task"))
		return &machine{VirtualMachine: o, Guard: g, v: v}
	case *simulator.Folder:
		g.Protect(o.Self, !strings.HasSuffix(m.Name, "_Task"))
		return &folder{Folder: o, Guard: g, v: v}
	case *simulator.ClusterComputeResource:
		g.Protect(o.Self, false)
		return &cluster{ClusterComputeResource: o, Guard: g, v: v}
	case *simulator.Datacenter:
		if m.Name == "PowerOnMultiVM_Task" {
			g.Protect(o.Self, false)
			return &datacenter{Datacenter: o, Guard: g, v: v}
		}
	case *simulator.StorageResourceManager:
		g.Protect(o.Self, false)
		return &storageManager{StorageResourceManager: o, Guard: g, v: v}
	case *simulator.CustomFieldsManager:
		g.Protect(o.Self, true)
		return &fieldsManager{CustomFieldsManager: o, Guard: g, v: v}
	case *simulator.EventManager:
		return &eventManager{EventManager: o, v: v}
	}
	return nil
}

// ForgetTasks removes all tasks, as a restart does. Running work still completes.
func (v *Objects) ForgetTasks() {
	v.world.Lock()
	defer v.world.Unlock()
	ctx := v.world.Context()
	for _, task := range v.objects.AllReference("Task") {
		v.objects.Remove(ctx, task.Reference())
	}
	for _, e := range v.objects.All("") {
		v.objects.WithLock(ctx, e.Reference(), func() { e.Entity().RecentTask = nil })
	}
	tm := v.taskManager()
	tm.Lock()
	defer tm.Unlock()
	v.objects.Update(ctx, tm, []types.PropertyChange{{Name: "recentTask", Val: []types.ManagedObjectReference{}}})
}

func (v *Objects) taskManager() *simulator.TaskManager {
	content := v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content
	return v.objects.Get(*content.TaskManager).(*simulator.TaskManager)
}
