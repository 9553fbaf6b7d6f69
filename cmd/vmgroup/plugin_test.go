package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubectlStandIn says what it is asked; of two pods, Metacontroller calls the second.
const kubectlStandIn = `#!/bin/sh
echo "$@" >>"$(dirname "$0")/asked"
case "$*" in
*"get pods"*) printf 'other-1\nvmgroup-a\nvmgroup-b\n' ;;
*"vmgroup-a -- /vmgroup status -o json"*) echo '{"called": false}' ;;
*"vmgroup-b -- /vmgroup status -o json"*) echo '{"called": true}' ;;
*"/vmgroup status"*) echo "the status" ;;
*"/vmgroup plan"*) cat; exit 2 ;;
esac
`

func TestThePluginAsksThePodThatMetacontrollerCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"kubectl": kubectlStandIn, "group.yaml": head + "}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "kubectl-vmgroup")); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) (string, string, int) {
		c := vmgroup(nil, args...)
		c.Path, c.Args[0] = filepath.Join(dir, "kubectl-vmgroup"), filepath.Join(dir, "kubectl-vmgroup")
		c.Env = append(c.Env, "PATH="+dir+":"+os.Getenv("PATH"))
		return run(t, c)
	}
	out, errs, status := ask("status", "shop/web")
	if status != 0 || out != "the status\n" || !strings.Contains(errs, "of 2 pods, Metacontroller calls vmgroup-b") {
		t.Errorf("status: exit status %d: %s%s", status, out, errs)
	}
	out, errs, status = ask("--install-namespace", "east", "plan", filepath.Join(dir, "group.yaml"), "-o", "json")
	if status != 2 || !strings.Contains(out, head) {
		t.Errorf("plan: exit status %d: %s%s", status, out, errs)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"exec vmgroup-b -- /vmgroup status shop/web\n", "--namespace east exec -i deployment/vmgroup -- /vmgroup plan -f - -o json\n"} {
		if !strings.Contains(string(asked), want) {
			t.Errorf("kubectl was not asked %q, but\n%s", want, asked)
		}
	}
	if out, errs, status := ask("plan"); status != 1 || !strings.Contains(errs, "name a file") {
		t.Errorf("no file: exit status %d: %s%s", status, out, errs)
	}
}
