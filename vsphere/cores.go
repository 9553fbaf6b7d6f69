package vsphere

import (
	"context"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// coresFor is how long a template's cores per socket are remembered.
const coresFor = time.Minute

// coresBook remembers the cores per socket of templates: many members are cloned from one.
type coresBook struct {
	mu    sync.Mutex
	known map[types.ManagedObjectReference]coresEntry
}

type coresEntry struct {
	perSocket int32
	until     time.Time
}

// cores is what to set as a clone's cores per socket: nothing where the template's divide the number of CPUs, for
// then they are inherited; else the most that divide both. vCenter refuses a number of CPUs that is no multiple of
// the cores per socket (VirtualMachineConfigSpec.numCoresPerSocket), and a template's may not fit the group's cpu.
func (v *VCenter) cores(ctx context.Context, template types.ManagedObjectReference, cpu int32) (*int32, error) {
	perSocket, err := v.coresOf(ctx, template)
	if err != nil {
		return nil, err
	}
	return dividing(perSocket, cpu), nil
}

// dividing gives the most cores per socket that divide both numbers; nil if perSocket, or none being known, will do.
func dividing(perSocket, cpu int32) *int32 {
	if perSocket < 1 || cpu%perSocket == 0 {
		return nil
	}
	for perSocket > 0 {
		cpu, perSocket = perSocket, cpu%perSocket
	}
	return &cpu
}

func (v *VCenter) coresOf(ctx context.Context, template types.ManagedObjectReference) (perSocket int32, err error) {
	v.coresBook.mu.Lock()
	defer v.coresBook.mu.Unlock() // one asks, the others of a burst wait for the answer
	if e, known := v.coresBook.known[template]; known && time.Now().Before(e.until) {
		return e.perSocket, nil
	}
	if perSocket, err = v.readCores(ctx, template); err != nil {
		return 0, err
	}
	if v.coresBook.known == nil || len(v.coresBook.known) > 1000 {
		v.coresBook.known = map[types.ManagedObjectReference]coresEntry{}
	}
	v.coresBook.known[template] = coresEntry{perSocket, time.Now().Add(coresFor)}
	return perSocket, nil
}

// readCores reads a VM's cores per socket; 0 if it does not say.
func (v *VCenter) readCores(ctx context.Context, vm types.ManagedObjectReference) (perSocket int32, err error) {
	err = v.call(ctx, func(ctx context.Context, s *session) error {
		objects, err := retrieve(ctx, s, types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: vm}},
			PropSet:   []types.PropertySpec{{Type: vm.Type, PathSet: []string{"config.hardware.numCoresPerSocket"}}},
		})
		for _, o := range objects {
			for _, p := range o.PropSet {
				switch n := p.Val.(type) { // an int in the API of old, a pointer to one in newer ones
				case int32:
					perSocket = n
				case *int32:
					perSocket = *n
				}
			}
		}
		return err
	})
	return perSocket, err
}
