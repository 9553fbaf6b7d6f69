// This file compares what members need with what hosts, resource pools and datastores have, for previews and for the check. It changes nothing, and
// nothing waits for it: vCenter lets the VMs of a pool have more memory than there is.

package vsphere

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/source"
)

// Room is what there is for the members of a zone, and what one member needs of it.
type Room struct {
	need      memberNeed
	cluster   string // or the host, if it is in no cluster
	pool      poolRoom
	hosts     []hostRoom
	datastore datastoreRoom
}

// memberNeed is what one member needs. disk is the most that its disks on its own datastore can take, and reserved what it reserves of memory, in
// bytes.
type memberNeed struct {
	cpu                    int32
	memory, reserved, disk int64
}

// hostRoom is what a host has: logical CPUs, and memory in bytes.
type hostRoom struct {
	cpu    int16
	memory int64
}

func (h *hostRoom) properties() session.Properties {
	return session.Properties{session.To("summary.hardware.numCpuThreads", &h.cpu), session.To("summary.hardware.memorySize", &h.memory)}
}

// poolRoom is what the VMs of a resource pool can have of memory, and what they can still reserve, in bytes.
type poolRoom struct {
	name               string
	memory, unreserved int64
}

func (p *poolRoom) properties() session.Properties {
	return session.Properties{session.To("name", &p.name), session.To("runtime.memory.maxUsage", &p.memory), session.To("runtime.memory.unreservedForVm", &p.unreserved)}
}

// datastoreRoom is what is free on a datastore, in bytes.
type datastoreRoom struct {
	name string
	free int64
}

func (d *datastoreRoom) properties() session.Properties {
	return session.Properties{session.To("summary.name", &d.name), session.To("summary.freeSpace", &d.free)}
}

// Room reads, with one call, the hosts and the resource pool of a draft that is filled, and its datastore.
func (d *Draft) Room(ctx context.Context) (*Room, error) {
	r := &Room{need: d.need()}
	pool := d.b.spec.Location.Pool
	if pool == nil {
		return r, nil
	}
	return r, r.read(ctx, d.b.calls, types.ObjectSpec{Obj: *pool, SelectSet: fromPool()}, d.datastore())
}

// roomToResize reads, with one call, the hosts and the resource pool of a member that gets another size.
func (v *VCenter) roomToResize(ctx context.Context, a plan.Action) (*Room, error) {
	to := plan.ArgsOf[plan.ResizeArgs](a.Args)
	r := &Room{need: memberNeed{cpu: to.CPU, memory: to.MemoryMB << 20}}
	return r, r.read(ctx, v.calls, types.ObjectSpec{Obj: inventory.VMRef(a.MoRef), Skip: types.NewBool(true), SelectSet: []types.BaseSelectionSpec{
		&types.TraversalSpec{Type: session.VMType, Path: "resourcePool", SelectSet: fromPool()},
	}}, nil)
}

// fromPool leads from a resource pool to the hosts of its cluster.
func fromPool() []types.BaseSelectionSpec {
	return []types.BaseSelectionSpec{&types.TraversalSpec{Type: "ResourcePool", Path: "owner", SelectSet: []types.BaseSelectionSpec{
		&types.TraversalSpec{Type: "ComputeResource", Path: "host"},
	}}}
}

// read reads what there is: the resource pool and the hosts to which from leads, and the datastore unless it is nil.
func (r *Room) read(ctx context.Context, c calls, from types.ObjectSpec, datastore *types.ManagedObjectReference) error {
	filters := []types.PropertyFilterSpec{{
		ObjectSet: []types.ObjectSpec{from},
		PropSet: []types.PropertySpec{
			{Type: "ResourcePool", PathSet: r.pool.properties().Paths()},
			{Type: "ComputeResource", PathSet: []string{"name"}},
			{Type: "HostSystem", PathSet: new(hostRoom).properties().Paths()},
		},
	}}
	if datastore != nil {
		filters = append(filters, types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: *datastore}}, PropSet: []types.PropertySpec{{Type: "Datastore", PathSet: r.datastore.properties().Paths()}},
		})
	}
	return c.Call(ctx, func(ctx context.Context, s *session.Session) error {
		objects, err := session.ReadObjects(ctx, s, filters...)
		r.hosts = nil
		for _, o := range objects {
			switch o.Ref.Type {
			case "HostSystem":
				var h hostRoom
				o.Into(h.properties())
				r.hosts = append(r.hosts, h)
			case "Datastore":
				o.Into(r.datastore.properties())
			case "ResourcePool":
				o.Into(r.pool.properties())
			default:
				o.Into(session.Properties{session.To("name", &r.cluster)})
			}
		}
		return err
	})
}

// need returns what one member needs.
func (d *Draft) need() memberNeed {
	config, spec := d.b.spec.Config, d.b.details.Spec
	n := memberNeed{cpu: config.NumCPUs, memory: config.MemoryMB << 20}
	n.reserved = int64(spec.Hardware.MemoryReservationMiB) << 20
	if all := spec.Hardware.ReserveAllMemory; all != nil && *all {
		n.reserved = n.memory
	}
	if spec.Clone.Mode != v1alpha1.CloneLinked {
		n.disk = d.templateDisks()
	}
	for i := range spec.Disks {
		if s := &spec.Disks[i]; s.Datastore == "" && s.StoragePolicy == "" {
			n.disk += int64(s.SizeGiB) << 30
		}
	}
	n.disk += n.memory - n.reserved // the swap file of a VM that is on
	return n
}

// templateDisks returns the size of a clone's copies of the template's disks, in bytes.
func (d *Draft) templateDisks() (bytes int64) {
	for i, disk := range d.b.source.Disks() {
		size := max(disk.CapacityInBytes, disk.CapacityInKB<<10)
		if root := d.b.details.Spec.RootDisk; i == 0 && root != nil {
			size = max(size, int64(root.SizeGiB)<<30)
		}
		bytes += size
	}
	return bytes
}

// datastore returns the datastore of a clone; nil if it is unknown.
func (d *Draft) datastore() *types.ManagedObjectReference {
	if at := d.b.spec.Location.Datastore; at != nil {
		return at
	}
	for _, disk := range d.b.source.Disks() {
		return source.DatastoreOf(disk)
	}
	return nil
}

// Warnings say what there is too little of for so many members in the end, and for so many VMs more than there are. What vCenter doesn't show is no
// reason for a warning.
func (r *Room) Warnings(members, more int) (all []plan.Warning) {
	warn := func(about, advice, format string, args ...any) {
		all = append(all, plan.Warning{About: about, Seen: fmt.Sprintf(format, args...), Advice: advice})
	}
	var cpu, largest, total int64
	for _, h := range r.hosts {
		cpu, largest, total = max(cpu, int64(h.cpu)), max(largest, h.memory), total+h.memory
	}
	n := int64(members)
	if cpu > 0 && int64(r.need.cpu) > cpu {
		warn("hosts", "no host can power a member on: lower spec.cpu", "a member has %d CPUs, and the largest host of %s has %d logical CPUs", r.need.cpu, r.cluster, cpu)
	}
	switch {
	case largest > 0 && r.need.memory > largest:
		warn("hosts", "a member gets less memory than it has, and swaps, if it can be powered on at all: lower spec.memory",
			"a member has %s of memory, and the largest host of %s has %s", size(r.need.memory), r.cluster, size(largest))
	case total > 0 && n*r.need.memory > total:
		warn("hosts", "members swap when they use it all: lower spec.memory or spec.replicas, or add hosts",
			"%s have %s of memory together, and the hosts of %s have %s", plan.Count(members, "member"), size(n*r.need.memory), r.cluster, size(total))
	case r.pool.memory > 0 && n*r.need.memory > r.pool.memory:
		warn("resource pool", "members swap when they use it all: lower spec.memory or spec.replicas, or raise the limit of the pool or of one above it",
			"%s have %s of memory together, and the VMs of the resource pool %s of %s can have %s", plan.Count(members, "member"), size(n*r.need.memory), r.pool.name, r.cluster, size(r.pool.memory))
	}
	if reserved := int64(more) * r.need.reserved; reserved > 0 && r.pool.memory > 0 && reserved > r.pool.unreserved {
		warn("resource pool", "vCenter powers no VM on whose memory it can't reserve: lower the reservation (spec.hardware), or give the pool more",
			"%d more reserve %s of memory, and the resource pool %s of %s has %s to reserve", more, size(reserved), r.pool.name, r.cluster, size(r.pool.unreserved))
	}
	if disk := int64(more) * r.need.disk; r.datastore.name != "" && disk > r.datastore.free {
		warn("datastore", "thin disks take it only as they fill: free space, name another datastore, or lower spec.replicas",
			"%d more take up to %s for disks and swap files, and the datastore %s has %s free", more, size(disk), r.datastore.name, size(r.datastore.free))
	}
	return all
}

// size describes bytes in the spec's unit.
func size(bytes int64) string { return plan.Gibibytes(gibibytes(bytes)) }

// gibibytes returns bytes in GiB, rounded down.
func gibibytes(bytes int64) int64 { return bytes >> 30 }
