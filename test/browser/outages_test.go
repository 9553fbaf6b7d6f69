package browser

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/process"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var server = flag.String("server", "", "the vmgroup binary of TestTheFacesOfAServerInOutages, such as an older version; built from this module if empty")

// site is a server in a process of its own, its vCenter, and groups for which the test calls the hooks, as Metacontroller does.
type site struct {
	*vcsim.VCenter
	t                         *testing.T
	binary, listen, health    string
	process                   *process.Process
	groups                    []*metacontroller.Group
	lost, failed, typo, empty *metacontroller.Group // one of each kind
	answers                   strings.Builder       // what kubectl and Prometheus would show
}

// lease is how long the server can act after a hook call.
const lease = 10 * time.Second

// newSite starts a server with 55 groups: 44 that run, five without replicas, one whose member is missing, four without a template and one
// whose spec is invalid. The last six wait for an operator.
func newSite(t *testing.T) *site {
	t.Helper()
	v, err := vcsim.Start(vcsim.Config{Hosts: 3, Guest: vcsim.Guest{Tools: true}})
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, v.Close()) })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	must.Succeed(t, free.Close())
	s := &site{VCenter: v, t: t, binary: *server, listen: free.Addr().String()}
	if s.binary == "" {
		s.binary = filepath.Join(t.TempDir(), "vmgroup")
		must.Succeed(t, process.Build(filepath.Join("..", ".."), s.binary))
	}
	s.start()

	s.lost = s.add("lost", 3, nil)
	s.callUntil("lost runs", func() bool { return s.lost.Status.Phase == v1alpha1.PhaseRunning })
	vm, err := v.Details("/DC0/vm/vm-operator/shop/lost/lost-1")
	must.Succeed(t, err)
	must.Succeed(t, v.RemoveHost(vm.Host))

	for i := range 44 {
		s.add(fmt.Sprintf("web-%02d", i), 1, nil)
	}
	for i := range 5 {
		s.empty = s.add(fmt.Sprintf("empty-%d", i), 0, nil)
	}
	for i := range 4 {
		s.failed = s.add(fmt.Sprintf("db-%d", i), 2, func(spec *v1alpha1.VmGroupSpec) { spec.Template = "debian-14" })
	}
	s.typo = s.add("typo", 1, func(spec *v1alpha1.VmGroupSpec) { spec.Template = "" })
	s.callUntil("49 groups are RUNNING and six in ERROR", func() bool {
		phases := map[v1alpha1.Phase]int{}
		for _, g := range s.groups {
			phases[g.Status.Phase]++
		}
		return phases[v1alpha1.PhaseRunning] == 49 && phases[v1alpha1.PhaseError] == 6
	})
	return s
}

func (s *site) start() {
	s.t.Helper()
	at := s.URL()
	password, _ := at.User.Password()
	s.process = process.Start(s.t, s.binary, "server", "serve", "--host", at.Host, "--user", at.User.Username(), "--password", password, "--insecure",
		"--listen", s.listen, "--health-listen", "127.0.0.1:0", "--resync", "5s", "--lease", lease.String())
	s.health = s.process.Said(s.t, "health_listen")
}

func (s *site) url(path string) string { return "http://" + s.listen + path }

func (s *site) add(name string, replicas int32, change func(*v1alpha1.VmGroupSpec)) *metacontroller.Group {
	g := metacontroller.New(s.url(""), "shop", name, "uid-"+name, replicas)
	if change != nil {
		change(&g.Spec)
	}
	s.groups = append(s.groups, g)
	return g
}

// call calls the hooks once for each group. The server refuses calls while it starts.
func (s *site) call() {
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	for _, g := range s.groups {
		if g.DeletionTimestamp != nil {
			_, _ = g.Finalize(ctx)
		} else {
			_, _ = g.Sync(ctx)
		}
	}
}

// callUntil calls the hooks for all groups until a condition holds.
func (s *site) callUntil(what string, holds func() bool) {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		s.call()
		if holds() {
			return
		}
		if time.Since(began) > timeout {
			s.report("waiting until " + what)
			s.t.Fatalf("never: %s:\n%s", what, s.answers.String())
		}
	}
}

// callsDuring calls the hooks while a function runs.
func (s *site) callsDuring(do func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			s.call()
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	do()
	close(stop)
	<-stopped
}

// metrics returns the lines of the metrics that tell whether anything is wrong.
func (s *site) metrics() string {
	s.t.Helper()
	r, err := http.Get("http://" + s.health + "/metrics")
	must.Succeed(s.t, err)
	defer r.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(r.Body)
	must.Succeed(s.t, err)
	var lines strings.Builder
	for line := range strings.Lines(string(text)) {
		for _, name := range []string{"vmgroup_last_call", "vmgroup_vcenter_up", "vmgroup_groups{"} {
			if strings.HasPrefix(line, name) {
				lines.WriteString(line)
			}
		}
	}
	return lines.String()
}

// report notes what kubectl shows of one group of each kind, and what Prometheus reads.
func (s *site) report(when string) {
	s.t.Helper()
	fmt.Fprintf(&s.answers, "## %s\n\n%-10s %-8s %-5s %s\n", when, "NAME", "PHASE", "READY", "LAST_MESSAGE")
	shown := []*metacontroller.Group{s.groups[min(1, len(s.groups)-1)], s.lost, s.failed, s.typo, s.empty}
	for _, g := range shown {
		if g != nil {
			fmt.Fprintf(&s.answers, "%-10s %-8s %-5d %s\n", g.Name, g.Status.Phase, g.Status.ReadyReplicas, g.Status.LastMessage)
		}
	}
	for _, g := range shown[1:] {
		if g == nil {
			continue
		}
		for _, c := range g.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady || c.Type == v1alpha1.ConditionStalled {
				since := c.LastTransitionTime.UTC().Format(time.TimeOnly)
				fmt.Fprintf(&s.answers, "%s: %s=%s since %s, %s: %s\n", g.Name, c.Type, c.Status, since, c.Reason, c.Message)
			}
		}
	}
	fmt.Fprintf(&s.answers, "%s\n", s.metrics())
}

// says checks that the page shows each of these texts soon, and takes a picture of it.
func (p *tab) says(picture string, texts ...string) {
	p.t.Helper()
	p.do("Page.bringToFront", nil, nil) // a tab in the background asks for news less often
	patience := timeout
	if *server != "" { // it is expected to say something else
		patience = lease + 5*time.Second
	}
	for _, text := range texts {
		condition := fmt.Sprintf("document.body.innerText.includes(%q)", text)
		if !p.soon(condition, patience) {
			p.t.Errorf("%s: the page doesn't say %q; it says:\n%s", picture, text, eval[string](p, "document.body.innerText"))
		}
	}
	p.shot(picture)
}

// In each of these states the page, the status or the metrics used to say what wasn't so.
//
//	go test ./test/browser -run Faces -browser -shots DIR                  # pictures, and answers.txt
//	go test ./test/browser -run Faces -browser -shots DIR -server BINARY   # of another version
func TestTheFacesOfAServerInOutages(t *testing.T) {
	c := start(t)
	s := newSite(t)
	defer func() {
		if *shots != "" {
			must.Succeed(t, os.WriteFile(filepath.Join(*shots, "answers.txt"), []byte(s.answers.String()), 0o600))
		}
	}()
	overview, of := c.open(1280), c.open(1280)
	errors := `document.querySelector("a.tile.error").innerText.startsWith("6 ")`
	stalled := func(g *metacontroller.Group) bool {
		return meta.IsStatusConditionTrue(g.Status.Conditions, v1alpha1.ConditionStalled)
	}

	s.callsDuring(func() {
		overview.visit(s.url("/"))
		overview.says("1-well", "Connected", "Calls")
		of.visit(s.url("/ui/groups/shop/lost"))
		of.says("1-missing-member", "Missing", "last known")
	})
	s.report("all is well")

	time.Sleep(lease + 2*time.Second)
	overview.says("2-silent", "Doesn't call", "The VMs continue to run: delete none because of this page")
	if !eval[bool](overview, errors) {
		t.Error("without hook calls, the page doesn't count the six groups that wait for an operator")
	}
	overview.visit(s.url("/?q=empty"))
	overview.says("2-silent-empty", "5 of 55 groups")
	of.visit(s.url("/ui/groups/shop/web-00"))
	of.says("2-silent-group", "has not called this replica")
	s.report("no hook call for longer than the lease")
	if text := s.metrics(); !strings.Contains(text, "vmgroup_last_call_timestamp_seconds") {
		t.Errorf("the metrics don't say when the last hook call came:\n%s", text)
	}

	s.callUntil("the server knows vCenter and its groups again", func() bool { return s.failed.Status.Phase == v1alpha1.PhaseError })
	before := *meta.FindStatusCondition(s.failed.Status.Conditions, v1alpha1.ConditionStalled)
	s.Down()
	defer s.Up()
	s.callUntil("a status says that vCenter is away", func() bool { return s.groups[1].Status.Phase == v1alpha1.PhasePending })
	s.callsDuring(func() {
		overview.visit(s.url("/"))
		overview.says("3-vcenter-away", "Not known", "the groups are shown as last known")
		if !eval[bool](overview, errors) {
			t.Error("without vCenter, the page doesn't count the six groups that wait for an operator")
		}
		of.visit(s.url("/ui/groups/shop/db-0"))
		of.says("3-vcenter-away-error", `template "debian-14" not found`)
		of.visit(s.url("/ui/groups/shop/typo"))
		of.says("3-vcenter-away-invalid", "InvalidSpec")
	})
	s.report("vCenter is away")
	for _, g := range []*metacontroller.Group{s.failed, s.typo, s.lost} {
		if !stalled(g) || g.Status.Phase != v1alpha1.PhaseError {
			t.Errorf("without vCenter, %s is %s, Stalled %t, with %q; want what was wrong before", g.Name, g.Status.Phase, stalled(g), g.Status.LastMessage)
		}
	}
	s.Up()
	s.callUntil("the server reads vCenter again", func() bool { return s.failed.Status.Phase == v1alpha1.PhaseError })
	after := meta.FindStatusCondition(s.failed.Status.Conditions, v1alpha1.ConditionStalled)
	if after == nil || !after.LastTransitionTime.Equal(&before.LastTransitionTime) {
		t.Errorf("the outage changed since when %s is stalled: %v, before %v", s.failed.Name, after, before)
	}

	of.visit(s.url("/ui/groups/shop/" + s.empty.Name))
	s.process.Kill()
	s.start()
	of.says("4-restarted", "is shown here as soon as Metacontroller calls for it")
	s.callsDuring(func() {
		of.says("4-called", "0 of 0")
		if title := eval[string](of, "document.querySelector('h1').textContent"); title != s.empty.Name {
			t.Errorf("after a restart, the page that was open shows %q; want %q", title, s.empty.Name)
		}
	})

	s.callUntil("the missing member is known again", func() bool { return s.lost.Status.Phase == v1alpha1.PhaseError })
	_, err := s.lost.Finalize(t.Context())
	must.Succeed(t, err)
	s.callsDuring(func() {
		of.visit(s.url("/ui/groups/shop/lost"))
		of.says("5-deleting", "Deleting", "Bring it back, and the server removes it")
	})
	s.report("lost is being deleted")
}
