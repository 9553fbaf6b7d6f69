package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/cmd/vmgroup/doctor"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// What runs in the server's container calls the hook with what Metacontroller trusts and presents.
func TestTheServersContainerAnswersTheDoctor(t *testing.T) {
	t.Parallel()
	k, others := newKeys(t), newKeys(t)
	p := serveReady(t, against(startVCenter(t, vcsim.Config{})), append(k.flags(), "--client-ca-file", k.path("ca.crt"))...)
	env := append(k.inContainer(p), "VMGROUP_CLIENT_CA_FILE="+k.path("ca.crt"))
	key := k.issue("caller")
	file := func(of *keys, name string) string {
		text, err := os.ReadFile(of.path(name))
		must.Succeed(t, err)
		return string(text)
	}
	right := doctor.Question{URL: "https://vmgroup.vmgroup-system.svc:8443/customize", CA: file(k, "ca.crt"), Token: hookToken + "\n", Cert: file(k, "caller.crt"), Key: key}
	for name, c := range map[string]struct {
		change func(*doctor.Question)
		code   int
		says   string
	}{
		"as it should be":         {func(*doctor.Question) {}, 200, ""},
		"with the server's token": {func(q *doctor.Question) { q.Token = "" }, 200, ""},
		"another token":           {func(q *doctor.Question) { q.Token = nextToken }, 401, "the server answers 401 Unauthorized"},
		"a reader's token":        {func(q *doctor.Question) { q.Token = readerToken }, 403, "the server answers 403 Forbidden"},
		"another authority":       {func(q *doctor.Question) { q.CA = file(others, "ca.crt") }, 0, "unknown authority"},
		"another name":            {func(q *doctor.Question) { q.URL = "https://vmgroup.old.svc:8443/customize" }, 0, "vmgroup.old.svc"},
		"no certificate":          {func(q *doctor.Question) { q.Cert = "" }, 0, "certificate required"},
		"no URL":                  {func(q *doctor.Question) { q.URL = "" }, 0, "no CompositeController names a URL"},
		"plain HTTP":              {func(q *doctor.Question) { q.URL = "http://vmgroup.vmgroup-system.svc:8443/customize" }, 400, "the server answers 400"},
	} {
		q := right
		c.change(&q)
		question, err := json.Marshal(q)
		must.Succeed(t, err)
		ask := vmgroup(env, "answer-doctor")
		ask.Stdin = strings.NewReader(string(question))
		out, errs, status := run(t, ask)
		var a doctor.Answer
		if err := json.Unmarshal([]byte(out), &a); err != nil || status != 0 || a.Code != c.code || !strings.Contains(a.Hook, c.says) || c.says == "" && a.Hook != "" {
			t.Errorf("%s: %v: exit status %d: %s%s", name, err, status, out, errs)
		}
		if a.StatusError != "" || !a.Status.VCenter.Known || len(a.Fields) < 100 {
			t.Errorf("%s: it says of itself %q %+v %d fields", name, a.StatusError, a.Status.VCenter, len(a.Fields))
		}
	}
}

// brokenCluster is a kubectl for an API server without anything.
const brokenCluster = `#!/bin/sh
echo "$@" >>"$(dirname "$0")/asked"
case "$*" in
*"get --raw /version"*) echo '{"gitVersion": "v1.36.3"}' ;;
*"get pods -o json --all-namespaces"*) echo 'Error from server (Forbidden): pods is forbidden: User "jane" cannot list resource "pods"' >&2; exit 1 ;;
*"get pods"*) echo 'Error from server (Forbidden): pods is forbidden: User "jane" cannot list resource "pods" in the namespace' >&2; exit 1 ;;
*"get crd"*) ;;
*"-o json"*) echo '{"items": []}' ;;
esac
`

func TestThePluginPrintsALineForEachCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(brokenCluster), 0o755))
	must.Succeed(t, os.Symlink(os.Args[0], filepath.Join(dir, "kubectl-vmgroup")))
	ask := func(path string, args ...string) (string, string, int) {
		c := vmgroup(nil, args...)
		c.Path, c.Args[0] = filepath.Join(dir, "kubectl-vmgroup"), filepath.Join(dir, "kubectl-vmgroup")
		c.Env = append(c.Env, "PATH="+path)
		return run(t, c)
	}
	out, errs, status := ask(dir+":"+os.Getenv("PATH"), "--context", "there", "--install-namespace", "east", "doctor")
	for _, want := range []string{
		"kubernetes\n----------\n√ kubectl reaches the API server (v1.36.3)\n× the CRD of VmGroups is established\n    there is no CustomResourceDefinition",
		"    → Install VmGroup (docs/install.md)\n", "? Metacontroller runs\n    Error from server (Forbidden)", "can't be checked with your rights",
	} {
		if status != 1 || errs != "" || !strings.Contains(out, want) {
			t.Errorf("exit status %d: want 1, and %q in\n%s%s", status, want, out, errs)
		}
	}
	asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
	if !strings.HasPrefix(string(asked), "--namespace east --context there get --raw /version --request-timeout=10s\n") {
		t.Errorf("kubectl was asked\n%s", asked)
	}
	out, _, status = ask(dir+":"+os.Getenv("PATH"), "doctor", "-o", "json")
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(out), &findings); err != nil || status != 1 || len(findings) < 5 {
		t.Errorf("%v: exit status %d: %s", err, status, out)
	}
	if _, errs, status := ask(dir+":"+os.Getenv("PATH"), "doctor", "-o", "yaml"); status != 2 || !strings.Contains(errs, `--output "yaml"`) {
		t.Errorf("exit status %d: %s", status, errs)
	}
	if out, _, status := ask(t.TempDir(), "doctor"); status != 1 || !strings.Contains(out, "kubectl isn't in the PATH") {
		t.Errorf("without kubectl: exit status %d: %s", status, out)
	}
}
