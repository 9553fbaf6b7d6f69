//go:build unix

package promises

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vslm"
)

// vm is a VM as vCenter shows it to any user.
type vm struct {
	ref, name, folder string // folder is the moRef of the VM's folder
	uuid              string // instanceUuid
	on, template      bool
	cpu               int32
	memoryMB          int32
	from              string // the guest ID, which shows from which template the VM was cloned
	created           time.Time
	disks             []string // its first-class disks
	changed           string   // config.changeVersion
}

func (v vm) String() string {
	power := "off"
	if v.on {
		power = "on"
	}
	return fmt.Sprintf("%s (%s, %s, from %s, %d CPUs)", v.name, v.ref, power, v.from, v.cpu)
}

// inventory is vCenter's inventory at one moment: VMs and folders by moRef.
type inventory struct {
	vms     map[string]vm
	folders map[string][2]string // name, and the moRef of the parent
}

// folder returns the moRef of the folder at the path of these names; "" if there is none.
func (s inventory) folder(names ...string) string {
	for ref := range s.folders {
		at := ref
		for _, name := range slices.Backward(names) {
			if s.folders[at][0] != name {
				at = ""
				break
			}
			at = s.folders[at][1]
		}
		if at != "" {
			return ref
		}
	}
	return ""
}

// in returns the VMs in a folder, by name.
func (s inventory) in(folder string) (all []vm) {
	for _, v := range s.vms {
		if v.folder == folder && folder != "" {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b vm) int { return strings.Compare(a.name, b.name) })
	return all
}

// vcenter is vCenter as an administrator with another account than the server's sees it. It watches all VMs and folders.
type vcenter struct {
	t testing.TB
	*administrator
}

type administrator struct {
	ctx      context.Context
	client   *govmomi.Client
	finder   *find.Finder
	beacon   *object.Folder // now renames this folder: once the watch has seen the new name, it has seen all earlier changes
	renaming sync.Mutex
	beat     int // the number in the beacon's name; guarded by renaming
	mu       sync.Mutex
	last     inventory
	watch    []func(before, after inventory)
}

// as returns v for another test, which v then fails on errors.
func (v *vcenter) as(t testing.TB) *vcenter { return &vcenter{t, v.administrator} }

func connect(t testing.TB, sdk *url.URL) *vcenter {
	t.Helper()
	u := *sdk
	u.User = url.UserPassword("administrator", "secret")
	ctx, cancel := context.WithCancel(context.Background())
	v := &vcenter{t, &administrator{ctx: ctx, last: inventory{map[string]vm{}, map[string][2]string{}}}}
	v.client = v.dial(&u)
	v.finder = find.NewFinder(v.client.Client)
	datacenter, err := v.finder.DefaultDatacenter(ctx)
	v.must(err)
	v.finder.SetDatacenter(datacenter)
	folders, err := datacenter.Folders(ctx)
	v.must(err)
	v.beacon, err = folders.VmFolder.CreateFolder(ctx, "beacon-0")
	v.must(err)
	ended := make(chan struct{})
	watching := v.dial(&u)
	go func() {
		defer close(ended)
		if err := v.follow(watching); ctx.Err() == nil {
			t.Errorf("the watch of vCenter ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return v
}

func (v *vcenter) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal("vCenter's administrator: ", err)
	}
}

func (v *vcenter) dial(u *url.URL) *govmomi.Client {
	v.t.Helper()
	client, err := govmomi.NewClient(v.ctx, u, true)
	v.must(err)
	return client
}

// watched are the properties that the suite reads.
var watched = []types.PropertySpec{
	{Type: "VirtualMachine", PathSet: []string{"name", "parent", "runtime.powerState", "config.instanceUuid", "config.template", "config.guestId",
		"config.hardware.numCPU", "config.hardware.memoryMB", "config.hardware.device", "config.createDate", "config.changeVersion"}},
	{Type: "Folder", PathSet: []string{"name", "parent"}},
}

// follow processes each change of vCenter, in vCenter's order.
func (v *vcenter) follow(client *govmomi.Client) error {
	all, err := view.NewManager(client.Client).CreateContainerView(v.ctx, client.ServiceContent.RootFolder, []string{"VirtualMachine", "Folder"}, true)
	if err != nil {
		return err
	}
	_, err = methods.CreateFilter(v.ctx, client.Client, &types.CreateFilter{This: client.ServiceContent.PropertyCollector, Spec: types.PropertyFilterSpec{
		PropSet: watched, ObjectSet: []types.ObjectSpec{{Obj: all.Reference(), Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "ContainerView", Path: "view"}}}}}})
	if err != nil {
		return err
	}
	next := inventory{map[string]vm{}, map[string][2]string{}}
	for version := ""; ; {
		res, err := methods.WaitForUpdatesEx(v.ctx, client.Client, &types.WaitForUpdatesEx{This: client.ServiceContent.PropertyCollector, Version: version,
			Options: &types.WaitOptions{MaxWaitSeconds: types.NewInt32(60)}})
		if err != nil {
			return err
		}
		if res.Returnval == nil {
			continue // a minute without a change
		}
		version = res.Returnval.Version
		for _, set := range res.Returnval.FilterSet {
			for _, change := range set.ObjectSet {
				next.take(change)
			}
		}
		if res.Returnval.Truncated == nil || !*res.Returnval.Truncated {
			v.saw(inventory{maps.Clone(next.vms), maps.Clone(next.folders)})
		}
	}
}

func (s inventory) take(change types.ObjectUpdate) {
	ref := change.Obj.Value
	if change.Kind == types.ObjectUpdateKindLeave {
		delete(s.vms, ref)
		delete(s.folders, ref)
		return
	}
	one, folder := s.vms[ref], s.folders[ref]
	for _, p := range change.ChangeSet {
		switch value := p.Val.(type) {
		case string:
			switch p.Name {
			case "name":
				one.name, folder[0] = value, value
			case "config.instanceUuid":
				one.uuid = value
			case "config.guestId":
				one.from = value
			case "config.changeVersion":
				one.changed = value
			}
		case types.ManagedObjectReference:
			one.folder, folder[1] = value.Value, value.Value
		case types.VirtualMachinePowerState:
			one.on = value == types.VirtualMachinePowerStatePoweredOn
		case bool:
			one.template = value
		case int32:
			if p.Name == "config.hardware.numCPU" {
				one.cpu = value
			} else {
				one.memoryMB = value
			}
		case time.Time:
			one.created = value
		case types.ArrayOfVirtualDevice:
			one.disks = nil
			for _, device := range value.VirtualDevice {
				if disk, isDisk := device.(*types.VirtualDisk); isDisk && disk.VDiskId != nil {
					one.disks = append(one.disks, disk.VDiskId.Id)
				}
			}
		}
	}
	if change.Obj.Type == "Folder" {
		s.folders[ref] = folder
	} else {
		one.ref = ref
		s.vms[ref] = one
	}
}

func (v *vcenter) saw(now inventory) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, watch := range v.watch {
		watch(v.last, now)
	}
	v.last = now
}

// onChange calls a function for each change from now on, with the inventory before and after the change.
func (v *vcenter) onChange(watch func(before, after inventory)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.watch = append(v.watch, watch)
}

// now returns vCenter's inventory with all changes made before the call.
func (v *vcenter) now() (s inventory) {
	v.t.Helper()
	v.renaming.Lock()
	v.beat++
	beat := v.beat
	task, err := v.beacon.Rename(v.ctx, fmt.Sprintf("beacon-%d", beat))
	if err == nil {
		err = task.Wait(v.ctx)
	}
	v.renaming.Unlock()
	v.must(err)
	eventually(v.t, "the watch of vCenter has seen all changes", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		s = v.last
		seen := 0
		_, err := fmt.Sscanf(s.folders[v.beacon.Reference().Value][0], "beacon-%d", &seen)
		return err == nil && seen >= beat
	})
	return s
}

// task waits for the end of a task.
func (v *vcenter) task(task *object.Task, err error) {
	v.t.Helper()
	v.must(err)
	v.must(task.Wait(v.ctx))
}

// vm returns a VM by its moRef.
func (v *vcenter) vm(ref string) *object.VirtualMachine {
	return object.NewVirtualMachine(v.client.Client, types.ManagedObjectReference{Type: "VirtualMachine", Value: ref})
}

// tell gives a template another guest ID. Its clones inherit the ID, which shows from which template they were cloned.
func (v *vcenter) tell(template, kind string) {
	v.t.Helper()
	found, err := v.finder.VirtualMachine(v.ctx, template)
	v.must(err)
	pool, err := v.finder.DefaultResourcePool(v.ctx)
	v.must(err)
	v.must(found.MarkAsVirtualMachine(v.ctx, *pool, nil)) // vCenter can't reconfigure a template
	v.task(found.Reconfigure(v.ctx, types.VirtualMachineConfigSpec{GuestId: kind}))
	v.must(found.MarkAsTemplate(v.ctx))
}

// endSessions ends all sessions of a user.
func (v *vcenter) endSessions(user string) {
	v.t.Helper()
	var manager mo.SessionManager
	v.must(property.DefaultCollector(v.client.Client).RetrieveOne(v.ctx, *v.client.ServiceContent.SessionManager, []string{"sessionList"}, &manager))
	for _, session := range manager.SessionList {
		if session.UserName == user {
			_ = v.client.SessionManager.TerminateSession(v.ctx, []string{session.Key}) // fails if the session has ended
		}
	}
}

// hasDisk reports whether vCenter has a first-class disk.
func (v *vcenter) hasDisk(id string) bool {
	v.t.Helper()
	all, err := v.finder.DatastoreList(v.ctx, "*")
	v.must(err)
	for _, datastore := range all {
		if _, err := vslm.NewObjectManager(v.client.Client).Retrieve(v.ctx, datastore, id); err == nil {
			return true
		}
	}
	return false
}

// foreign makes a VM that the server doesn't own in a folder, as a full clone of a template or a member.
func (v *vcenter) foreign(from, folder, name string) string {
	v.t.Helper()
	source, err := v.finder.VirtualMachine(v.ctx, from)
	v.must(err)
	pool, err := v.finder.DefaultResourcePool(v.ctx)
	v.must(err)
	into, err := v.finder.Folder(v.ctx, folder)
	v.must(err)
	at := pool.Reference()
	task, err := source.Clone(v.ctx, into, name, types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &at}, PowerOn: true})
	v.must(err)
	info, err := task.WaitForResult(v.ctx)
	v.must(err)
	return info.Result.(types.ManagedObjectReference).Value
}

// register brings a VM that was unregistered back into vCenter, under another name and in another folder, and returns its new moRef.
func (v *vcenter) register(path, name string) string {
	v.t.Helper()
	pool, err := v.finder.DefaultResourcePool(v.ctx)
	v.must(err)
	into, err := v.finder.DefaultFolder(v.ctx)
	v.must(err)
	task, err := into.RegisterVM(v.ctx, path, name, false, pool, nil)
	v.must(err)
	info, err := task.WaitForResult(v.ctx)
	v.must(err)
	return info.Result.(types.ManagedObjectReference).Value
}
