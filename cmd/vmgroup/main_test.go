package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// beVmgroup names the variable that makes the test binary run as vmgroup.
const beVmgroup = "TEST_BE_VMGROUP"

// timeout is how long a test waits for what takes seconds at most on an idle machine.
const timeout = 10 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(beVmgroup) != "" {
		main()
		os.Exit(0)
	}
	http.DefaultClient.Timeout = timeout
	os.Exit(m.Run())
}

// process is a vmgroup in a process of its own.
type process struct {
	*exec.Cmd
	url    string // of the hooks
	health string // of health and metrics
	mu     sync.Mutex
	log    bytes.Buffer
	logEnd chan struct{}
}

// vmgroup returns the command, with only the given environment, and the race detector's settings of make test: by default, each
// process sleeps a second at its end.
func vmgroup(env []string, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append([]string{beVmgroup + "=1", "HOME=" + os.TempDir(), "PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE")}, env...)
	return c
}

// run runs a command to its end, and returns its standard output, its standard error and its exit status.
func run(t *testing.T, c *exec.Cmd) (out, errs string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	if err := c.Run(); err != nil {
		if _, is := err.(*exec.ExitError); !is {
			t.Fatal(err)
		}
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

// serve starts vmgroup serve and waits until it listens.
func serve(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: vmgroup(env, append([]string{"serve", "--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0"}, args...)...), logEnd: make(chan struct{})}
	stderr, err := p.StderrPipe()
	must.Succeed(t, err)
	must.Succeed(t, p.Start())
	type line struct {
		Listen string
		Health string `json:"health_listen"`
		TLS    bool
	}
	listens := make(chan line, 1)
	go func() {
		defer close(p.logEnd)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.log.Write(append(lines.Bytes(), '\n'))
			p.mu.Unlock()
			var said line
			if json.Unmarshal(lines.Bytes(), &said) == nil && said.Listen != "" {
				listens <- said
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		if t.Failed() {
			t.Logf("the log of %v:\n%s", args, p.logged())
		}
	})
	select {
	case said := <-listens:
		p.url, p.health = "http://"+said.Listen, "http://"+said.Health
		if said.TLS {
			p.url = "https://" + said.Listen
		}
	case <-p.logEnd:
		t.Fatalf("the server ended before it listened: %s", p.logged())
	case <-time.After(timeout):
		t.Fatalf("the server did not listen within %s: %s", timeout, p.logged())
	}
	return p
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// stop ends the process as Kubernetes does, and waits for it.
func (p *process) stop(t *testing.T) {
	t.Helper()
	must.Succeed(t, p.Process.Signal(syscall.SIGTERM))
	defer time.AfterFunc(timeout, func() { _ = p.Process.Kill() }).Stop() // a killed process ends with an error, and the test shows its log
	<-p.logEnd
	if err := p.Wait(); err != nil {
		t.Errorf("the server that was asked to end ended with %v", err)
	}
}

// against returns the environment with which vmgroup uses a vCenter.
func against(vc *vcsim.VCenter) []string {
	password, _ := vc.URL().User.Password()
	return []string{"VC_HOST=" + vc.URL().Host, "VC_USER=" + vc.URL().User.Username(), "VC_PASS=" + password, "VC_THUMBPRINT=" + vc.ThumbprintSHA256()}
}

// serveReady is serve, until the server has read the inventory.
func serveReady(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := serve(t, env, args...)
	eventually(t, "the server is ready", func() bool { code, _ := get(t, p.health+"/readyz"); return code == 200 })
	return p
}

func startVCenter(t *testing.T, cfg vcsim.Config) *vcsim.VCenter {
	t.Helper()
	vc, err := vcsim.Start(cfg)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = vc.Close() })
	return vc
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > timeout {
			t.Fatalf("waited in vain for %s until %s", timeout, what)
		}
	}
}

func TestAStoppedServerLogsOut(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	before := vc.Sessions()
	p := serve(t, against(vc))
	eventually(t, "the server has logged in", func() bool { return vc.Sessions() == before+1 })
	p.stop(t)
	if n := vc.Sessions(); n != before && !strings.Contains(p.logged(), "vCenter logout failed") { // a busy machine may take too long
		t.Errorf("vCenter has %d sessions left", n-before)
	}
}

func TestUsageErrorsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  []string
		args []string
		says string
	}{
		{nil, []string{"serve"}, "--host (VC_HOST) is not set"},
		{nil, []string{"serve", "--simulator", "--slots", "0"}, "--slots 0: must be 1 to 640"},
		{nil, []string{"serve", "--simulator", "--slots", "many"}, `--slots "many": must be a whole number`},
		{[]string{"VMGROUP_SLOTS=many"}, []string{"serve", "--simulator"}, `the environment variable VMGROUP_SLOTS: --slots "many": must be a whole number`},
		{nil, []string{"serve", "--simulator", "--lease", "10s"}, "--lease 10s: must be at least twice --resync"},
		{nil, []string{"serve", "--simulator", "--resync", "1s"}, "--resync 1s: must be 5s to 10m"},
		{nil, []string{"serve", "--simulator", "--log-level", "loud"}, `--log-level "loud": must be debug, info, warn or error`},
		{nil, []string{"serve", "--simulator", "--log-format", "xml"}, `--log-format "xml": must be json or console`},
		{nil, []string{"serve", "--simulator", "--host", "https://u:hidden@vc"}, "--simulator and --host (VC_HOST)"},
		{nil, []string{"serve", "--simulator", "--listen", "nowhere"}, "--listen nowhere"},
		{nil, []string{"serve", "--sim"}, "unknown flag: --sim"},
		{[]string{"VC_HOST=vc", "VC_PASS=p"}, []string{"serve"}, "VC_USER"},
		{[]string{"VC_HOST=vc", "VC_USER=u", "VC_PASS=p"}, []string{"serve", "--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0", "--thumbprint", "xyz"}, "thumbprint"},
		{nil, []string{"serve", "--simulator", "--adopt-from", "/DC0/vm/legacy"}, `--adopt-from (VMGROUP_ADOPT_FROM): "/DC0/vm/legacy" is not a rule: write namespace=/DC0/vm/folder`},
		{nil, []string{"serve", "--simulator", "--adopt-from", "*=legacy"}, `--adopt-from (VMGROUP_ADOPT_FROM): "legacy" is not an inventory path of a folder`},
		{nil, []string{"serve", "--simulator", "--adopt-from", "a=/DC0/vm/a", "--adopt-from", "=/DC0/vm/b"}, `--adopt-from (VMGROUP_ADOPT_FROM): "" is not a namespace`},
		{[]string{"VMGROUP_ADOPT_FROM=a=/DC0/vm/a, nonsense"}, []string{"serve", "--simulator"}, `--adopt-from (VMGROUP_ADOPT_FROM): "nonsense" is not a rule`},
		{[]string{"VMGROUP_EXTRA_CONFIG=svga.*,"}, []string{"serve", "--simulator"}, `--extra-config (VMGROUP_EXTRA_CONFIG): "" is not a pattern of keys`},
		{[]string{"VMGROUP_PCI_DEVICES= a"}, []string{"serve", "--simulator"}, `--pci-devices (VMGROUP_PCI_DEVICES): " a" is not a pattern of devices`},
		{nil, []string{"serve", "--simulator", "--probe-networks", "10.0.0.1/8"}, `--probe-networks (VMGROUP_PROBE_NETWORKS): "10.0.0.1/8" is not a network, such as 10.0.0.0/8 or fd00::/8`},
		{[]string{"VMGROUP_PROBE_NETWORKS=10.0.0.0/8,all"}, []string{"serve", "--simulator"}, `--probe-networks (VMGROUP_PROBE_NETWORKS): "all" is not a network`},
		{[]string{"VMGROUP_ADOPT_FROM=\"a"}, []string{"serve", "--simulator"}, `the environment variable VMGROUP_ADOPT_FROM: invalid argument "\"a" for "--adopt-from" flag`},
		{nil, []string{"plan"}, "name a file with VmGroup manifests"},
		{nil, []string{"plan", "../../manifests/samples/vmgroup.yaml"}, "set --server http://127.0.0.1:8080 (VMGROUP_SERVER) or --host (VC_HOST)"},
		{nil, []string{"plan", "--templat", "x"}, "unknown flag: --templat"},
		{nil, []string{"serve", "--slotz", "3"}, "unknown flag: --slotz: did you mean --slots?"},
		{[]string{"VMGROUP_SLOT=3"}, []string{"serve", "--simulator"}, "no flag has the environment variable VMGROUP_SLOT: did you mean VMGROUP_SLOTS?"},
		{[]string{"VMGROUP_LOGLEVEL=debug"}, []string{"plan", "g.yaml"}, "did you mean VMGROUP_LOG_LEVEL?"},
		{[]string{"VMGROUP_TIMEOUT=soon"}, []string{"plan", "g.yaml"}, `the environment variable VMGROUP_TIMEOUT: --timeout "soon": must be a duration`},
		{nil, []string{"plan", "-f", "nothing.yaml", "--server", "http://127.0.0.1:1"}, "nothing.yaml"},
		{nil, []string{"plan", "-f", "-", "-o", "xml"}, `--output "xml": must be table, json or yaml`},
		{nil, []string{"sevre"}, `unknown command "sevre": did you mean serve?`},
		{nil, []string{"plann"}, `unknown command "plann": did you mean plan?`},
		{nil, []string{"xyz"}, `unknown command "xyz" (vmgroup --help lists them)`},
	} {
		t.Run(strings.Join(append(c.env, c.args...), " "), func(t *testing.T) {
			t.Parallel()
			env := c.env
			if c.args[0] == "serve" { // some errors are found once it listens, and these servers run at the same time
				env = append([]string{"VMGROUP_LISTEN=127.0.0.1:0", "VMGROUP_HEALTH_LISTEN=127.0.0.1:0"}, env...)
			}
			out, err := vmgroup(env, c.args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.says) || strings.Count(string(out), "\n") != 1 || strings.Contains(string(out), "hidden") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func TestHelpNamesEveryVariable(t *testing.T) {
	t.Parallel()
	for command, sections := range map[string][]string{
		"serve": {"Addresses, and who can call", "How the server works", "vCenter", "Groups and their guests", "Embedded vCenter", "Log"},
		"plan":  {"Plan", "Running server", "vCenter", "Groups and their guests", "Embedded vCenter", "Log"},
		"check": {"Check", "vCenter", "Groups and their guests", "Embedded vCenter", "Log"},
		"demo":  {"Demo"},
	} {
		out, err := vmgroup(nil, command, "--help").Output()
		must.Succeed(t, err)
		flags := regexp.MustCompile(`(?m)^(  -., |      )--`)
		for _, line := range strings.Split(string(out), "\n") {
			if flags.MatchString(line) && !strings.Contains(line, "[$V") && !strings.Contains(line, "--help") {
				t.Errorf("%s: no variable: %s", command, line)
			}
		}
		var titles []string
		for _, title := range regexp.MustCompile(`(?m)^(.+):\n +(-., )?--`).FindAllStringSubmatch(string(out), -1) {
			titles = append(titles, title[1])
		}
		if want := append(sections, "Other"); !slices.Equal(titles, want) {
			t.Errorf("%s: sections %q, want %q", command, titles, want)
		}
	}
}

func TestTheVersionIsAFlagToo(t *testing.T) {
	t.Parallel()
	command, err := vmgroup(nil, "version").Output()
	must.Succeed(t, err)
	flag, err := vmgroup(nil, "--version").Output()
	if err != nil || !strings.HasPrefix(string(flag), "vmgroup ") || string(flag) != string(command) {
		t.Errorf("%v: %q and %q", err, flag, command)
	}
}

// In a namespace with a Service vmgroup, Kubernetes sets such variables in each container, unless a pod has enableServiceLinks: false.
func TestTheVariablesOfAServiceAreNotTakenForSettings(t *testing.T) {
	t.Parallel()
	env := []string{"VMGROUP_SERVICE_HOST=10.0.0.1", "VMGROUP_SERVICE_PORT=8443", "VMGROUP_SERVICE_PORT_HOOKS=8443", "VMGROUP_PORT=tcp://10.0.0.1:8443",
		"VMGROUP_PORT_8443_TCP=tcp://10.0.0.1:8443", "VMGROUP_PORT_8443_TCP_ADDR=10.0.0.1", "VMGROUP_EAST_PORT_8443_TCP_PROTO=tcp"}
	if _, errs, status := run(t, vmgroup(append(env, quickly...), "check", "--simulator")); status != 0 {
		t.Errorf("vmgroup ended with the exit status %d, want 0: %s", status, errs)
	}
}

func TestATakenPortIsReportedWithTheFlagThatChangesIt(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer taken.Close() //nolint:errcheck // the test has ended
	address := taken.Addr().String()
	for flag, args := range map[string][]string{
		"--listen":           {"demo", "--listen", address},
		"--health-listen":    {"serve", "--simulator", "--listen", "127.0.0.1:0", "--health-listen", address},
		"--simulator-listen": {"serve", "--simulator", "--listen", "127.0.0.1:0", "--health-listen", "", "--simulator-listen", address},
	} {
		_, errs, status := run(t, vmgroup(nil, args...))
		if want := "vmgroup: another process listens on " + address + ": choose another address with " + flag + "\n"; status != 2 || errs != want {
			t.Errorf("%v: exit status %d: %q, want %q", args, status, errs, want)
		}
	}
}

func TestTheSimulatorOfTheCommandLineIsUsedWhereTheEnvironmentNamesAVCenter(t *testing.T) {
	t.Parallel()
	env := append([]string{"VC_HOST=vc.invalid", "VC_USER=u", "VC_PASS_FILE=nowhere", "VC_DATACENTER=elsewhere", "VC_CA_FILE=nowhere"}, quickly...)
	if out, errs, status := run(t, vmgroup(env, "check", "--template", "vm-operator-template", "--simulator")); status != 0 {
		t.Errorf("vmgroup ended with the exit status %d: %s%s; want 0", status, out, errs)
	}
	_, errs, status := run(t, vmgroup(append(env, "VMGROUP_SIMULATOR=true"), "check"))
	if status != 2 || !strings.Contains(errs, "--simulator and --host (VC_HOST) exclude each other") {
		t.Errorf("vmgroup ended with the exit status %d: %s; want 2 and %q in the text", status, errs, "--simulator and --host (VC_HOST) exclude each other")
	}
}

func TestPlanShowsTheSameStepsWithAndWithoutAServer(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serve(t, against(vc))
	manifest := `apiVersion: vm.codeconnect.vmworld.com/v1alpha1
kind: VmGroup
metadata: {name: web}
spec: {cpu: 2, memory: 4, replicas: 2, template: vm-operator-template}
`
	var outs []string
	for _, args := range [][]string{{"--server", p.url}, {}} {
		eventually(t, "a plan of five steps", func() bool {
			out, _, status := preview(t, against(vc), manifest, args...)
			if status == 2 && strings.Contains(out, "PowerOn") {
				outs = append(outs, out)
				return true
			}
			return false
		})
	}
	if outs[0] != outs[1] || strings.Count(outs[0], "\n") != 13 || !strings.HasPrefix(outs[0], "default/web is new: cloning 2 members\n") || !strings.HasSuffix(outs[0], "\n\nPlan: 2 to create, 0 to change, 0 to remove\n") {
		t.Errorf("from the server:\n%s\ndirectly from vCenter:\n%s", outs[0], outs[1])
	}
	if n := vc.Calls()["CloneVM_Task"]; n > 0 {
		t.Errorf("%d clones; want none", n)
	}
	file := filepath.Join(t.TempDir(), "group.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(manifest), 0o600))
	if out, errs, status := run(t, vmgroup(nil, "plan", file, "--server", p.url)); status != 2 || out != outs[0] {
		t.Errorf("a file without --file: exit status %d: %s%s; want 2 and %s", status, out, errs, outs[0])
	}
}
