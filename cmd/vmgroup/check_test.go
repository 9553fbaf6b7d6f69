package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/check"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// quickly makes the embedded vCenter work quickly.
var quickly = []string{"VMGROUP_SIMULATOR_CLONE_TIME=200ms", "VMGROUP_SIMULATOR_POWER_TIME=10ms", "VMGROUP_SIMULATOR_BOOT_TIME=10ms"}

// runCheck runs vmgroup check, and returns its standard output, its standard error and its exit status.
func runCheck(t *testing.T, env []string, args ...string) (out, errs string, status int) {
	t.Helper()
	return run(t, vmgroup(env, append([]string{"check"}, args...)...))
}

func TestACheckOfTheEmbeddedVCenterSucceeds(t *testing.T) {
	t.Parallel()
	out, errs, status := runCheck(t, quickly, "--simulator", "--deep")
	if status != 0 || !strings.Contains(out, ", WARN 0, FAIL 0, SKIP ") {
		t.Errorf("vmgroup ended with the exit status %d:\n%s%s", status, out, errs)
	}
	for line := range strings.SplitSeq(out, "\n") {
		if n := utf8.RuneCountInString(line); n > lineWidth {
			t.Errorf("a line has %d characters, want at most %d: %s", n, lineWidth, line)
		}
	}
	if !strings.Contains(errs, "… creating the scratch folder") {
		t.Errorf("the check did not report that it creates the scratch folder: %s", errs)
	}
}

func TestACheckThatFailsExitsWith1AndItsJSONReportHasNoNames(t *testing.T) {
	t.Parallel()
	out, errs, status := runCheck(t, nil, "--simulator", "--template", "planted-name", "-o", "json")
	var found []check.Row
	if err := json.Unmarshal([]byte(out), &found); err != nil || status != 1 {
		t.Fatalf("vmgroup ended with the exit status %d, %v: %s%s; want no error and 1", status, err, out, errs)
	}
	if !slices.ContainsFunc(found, func(r check.Row) bool { return r.Check == "template" && r.Result == check.Fail }) {
		t.Errorf("the template's failure is not reported: %s", out)
	}
	if strings.Contains(out, "planted-name") || strings.Contains(out, "vm-operator-template") {
		t.Errorf("the report has names: %s", out)
	}
}

func TestACheckUsesTheServersSettingsAndWarningsFailOnlyWithStrict(t *testing.T) {
	t.Parallel()
	sim, err := vcsim.Start(vcsim.Config{User: "svc", Password: "planted-secret", Templates: []string{"ubuntu"}})
	must.Succeed(t, err)
	t.Cleanup(func() { sim.Close() })
	env := []string{"VC_HOST=" + sim.URL().Host, "VC_USER=svc", "VC_PASS=planted-secret", "VC_INSECURE=true"}
	group := filepath.Join("..", "..", "manifests", "samples", "vmgroup.yaml")
	for _, x := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--template", "ubuntu"}, 0, "WARN  not verified (--insecure)"},
		{[]string{"--template", "ubuntu", "--strict"}, 1, "WARN"},
		{[]string{"-f", group}, 1, `there is no template "vm-operator-template"`},
		{[]string{"--template", "ubuntu"}, 0, " " + sim.ThumbprintSHA256() + "\n"},
		{[]string{"--password", "wrong"}, 1, "InvalidLogin"},
		{[]string{"--template", "ubuntu", "--log-level", "debug"}, 0, "OK"},
		{[]string{"--output", "yaml"}, 2, ""},
		{[]string{"-f", "none.yaml"}, 2, ""},
		{[]string{"--ca-file", "none.pem"}, 2, ""},
		{[]string{"--guest-timeout", "0s"}, 2, ""},
	} {
		out, errs, status := runCheck(t, env, x.args...)
		if status != x.status || !strings.Contains(out, x.want) {
			t.Errorf("%v: exit status %d, want %d, and %q in:\n%s%s", x.args, status, x.status, x.want, out, errs)
		}
		if strings.Contains(out+errs, "planted-secret") {
			t.Errorf("%v shows the password:\n%s%s", x.args, out, errs)
		}
	}
	if n := sim.Sessions(); n > 0 {
		t.Errorf("vCenter has %d sessions left; want none", n)
	}
}

func TestACheckReadsTheUserDataAmongItsFiles(t *testing.T) {
	t.Parallel()
	manifests := head + ", userData: {configMapKeyRef: {name: boot}}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: boot, namespace: shop}\n"
	for data, want := range map[string]struct {
		says   string
		status int
	}{
		`{user-data: "variant: flatcar # planted"}`:         {"(UserDataUnrecognized)", 0},
		`{user-data: '{"ignition": {"version": "3.4.0"}}'}`: {"user data for Ignition", 0},
		`{other: planted}`: {"(UserDataKeyNotFound)", 1},
	} {
		c := vmgroup(nil, "check", "--simulator", "-f", "-")
		c.Stdin = strings.NewReader(manifests + "data: " + data + "\n")
		out, errs, status := run(t, c)
		if flat := strings.Join(strings.Fields(out), " "); status != want.status || !strings.Contains(flat, want.says) || strings.Contains(out+errs, "planted") || strings.Contains(errs, "skipped") {
			t.Errorf("%s: exit status %d: %s%s", data, status, out, errs)
		}
	}
}

func TestADeepCheckThatIsInterruptedCleansUp(t *testing.T) {
	t.Parallel()
	const unread, terminal = "by a closed pipe", "by the end of its terminal"
	for name, stop := range map[string]func(c *exec.Cmd, out io.Closer) error{
		"by Ctrl-C": func(c *exec.Cmd, _ io.Closer) error { return c.Process.Signal(syscall.SIGINT) },
		terminal:    func(c *exec.Cmd, _ io.Closer) error { return c.Process.Signal(syscall.SIGHUP) },
		unread:      func(_ *exec.Cmd, out io.Closer) error { return out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == terminal && signal.Ignored(syscall.SIGHUP) {
				t.Skip("the tests run under nohup, and so would the check, which heeds that")
			}
			interrupted(t, stop, name != unread)
		})
	}
}

// interrupted stops a deep check while it clones. heard says whether the test reads the check's last output.
func interrupted(t *testing.T, stop func(*exec.Cmd, io.Closer) error, heard bool) {
	sim, err := vcsim.Start(vcsim.Config{Templates: []string{"ubuntu"}})
	must.Succeed(t, err)
	t.Cleanup(func() { sim.Close() })
	sim.Hold(vcsim.Clone)
	c := vmgroup([]string{"VC_HOST=" + sim.URL().Host, "VC_USER=svc", "VC_PASS=x", "VC_THUMBPRINT=" + sim.ThumbprintSHA256()}, "check", "--deep", "--template", "ubuntu")
	out, err := c.StdoutPipe()
	must.Succeed(t, err)
	progress, err := c.StderrPipe()
	must.Succeed(t, err)
	must.Succeed(t, c.Start())
	var said bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = said.ReadFrom(out) // stop can close the pipe
	}()
	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "cloning") {
			must.Succeed(t, stop(c, out))
			sim.Release(vcsim.Clone)
		}
	}
	<-read
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 1 {
		t.Errorf("the stopped check ended with %v; want the exit status 1", err)
	}
	if text := said.String(); heard && (!strings.Contains(text, "nothing is left") || !strings.Contains(text, "stopped")) {
		t.Errorf("output:\n%s", text)
	}
	if vms := sim.VMs(); len(vms) != 1 {
		t.Errorf("VMs: %+v; want one", vms)
	}
	if n := sim.Sessions(); n > 0 {
		t.Errorf("vCenter has %d sessions left; want none", n)
	}
}

func TestLongTextsWrapBetweenWords(t *testing.T) {
	t.Parallel()
	got := fold("one two  three-and-a-half four", 8)
	if want := "one two|three-and-a-half|four"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", strings.Join(got, "|"), want)
	}
	if fold("", 8) != nil {
		t.Error("fold returned a line for the empty text")
	}
}
