//go:build unix

package promises

import (
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/process"
)

// start starts the binary. The end of the test ends the process, and logs its output if the test failed or -promises.log is set.
func start(t testing.TB, name string, args ...string) *process.Process {
	t.Helper()
	p := process.Start(t, *binary, name, args...)
	t.Cleanup(func() {
		if *keepLog && !t.Failed() {
			p.Kill() // so that the log is whole
			t.Logf("the log of %s:\n%s", name, strings.Join(p.Log(), "\n"))
		}
	})
	return p
}

// startVCenter starts the embedded vCenter in a process of its own, and returns its SDK's URL with user and password. That process also
// serves hooks, which the tests don't call.
func startVCenter(t testing.TB) (*process.Process, *url.URL) {
	t.Helper()
	p := start(t, "vCenter", "serve", "--simulator", "--simulator-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--health-listen", "",
		"--simulator-clone-time", "300ms", "--simulator-power-time", "150ms", "--simulator-boot-time", "100ms")
	for field := range strings.FieldsSeq(p.Said(t, "look_in")) {
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
