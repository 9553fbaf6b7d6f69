package e2e

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// sizing is the settings of the server for a number of groups: docs/install.md, "Settings for each size".
type sizing struct{ resync, lease string }

var upToThousand, more = sizing{"45s", "90s"}, sizing{"60s", "180s"}

// at restarts the server with a vCenter and a number of slots, and Metacontroller with the flags for a size.
func (r *rig) at(t *testing.T, u *url.URL, slots int, s sizing) {
	t.Helper()
	r.metacontroller.Kill()
	r.server.Kill()
	password, _ := u.User.Password()
	write(t, r.path("figures-password"), password)
	r.serves = []string{"--host", u.Host, "--user", u.User.Username(), "--password-file", r.path("figures-password"), "--thumbprint", "", "--insecure",
		"--slots", fmt.Sprint(slots), "--log-level", "info", "--resync", s.resync, "--lease", s.lease}
	r.startServer(t, r.serves...)
	r.startMetacontroller(t, strings.Fields(*figuresFlags)...)
}

// followed has the groups of a namespace, by name, as a watch of the API server reports them.
type followed struct {
	rig       *rig
	namespace string
	service   bool // the groups that it creates have a Service

	mu      sync.Mutex
	groups  map[string]*v1alpha1.VmGroup
	changed chan struct{}
}

// follow follows the groups of a new namespace until the test ends.
func (r *rig) follow(t *testing.T) *followed {
	t.Helper()
	namespace := "figures-" + strings.ToLower(rand.Text()[:8])
	f := &followed{rig: r, namespace: r.namespace(t, namespace), groups: map[string]*v1alpha1.VmGroup{}, changed: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(context.Background())
	w, err := r.Resource(vmgroups).Namespace(namespace).Watch(ctx, metav1.ListOptions{})
	must.Succeed(t, err)
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

// create creates a group.
func (f *followed) create(t *testing.T, name string, members int) {
	t.Helper()
	spec := map[string]any{"cpu": int64(2), "memory": int64(4), "replicas": int64(members), "template": template}
	if f.service {
		spec["service"] = map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
	}
	if _, err := f.rig.Resource(vmgroups).Namespace(f.namespace).Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": map[string]any{"name": name}, "spec": spec,
	}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// apply creates groups at once, a few at a time, and returns when it began.
func (f *followed) apply(t *testing.T, groups, members int) time.Time {
	t.Helper()
	began, work := time.Now(), make(chan int)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for i := range work {
				f.create(t, fmt.Sprintf("web-%d", i), members)
			}
		})
	}
	for i := range groups {
		work <- i
	}
	close(work)
	workers.Wait()
	return began
}

// remove deletes all groups at once, and returns when it began.
func (f *followed) remove(t *testing.T) time.Time {
	t.Helper()
	began := time.Now()
	must.Succeed(t, f.rig.Resource(vmgroups).Namespace(f.namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	return began
}

// running waits until groups are RUNNING with all members ready.
func (f *followed) running(t *testing.T, groups, members int, most time.Duration) {
	t.Helper()
	f.until(t, "RUNNING", most, func(all map[string]*v1alpha1.VmGroup) bool {
		ready := 0
		for _, g := range all {
			if isUp(g, int32(members)) {
				ready++
			}
		}
		return ready == groups
	})
}

// isUp reports whether a group is RUNNING with all members ready.
func isUp(g *v1alpha1.VmGroup, members int32) bool {
	s := &g.Status
	return s.ObservedGeneration == g.Generation && s.Phase == v1alpha1.PhaseRunning && s.ReadyReplicas == members && s.UpdatedReplicas == members
}

// gone waits until no group is left.
func (f *followed) gone(t *testing.T, most time.Duration) {
	t.Helper()
	f.until(t, "gone", most, func(all map[string]*v1alpha1.VmGroup) bool { return len(all) == 0 })
}

// traffic counts the calls and writes so far, and the processor time that each process took.
type traffic struct {
	at                                    time.Time
	calls, writes                         int
	methods                               map[string]int // how often the server has called each method of vCenter
	kube, metacontroller, server, vcenter time.Duration
}

func (r *rig) traffic(t *testing.T) traffic {
	t.Helper()
	n := traffic{at: time.Now(), writes: len(r.writes(t)), methods: r.vcenterCalls(t), kube: r.Busy(), metacontroller: r.metacontroller.Busy(), server: r.server.Busy()}
	for _, calls := range r.calls(t) {
		n.calls += calls
	}
	if r.simulator != nil {
		n.vcenter = r.simulator.Busy()
	}
	return n
}

// cores returns the processor time of all processes but vCenter since was, in cores.
func (n traffic) cores(was traffic) float64 {
	took := n.kube + n.metacontroller + n.server - was.kube - was.metacontroller - was.server
	return took.Seconds() / n.at.Sub(was.at).Seconds()
}

// vims counts the vCenter calls of all methods.
func (n traffic) vims() (all int) {
	for _, calls := range n.methods {
		all += calls
	}
	return all
}

// vcenterCalls counts the server's calls of vCenter by method, as its metrics have them.
func (r *rig) vcenterCalls(t *testing.T) map[string]int {
	text, err := fetch("http://" + r.health + "/metrics")
	if err != nil {
		t.Error(err)
	}
	calls := map[string]int{}
	for line := range strings.Lines(text) {
		var method string
		var n int
		if _, err := fmt.Sscanf(line, `vmgroup_vcenter_calls_total{method=%q} %d`, &method, &n); err == nil {
			calls[method] = n
		}
	}
	return calls
}

// since describes the traffic since was: rates per second, and processor times.
func (n traffic) since(was traffic) string {
	seconds := n.at.Sub(was.at).Seconds()
	return fmt.Sprintf("%.1f hook calls, %.1f writes, %.1f vCenter calls a second; processor time: API server %.1f s, Metacontroller %.1f s, server %.1f s, vCenter %.1f s",
		float64(n.calls-was.calls)/seconds, float64(n.writes-was.writes)/seconds, float64(n.vims()-was.vims())/seconds,
		(n.kube - was.kube).Seconds(), (n.metacontroller - was.metacontroller).Seconds(), (n.server - was.server).Seconds(), (n.vcenter - was.vcenter).Seconds())
}

// each lists the vCenter calls since was, per member, the most frequent method first.
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

// lastDone returns the time at which the last action of a kind ended, by the server's log.
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
