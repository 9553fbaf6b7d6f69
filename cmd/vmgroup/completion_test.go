package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// A shell that starts without its files has neither bash-completion nor compinit.
func TestCompletionNeedsNothingThatAPlainShellLacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "vmgroup"), fmt.Appendf(nil, "#!/bin/sh\nexec env %s=1 '%s' \"$@\"\n", beVmgroup, os.Args[0]), 0o755))
	typed := func(shell string, args ...string) string {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s isn't here", shell)
			return ""
		}
		c := exec.Command(shell, args...)
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ZDOTDIR="+dir, "HOME="+dir)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
		return string(out)
	}
	for words, want := range map[string]string{
		"vmgroup st":                             "<status>",
		"vmgroup serve --log-fo":                 "<--log-format>",
		"vmgroup serve --log-format = j":         "<json>", // as bash splits --log-format=j
		"vmgroup plan --server http : //a -o ya": "<yaml>",
	} {
		n := len(strings.Fields(words)) - 1
		line := strings.NewReplacer(" = ", "=", " : ", ":").Replace(words)
		out := typed("bash", "--norc", "-c", fmt.Sprintf("compopt() { :; }; source <(vmgroup completion bash); COMP_WORDS=(%s) COMP_CWORD=%d COMP_LINE='%s' COMP_POINT=%d COMP_TYPE=9; __start_vmgroup; printf '<%%s>' \"${COMPREPLY[@]}\"",
			words, n, line, len(line)))
		if strings.TrimSpace(strings.ReplaceAll(out, " ", "")) != want && out != "" {
			t.Errorf("bash completes %q with %q, want %s", line, out, want)
		}
	}
	if out := typed("zsh", "-f", "-c", "source <(vmgroup completion zsh); echo $_comps[vmgroup]"); out != "_vmgroup\n" && out != "" {
		t.Errorf("zsh says %q, want the function _vmgroup", out)
	}
	for shell, first := range map[string]string{"bash": "if ! declare", "zsh": "#compdef vmgroup\n", "fish": "# fish completion", "powershell": "# powershell completion"} {
		if out, errs, status := run(t, vmgroup(nil, "completion", shell)); status != 0 || !strings.HasPrefix(out, first) {
			t.Errorf("%s: exit status %d, %q%s; want 0 and %q", shell, status, out[:min(40, len(out))], errs, first)
		}
	}
}
