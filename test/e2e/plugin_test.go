package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// recordingKubectl is the kubectl of the plugin: a real one, but it only records exec, because pods without a kubelet execute nothing.
const recordingKubectl = `#!/bin/sh
echo "$@" >>'%[1]s/asked'
case "$*" in
*"exec vmgroup-7d9-a -- /vmgroup status -o json"*) echo '{"called": false}' ;;
*"exec vmgroup-7d9-b -- /vmgroup status -o json"*) echo '{"called": true}' ;;
*" exec "*) cat; echo "what the pod says" ;;
*) exec %[2]s "$@" ;;
esac
`

// kubectl must find the plugin in the PATH, and the plugin must find the pods of a real API server.
func TestKubectlRunsThePluginWhichFindsTheServersPods(t *testing.T) {
	k := api(t)
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "kubectl-vmgroup"), "./cmd/vmgroup")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	write(t, filepath.Join(dir, "kubectl"), fmt.Sprintf(recordingKubectl, dir, k.Binary("kubectl")))
	must.Succeed(t, os.Chmod(filepath.Join(dir, "kubectl"), 0o700))
	namespace := k.namespace(t, "plugin")
	k.kubectl(t, "-n", namespace, "create", "serviceaccount", "pods") // no controller creates the default one
	for name, phase := range map[string]string{"vmgroup-7d9-a": "Running", "vmgroup-7d9-b": "Running", "vmgroup-7d9-c": "Pending", "other-7d9-d": "Running"} {
		k.kubectlWith(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "labels": {"app.kubernetes.io/name": "vmgroup"}},
			"spec": {"serviceAccountName": "pods", "automountServiceAccountToken": false, "containers": [{"name": "vmgroup", "image": "vmgroup"}]}}`, name), "-n", namespace, "create", "-f", "-")
		k.kubectl(t, "-n", namespace, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"`+phase+`"}}`)
	}
	ask := func(user cluster.User, args ...string) (said, asked string) {
		t.Helper()
		_ = os.Remove(filepath.Join(dir, "asked"))
		c := exec.Command(k.Binary("kubectl"), append([]string{"vmgroup"}, args...)...)
		c.Env = []string{"HOME=" + dir, "PATH=" + dir + ":" + os.Getenv("PATH"), "KUBECONFIG=" + k.Kubeconfig(user), "KUBERC=off"}
		out, _ := c.CombinedOutput()
		return string(out), string(read(t, filepath.Join(dir, "asked")))
	}
	at := []string{"--install-namespace", namespace}
	if said, asked := ask(cluster.Admin, append(at, "status", "default/web")...); !strings.Contains(said, "of 2 pods, Metacontroller calls vmgroup-7d9-b") ||
		!strings.Contains(said, "what the pod says") || !strings.HasSuffix(asked, "exec vmgroup-7d9-b -- /vmgroup status default/web\n") {
		t.Errorf("status: %s\nasked: %s", said, asked)
	}
	sample := filepath.Join(repository, "manifests/samples/vmgroup.yaml")
	if said, asked := ask(cluster.Admin, append(at, "plan", sample)...); !strings.Contains(said, string(read(t, sample))) ||
		!strings.HasSuffix(asked, "exec -i vmgroup-7d9-b -- /vmgroup plan -f -\n") {
		t.Errorf("plan: %s\nasked: %s", said, asked)
	}
	if said, _ := ask(cluster.Metacontroller, append(at, "status")...); !strings.Contains(said, `cannot list resource "pods"`) {
		t.Errorf("without rights: %s; want %q in the text", said, `cannot list resource "pods"`)
	}
	if said, _ := ask(cluster.Admin, append(at, "--install", "nope", "status")...); !strings.Contains(said, "no pod of nope runs in the namespace "+namespace) {
		t.Errorf("of another install: %s; want %q in the text", said, "no pod of nope runs in the namespace "+namespace)
	}
}
