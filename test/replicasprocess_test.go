//go:build unix

package test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var replicasBinary = flag.String("replicas.binary", "", "the vmgroup binary for replicas that are processes, such as bin/vmgroup; if empty, the test binary, with a shorter lease")

// processLease is the lease of a replica that is the test binary: short enough for a test to wait in real time.
const processLease = 1500 * time.Millisecond

// The settings of a replica that is the test binary, from its environment.
const replicaHost, replicaUser, replicaPassword, replicaThumbprint = "VMGROUP_TEST_COPY_HOST", "VMGROUP_TEST_COPY_USER", "VMGROUP_TEST_COPY_PASS", "VMGROUP_TEST_COPY_THUMBPRINT"

// TestServeAsAReplica is no test, but what the test binary does as the process of a replica. It ends with its standard input, so it
// does not outlive the test.
func TestServeAsAReplica(t *testing.T) {
	host := os.Getenv(replicaHost)
	if host == "" {
		t.Skip("this is for a replica's process")
	}
	var groups *loop.Loop
	vc, err := vsphere.New(vsphere.Config{
		Config: session.Config{Host: host, User: os.Getenv(replicaUser), Password: os.Getenv(replicaPassword), Thumbprint: os.Getenv(replicaThumbprint),
			Log: zerolog.Nop()},
		Selection: inventory.Selection{Folder: "vm-operator"}, Changed: func(uid apitypes.UID) { groups.Changed(uid) },
		Leased: func(uid apitypes.UID, vm string) bool { return groups.Leased(uid, vm) }})
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(os.Stderr).Level(zerolog.InfoLevel)
	groups = loop.New(loop.Config{Slots: 4, Lease: processLease, Resync: processLease / 2, Log: log}, vc)
	ctx, stop := context.WithCancel(context.Background())
	go func() { _, _ = os.Stdin.Read(make([]byte, 1)); stop() }()
	var both sync.WaitGroup
	both.Go(func() { groups.Run(ctx) })
	both.Go(func() { _ = vc.Run(ctx) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: hook.New(hook.Config{Keeper: groups, Roster: vc.Roster, Ready: func() error { return nil }, Log: log})}
	go func() { _ = server.Serve(listener) }()
	log.Info().Str("listen", listener.Addr().String()).Msg("serving hooks")
	<-ctx.Done()
	_ = server.Close()
	both.Wait()
}

// processReplica is a replica of the server in a process of its own.
type processReplica struct {
	*exec.Cmd
	t     testing.TB
	url   string
	wire  *vcsim.Wire
	lease time.Duration
	mu    sync.Mutex
	log   []byte
}

// serveProcess starts a replica of the server as a process. Its calls go through a wire.
func (r *rig) serveProcess() *processReplica {
	r.t.Helper()
	w := r.wire()
	password, _ := w.URL().User.Password()
	p := &processReplica{t: r.t, wire: w, lease: processLease}
	if *replicasBinary != "" {
		p.lease = 10 * time.Second // the shortest possible
		secret := filepath.Join(r.t.TempDir(), "password")
		r.must(os.WriteFile(secret, []byte(password), 0o600))
		p.Cmd = exec.Command(*replicasBinary, "serve", "--listen", "127.0.0.1:0", "--host", w.URL().Host, "--user", w.URL().User.Username(),
			"--password-file", secret, "--thumbprint", r.ThumbprintSHA256(), "--slots", "4", "--resync", "5s", "--lease", "10s")
		p.Env = []string{"HOME=" + os.TempDir(), "VMGROUP_HEALTH_LISTEN=127.0.0.1:0", "GOMEMLIMIT=" + os.Getenv("GOMEMLIMIT")}
	} else {
		p.Cmd = exec.Command(os.Args[0], "-test.run=^TestServeAsAReplica$")
		p.Env = append(os.Environ(), replicaHost+"="+w.URL().Host, replicaUser+"="+w.URL().User.Username(), replicaPassword+"="+password, replicaThumbprint+"="+r.ThumbprintSHA256())
	}
	stdin, err := p.StdinPipe() // held open until the replica ends
	r.must(err)
	stderr, err := p.StderrPipe()
	r.must(err)
	r.must(p.Start())
	listens := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.log = append(append(p.log, lines.Bytes()...), '\n')
			p.mu.Unlock()
			var line struct{ Listen, Message string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Listen != "" {
				listens <- line.Listen
			}
		}
	}()
	r.t.Cleanup(func() {
		p.kill()
		<-ended
		_ = stdin.Close()
		_ = p.Wait()
		if r.t.Failed() {
			r.t.Logf("the log of the replica at %s:\n%s", p.url, p.logged())
		}
	})
	select {
	case address := <-listens:
		p.url = "http://" + address
	case <-ended:
		r.t.Fatalf("a replica ended: %s", p.logged())
	case <-time.After(realPatience):
		r.t.Fatalf("a replica does not listen: %s", p.logged())
	}
	return p
}

func (p *processReplica) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.log)
}

func (p *processReplica) signal(s syscall.Signal) { _ = p.Process.Signal(s) } // it may have ended

// kill ends the replica at once, even if it is stopped.
func (p *processReplica) kill() { p.signal(syscall.SIGKILL) }
