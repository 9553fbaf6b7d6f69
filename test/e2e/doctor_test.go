package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// kubectlWithAContainer is a real kubectl, but exec runs the command here, with the server's variables: pods without a kubelet execute nothing.
const kubectlWithAContainer = `#!/bin/sh
case "$*" in
*" exec "*) while [ "$1" != -- ]; do shift; done; shift 2; exec env %[1]s %[2]s "$@" ;;
*) exec %[3]s "$@" ;;
esac
`

// patient is an install of the manifests on a real API server, with pods that only the API server knows, and a server as a process.
type patient struct {
	*kube
	dir    string
	server *cluster.Process
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	if metacontrollerCRDs == "" {
		t.Skip("the tree has a CompositeController, but METACONTROLLER_CRDS is not set")
	}
	dir, err := os.MkdirTemp("", "vmgroup-doctor-")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	k, err := newKube(dir, "etcd", "kube-apiserver", "kubectl", "kube-controller-manager")
	must.Succeed(t, err)
	t.Cleanup(k.Close)
	p := &patient{kube: k, dir: dir}
	secrets := exec.Command("sh", repository+"/manifests/secrets.sh")
	secrets.Env = append(os.Environ(), "VC_HOST=vc.example.com", "VC_USER=svc", "VC_PASS=planted")
	text, err := secrets.Output()
	must.Succeed(t, err)
	k.kubectlWith(t, string(text), "create", "-f", "-")
	k.kubectl(t, "apply", "-k", overlay(t, "components/metacontroller-rights"))
	k.namespace(t, "metacontroller")
	k.kubectlWith(t, rightsOfItsOwn, "create", "-f", "-")
	k.kubectl(t, "-n", "metacontroller", "create", "serviceaccount", "metacontroller")
	k.kubectl(t, "label", "namespace", "metacontroller", "pod-security.kubernetes.io/enforce=privileged", "--overwrite")
	p.pod(t, "metacontroller", "metacontroller", "metacontroller-0", "ghcr.io/metacontroller/metacontroller:v4.17.2")
	p.pod(t, "vmgroup-system", "vmgroup", "vmgroup-7d9-a", "vmgroup:dev")
	k.kubectlWith(t, `{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "vmgroup-x", "labels": {"kubernetes.io/service-name": "vmgroup"}},
		"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": true}}], "ports": [{"port": 8443}]}`, "-n", "vmgroup-system", "create", "-f", "-")
	p.serve(t)
	return p
}

// pod makes a pod that is ready, as a kubelet would say.
func (p *patient) pod(t *testing.T, namespace, name, pod, image string) {
	t.Helper()
	p.kubectlWith(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "labels": {"app.kubernetes.io/name": %q}},
		"spec": {"serviceAccountName": %q, "automountServiceAccountToken": false, "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
		"containers": [{"name": %q, "image": %q, "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`, pod, name, name, name, image), "-n", namespace, "create", "-f", "-")
	p.kubectl(t, "-n", namespace, "patch", "pod", pod, "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
}

// serve starts the server with the keys of the Secrets, and the kubectl that runs commands beside it.
func (p *patient) serve(t *testing.T) {
	t.Helper()
	vc, err := vcsim.Start(vcsim.Config{})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = vc.Close() })
	ports, err := cluster.FreePorts(2)
	must.Succeed(t, err)
	for name, keys := range map[string][]string{"vmgroup-tls": {"tls.crt", "tls.key"}, "vmgroup-hook-token": {"token"}, "vmgroup-reader-token": {"token"}} {
		for _, key := range keys {
			text, err := base64.StdEncoding.DecodeString(p.kubectl(t, "-n", "vmgroup-system", "get", "secret", name, "-o", "jsonpath={.data."+strings.ReplaceAll(key, ".", `\.`)+"}"))
			must.Succeed(t, err)
			write(t, filepath.Join(p.dir, name+"-"+key), string(text))
		}
	}
	at := func(name string) string { return filepath.Join(p.dir, name) }
	build := exec.Command("go", "build", "-o", at("kubectl-vmgroup"), "./cmd/vmgroup")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	must.Succeed(t, os.Symlink(at("kubectl-vmgroup"), at("vmgroup")))
	password, _ := vc.URL().User.Password()
	env := []string{"VMGROUP_LISTEN=127.0.0.1:" + fmt.Sprint(ports[0]), "VMGROUP_TLS_CERT_FILE=" + at("vmgroup-tls-tls.crt"), "VMGROUP_TLS_PRIVATE_KEY_FILE=" + at("vmgroup-tls-tls.key"),
		"VMGROUP_TOKEN_FILE=" + at("vmgroup-hook-token-token"), "VMGROUP_READER_TOKEN_FILE=" + at("vmgroup-reader-token-token"), "VC_HOST=" + vc.URL().Host, "VC_USER=" + vc.URL().User.Username(),
		"VC_PASS=" + password, "VC_THUMBPRINT=" + vc.ThumbprintSHA256(), "VMGROUP_HEALTH_LISTEN=127.0.0.1:" + fmt.Sprint(ports[1])}
	p.server, err = cluster.Start(p.dir, "server", env, at("vmgroup"), "serve")
	must.Succeed(t, err)
	t.Cleanup(p.server.Kill)
	must.Succeed(t, p.server.Await(func() error { return ok("http://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(ports[1])) + "/readyz") }))
	write(t, at("kubectl"), fmt.Sprintf(kubectlWithAContainer, strings.Join(env, " "), at("vmgroup"), p.Binary("kubectl")))
	must.Succeed(t, os.Chmod(at("kubectl"), 0o700))
}

// doctor runs kubectl vmgroup doctor, and returns the lines that aren't √ and the exit status.
func (p *patient) doctor(t *testing.T, user cluster.User) (wrong string, status int) {
	t.Helper()
	c := exec.Command(p.Binary("kubectl"), "vmgroup", "doctor")
	c.Env = []string{"HOME=" + p.dir, "PATH=" + p.dir + ":" + os.Getenv("PATH"), "KUBECONFIG=" + p.Kubeconfig(user), "KUBERC=off"}
	out, _ := c.CombinedOutput()
	return regexp.MustCompile(`(?m)^√.*\n`).ReplaceAllString(string(out), ""), c.ProcessState.ExitCode()
}

// On a real API server, with the manifests' own objects and rights: the doctor finds nothing wrong, and then each fault.
func TestTheDoctorNamesWhatIsBroken(t *testing.T) {
	p := newPatient(t)
	if wrong, status := p.doctor(t, cluster.Admin); status != 0 || !strings.Contains(wrong, " √, 0 ‼, 0 ×, 0 ?\n") {
		t.Fatalf("the exit status for a whole install is %d:\n%s", status, wrong)
	}
	system := func(args ...string) []string { return append([]string{"-n", "vmgroup-system"}, args...) }
	const merge = "--type=merge"
	for _, c := range []struct {
		name            string
		breaks, repairs []string
		says            []string
	}{
		{"the Service's selector", system("patch", "service", "vmgroup", merge, "-p", `{"spec":{"selector":{"app.kubernetes.io/name":"web"}}}`),
			system("patch", "service", "vmgroup", merge, "-p", `{"spec":{"selector":{"app.kubernetes.io/name":"vmgroup"}}}`), []string{"× the Service leads to the server", "app.kubernetes.io/name=web"}},
		{"a Secret", system("patch", "secret", "vc-creds", merge, "-p", `{"data":{"VC_PASS":null}}`), system("patch", "secret", "vc-creds", merge, "-p", `{"stringData":{"VC_PASS":"planted"}}`),
			[]string{"× the Secrets that the server mounts exist", "vc-creds has no key VC_PASS"}},
		{"the token", system("patch", "compositecontroller", "vmgroup", "--type=json", "-p", `[{"op":"replace","path":"/spec/endpointConfigs/0/authorization/secretRef/name","value":"vmgroup-reader-token"}]`),
			system("patch", "compositecontroller", "vmgroup", "--type=json", "-p", `[{"op":"replace","path":"/spec/endpointConfigs/0/authorization/secretRef/name","value":"vmgroup-hook-token"}]`),
			[]string{"× the server accepts Metacontroller's token", "× the hooks answer as Metacontroller calls them", "403"}},
		{name: "Metacontroller's rights"},
		{"a pod's last exit", system("patch", "pod", "vmgroup-7d9-a", "--subresource=status", merge, "-p", `{"status":{"conditions":[{"type":"Ready","status":"False"}],
			"containerStatuses":[{"name":"vmgroup","image":"i","imageID":"i","ready":false,"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`),
			system("patch", "pod", "vmgroup-7d9-a", "--subresource=status", merge, "-p", `{"status":{"conditions":[{"type":"Ready","status":"True"}],"containerStatuses":null}}`),
			[]string{"× its pods are ready", "CrashLoopBackOff", "OOMKilled, exit code 137"}},
		{"the NetworkPolicy", system("patch", "networkpolicy", "vmgroup", "--type=json", "-p", `[{"op":"replace","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels","value":{"kubernetes.io/metadata.name":"operators"}}]`),
			system("patch", "networkpolicy", "vmgroup", "--type=json", "-p", `[{"op":"replace","path":"/spec/ingress/0/from/0/namespaceSelector/matchLabels","value":{"kubernetes.io/metadata.name":"metacontroller"}}]`),
			[]string{"× the NetworkPolicies let Metacontroller in", "namespace metacontroller"}},
		{"the URL", system("patch", "compositecontroller", "vmgroup", merge, "-p", `{"spec":{"hooks":{"sync":{"webhook":{"url":"https://vmgroup.old.svc:8443/sync"}}}}}`),
			system("patch", "compositecontroller", "vmgroup", merge, "-p", `{"spec":{"hooks":{"sync":{"webhook":{"url":"https://vmgroup.vmgroup-system.svc:8443/sync"}}}}}`),
			[]string{"× a CompositeController calls this server", "vmgroup calls vmgroup.old.svc:8443"}},
	} {
		if c.says == nil { // the binding's name is the component's
			c.breaks, c.says = []string{"delete", "clusterrolebinding", p.rights(t)}, []string{"× Metacontroller has the rights that VmGroup needs", "watch vmgroups.vm.codeconnect.vmworld.com", "watch configmaps"}
			c.repairs = []string{"apply", "-k", overlay(t, "components/metacontroller-rights")}
		}
		p.kubectl(t, c.breaks...)
		wrong, status := p.doctor(t, cluster.Admin)
		for _, want := range c.says {
			if status != 1 || !strings.Contains(wrong, want) {
				t.Errorf("%s: exit status %d; want 1, and %q in\n%s", c.name, status, want, wrong)
			}
		}
		p.kubectl(t, c.repairs...)
	}
	if wrong, status := p.doctor(t, cluster.Metacontroller); status != 0 || !strings.Contains(wrong, "? the server's Deployment exists") || !strings.Contains(wrong, `cannot get resource "deployments"`) {
		t.Errorf("with few rights, the exit status is %d:\n%s", status, wrong)
	}
	p.server.Kill()
	if wrong, status := p.doctor(t, cluster.Admin); status != 1 || !strings.Contains(wrong, "× the hooks answer") || !strings.Contains(wrong, "connection refused") {
		t.Errorf("without a server, the exit status is %d:\n%s", status, wrong)
	}
}

// rights returns the name of the ClusterRoleBinding of components/metacontroller-rights.
func (p *patient) rights(t *testing.T) string {
	t.Helper()
	var bindings struct {
		Items []struct {
			Metadata struct{ Name string }
			RoleRef  struct{ Name string }
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(p.kubectl(t, "get", "clusterrolebindings", "-o", "json")), &bindings))
	for _, b := range bindings.Items {
		if strings.Contains(b.RoleRef.Name, "metacontroller") && b.Metadata.Name != "metacontroller" {
			return b.Metadata.Name
		}
	}
	t.Fatal("there is no binding of Metacontroller's rights")
	return ""
}
