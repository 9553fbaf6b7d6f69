package test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// onMember returns an operation in which an operator does something to a member, or to a VM in quarantine. If do fails, because the VM is busy or has
// been removed, the life continues as if the operator had done nothing.
func onMember(name string, weight int, do func(*life, vcsim.VM) error) operation {
	return operation{name, weight, func(l *life) {
		ours := l.ours()
		if len(ours) == 0 {
			return
		}
		vm := pick(l.rand, ours)
		if !l.profile.peaceful {
			l.touches(vm)
		}
		l.say("an operator: %s: %s (%s): %v", name, vm.Path, vm.Ref.Value, do(l, vm))
	}}
}

// changedIdentity is no operator's: vCenter does it when two VMs have the same instanceUuid.
var changedIdentity = operation{"vCenter changes an instanceUuid", 16, func(l *life) {
	if ours := l.ours(); len(ours) > 0 {
		vm := pick(l.rand, ours)
		if !l.isListed(vm) {
			l.watch.unlist(vm.First)
		}
		l.say("vCenter changes the instanceUuid of %s (%s): %v", vm.Path, vm.Ref.Value, l.RenewInstanceUUID(vm.Path))
	}
}}

// isListed reports whether a stored status lists a VM as a member.
func (l *life) isListed(vm vcsim.VM) bool {
	return slices.ContainsFunc(append(slices.Clone(l.past), l.group.VmGroup), func(g v1alpha1.VmGroup) bool {
		return slices.ContainsFunc(g.Status.Members, func(m v1alpha1.Member) bool { return m.MoRef == vm.Ref.Value })
	})
}

// operators lists what operators do in vCenter.
var operators = []operation{
	onMember("power off", 3, func(l *life, vm vcsim.VM) error { return l.PowerOff(vm.Path) }),
	onMember("power on", 2, func(l *life, vm vcsim.VM) error { return l.PowerOn(vm.Path) }),
	onMember("another changeVersion", 2, func(l *life, vm vcsim.VM) error { return l.BumpChangeVersion(vm.Path) }),
	onMember("reset", 1, func(l *life, vm vcsim.VM) error { return l.Reset(vm.Path) }),
	onMember("destroy", 4, func(l *life, vm vcsim.VM) error { return l.Destroy(vm.Path) }),
	onMember("move", 2, func(l *life, vm vcsim.VM) error {
		l.watch.duplicatesByHand("a move")
		return l.Move(vm.Path, "/DC0/vm")
	}),
	onMember("rename", 2, func(l *life, vm vcsim.VM) error {
		l.watch.duplicatesByHand("a rename")
		return l.Rename(vm.Path, fmt.Sprintf("renamed-%d", l.rand.IntN(1000)))
	}),
	onMember("snapshot", 2, func(l *life, vm vcsim.VM) error {
		if l.rand.IntN(3) == 0 {
			return l.RemoveSnapshots(vm.Path)
		}
		_, err := l.AddSnapshot(vm.Path, "by hand")
		return err
	}),
	onMember("Storage vMotion", 2, func(l *life, vm vcsim.VM) error {
		d, err := l.Details(vm.Path)
		if err != nil {
			return err
		}
		return l.MoveDisk(vm.Path, pick(l.rand, d.Disks).Key, fmt.Sprintf("/DC0/datastore/LocalDS_%d", l.rand.IntN(2)))
	}),
	onMember("attach another VM's disk", 1, func(l *life, vm vcsim.VM) error {
		_, err := l.AttachDisk("/DC0/vm/web-1", vm.Path)
		return err
	}),
	onMember("resize by hand", 1, func(l *life, vm vcsim.VM) error {
		return l.Reconfigure(vm.Path, types.VirtualMachineConfigSpec{NumCPUs: int32(1 + l.rand.IntN(4)), MemoryMB: 512 * int64(1+l.rand.IntN(4))})
	}),
	onMember("attributes by hand", 1, func(l *life, vm vcsim.VM) error {
		l.retagged[vm.Ref.Value] = true
		m, err := object.GetCustomFieldsManager(l.Admin().Client)
		if err != nil {
			return err
		}
		key, err := m.FindKey(context.Background(), "owner")
		if err != nil {
			if key, err = l.AddAttribute("owner"); err != nil {
				return err
			}
		}
		return m.Set(context.Background(), vm.Ref, key, "by hand")
	}),
	onMember("hide", 1, func(l *life, vm vcsim.VM) error {
		l.hidden = append(l.hidden, vm)
		l.Hide(vm.Ref)
		return nil
	}),
	{"show", 1, (*life).show},
	{"DRS", 2, func(l *life) {
		cluster := fmt.Sprintf("/DC0/host/DC0_C%d", l.rand.IntN(2))
		d := pick(l.rand, []vcsim.DRS{{}, {Level: types.DrsBehaviorManual}, {Level: types.DrsBehaviorPartiallyAutomated}, {Off: true}, {Unlicensed: true}, {NoTasks: true}, {HeedsRules: true}, {HeedsRules: true, Level: types.DrsBehaviorManual}})
		l.say("%s: %+v: %v", cluster, d, l.SetDRS(cluster, d))
	}},
	{"a host is full", 1, func(l *life) {
		host, full := pick(l.rand, chaosHosts), l.rand.IntN(3) > 0
		l.say("%s is full: %v: %v", host, full, l.FillHost(host, full))
	}},
	{"power-ons ask a question", 2, func(l *life) {
		n := l.rand.IntN(3)
		l.say("VMs whose names end with %d, %d … ask a question when they are powered on", n, n+3)
		l.Behave(func(b *vcsim.Behavior) {
			b.AskAtPowerOn, b.Question = func(vm vcsim.VM) bool { return int(vm.Name[len(vm.Name)-1]-'0')%3 == n }, vcsim.MovedOrCopied
		})
	}},
	onMember("ask", 1, func(l *life, vm vcsim.VM) error {
		if slices.Contains(l.Asking(), vm.Path) {
			return nil
		}
		return l.Ask(vm.Path, vcsim.MovedOrCopied)
	}),
	{"answer", 3, (*life).answer},
	onMember("clone by hand", 2, func(l *life, vm vcsim.VM) error {
		folder := pick(l.rand, []string{"/DC0/vm", vm.Path[:strings.LastIndexByte(vm.Path, '/')]})
		name := fmt.Sprintf("copy-of-%d", l.rand.IntN(1000))
		if err := l.CloneVM(vm.Path, folder, name); err != nil {
			return err
		}
		if l.rand.IntN(2) == 0 {
			_ = l.PowerOn(folder + "/" + name)
		}
		l.isUnmanaged(folder + "/" + name)
		return nil
	}),
	{"an unmanaged VM in the group's folder", 1, func(l *life) {
		name := fmt.Sprintf("unmanaged-%d", l.rand.IntN(1000))
		_, err := l.AddVM(web, name)
		l.say("%s/%s: %v", web, name, err)
		l.isUnmanaged(web + "/" + name)
	}},
	{"re-publish", 2, func(l *life) {
		template := pick(l.rand, []string{"vm-operator-template", otherTemplate})
		l.say("%s: %v", template, l.Republish("/DC0/vm/"+template))
		l.versions[0], l.versions[1] = l.versions[1], l.versions[0]
		l.CheckIn("ubuntu", l.versions[0])
		l.EditOVF("appliance", func(o *vcsim.OVF) { o.Version = max(o.Version, 1) + 1 })
	}},
	{"customizations fail", 1, func(l *life) {
		n := l.rand.IntN(3)
		l.say("every third member's fails from now on")
		l.Behave(func(b *vcsim.Behavior) {
			b.FailCustomizations, b.CustomizationError = func(vm vcsim.VM) bool { return int(vm.Name[len(vm.Name)-1]-'0')%3 == n }, "guest customization failed"
		})
	}},
	{"contentIds come or go", 1, func(l *life) {
		template, shown := pick(l.rand, []string{"vm-operator-template", otherTemplate}), l.rand.IntN(2) == 0
		l.say("contentIds of %s are shown: %t: %v", template, shown, l.ShowContentIDs("/DC0/vm/"+template, shown))
	}},
	{"delete the folder", 3, func(l *life) {
		folder := pick(l.rand, chaosFolders)
		off := l.rand.IntN(3) > 0 // if no VM is powered off first, vCenter refuses the deletion while a VM in the folder is powered on
		for _, vm := range l.VMs() {
			if !strings.HasPrefix(vm.Path, folder+"/") {
				continue
			}
			if l.touches(vm); off && isOn(vm) {
				_ = l.PowerOff(vm.Path)
			}
		}
		err := l.onFolder(folder, (*object.Folder).Destroy)
		l.say("an operator deletes %s: %v", folder, err)
		for ref, was := range maps.Clone(l.unmanaged) {
			same := func(x vcsim.VM) bool {
				return x.InstanceUUID == was.InstanceUUID && x.ExtraConfig[strayKey] == was.ExtraConfig[strayKey]
			}
			inside, outside := l.AllVMs()
			here := slices.IndexFunc(inside, same)
			switch {
			case here < 0 && !slices.ContainsFunc(outside, same):
				delete(l.unmanaged, ref)
			case here >= 0 && strings.HasPrefix(inside[here].Path, folder+"/"): // vCenter refused the deletion because of another VM, but this one has been powered off
				l.unmanaged[ref] = inside[here]
			}
		}
	}},
	{"rename the folder", 1, func(l *life) {
		folder, name := pick(l.rand, chaosFolders), fmt.Sprintf("folder-%d", l.rand.IntN(1000))
		l.watch.duplicatesByHand("a renamed folder")
		l.say("an operator renames %s to %s: %v", folder, name, l.onFolder(folder, func(f *object.Folder, ctx context.Context) (*object.Task, error) { return f.Rename(ctx, name) }))
	}},
	{"move the folder", 1, func(l *life) {
		folder, to := pick(l.rand, chaosFolders), fmt.Sprintf("/DC0/vm/attic-%d", l.rand.IntN(1000))
		l.watch.duplicatesByHand("a moved folder")
		_, err := l.MakeFolder(to)
		l.must(err)
		ref, err := l.Find(folder)
		if err == nil {
			err = l.onFolder(to, func(f *object.Folder, ctx context.Context) (*object.Task, error) {
				return f.MoveInto(ctx, []types.ManagedObjectReference{ref})
			})
		}
		l.say("an operator moves %s to %s: %v", folder, to, err)
	}},
}

// chaosFolders are the folders to choose from: three times the group's folder, so that it is chosen most often, and the folders above it.
var chaosFolders = []string{web, web, web, "/DC0/vm/vm-operator/default", "/DC0/vm/vm-operator"}

// chaosHosts are all hosts.
var chaosHosts = []string{"/DC0/host/DC0_C0/DC0_C0_H0", "/DC0/host/DC0_C0/DC0_C0_H1", "/DC0/host/DC0_C1/DC0_C1_H0", "/DC0/host/DC0_C1/DC0_C1_H1"}

// onFolder makes an operator do something to the folder at a path.
func (l *life) onFolder(path string, do func(*object.Folder, context.Context) (*object.Task, error)) error {
	ref, err := l.Find(path)
	if err != nil {
		return err
	}
	task, err := do(object.NewFolder(l.Admin().Client, ref), context.Background())
	if err != nil {
		return err
	}
	return task.Wait(context.Background())
}

// answer answers the questions of all VMs, and stops VMs from asking.
func (l *life) answer() {
	l.Behave(func(b *vcsim.Behavior) { b.AskAtPowerOn, b.Question = nil, vcsim.Question{} })
	for _, path := range l.Asking() {
		choice := pick(l.rand, vcsim.MovedOrCopied.Choices)
		l.say("an operator answers %s: %s: %v", path, choice, l.Answer(path, choice))
	}
}

// show makes all hidden objects visible again.
func (l *life) show() {
	for _, vm := range l.hidden {
		l.Show(vm.Ref)
	}
	l.hidden = nil
}

// inGuests lists what guests do that can't break the promise of availability.
var inGuests = []operation{
	onMember("Docker", 2, func(l *life, vm vcsim.VM) error { return l.StartDocker(vm.Path) }),
	onMember("another address", 1, func(l *life, vm vcsim.VM) error {
		return l.AddIP(vm.Path, fmt.Sprintf("fd00::%x", 1+l.rand.IntN(1000)))
	}),
}

// guests lists how guests fail.
var guests = []operation{
	{"guests hang", 2, func(l *life) {
		name := fmt.Sprintf("web-%d", l.rand.IntN(6))
		l.say("%s hangs when it is asked to shut down", name)
		l.Behave(func(b *vcsim.Behavior) { b.HangShutdown = func(vm vcsim.VM) bool { return vm.Name == name } })
	}},
	{"guests stop hanging", 1, func(l *life) { l.Behave(func(b *vcsim.Behavior) { b.HangShutdown = nil }) }},
	onMember("a service", 3, func(l *life, vm vcsim.VM) error {
		stop := l.rand.IntN(3) > 0
		l.say("its service stops: %t", stop)
		l.StopService(vm.Ref.Value, stop)
		return nil
	}),
	onMember("health", 5, func(l *life, vm vcsim.VM) error {
		health := vcsim.Health(l.rand.IntN(3))
		l.say("as well as %d", health)
		return l.SetHealth(vm.Path, health)
	}),
}

// refsOf returns the moRefs of VMs.
func refsOf(vms []vcsim.VM) []string {
	var refs []string
	for _, vm := range vms {
		refs = append(refs, vm.Ref.Value)
	}
	return refs
}
