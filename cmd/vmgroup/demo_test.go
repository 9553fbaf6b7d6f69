package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

func TestTheDemoFollowsItsFileAndCleansUp(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "group.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	spec := func(replicas string) string {
		return head + ", replicas: " + replicas + ", disks: [{name: data, sizeGiB: 1}], userData: {secretKeyRef: {name: boot}}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: boot, namespace: shop}\nstringData: {user-data: \"#cloud-config planted\"}\n"
	}
	write(strings.Replace(spec("2"), "replicas: 2, ", "", 1))
	c := vmgroup(nil, "demo", "-f", file, "--listen", "127.0.0.1:0", "--clone-time", "50ms", "--power-time", "10ms", "--boot-time", "10ms")
	out, err := c.StdoutPipe()
	must.Succeed(t, err)
	var errs bytes.Buffer
	c.Stderr = &errs
	must.Succeed(t, c.Start())
	defer c.Process.Kill() //nolint:errcheck // after a success, the process has ended
	var mu sync.Mutex
	var text strings.Builder
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			mu.Lock()
			text.WriteString(lines.Text() + "\n")
			mu.Unlock()
		}
	}()
	said := func(words string) {
		t.Helper()
		eventually(t, words, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(text.String(), words)
		})
	}
	said("shop/web  RUNNING  2 of 2 ready")
	write(strings.Replace(spec("4"), "replicas: 2, ", "", 1))
	said("Clone web-3")
	said("shop/web  RUNNING  4 of 4 ready")
	write("spec: {memory: 4Gi")
	said("document 1")
	write(strings.NewReplacer("replicas: 2, ", "", "name: web", "name: db").Replace(spec("1")))
	said("shop/web is deleted")
	said("shop/db  RUNNING  1 of 1 ready")
	must.Succeed(t, c.Process.Signal(syscall.SIGINT))
	said("shop/db is deleted: vCenter has no objects of it any more")
	<-ended
	if err := c.Wait(); err != nil || strings.Contains(text.String(), "planted") || errs.Len() > 0 { // the server's log must not be written into the screen
		t.Errorf("%v: %s%s", err, text.String(), &errs)
	}
}

func TestTheDemosManifestIsTheSample(t *testing.T) {
	t.Parallel()
	m := manifests{files: []string{"demo.yaml", "../../manifests/samples/vmgroup.yaml"}}
	groups, err := m.read(nil, func(*other) {})
	if err != nil || len(groups) != 2 || !equality.Semantic.DeepEqual(groups[0], groups[1]) {
		t.Errorf("%v: %+v", err, groups)
	}
}

func TestTheDemoShowsMembersAndTheirProgress(t *testing.T) {
	t.Parallel()
	g := &demoGroup{Group: metacontroller.New("", "shop", "web", "uid", 3)}
	g.Status = v1alpha1.VmGroupStatus{Phase: v1alpha1.PhasePending, ReadyReplicas: 1, LastMessage: "cloning 1 member", Members: []v1alpha1.Member{
		{Name: "web-0", MoRef: "vm-1", PowerState: "poweredOn", IPs: []string{"10.0.0.1"}, Ready: true},
		{Name: "web-1\x1b[2J", Ordinal: 1, MoRef: "vm-2", PowerState: "poweredOff", Message: "the VM is powered off"},
	}, Standby: []v1alpha1.StandbyMember{
		{Name: "web-3", Ordinal: 3, MoRef: "vm-4", Ready: true},
		{Name: "web-4", Ordinal: 4, MoRef: "vm-5", Message: "not prepared yet"},
		{Name: "web-5", Ordinal: 5, MoRef: "vm-6"},
	}}
	g.report.Pending = []plan.PendingReport{
		{Op: plan.Clone, VM: "web-2", State: plan.Running},
		{Op: plan.Clone, VM: "web-10", State: plan.BackingOff, Fault: &plan.FaultReport{Reason: "DatastoreFull", Message: "the datastore is full"}},
		{Op: plan.CreateFolder, State: plan.Running},
		{Op: plan.PowerOn, VM: "web-5", State: plan.Running},
	}
	v := &demoView{last: []string{"12:00:00  Clone web-0, 4.0 s: too few members: 0 of 3"}}
	d := &demo{url: "http://127.0.0.1:8080", manifests: manifests{files: []string{"web.yaml"}}, groups: map[string]*demoGroup{"shop/web": g}}
	want := `vmgroup demo, with an embedded vCenter. In a browser: http://127.0.0.1:8080
Edit web.yaml and save it; Ctrl-C deletes the groups and ends.

shop/web  PENDING  1 of 3 ready  cloning 1 member
  NAME          VM    POWER       ADDRESS   PROGRESS
  web-0         vm-1  poweredOn   10.0.0.1  ■■■■ ready
  web-1\x1b[2J  vm-2  poweredOff            ■■□□ the VM is powered off
  web-3         vm-4  poweredOff            ■■□□ standby
  web-4         vm-5  poweredOff            ■■□□ standby: not prepared yet
  web-5         vm-6  poweredOff            ■■□□ PowerOn
  web-2                                     ■□□□ Clone
  web-10                                    ■□□□ the datastore is full

Lately
  12:00:00  Clone web-0, 4.0 s: too few members: 0 of 3
`
	var got strings.Builder
	for line := range strings.SplitSeq(v.picture(d, 0, 0), "\n") {
		got.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if strings.TrimSpace(got.String()) != strings.TrimSpace(want) {
		t.Errorf("got:\n%s", got.String())
	}
}

// The picture in the README shows the screen of the demo, line by line.
func TestThePictureOfTheDemoShowsWhatItPrints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, thePictureShowsWhatTheDemoPrints)
}

func thePictureShowsWhatTheDemoPrints(t *testing.T) {
	text, err := os.ReadFile("../../docs/demo.svg")
	must.Succeed(t, err)
	var shown []string
	for _, m := range regexp.MustCompile(`<text [^>]*x="20"[^>]*>(.*)</text>`).FindAllStringSubmatch(string(text), -1) {
		shown = append(shown, strings.TrimRight(m[1], " "))
	}
	g := &demoGroup{Group: metacontroller.New("", "default", "web", "uid", 3)}
	g.Status = v1alpha1.VmGroupStatus{Phase: v1alpha1.PhasePending, ReadyReplicas: 3, LastMessage: "updating: 2 of 3 members updated; cloning 1 member"}
	for _, m := range []v1alpha1.Member{{Name: "web-0", MoRef: "vm-35", Message: "was cloned from another template"}, {Name: "web-2", Ordinal: 2, MoRef: "vm-51"}, {Name: "web-3", Ordinal: 3, MoRef: "vm-41"}} {
		m.Ready, m.PowerState, m.IPs = true, "poweredOn", []string{"10.128.0." + strings.TrimPrefix(m.MoRef, "vm-")}
		g.Status.Members = append(g.Status.Members, m)
	}
	g.report.Pending = []plan.PendingReport{{Op: plan.Clone, VM: "web-1", State: plan.Running, Since: time.Now().Add(-3 * time.Second)}}
	v := &demoView{last: slices.Clone(shown[len(shown)-8:])}
	for i := range v.last {
		v.last[i] = strings.TrimPrefix(v.last[i], "  ")
		said := strings.Fields(v.last[i])
		if op := plan.Op(said[1]); !slices.Contains([]plan.Op{plan.Clone, plan.PowerOn, plan.Mark, plan.ShutdownGuest, plan.Destroy}, op) {
			t.Errorf("the demo shows the unknown step %s", op)
		}
	}
	d := &demo{url: "http://127.0.0.1:8080", manifests: manifests{files: []string{"g.yaml"}}, groups: map[string]*demoGroup{"default/web": g}}
	var printed []string
	for line := range strings.Lines(v.picture(d, 0, 0)) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			printed = append(printed, line)
		}
	}
	if !slices.Equal(shown, printed) {
		t.Errorf("the picture shows\n%s\nthe demo prints\n%s", strings.Join(shown, "\n"), strings.Join(printed, "\n"))
	}
}
