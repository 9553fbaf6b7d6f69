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

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Objects are the objects whose calls and tasks are stricter than the simulator's, and the tasks.
type Objects struct {
	world    *world.World
	objects  *simulator.Registry // of the world
	profiles profiles
	guest    Guest // as configured

	// The world guards these: the guests of VMs, when the last VM booted, and what persons have said of
	// guests (nil: nothing).
	lives           map[types.ManagedObjectReference]*life
	lastBoot        time.Time
	broken, hanging func(VM) bool

	asks    asks    // question.go says what guards them
	placing placing // drs.go

	// The world guards these, too: what was asked for in a VM's making and is not in its configuration.
	customized map[types.ManagedObjectReference]*types.CustomizationSpec
	policies   map[types.ManagedObjectReference]policies
	contents   map[diskID]string // the contentIds that are not shown
	customizing

	// The world guards what is not in the inventory, and the moRefs that a restore has freed.
	away   []*departed
	hosts  []*departedHost
	reused []string

	refuseLate atomic.Bool

	mu       sync.Mutex // guards what follows
	events   eventBook
	latency  Latency
	held     map[Kind]chan struct{}
	orders   []*taskOrder
	reserved map[place]types.ManagedObjectReference
	captures map[types.ManagedObjectReference]*capture
	kept     []Kept
	lastRule int32
	lastMAC  int
}

// profiles are the storage policies that there are.
type profiles interface {
	// Has reports whether there is one of an id.
	Has(id string) bool
}

// New hears of all that is put into the world from now on.
func New(w *world.World, p profiles, guest Guest) *Objects {
	v := &Objects{
		world: w, objects: w.Objects, profiles: p, guest: guest,
		lives:      make(map[types.ManagedObjectReference]*life),
		asks:       asks{of: make(map[types.ManagedObjectReference]*asked)},
		placing:    placing{drs: make(map[types.ManagedObjectReference]DRS), full: make(map[types.ManagedObjectReference]bool)},
		customized: make(map[types.ManagedObjectReference]*types.CustomizationSpec),
		policies:   make(map[types.ManagedObjectReference]policies),
		contents:   make(map[diskID]string), customizing: customizing{due: make(map[types.ManagedObjectReference]bool)},
		events:   eventBook{chains: make(map[int32]int32), late: make(map[int32]time.Time)},
		held:     make(map[Kind]chan struct{}),
		reserved: make(map[place]types.ManagedObjectReference),
		captures: make(map[types.ManagedObjectReference]*capture),
	}
	v.objects.AddHandler(&taskBook{TaskManager: v.taskManager(), v: v})
	v.objects.AddHandler(ruleBook{v})
	return v
}

// Wrap is an object as it answers one call; nil: the simulator's own does.
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

// ForgetTasks forgets all tasks, as a restart does. What was running is still carried out.
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
