package test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var (
	restoredSeed  = flag.Uint64("restored.seed", 1, "the seed of the first life in which etcd is restored")
	restoredSeeds = flag.Int("restored.seeds", 0, "how many such lives run; 0: 20, or 2 in a thin run")
)

// In these lives, a backup of etcd is taken at some time, the group is changed, scaled, deleted, and disturbed, and then either etcd goes back to the
// backup while the servers run, or the backup is started as a second cluster with the same account. What a life expects:
//
//	etcd goes back            with one server that was not restarted: within a lease no step begins, and the group isn't Ready; in any case,
//	                          what docs/upgrade.md says brings it up as the backup's spec says
//	a second cluster wakes    if the group was edited since: whatever happens there, the VMs stay, and the first cluster's group is up
//	                          otherwise: neither server makes or removes a VM
func TestLivesInWhichEtcdIsRestored(t *testing.T) {
	t.Parallel()
	n := *restoredSeeds
	if n == 0 {
		n = thin.Of(20, 10)
	}
	for seed := *restoredSeed; seed < *restoredSeed+uint64(n); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &restoredLife{t: t, rand: rand.New(rand.NewPCG(seed, 0)), rig: newRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: seed%2 == 0}})}
				defer func() {
					if t.Failed() {
						t.Logf("again: go test ./test -run TestLivesInWhichEtcdIsRestored -restored.seed %d -restored.seeds 1\n%s", seed, strings.Join(l.diary, "\n"))
					}
				}()
				l.live()
			})
		})
	}
}

// restoredLife is one of these lives.
type restoredLife struct {
	*rig
	t         *testing.T
	rand      *rand.Rand
	servers   []*serverReplica
	group     *metacontroller.Group
	backup    *metacontroller.Group
	edited    bool // since the backup
	deleted   bool // since the backup
	restarted bool // a server, since the backup
	diary     []string
}

func (l *restoredLife) say(format string, args ...any) {
	l.diary = append(l.diary, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (l *restoredLife) live() {
	l.neverTwo()
	for range 1 + l.rand.IntN(2) {
		l.servers = append(l.servers, l.serve())
	}
	l.group = l.servers[0].group("web", int32(1+l.rand.IntN(4)))
	if l.rand.IntN(3) == 0 {
		l.group.Spec.Deletion.Policy = v1alpha1.DeletionRetain
	}
	l.running(l.group)
	for range l.rand.IntN(3) {
		l.change()
	}
	if l.rand.IntN(4) > 0 {
		l.running(l.group)
	}
	l.backup, l.edited, l.restarted = backup(l.group), false, false
	l.say("backup of generation %d", l.backup.Generation)
	for range l.rand.IntN(5) {
		l.change()
		l.calls(l.group, time.Duration(l.rand.IntN(90))*time.Second)
	}
	switch {
	case l.rand.IntN(3) == 0:
		l.wakes()
	case l.rand.IntN(3) == 0 && l.group.Spec.Deletion.Policy == "":
		l.say("the group is deleted")
		l.group.URL = l.any().url
		remove(l.t, l.group)
		l.deleted = true
		l.goesBack()
	default:
		l.goesBack()
	}
}

func (l *restoredLife) any() *serverReplica { return l.servers[l.rand.IntN(len(l.servers))] }

// calls makes hook calls for so long.
func (l *restoredLife) calls(g *metacontroller.Group, long time.Duration) (a metacontroller.Answer) {
	l.t.Helper()
	for began := time.Now(); ; time.Sleep(max(a.Resync(), 5*time.Second)) {
		was := a.Status.LastMessage
		var err error
		g.URL = l.any().url
		if a, err = g.Sync(within(l.t)); err != nil {
			l.t.Fatalf("a hook failed: %v", err)
		}
		if a.Status.LastMessage != was {
			l.say("generation %d: %s %d/%d %s", g.Generation, a.Status.Phase, a.Status.CurrentReplicas, a.Status.DesiredReplicas, a.Status.LastMessage)
		}
		if time.Since(began) >= long {
			return a
		}
	}
}

// running calls until all servers say that the group is RUNNING.
func (l *restoredLife) running(g *metacontroller.Group) {
	l.t.Helper()
	g.Spec.Paused = false
	for _, s := range l.servers {
		upAt(l.t, g, s.url)
	}
	l.say("generation %d: up with %v", g.Generation, l.names(web))
}

func (l *restoredLife) edit(what string, change func(*v1alpha1.VmGroupSpec)) {
	l.group.Edit(change)
	l.edited = true
	l.say("generation %d: %s", l.group.Generation, what)
}

// change changes the group, or its VMs.
func (l *restoredLife) change() {
	switch members := l.members(); l.rand.IntN(7) {
	case 0, 1:
		n := int32(1 + l.rand.IntN(5))
		l.edit(fmt.Sprint("scale ", n), func(s *v1alpha1.VmGroupSpec) { s.Replicas = &n })
	case 2:
		l.edit("cpu", func(s *v1alpha1.VmGroupSpec) { s.CPU = int32(1 + l.rand.IntN(4)) })
	case 3:
		l.edit("revision", func(s *v1alpha1.VmGroupSpec) { s.Hardware.BootDelaySeconds = int32(1 + l.rand.IntN(3)) })
	case 4:
		if len(members) > 0 {
			vm := members[l.rand.IntN(len(members))]
			l.say("an operator powers %s off: %v", vm.Name, l.PowerOff(vm.Path))
		}
	case 5:
		if len(members) > 0 {
			vm := members[l.rand.IntN(len(members))]
			_ = l.PowerOff(vm.Path)
			l.say("an operator destroys %s: %v", vm.Name, l.Destroy(vm.Path))
		}
	case 6:
		i := l.rand.IntN(len(l.servers))
		l.servers[i].stop()
		l.servers[i] = l.serve()
		l.restarted = true
		l.say("server %d was restarted", i)
	}
}

var newestGeneration = regexp.MustCompile(`have generation (\d+) of this group`)

// goesBack restores etcd while the servers run.
func (l *restoredLife) goesBack() {
	l.say("etcd goes back")
	if !l.deleted && l.rand.IntN(2) == 0 {
		l.running(l.group) // nothing runs
	}
	g := l.backup
	l.calls(g, 0)
	time.Sleep(45 * time.Second) // what ran has ended
	were := refs(l.members())
	a := l.calls(g, 40*time.Second)
	if is := refs(l.members()); len(l.servers) == 1 && !l.restarted && (l.edited || l.deleted) && fmt.Sprint(is) != fmt.Sprint(were) {
		l.t.Errorf("within a lease, the members %v became %v", were, is)
	}
	if l.edited && !l.restarted && len(l.servers) == 1 && saysReady(a) {
		l.t.Errorf("within a lease, the answer is %s %q", a.Status.Phase, a.Status.LastMessage)
	}
	a = l.calls(g, 3*time.Minute)
	if len(l.servers) > 1 { // they answer in turns: docs/upgrade.md says to restart them
		for i := range l.servers {
			l.servers[i].stop()
			l.servers[i] = l.serve()
		}
		a = l.calls(g, time.Minute)
	}
	if n := newestGeneration.FindStringSubmatch(a.Status.LastMessage); n != nil {
		l.say("an operator undoes generation %s", n[1])
		g.Annotations = map[string]string{v1alpha1.AnnotationUndoGeneration: n[1]}
	}
	l.running(g)
	if n := len(l.members()); n != int(*g.Spec.Replicas) {
		l.t.Errorf("at the end there are %d members, want %d", n, *g.Spec.Replicas)
	}
	g.URL = l.any().url
	remove(l.t, g)
}

// wakes starts the backup as a second cluster, and has the group deleted there if it was edited since.
func (l *restoredLife) wakes() {
	l.say("a second cluster wakes")
	l.running(l.group)
	were, second := refs(l.members()), l.serve()
	l.backup.URL = second.url
	var a metacontroller.Answer
	for range 20 {
		var err error
		if a, err = l.backup.Sync(within(l.t)); err != nil {
			l.t.Fatal(err)
		}
		l.calls(l.group, 0)
	}
	l.say("the second cluster: %s %s", a.Status.Phase, a.Status.LastMessage)
	l.sameVMs(were)
	stamps := slices.Max(append(l.generations(), 0))
	if stamps <= l.backup.Generation { // it can't know: docs/upgrade.md
		return
	}
	for range 20 {
		var err error
		if a, err = l.backup.Finalize(within(l.t)); err != nil || a.Finalized {
			l.t.Fatalf("the deletion in the second cluster ends without a word: %v", err)
		}
		l.calls(l.group, 5*time.Second)
	}
	l.say("deleted in the second cluster: %s %s", a.Status.Phase, a.Status.LastMessage)
	l.backup.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
	if _, err := l.backup.UntilFinalizing(within(l.t), func(a metacontroller.Answer) bool { return a.Finalized }); err != nil {
		l.t.Error(err)
	}
	l.running(l.group)
	l.sameVMs(were)
}

// generations are those in the stamps of the members.
func (l *restoredLife) generations() (all []int64) {
	for _, vm := range l.members() {
		stamp, err := stampOf(vm)
		l.must(err)
		all = append(all, stamp.Generation)
	}
	return all
}
