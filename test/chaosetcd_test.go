package test

import (
	"regexp"
	"slices"
	"strconv"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// ofEtcd lists what happens in lives with backups of etcd: etcd goes back to one while the replicas run, or a second cluster is started from it, with the same
// account.
var ofEtcd = []operation{
	{"a backup of etcd", 24, func(l *life) {
		if !l.deleting {
			l.etcd = backup(l.group)
			l.say("a backup of etcd has generation %d of %s", l.group.Generation, l.group.UID)
		}
	}},
	{"etcd goes back", 16, (*life).goesBack},
	{"a second cluster wakes", 12, (*life).wakesSecond},
}

// goesBack restores etcd, also if the group was deleted since, as long as its deletion has not ended. (A group that was created since would be gone, and nobody
// would ask for its VMs.)
func (l *life) goesBack() {
	if l.etcd == nil || l.etcd.UID != l.group.UID {
		return
	}
	lost := func(vm vcsim.VM) bool { // a replica that is restarted now knows of such a VM by the status only (docs/design.md, known limits)
		return !slices.ContainsFunc(l.etcd.Status.Members, func(m v1alpha1.Member) bool { return m.InstanceUUID == vm.First })
	}
	if l.profile.persistent && slices.ContainsFunc(l.OutsideInventory(), lost) { // their disks would be in VMs that nothing shows to be the group's
		return
	}
	if l.deleting { // a replica may not notice before its lease ends
		l.watch.removesByHand()
	}
	l.deleting, l.wentBack, l.past, l.group = false, true, nil, backup(l.etcd)
	l.say("etcd has generation %d of %s again", l.group.Generation, l.group.UID)
	l.specs = append(l.specs, *l.group.Spec.DeepCopy())
	l.promises()
	l.watch.wants(*l.group.Spec.Replicas, true)
	for _, vm := range l.OutsideInventory() {
		if lost(vm) {
			l.watch.excuse(vm.First)
		}
	}
	if l.rand.IntN(2) == 0 {
		l.restartAll()
	}
}

// restartAll restarts the replicas, as docs/upgrade.md says for more than one: they answer the calls in turns, so none of them would notice that etcd was
// restored.
func (l *life) restartAll() {
	l.say("all replicas are restarted")
	for _, c := range l.replicas {
		c.resume()
		c.stop()
	}
	l.replicas = nil
	l.complete()
}

// lostDisk is a disk that was added after the backup.
var lostDisk = regexp.MustCompile(`its disk (\S+), of \d+ GiB, is not in the spec`)

// undoes has an operator do what the status asks for when VMs have a newer generation than etcd.
func (l *life) undoes(a metacontroller.Answer) {
	if d := lostDisk.FindStringSubmatch(a.Status.LastMessage); d != nil && l.wentBack && !l.deleting {
		for _, spec := range slices.Backward(l.specs) {
			if i := slices.IndexFunc(spec.Disks, func(x v1alpha1.Disk) bool { return x.Name == d[1] }); i >= 0 {
				l.group.Spec.Disks = append(slices.Clone(l.group.Spec.Disks), spec.Disks[i])
				l.edited("the disk %s, which members have, is added again", d[1])
				return
			}
		}
	}
	n := newestGeneration.FindStringSubmatch(a.Status.LastMessage)
	if n == nil || !l.wentBack {
		return
	}
	lost, err := strconv.ParseInt(n[1], 10, 64)
	l.must(err)
	if l.group.Generation < lost && !l.deleting && l.rand.IntN(2) == 0 {
		for l.group.Generation < lost {
			l.edited("as the status says")
		}
		return
	}
	l.say("an operator undoes generation %d", lost)
	if l.group.Annotations == nil {
		l.group.Annotations = map[string]string{}
	}
	l.group.Annotations[v1alpha1.AnnotationUndoGeneration] = n[1]
}

// wakesSecond starts a server in a second cluster that was made from the backup. If the stamps are newer than the group there, this server must change nothing,
// even if the group is deleted there. (What it does otherwise, nothing can prevent: docs/upgrade.md.)
func (l *life) wakesSecond() {
	if l.etcd == nil || l.etcd.UID != l.group.UID || l.deleting {
		return
	}
	second, g := l.start(), backup(l.etcd)
	g.URL = second.url
	defer func() { second.stop() }()
	calls := func(hook func() (metacontroller.Answer, error)) {
		for range 4 {
			a, err := hook()
			switch {
			case err != nil:
				l.t.Fatalf("a hook of the second cluster failed: %v", err)
			case a.Finalized:
				l.t.Fatalf("the deletion in the second cluster ends without a word: %s", a.Status.LastMessage)
			}
			l.sayOnce("%s, in the second cluster: %s %s", second.agent, a.Status.Phase, a.Status.LastMessage)
			l.call(l.any())
			l.wait(10)
		}
	}
	calls(func() (metacontroller.Answer, error) { return g.Sync(within(l.t)) })
	newest, before := l.newestStamp(), len(second.wire.Log())
	if l.sessionsOf(second) == 0 || newest <= g.Generation { // it hasn't seen one
		return
	}
	calls(func() (metacontroller.Answer, error) { return g.Sync(within(l.t)) })
	if newest > g.Generation+1 { // what a deletion writes has the next generation, so it can't tell the first edit from its own
		calls(func() (metacontroller.Answer, error) { return g.Finalize(within(l.t)) })
	}
	for _, c := range second.wire.Log()[before:] {
		if slices.Contains(changing, c.Method) {
			l.t.Errorf("a second cluster with generation %d calls %s, and the stamps have generation %d", g.Generation, c.Method, newest)
		}
	}
}

// newestStamp is the highest generation in the stamps of the group's VMs.
func (l *life) newestStamp() (newest int64) {
	for _, vm := range l.ours() {
		if s, err := stampOf(vm); err == nil {
			newest = max(newest, s.Generation)
		}
	}
	return newest
}
