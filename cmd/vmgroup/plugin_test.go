package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// kubectlStandIn writes its arguments to the file asked. Metacontroller calls the second of three pods, and the third one for shop/web; in
// the namespace early, it calls no pod yet.
const kubectlStandIn = `#!/bin/sh
echo "$@" >>"$(dirname "$0")/asked"
case "$*" in
*"get pods"*) printf 'other-7d9-1\nvmgroup-east-7d9-1\nvmgroup-7d9-a\nvmgroup-7d9-b\nvmgroup-7d9-c\n' ;;
*"--namespace early"*"-o json"*) echo '{"called": false}' ;;
*"vmgroup-7d9-c -- /vmgroup status -o json shop/web"*) echo '{"called": true}' ;;
*"/vmgroup status -o json shop/web"*) echo '{"called": false}' ;;
*"vmgroup-7d9-b -- /vmgroup status -o json"*) echo '{"called": true}' ;;
*"/vmgroup status -o json"*) echo '{"called": false}' ;;
*"config view --minify"*) echo shop ;;
*"get vmgroups"*) echo 7 ;;
*"/vmgroup status"*) echo "the status" ;;
*"/vmgroup plan"*) cat; exit 2 ;;
esac
`

func TestThePluginAsksThePodThatMetacontrollerCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"kubectl": kubectlStandIn, "group.yaml": head + "}"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	must.Succeed(t, os.Symlink(os.Args[0], filepath.Join(dir, "kubectl-vmgroup")))
	ask := func(args ...string) (out, errs string, status int, asked string) {
		t.Helper()
		_ = os.Remove(filepath.Join(dir, "asked"))
		c := vmgroup(nil, args...)
		c.Path, c.Args[0] = filepath.Join(dir, "kubectl-vmgroup"), filepath.Join(dir, "kubectl-vmgroup")
		c.Env = append(c.Env, "PATH="+dir+":"+os.Getenv("PATH"))
		out, errs, status = run(t, c)
		text, _ := os.ReadFile(filepath.Join(dir, "asked"))
		return out, errs, status, string(text)
	}
	group := filepath.Join(dir, "group.yaml")
	for _, c := range []struct {
		args            string
		status          int
		out, says, asks string
	}{
		{"status", 0, "the status\n", "of 3 pods, Metacontroller calls vmgroup-7d9-b", "exec vmgroup-7d9-b -- /vmgroup status\n"},
		{"status shop/web", 0, "the status\n", "Metacontroller calls vmgroup-7d9-c", "exec vmgroup-7d9-c -- /vmgroup status shop/web\n"},
		{"status web -w", 0, "the status\n", "Metacontroller calls vmgroup-7d9-c", "exec vmgroup-7d9-c -- /vmgroup status shop/web -w\n"},
		{"status -n other web", 0, "the status\n", "Metacontroller calls vmgroup-7d9-b", "exec vmgroup-7d9-b -- /vmgroup status -n other web\n"},
		{"status -n shop web", 0, "the status\n", "Metacontroller calls vmgroup-7d9-c", "exec vmgroup-7d9-c -- /vmgroup status -n shop web\n"},
		{"status -nshop web", 0, "the status\n", "Metacontroller calls vmgroup-7d9-c", "exec vmgroup-7d9-c -- /vmgroup status -nshop web\n"},
		{"-n shop status web", 0, "the status\n", "Metacontroller calls vmgroup-7d9-c", "exec vmgroup-7d9-c -- /vmgroup status shop/web\n"},
		{"-n shop status", 0, "the status\n", "Metacontroller calls vmgroup-7d9-b", "exec vmgroup-7d9-b -- /vmgroup status -n shop\n"},
		{"status web --wait=20m", 0, "the status\n", "Metacontroller calls vmgroup-7d9-c", "exec vmgroup-7d9-c -- /vmgroup status shop/web --wait=20m --generation=7\n"},
		{"status -o json", 0, "", "Metacontroller calls vmgroup-7d9-b", "exec vmgroup-7d9-b -- /vmgroup status -o json\n"},
		{"--install-namespace early status", 0, "the status\n", "none of 3 pods says that Metacontroller calls it; asking vmgroup-7d9-a", "exec vmgroup-7d9-a -- /vmgroup status\n"},
		{"--install vmgroup-east status", 0, "the status\n", "", "exec vmgroup-east-7d9-1 -- /vmgroup status\n"},
		{"--install north status", 1, "", "no pod of north runs in the namespace vmgroup-system", ""},
		{"--context there plan " + group + " -o json", 2, head, "Metacontroller calls vmgroup-7d9-b", "--context there exec -i vmgroup-7d9-b -- /vmgroup plan -f - -o json\n"},
		{"plan", 1, "", "name a file", ""},
	} {
		out, errs, status, asked := ask(strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(out, c.out) || !strings.Contains(errs, c.says) || !strings.HasSuffix(asked, c.asks) || c.says == "" && errs != "" {
			t.Errorf("%s: exit status %d: %s%s; kubectl was asked\n%s", c.args, status, out, errs, asked)
		}
	}
	if out, _, _, _ := ask("--version"); !strings.HasPrefix(out, "vmgroup ") {
		t.Errorf("the plugin prints the version %q; want it to begin with vmgroup", out)
	}
}
