//go:build unix

package promises

import (
	"bufio"
	"encoding/json"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// process is a vmgroup process. It logs JSON lines to its standard error.
type process struct {
	*exec.Cmd
	name  string
	ended chan struct{} // closed when it has ended
	mu    sync.Mutex
	log   []string
	lines chan map[string]any // closed when its standard error is closed
}

// start starts the binary. The end of the test ends the process.
func start(t testing.TB, name string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(*binary, args...), name: name, ended: make(chan struct{}), lines: make(chan map[string]any, 1000)}
	p.Env = []string{"HOME=/nonexistent", "GOMAXPROCS=2"}
	stderr, err := p.StderrPipe()
	must.Succeed(t, err)
	must.Succeed(t, p.Start())
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.log = append(p.log, lines.Text())
			p.mu.Unlock()
			var line map[string]any
			if json.Unmarshal(lines.Bytes(), &line) == nil {
				select {
				case p.lines <- line:
				default: // no goroutine waits for the line
				}
			}
		}
		close(p.lines)
		_ = p.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() || *keepLog {
			t.Logf("the log of %s:\n%s", name, strings.Join(p.log, "\n"))
		}
	})
	return p
}

// said waits for a log line with a field, and returns the value of the field.
func (p *process) said(t testing.TB, field string) string {
	t.Helper()
	for deadline := time.After(timeout); ; {
		select {
		case line, open := <-p.lines:
			if !open {
				t.Fatalf("%s ended: %s", p.name, strings.Join(p.log, "\n"))
			}
			if text, ok := line[field].(string); ok {
				return text
			}
		case <-deadline:
			t.Fatalf("%s never logged %s", p.name, field)
		}
	}
}

func (p *process) signal(s syscall.Signal) { _ = p.Process.Signal(s) } // fails if the process has ended

// kill ends the process at once, even if it is suspended.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// terminate ends the process as Kubernetes does: with SIGTERM, and after terminationGracePeriodSeconds with SIGKILL.
func (p *process) terminate() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second): // terminationGracePeriodSeconds
		p.kill()
	}
}

// startVCenter starts the embedded vCenter in a process of its own, and returns its SDK's URL with user and password. That process also
// serves hooks, which the tests don't call.
func startVCenter(t testing.TB) (*process, *url.URL) {
	t.Helper()
	p := start(t, "vCenter", "serve", "--simulator", "--simulator-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--health-listen", "",
		"--simulator-clone-time", "300ms", "--simulator-power-time", "150ms", "--simulator-boot-time", "100ms")
	for field := range strings.FieldsSeq(p.said(t, "look_in")) {
		if text, found := strings.CutPrefix(field, "GOVC_URL="); found {
			sdk, err := url.Parse(text)
			must.Succeed(t, err)
			return p, sdk
		}
	}
	t.Fatal("the embedded vCenter did not log its URL")
	return nil, nil
}

// link is the network between the server and vCenter: TCP connections, which can be cut.
type link struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	isCut    bool
	open     map[net.Conn]bool
}

func newLink(t testing.TB, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	l := &link{listener: listener, to: to, open: map[net.Conn]bool{}}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(from)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut()
	})
	return l
}

func (l *link) carry(from net.Conn) {
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		_ = from.Close()
		return
	}
	l.mu.Lock()
	if l.isCut {
		_, _ = from.Close(), to.Close()
	}
	l.open[from], l.open[to] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = way[0].(*net.TCPConn).WriteTo(way[1])
			_, _ = from.Close(), to.Close()
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, from)
	delete(l.open, to)
}

// cut breaks all connections, and refuses new ones until mend.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for c := range l.open {
		_ = c.Close()
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
}
