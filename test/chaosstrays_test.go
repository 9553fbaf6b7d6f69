package test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// strayKey is the extraConfig key that marks a stray for the watch: a VM with a group's stamp that backup software or a stranger made. The server doesn't know
// the key.
const strayKey = "chaos.stray"

func isStray(vm vcsim.VM) bool { return vm.ExtraConfig[strayKey] != "" }

// savedMember is a backup of a member.
type savedMember struct {
	*vcsim.SavedVM
	stamp string
}

// othersWork lists what backup software and strangers do with VMs of their own, and admins with copies of members. It never gives the server a reason to act.
var othersWork = []operation{
	{"a member is backed up", 4, func(l *life) {
		mine := l.mine()
		if len(mine) == 0 {
			return
		}
		vm := pick(l.rand, mine)
		saved, err := l.Save(vm.Path)
		l.say("a backup of %s (%s): %v", vm.Path, vm.Ref.Value, err)
		if err == nil {
			l.saved = append(l.saved, savedMember{saved, vm.ExtraConfig[stamp.Key]})
		}
	}},
	{"a backup of a member is restored", 5, (*life).restoreMember},
	{"a stranger writes a stamp", 4, (*life).forge},
	{"a stamp in a stranger's VM changes", 2, func(l *life) {
		for _, ref := range slices.Sorted(maps.Keys(l.unmanaged)) {
			if vm := l.unmanaged[ref]; isStray(vm) && l.rand.IntN(3) == 0 {
				s, err := stampOf(vm)
				if err != nil {
					continue
				}
				what, write := severalFields(l.rand)
				write(&s)
				l.forgets(ref)
				l.say("a stranger changes %s of the stamp of %s: %v", what, vm.Path, l.SetExtraConfig(vm.Path, stamp.Key, s.Encode()))
				l.notes(ref, false)
			}
		}
	}},
	{"an admin makes a template of a copy of a member", 1, func(l *life) {
		mine := l.mine()
		if len(mine) == 0 {
			return
		}
		vm, name := pick(l.rand, mine), fmt.Sprintf("made-%d", l.rand.IntN(1000))
		err := l.CloneVM(vm.Path, "/DC0/vm", name)
		if err == nil {
			err = l.ToTemplate("/DC0/vm/" + name)
			l.isUnmanaged("/DC0/vm/" + name)
		}
		l.say("an admin makes the template %s of a copy of %s: %v", name, vm.Path, err)
	}},
}

// templates lists how admins turn members into templates and back.
var templates = []operation{
	onMember("turn into a template", 2, func(l *life, vm vcsim.VM) error {
		_ = l.PowerOff(vm.Path) // fails if it is off
		return l.ToTemplate(vm.Path)
	}),
	{"templates are members again", 2, (*life).untemplate},
}

// untemplate turns the members that are templates into VMs again.
func (l *life) untemplate() {
	for _, vm := range l.VMs() {
		if stamp, err := stampOf(vm); err == nil && vm.Template && stamp.Owned(l.group.UID, vm.First) {
			l.say("an admin turns %s (%s) into a VM again: %v", vm.Path, vm.Ref.Value, l.ToVM(vm.Path))
		}
	}
}

// restoreMember restores a backup of a member: in each way, with the stamp as it was or marked, by the server's account or another one.
func (l *life) restoreMember() {
	if len(l.saved) == 0 {
		return
	}
	saved, n := pick(l.rand, l.saved), l.rand.IntN(100000)
	how := restoredVM{by: pick(l.rand, []string{createVM, cloneVM, registerVM}), as: l.Admin().Client, on: pick(l.rand, []string{staysOff, onBefore, onAfter}),
		folder: pick(l.rand, []string{web, "/DC0/vm/restores", "/DC0/vm"}), name: fmt.Sprintf("restored-%d", n)}
	kind := pick(l.rand, []string{plainStamp, markedStamp, quarantinedStamp, standbyStamp, olderStamp})
	servers := l.rand.IntN(3) == 0
	if servers {
		client, err := l.newClient(context.Background())
		if err != nil {
			return
		}
		how.as = client.Client
	}
	if how.folder == "/DC0/vm/restores" && l.rand.IntN(2) == 0 {
		how.name = saved.Name
	}
	_, err := l.MakeFolder("/DC0/vm/restores")
	l.must(err)
	copied := *saved.SavedVM
	copied.Config.ExtraConfig = append(slices.Clone(copied.Config.ExtraConfig), &vim.OptionValue{Key: strayKey, Value: fmt.Sprint(n)})
	how.stamp = savedStamp(saved.stamp, kind)
	if l.profile.departing { // a member that is missing may come back, and nothing would tell which of the two VMs it is
		s, err := stamp.Decode(how.stamp)
		l.must(err)
		s.InstanceUUID = uuid.NewString()
		copied.Config.InstanceUuid, how.stamp = s.InstanceUUID, s.Encode()
	}
	vm, err := l.tryRestore(&copied, how)
	l.say("a backup of %s is restored as %s/%s by %s, %s, %s, by the server's account %t: %v", saved.Name, how.folder, how.name, how.by, kind, how.on, servers, err)
	if vm == nil {
		return
	}
	l.notes(vm.Reference().Value, servers)
	if how.on == onAfter && err == nil {
		l.wait(60)
		if i := slices.IndexFunc(l.VMs(), func(x vcsim.VM) bool { return x.Ref == vm.Reference() }); i >= 0 {
			path := l.VMs()[i].Path
			l.forgets(vm.Reference().Value)
			l.say("it is powered on: %v", l.PowerOn(path))
			l.notes(vm.Reference().Value, servers)
		}
	}
}

// forge gives a VM of a stranger the stamp of a member, with one or several fields changed, and sometimes the member's instanceUuid.
func (l *life) forge() {
	mine := l.mine()
	if len(mine) == 0 {
		return
	}
	of, n := pick(l.rand, mine), l.rand.IntN(100000)
	s, err := stampOf(of)
	if err != nil {
		return
	}
	what, write := "nothing", func(*stamp.Stamp) {}
	if l.rand.IntN(4) > 0 {
		what, write = severalFields(l.rand)
	}
	copied, on, name := l.rand.IntN(3) == 0 && !l.profile.departing, l.rand.IntN(2) == 0, fmt.Sprintf("own-%d", n)
	_, err = l.MakeFolder(strangersFolder)
	l.must(err)
	ref, err := l.AddVM(strangersFolder, name)
	if err != nil {
		return
	}
	where := strangersFolder + "/" + name
	l.must(l.SetExtraConfig(where, strayKey, name))
	if on {
		_ = l.PowerOn(where)
	}
	write(&s)
	if copied {
		l.must(l.Reconfigure(where, vim.VirtualMachineConfigSpec{InstanceUuid: s.InstanceUUID}))
	} else {
		d, err := l.Details(where)
		l.must(err)
		s.InstanceUUID = d.InstanceUUID
	}
	l.must(l.SetExtraConfig(where, stamp.Key, s.Encode()))
	l.say("a stranger gives %s (%s) the stamp of %s with other %s; its instanceUuid, too: %t", where, ref.Value, of.Path, what, copied)
	l.notes(ref.Value, false)
}

// notes notes a stray, which must stay as it is from now on.
func (l *life) notes(ref string, servers bool) {
	for _, vm := range l.VMs() {
		if vm.Ref.Value == ref {
			l.unmanaged[ref] = vm
			l.watch.strays(ref, new(vm))
			if servers {
				l.serversOwn = append(l.serversOwn, vm.ExtraConfig[strayKey])
			}
		}
	}
}

// forgets forgets a stray that its owner is about to change.
func (l *life) forgets(ref string) {
	delete(l.unmanaged, ref)
	l.watch.strays(ref, nil)
}

// strays notes a stray of which the watch checks that it stays as it is, or with nil, forgets it.
func (w *watch) strays(ref string, vm *vcsim.VM) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stray == nil {
		w.stray = map[string]*vcsim.VM{}
	}
	if vm == nil {
		delete(w.stray, ref)
		return
	}
	w.stray[ref] = vm
}

// settleStrays has an operator do what the status asks for before a group must be as its spec says: an ordinal waits for a VM that the server's account made,
// so its stamp is taken off.
func (l *life) settleStrays() {
	for _, vm := range l.VMs() {
		if slices.Contains(l.serversOwn, vm.ExtraConfig[strayKey]) && vm.ExtraConfig[stamp.Key] != "" {
			l.forgets(vm.Ref.Value)
			l.say("an operator takes the stamp off %s: %v", vm.Path, l.SetExtraConfig(vm.Path, stamp.Key, ""))
			l.notes(vm.Ref.Value, false)
		}
	}
}

// wrongStrays reports a stray that somebody touched: only its owner may. An operator's work on a whole folder or host is noted after it is done.
// before are those that were noted before vms was read: what their owner did in the meantime, the reading may not show.
func (w *watch) wrongStrays(vms []vcsim.VM, before map[string]*vcsim.VM) (wrong string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, vm := range vms {
		was := w.stray[vm.Ref.Value]
		if was != nil && was == before[vm.Ref.Value] && (vm.ExtraConfig[stamp.Key] != was.ExtraConfig[stamp.Key] || vm.Name != was.Name) {
			return fmt.Sprintf("the stray %s (%s) has the stamp %s, and had %s", vm.Path, vm.Ref.Value, vm.ExtraConfig[stamp.Key], was.ExtraConfig[stamp.Key])
		}
	}
	return ""
}
