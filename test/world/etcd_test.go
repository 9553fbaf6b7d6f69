package world

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// In lives with restores, etcd goes back to a backup while the servers run: the group has a former spec, status and generation again, and may have been
// deleted since. Until a newer call comes, or none for a lease, no step may begin. In the end, an operator does what docs/upgrade.md says, and the group must
// become as the backup's spec says, or as the spec that users have applied since.
//
// Or a second cluster is started from the backup, whose server has the same account. Once it has seen a stamp with a generation that is newer than the
// backup's, it must do nothing. (Before that, nothing tells it: docs/upgrade.md says how to keep it from vCenter. So it wakes only after such an edit.)

// restores is what happens in lives with restores only.
var restores = []kind{
	{"a backup of etcd is made", 4, false, func(w *world, _, _ int) { w.backUp() }},
	{"etcd goes back", 2, false, func(w *world, _, _ int) { w.goBack() }},
	{"an operator undoes what etcd has lost", 2, false, func(w *world, _, _ int) { w.undoLost() }},
	{"a second cluster wakes", 4, false, func(w *world, _, _ int) { w.wake() }},
	{"the second cluster's hook is called", 8, false, func(w *world, a, _ int) { w.second.call(a%8 == 0) }},
}

// at is the place of a stored group's spec among all that the group has had. A generation occurs again after a restore; a place doesn't.
func at(g *v1alpha1.VmGroup) int {
	n, _ := strconv.Atoi(g.ResourceVersion)
	return n
}

// adds stores a version of the group with another spec, or of one that was deleted or restored, and what it promises.
func (k *kube) adds(g *v1alpha1.VmGroup, promise int) {
	k.specs, k.promises = append(slices.Clip(k.specs), &g.Spec), append(slices.Clip(k.promises), promise)
	g.ResourceVersion = strconv.Itoa(len(k.specs))
	k.store(g)
}

func (w *world) backUp() {
	if k := w.kube; k.group != nil && !k.deleting() && k.held {
		w.backup = &k
	}
}

// goBack restores etcd. A group of the same name that was created since would be gone: its VMs would be no group's (docs/upgrade.md), so that doesn't happen.
func (w *world) goBack() {
	b := w.backup
	if b == nil || w.kube.group != nil && w.kube.uid() != b.uid() {
		return
	}
	now := w.kube
	g := *b.group
	k := *b
	k.versions, k.specs, k.promises, k.uids, k.finalizeAsked = nil, now.specs, now.promises, now.uids, now.finalizeAsked
	k.finalized = slices.DeleteFunc(slices.Clone(now.finalized), func(uid types.UID) bool { return uid == g.UID })
	k.letGo = map[string]bool{}
	k.adds(&g, least(&g.Spec))
	w.kube, w.wentBack = k, true
	w.promise = min(w.promise, least(&g.Spec))
	w.say("  etcd has generation %d of %s again", g.Generation, g.UID)
	for _, m := range w.vc.vms { // the backup's status doesn't have it, and a server that is restarted now knows nothing else of it (docs/design.md, known limits)
		if m.away() && !slices.ContainsFunc(g.Status.Members, func(r v1alpha1.Member) bool { return r.InstanceUUID == m.InstanceUUID }) {
			m.tampered = true
		}
	}
	for _, d := range w.vc.disks { // the same applies to a disk
		if !slices.ContainsFunc(g.Status.Disks, func(x v1alpha1.PersistentDisk) bool { return x.ID == d.id }) {
			d.lost = false
		}
	}
}

var lostGeneration = regexp.MustCompile(`have generation (\d+) of this group`)

// lostDisk is a persistent disk that the spec lost.
var lostDisk = regexp.MustCompile(`its disk (\S+), of (\d+) GiB, is not in the spec`)

// undoLost does what the status asks for if VMs, or a server, have a newer spec than etcd: a user edits the spec until its generation is that one, or sets the
// annotation undo-generation. A persistent disk that was added since is not in the spec: the user adds it again.
func (w *world) undoLost() {
	g := w.kube.group
	if g == nil || !w.wentBack {
		return
	}
	if d := lostDisk.FindStringSubmatch(g.Status.LastMessage); d != nil && !w.kube.deleting() {
		size, _ := strconv.Atoi(d[2])
		w.say("  a user adds the disk %s again, which members have", d[1])
		w.edit(func(s *v1alpha1.VmGroupSpec) {
			s.Disks = append(slices.Clone(s.Disks), v1alpha1.Disk{Name: d[1], SizeGiB: int32(size), Persistent: true})
		})
		return
	}
	n := lostGeneration.FindStringSubmatch(g.Status.LastMessage)
	if n == nil {
		return
	}
	lost, _ := strconv.ParseInt(n[1], 10, 64)
	if again := w.undid[lost] && w.kube.undone != lost; (again || w.set.seed%2 == 0) && !w.kube.deleting() { // one replica remembers this generation, another a lower one
		for w.kube.group.Generation < lost {
			w.edit(func(*v1alpha1.VmGroupSpec) {})
		}
		return
	}
	if w.kube.undone == lost {
		return
	}
	undone := *g
	if w.kube.undone = lost; w.undid == nil {
		w.undid = map[int64]bool{}
	}
	w.undid[lost] = true
	undone.Annotations = w.annotations(&undone)
	w.kube.store(&undone)
	w.say("  an operator undoes generation %d", lost)
}

// knowledge is what a replica knows of a group's versions, by the calls that it got.
type knowledge struct {
	generation int64 // of the newest call
	deleted    bool
	lessSince  time.Time // when the first of the calls came that are older than the newest; zero: the last call was none of them
}

// called notes a call, which is older than another one if it has a lower generation, or lacks the deletion.
func (k *knowledge) called(c *plan.Call) {
	g := c.Group
	deleted := g.DeletionTimestamp != nil
	less := k.deleted && !deleted || !deleted && g.Generation < k.generation && g.UndoneGeneration() != k.generation
	switch {
	case !less:
		*k = knowledge{generation: g.Generation, deleted: deleted}
	case k.lessSince.IsZero():
		k.lessSince = time.Now()
	}
}

// checkKnowledge checks that no step begins while the calls of its replica are older than one before, for a lease: whoever knows less acts less.
func (s *step) checkKnowledge() {
	if k := s.by.known[s.ref.UID]; k != nil && !k.lessSince.IsZero() && time.Since(k.lessSince) <= lease {
		s.violated("%s begins although the calls since %s ago are older than generation %d", s, time.Since(k.lessSince), k.generation)
	}
}

// cluster is the second cluster, with one server.
type cluster struct {
	*replica
	group    *v1alpha1.VmGroup
	children map[plan.ChildKey]plan.ObservedChild
	newest   int64 // the highest generation in the stamps when it woke
}

// wake starts a second cluster from the backup, if the group was edited since, and a stamp shows that.
func (w *world) wake() {
	b, newest := w.backup, int64(0)
	if b == nil || w.second != nil {
		return
	}
	for _, m := range w.some(visible) {
		if m.uid == b.uid() {
			newest = max(newest, m.Generation)
		}
	}
	if newest <= b.group.Generation {
		return
	}
	w.second = &cluster{w.newReplica(), b.group, b.children, newest}
	w.say("%s is the second cluster's, with generation %d", w.second.name, b.group.Generation)
	w.second.view.readAll()
	w.second.call(false)
}

// call calls a hook of the second cluster's server, after its group was deleted there, if asked.
func (c *cluster) call(deletes bool) {
	if c == nil {
		return
	}
	w := c.world
	c.view.readAll()
	c.loop.Changed("")
	// What a deletion writes has the next generation, so it can't tell the first edit in the other cluster from its own.
	if g := *c.group; deletes && g.DeletionTimestamp == nil && c.newest > g.Generation+1 {
		g.DeletionTimestamp, g.Generation = &metav1.Time{Time: seconds(time.Now())}, g.Generation+1
		c.group = &g
	}
	result := c.loop.Sync(plan.Call{Group: c.group, Finalizing: c.group.DeletionTimestamp != nil, Children: c.children})
	w.say("  %s is called for generation %d, and answers %s %q, finalized: %v", c.name, c.group.Generation, result.Status.Phase, result.Status.LastMessage, result.Finalized)
	if result.Finalized {
		w.violated("the deletion in the second cluster ends without a word")
	}
	g := *c.group
	g.Status, c.group = result.Status, &g
	c.children = map[plan.ChildKey]plan.ObservedChild{}
	for _, child := range result.Children {
		c.children[child.Key] = plan.ObservedChild{}
	}
	w.settle()
}

// sleep ends the second cluster.
func (w *world) sleep() {
	if w.second != nil {
		w.second.stop()
		<-w.second.stopped
		w.second = nil
	}
}
