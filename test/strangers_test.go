package test

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// What persons and backup products do with VMs that have stamps, and a watch over VMs that the server must not touch.

// as returns a client of the account that restores VMs: the server's own, as if a backup product logged in with it, or another one.
func (r *rig) as(byServers bool) *vim25.Client {
	if byServers {
		return r.admin.Client
	}
	return r.Admin().Client
}

// restoredVM says how a backup product restores a VM.
type restoredVM struct {
	by     string // CreateVM, CloneVM or RegisterVM
	as     *vim25.Client
	folder string
	name   string
	// stamp is the stamp in the backup.
	stamp string
	// on is when the VM is powered on: never, before its stamp is written, or a while after that.
	on string
}

// The values of restoredVM.on.
const (
	staysOff, onBefore, onAfter = "off", "on before its stamp", "on after its stamp"
)

// The values of restoredVM.by.
const (
	createVM, cloneVM, registerVM = "CreateVM", "CloneVM", "RegisterVM"
)

// restore restores a VM from a backup, and watches it from then on.
func (r *rig) restore(saved *vcsim.SavedVM, how restoredVM) *untouched {
	r.t.Helper()
	vm, err := r.tryRestore(saved, how)
	r.must(err)
	u := r.untouched(vm.Reference())
	if how.on == onAfter {
		time.Sleep(2 * time.Minute) // the server sees the VM
		u.powersOn(vm)
	}
	return u
}

// tryRestore restores a VM from a backup, and leaves it off if it is to be powered on after its stamp is written. A backup product creates a VM from the saved
// configuration and fills its disks
// (https://docs.vmware.com/en/VMware-vSphere/8.0/vsphere-vddk-programming-guide/GUID-9A79CDEF-D1E1-4F5B-AF48-77A1141FBACA.html), clones a replica, or
// puts the VM's files onto a datastore and registers them. The instanceUuid and the extraConfig are those of the backup.
func (r *rig) tryRestore(saved *vcsim.SavedVM, how restoredVM) (*object.VirtualMachine, error) {
	ctx := context.Background()
	ref, err := r.Find(how.folder)
	if err != nil {
		return nil, err
	}
	at, err := r.Find("/DC0/host/DC0_C0/Resources")
	if err != nil {
		return nil, err
	}
	folder, pool := object.NewFolder(how.as, ref), object.NewResourcePool(how.as, at)
	identity := vim.VirtualMachineConfigSpec{InstanceUuid: saved.Config.InstanceUuid, ExtraConfig: savedConfig(saved, how.stamp)}
	var task *object.Task
	written := true
	switch how.by {
	case createVM:
		task, err = folder.CreateVM(ctx, createSpec(saved, how.name), pool, nil)
		written = false
	case cloneVM:
		clone := vim.VirtualMachineCloneSpec{Location: vim.VirtualMachineRelocateSpec{Pool: &at}}
		if written = how.on != onBefore; written {
			clone.Config = &identity
		}
		var template vim.ManagedObjectReference
		if template, err = r.Find("/DC0/vm/vm-operator-template"); err == nil {
			task, err = object.NewVirtualMachine(how.as, template).Clone(ctx, folder, how.name, clone)
		}
	case registerVM:
		files := *saved
		files.Config.ExtraConfig = identity.ExtraConfig
		var vmx string
		if vmx, err = r.PutFiles(&files, "restored-"+uuid.NewString()); err == nil {
			task, err = folder.RegisterVM(ctx, vmx, how.name, false, pool, nil)
		}
	}
	if err != nil {
		return nil, err
	}
	info, err := task.WaitForResult(ctx, nil)
	if err != nil {
		return nil, err
	}
	vm := object.NewVirtualMachine(how.as, info.Result.(vim.ManagedObjectReference))
	if how.on == onBefore {
		if task, err = vm.PowerOn(ctx); err == nil {
			err = task.Wait(ctx)
		}
	}
	if err == nil && !written {
		if task, err = vm.Reconfigure(ctx, identity); err == nil {
			err = task.Wait(ctx)
		}
	}
	return vm, err
}

// savedConfig returns a saved VM's extraConfig with another stamp.
func savedConfig(saved *vcsim.SavedVM, text string) (all []vim.BaseOptionValue) {
	for _, o := range saved.Config.ExtraConfig {
		if copied := *o.GetOptionValue(); copied.Key != stamp.Key {
			all = append(all, &copied)
		}
	}
	return append(all, &vim.OptionValue{Key: stamp.Key, Value: text})
}

// createSpec returns the spec with which a backup product creates a saved VM again: its controllers, disks and adapters, without the identity.
func createSpec(saved *vcsim.SavedVM, name string) vim.VirtualMachineConfigSpec {
	c := &saved.Config
	spec := vim.VirtualMachineConfigSpec{Name: name, GuestId: c.GuestId, NumCPUs: c.Hardware.NumCPU, MemoryMB: int64(c.Hardware.MemoryMB),
		Files: &vim.VirtualMachineFileInfo{VmPathName: "[LocalDS_0]"}, Uuid: uuid.NewString(), InstanceUuid: uuid.NewString()}
	for _, d := range c.Hardware.Device {
		add := &vim.VirtualDeviceConfigSpec{Operation: vim.VirtualDeviceConfigSpecOperationAdd, Device: d}
		switch d := d.(type) {
		case *vim.VirtualDisk:
			disk := *d
			disk.Backing, disk.VDiskId = &vim.VirtualDiskFlatVer2BackingInfo{DiskMode: string(vim.VirtualDiskModePersistent), Uuid: uuid.NewString()}, nil
			add.Device, add.FileOperation = &disk, vim.VirtualDeviceConfigSpecFileOperationCreate
		case vim.BaseVirtualSCSIController, vim.BaseVirtualEthernetCard:
		default:
			continue
		}
		spec.DeviceChange = append(spec.DeviceChange, add)
	}
	return spec
}

// untouched watches a VM that the server must not touch: it stays in its folder, under its name, with its power state, disks and extraConfig.
type untouched struct {
	r   *rig
	ref vim.ManagedObjectReference

	mu    sync.Mutex
	was   vcsim.VM
	disks []vcsim.Disk
	wrong string
}

// untouched begins to watch a VM. The test fails at its end, and in check, if the VM has changed.
func (r *rig) untouched(ref vim.ManagedObjectReference) *untouched {
	r.t.Helper()
	u := &untouched{r: r, ref: ref}
	was, there := u.find()
	if !there {
		r.t.Fatalf("%s doesn't exist", ref.Value)
	}
	u.was, u.disks = was, r.details(was.Path).Disks
	r.t.Cleanup(r.onChange(u.look))
	return u
}

func (u *untouched) find() (vcsim.VM, bool) {
	vms := u.r.VMs()
	i := slices.IndexFunc(vms, func(vm vcsim.VM) bool { return vm.Ref == u.ref })
	if i < 0 {
		return vcsim.VM{}, false
	}
	return vms[i], true
}

// look compares the VM with what it was, and notes the first difference.
func (u *untouched) look() {
	is, there := u.find()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.wrong != "" {
		return
	}
	was := &u.was
	switch {
	case !there:
		u.wrong = "is gone"
	case is.Path != was.Path:
		u.wrong = "is " + is.Path + " now"
	case is.Power != was.Power && was.Power != "":
		u.wrong = "is " + string(is.Power) + " now"
	case is.InstanceUUID != was.InstanceUUID || !maps.Equal(is.ExtraConfig, was.ExtraConfig):
		u.wrong = fmt.Sprintf("has the extraConfig %v now, which was %v", is.ExtraConfig, was.ExtraConfig)
	}
}

// powersOn has the VM's operator power it on.
func (u *untouched) powersOn(vm *object.VirtualMachine) {
	u.r.t.Helper()
	u.check()
	changes := func(power vim.VirtualMachinePowerState) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.was.Power = power
	}
	changes("") // until the task has ended, look doesn't compare the power state
	u.r.task(vm.PowerOn(context.Background()))
	changes(vim.VirtualMachinePowerStatePoweredOn)
}

// leaves moves the VM to another host of its cluster if it is on this one.
func (u *untouched) leaves(host string) {
	u.r.t.Helper()
	if u.r.details(u.was.Path).Host != host {
		return
	}
	for i := range 2 {
		if other := fmt.Sprint(path.Dir(host), "/DC0_C0_H", i); other != host {
			ref, err := u.r.Find(other)
			u.r.must(err)
			task, err := object.NewVirtualMachine(u.r.Admin().Client, u.ref).Relocate(context.Background(), vim.VirtualMachineRelocateSpec{Host: &ref}, vim.VirtualMachineMovePriorityDefaultPriority)
			u.r.task(task, err)
			return
		}
	}
}

// check stops the test if the VM has changed.
func (u *untouched) check() {
	u.r.t.Helper()
	u.look()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.wrong == "" {
		if is := u.r.details(u.was.Path).Disks; fmt.Sprint(is) != fmt.Sprint(u.disks) {
			u.wrong = fmt.Sprintf("has the disks %+v now, which were %+v", is, u.disks)
		}
	}
	if u.wrong != "" {
		u.r.t.Fatalf("%s (%s) %s", u.was.Path, u.ref.Value, u.wrong)
	}
}

// pairs returns rows that have, of any two columns, each pair of values at least once. sizes are the numbers of values of the columns.
func pairs(sizes ...int) (rows [][]int) {
	type pair struct{ a, i, b, j int }
	left := map[pair]bool{}
	for a := range sizes {
		for b := a + 1; b < len(sizes); b++ {
			for i := range sizes[a] {
				for j := range sizes[b] {
					left[pair{a, i, b, j}] = true
				}
			}
		}
	}
	covers := func(row []int, col int) (n int) { // how many pairs are new with the last column of a row
		for a := range col {
			if left[pair{a, row[a], col, row[col]}] {
				n++
			}
		}
		return n
	}
	for len(left) > 0 {
		var first pair
		for p := range left {
			if first == (pair{}) || fmt.Sprint(p) < fmt.Sprint(first) {
				first = p
			}
		}
		row := make([]int, len(sizes))
		for col := range sizes {
			if fixed := map[int]int{first.a: first.i, first.b: first.j}; col == first.a || col == first.b {
				row[col] = fixed[col]
				continue
			}
			best, most := len(rows)%sizes[col], -1
			for n := range sizes[col] {
				row[col] = (len(rows) + n) % sizes[col]
				if c := covers(row, col); c > most {
					best, most = row[col], c
				}
			}
			row[col] = best
		}
		for a := range sizes {
			for b := a + 1; b < len(sizes); b++ {
				delete(left, pair{a, row[a], b, row[b]})
			}
		}
		rows = append(rows, row)
	}
	return rows
}
