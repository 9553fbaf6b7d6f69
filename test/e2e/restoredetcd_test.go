package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// isSuperseded reports whether a group waits for a newer call, or for an operator, and doesn't say that it is RUNNING.
func isSuperseded(g *v1alpha1.VmGroup) bool {
	return readyReason(g) == plan.ReasonSuperseded && g.Status.Phase != v1alpha1.PhaseRunning
}

func readyReason(g *v1alpha1.VmGroup) string {
	for _, c := range g.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Reason
		}
	}
	return ""
}

// TestEtcdIsRestoredAsTheDocumentSays follows "Restore etcd from a backup" of docs/upgrade.md, while the server runs: one group was edited since the
// backup, one deleted, one created, and one is as it was.
func TestEtcdIsRestoredAsTheDocumentSays(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "restored-etcd")
	annotate := func(name, annotation string) { r.kubectl(t, "-n", namespace, "annotate", "vg", name, annotation) }
	same, edited, deleted := r.up(t, namespace, "same", 1), r.up(t, namespace, "edited", 2), r.up(t, namespace, "deleted", 1)
	backup := filepath.Join(r.Dir, "backup-"+namespace)
	must.Succeed(t, r.Backup(backup))
	r.settled(t, namespace, "edited", 2)
	r.kubectl(t, "-n", namespace, "scale", "vg/edited", "--replicas=3")
	scaled := r.settled(t, namespace, "edited", 3)
	r.kubectl(t, "-n", namespace, "patch", "vg", "edited", "--type=merge", "-p", `{"spec":{"cpu":1}}`)
	r.settled(t, namespace, "edited", 3)
	r.kubectl(t, "-n", namespace, "delete", "vg", "deleted", "--timeout=2m")
	r.up(t, namespace, "created", 1)

	must.Succeed(t, r.Restore(backup))
	restored := time.Now()
	r.metacontroller.Kill()
	r.StopControllers()
	must.Succeed(t, r.StartControllers())
	r.startMetacontroller(t)
	g := r.until(t, namespace, "edited", "it is Superseded", isSuperseded)
	t.Logf("after %s: %s %s", time.Since(restored).Round(time.Second), g.Status.Phase, g.Status.LastMessage)
	keeps(t, same, r.settled(t, namespace, "same", 1))
	stays := r.stays(t, namespace, "edited", 45*time.Second) // longer than the lease
	if !isSuperseded(stays) || len(r.vms(t, namespace, "edited")) != 3 {
		t.Errorf("after a lease the group is %s %q, and has %d VMs; want it to wait, and the three VMs", stays.Status.Phase, stays.Status.LastMessage, len(r.vms(t, namespace, "edited")))
	}
	var newest int
	if _, after, found := strings.Cut(stays.Status.LastMessage, "have generation "); found {
		_, _ = fmt.Sscan(after, &newest)
	}
	annotate("edited", fmt.Sprintf("vm.codeconnect.vmworld.com/undo-generation=%d", newest))
	r.settled(t, namespace, "edited", 2)
	keeps(t, edited, scaled)
	r.settled(t, namespace, "deleted", 1)
	t.Logf("the group that had been deleted is back after %s, with another VM: %v was %v", time.Since(restored).Round(time.Second), moRefs(r.group(t, namespace, "deleted")), moRefs(deleted))
	if n := len(r.vms(t, namespace, "created")); n != 1 {
		t.Errorf("%d VMs are left of the group that the backup does not have; want 1", n)
	}
	for _, name := range []string{"same", "edited", "deleted"} {
		r.kubectl(t, "-n", namespace, "delete", "vg", name, "--timeout=2m")
		r.onePerOrdinal(t, namespace, name, 0)
	}
}

// A backup is started as a second cluster, with a server that has the same account, although docs/upgrade.md says how to prevent that. Groups that
// were edited since keep their VMs, also when they are deleted there.
func TestASecondClusterFromABackupTakesNoVMOfAGroupThatIsNewer(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "drill")
	r.up(t, namespace, "web", 2)
	backup := filepath.Join(r.Dir, "backup-"+namespace)
	must.Succeed(t, r.Backup(backup))
	r.settled(t, namespace, "web", 2)
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=3")
	before := r.settled(t, namespace, "web", 3)

	second := &rig{vcenter: r.vcenter, kube: &kube{warnings: &warnings{}}}
	dir, err := os.MkdirTemp(r.Dir, "second-")
	must.Succeed(t, err)
	second.Cluster, err = r.From(backup, dir)
	must.Succeed(t, err)
	t.Cleanup(second.Close)
	second.Interface, err = dynamic.NewForConfig(second.RESTConfig(cluster.Admin))
	must.Succeed(t, err)
	must.Succeed(t, second.StartControllers())
	ports, err := cluster.FreePorts(4)
	must.Succeed(t, err)
	second.hooks, second.health, second.ports = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1]), ports[2:]
	for _, file := range []string{"vmgroup", "token", "server.crt", "server.key", "ca.crt", "client.crt", "client.key"} {
		must.Succeed(t, os.Link(r.path(file), second.path(file)))
	}
	second.startServer(t)
	t.Cleanup(second.server.Kill)
	second.applyController(t, overlay(t, "components/metacontroller-rights"))
	second.startMetacontroller(t)
	t.Cleanup(second.metacontroller.Kill)

	g := second.until(t, namespace, "web", "it is Superseded", isSuperseded)
	t.Logf("in the second cluster: %s %s", g.Status.Phase, g.Status.LastMessage)
	second.kubectl(t, "-n", namespace, "delete", "vg", "web", "--wait=false")
	waits := second.until(t, namespace, "web", "its deletion waits", func(g *v1alpha1.VmGroup) bool { return strings.Contains(g.Status.LastMessage, "the deletion waits") })
	t.Logf("deleted there: %s %s", waits.Status.Phase, waits.Status.LastMessage)
	keeps(t, before, r.stays(t, namespace, "web", 40*time.Second))
	second.kubectl(t, "-n", namespace, "annotate", "vg", "web", "vm.codeconnect.vmworld.com/abandon=true")
	second.kubectl(t, "-n", namespace, "wait", "--for=delete", "vg/web", "--timeout=2m")
	keeps(t, before, r.settled(t, namespace, "web", 3))
	r.onePerOrdinal(t, namespace, "web", 3)
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
}
