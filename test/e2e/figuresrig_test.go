package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// sizing is the settings of the CompositeController and the server for a number of groups: docs/install.md, "Settings for each size".
type sizing struct {
	period        int
	resync, lease string
}

var upToThousand, more = sizing{60, "30s", "90s"}, sizing{300, "60s", "180s"}

// at gives the server another vCenter and other slots, and Metacontroller other flags, until the test ends.
func (r *rig) at(t *testing.T, latency vcsim.Latency, slots int, s sizing) {
	t.Helper()
	was := r.vcenter
	again := func(slots int, s sizing, metacontroller ...string) {
		r.metacontroller.Kill()
		r.server.Kill()
		r.kubectl(t, "patch", "compositecontroller", "vmgroup", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"resyncPeriodSeconds":%d}}`, s.period))
		r.startServer(t, "--slots", fmt.Sprint(slots), "--log-level", "info", "--resync", s.resync, "--lease", s.lease)
		r.startMetacontroller(t, metacontroller...)
	}
	var err error
	if r.vcenter, err = vcsim.Start(vcsim.Config{Latency: latency, Templates: []string{"vm-operator-template", "vm-operator-template-2"}}); err != nil {
		t.Fatal(err)
	}
	again(slots, s, strings.Fields(*figuresFlags)...)
	t.Cleanup(func() {
		_ = r.vcenter.Close()
		r.vcenter = was
		again(8, upToThousand)
	})
}

// followed are the groups of a namespace as the API server has them, by name.
type followed struct {
	rig       *rig
	namespace string

	mu      sync.Mutex
	groups  map[string]*v1alpha1.VmGroup
	changed chan struct{}
}

// follow follows the groups of a new namespace until the test ends.
func (r *rig) follow(t *testing.T, namespace string) *followed {
	t.Helper()
	f := &followed{rig: r, namespace: r.namespace(t, namespace), groups: map[string]*v1alpha1.VmGroup{}, changed: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(context.Background())
	w, err := r.Resource(vmgroups).Namespace(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); w.Stop(); <-ended })
	go func() {
		defer close(ended)
		for e := range w.ResultChan() {
			f.take(e)
		}
	}()
	return f
}

func (f *followed) take(e watch.Event) {
	o, is := e.Object.(*unstructured.Unstructured)
	g := &v1alpha1.VmGroup{}
	if !is || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, g) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.groups[g.Name] = g; e.Type == watch.Deleted {
		delete(f.groups, g.Name)
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// until waits until the groups are as expected.
func (f *followed) until(t *testing.T, what string, most time.Duration, holds func(map[string]*v1alpha1.VmGroup) bool) {
	t.Helper()
	for end := time.After(most); ; {
		f.mu.Lock()
		held := holds(f.groups)
		f.mu.Unlock()
		if held {
			return
		}
		select {
		case <-f.changed:
		case <-end:
			t.Fatalf("the groups are not %s after %s", what, most)
		}
	}
}

// apply creates groups at once, and returns when it began.
func (f *followed) apply(t *testing.T, groups, members int) time.Time {
	t.Helper()
	began := time.Now()
	f.each(t, groups, func(name string) error {
		_, err := f.rig.Resource(vmgroups).Namespace(f.namespace).Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"cpu": int64(2), "memory": int64(4), "replicas": int64(members), "template": "vm-operator-template"},
		}}, metav1.CreateOptions{})
		return err
	})
	return began
}

// remove deletes groups at once, and returns when it began.
func (f *followed) remove(t *testing.T, groups int) time.Time {
	t.Helper()
	began := time.Now()
	f.each(t, groups, func(name string) error {
		return f.rig.Resource(vmgroups).Namespace(f.namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return began
}

// roll gives groups another template.
func (f *followed) roll(t *testing.T, groups int) {
	t.Helper()
	f.each(t, groups, func(name string) error {
		_, err := f.rig.Resource(vmgroups).Namespace(f.namespace).Patch(context.Background(), name, types.MergePatchType,
			[]byte(`{"spec":{"template":"vm-operator-template-2"}}`), metav1.PatchOptions{})
		return err
	})
}

// each does something for each group, a few at once.
func (f *followed) each(t *testing.T, groups int, do func(name string) error) {
	t.Helper()
	work := make(chan int)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for i := range work {
				if err := do(fmt.Sprintf("web-%d", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range groups {
		work <- i
	}
	close(work)
	workers.Wait()
}

// running waits until groups are RUNNING with all members ready.
func (f *followed) running(t *testing.T, groups, members int, most time.Duration) {
	t.Helper()
	f.until(t, "RUNNING", most, func(all map[string]*v1alpha1.VmGroup) bool {
		ready := 0
		for _, g := range all {
			if g.Status.ObservedGeneration == g.Generation && g.Status.Phase == v1alpha1.PhaseRunning && g.Status.ReadyReplicas == int32(members) && g.Status.UpdatedReplicas == int32(members) {
				ready++
			}
		}
		return ready == groups
	})
}

// gone waits until no group is left.
func (f *followed) gone(t *testing.T, most time.Duration) {
	t.Helper()
	f.until(t, "gone", most, func(all map[string]*v1alpha1.VmGroup) bool { return len(all) == 0 })
}

// traffic is what has passed so far, and the processor time that it took.
type traffic struct {
	at                           time.Time
	calls, writes, vims          int
	methods                      map[string]int // of vCenter, and how often each was called
	kube, metacontroller, server time.Duration
	vcenter                      time.Duration // and the test
}

func (r *rig) traffic(t *testing.T) traffic {
	t.Helper()
	n := traffic{at: time.Now(), kube: r.Busy(), metacontroller: r.metacontroller.Busy(), server: r.server.Busy(), vcenter: cluster.Busy(os.Getpid())}
	for _, calls := range r.calls(t) {
		n.calls += calls
	}
	n.writes = len(r.writes(t))
	n.methods = r.vcenter.Calls()
	for _, calls := range n.methods {
		n.vims += calls
	}
	return n
}

// since is the traffic since then, a second.
func (n traffic) since(was traffic) string {
	seconds := n.at.Sub(was.at).Seconds()
	return fmt.Sprintf("%.1f hook calls, %.1f writes, %.1f vCenter calls a second; processor time: API server %.1f s, Metacontroller %.1f s, server %.1f s, vCenter %.1f s",
		float64(n.calls-was.calls)/seconds, float64(n.writes-was.writes)/seconds, float64(n.vims-was.vims)/seconds,
		(n.kube - was.kube).Seconds(), (n.metacontroller - was.metacontroller).Seconds(), (n.server - was.server).Seconds(), (n.vcenter - was.vcenter).Seconds())
}

// each lists the vCenter calls since then for each of so many members, those that are made most first.
func (n traffic) each(was traffic, members float64) string {
	var all []string
	count := func(method string) int { return n.methods[method] - was.methods[method] }
	for _, method := range slices.SortedFunc(maps.Keys(n.methods), func(a, b string) int { return cmp.Or(count(b)-count(a), strings.Compare(a, b)) }) {
		if each := float64(count(method)) / members; each >= 0.05 {
			all = append(all, fmt.Sprintf("%s %.2f", method, each))
		}
	}
	return strings.Join(all, ", ")
}

// lastDone is when the last action of a kind ended, as the server's log has it.
func (r *rig) lastDone(t *testing.T, op string) (last time.Time) {
	t.Helper()
	for line := range strings.Lines(r.server.Log()) {
		var entry struct {
			Op      string
			Time    time.Time
			Message string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Op == op && strings.HasSuffix(entry.Message, " done") {
			last = entry.Time
		}
	}
	return last
}
