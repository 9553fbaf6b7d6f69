package disks_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// rig is a vCenter with two datastores and two VMs, web-0 and web-1, and the calls under test.
type rig struct {
	*sessiontest.Lab
	*disks.FirstClass
	client *session.Client
	tasks  *tasks.Tasks
	here   []string // the moRefs of the datastores
}

func (r *rig) Call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	return r.client.Call(ctx, f)
}

func (r *rig) Task(ctx context.Context, start func(context.Context, *session.Session) (types.ManagedObjectReference, error)) (*types.TaskInfo, error) {
	var task types.ManagedObjectReference
	err := r.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		task, err = start(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r.tasks.Wait(ctx, task, "", time.Now())
}

const (
	first  = "/DC0/datastore/LocalDS_0"
	second = "/DC0/datastore/LocalDS_1"
)

// inABubble runs a test in a bubble, in parallel with others.
func inABubble(t *testing.T, c vcsim.Config, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	c.Datastores = 2
	synctest.Test(t, func(t *testing.T) {
		r := &rig{Lab: sessiontest.Start(t, c)}
		r.client = r.Client(r.Config())
		r.tasks = tasks.New(r.client, zerolog.Nop())
		r.FirstClass = disks.NewFirstClass(r)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { r.tasks.Run(ctx); close(ended) }()
		t.Cleanup(func() { cancel(); <-ended })
		for _, path := range []string{first, second} {
			r.here = append(r.here, vctest.Value(r.VCenter.Find(path)).Value)
		}
		for _, name := range []string{"web-0", "web-1"} {
			vctest.Value(r.AddVM("/DC0/vm", name))
		}
		test(t, r)
	})
}

var data = disks.Owner{UID: "9a3c", Ordinal: 0, Disk: "data"}

// made creates a disk of 1 GiB for web-0.
func (r *rig) made() disks.Disk {
	r.T.Helper()
	d, err := r.Create(r.T.Context(), disks.Spec{Name: "team/web-0/data", Datastore: r.here[0], CapacityMB: 1024, Owner: data})
	r.Must(err)
	return d
}

// vm reads a VM.
func (r *rig) vm(name string) (vm disks.VM, devices []types.BaseVirtualDevice) {
	r.T.Helper()
	vm.MoRef = vctest.Value(r.VCenter.Find(name)).Value
	r.Must(r.Call(r.T.Context(), func(ctx context.Context, s *session.Session) error {
		_, err := session.ReadProps(ctx, s, types.ManagedObjectReference{Type: "VirtualMachine", Value: vm.MoRef},
			session.To("config.changeVersion", &vm.ChangeVersion), session.Devices(&devices))
		return err
	}))
	return vm, devices
}

// place returns the second unit of a VM's SCSI controller.
func (r *rig) place(devices []types.BaseVirtualDevice) disks.Place {
	i := slices.IndexFunc(devices, func(d types.BaseVirtualDevice) bool { _, is := d.(types.BaseVirtualSCSIController); return is })
	return disks.Place{Controller: devices[i].GetVirtualDevice().Key, Unit: 1}
}

// attach reads a disk again, and attaches it.
func (r *rig) attach(name string, d disks.Disk) error {
	r.T.Helper()
	vm, devices := r.vm(name)
	return r.Attach(r.T.Context(), vm, disks.Attachment{Disk: d, Place: r.place(devices)})
}

// detach detaches a disk.
func (r *rig) detach(name string, d disks.Disk) error {
	r.T.Helper()
	vm, devices := r.vm(name)
	return r.Detach(r.T.Context(), vm, devices, d.ID)
}

// found returns the ids of the disks that Find finds, on all datastores, and whether the answer is complete.
func (r *rig) found() (ids []string, complete bool) {
	f := r.FirstClass.Find(r.T.Context(), r.here, func(o disks.Owner) bool { return o == data })
	for _, d := range f.Disks {
		ids = append(ids, d.ID)
	}
	return ids, f.Complete()
}

// real returns the disk as the embedded vCenter has it; the zero value if it is gone.
func (r *rig) real(id string) vcsim.FirstClassDisk {
	for _, d := range r.FirstClassDisks() {
		if d.ID == id {
			return d
		}
	}
	return vcsim.FirstClassDisk{}
}

// refused requires an error with this reason that asks an operator to act.
func refused(t testing.TB, err error, reason string) {
	t.Helper()
	if e := vctest.AsError(err); e == nil || e.Reason != reason || !e.NeedsOperator {
		t.Errorf("got %v, want %s for an operator", err, reason)
	}
}

// isReason requires an error with this reason.
func isReason(t testing.TB, err error, reason string) {
	t.Helper()
	if e := vctest.AsError(err); e == nil || e.Reason != reason {
		t.Errorf("got %v, want %s", err, reason)
	}
}
