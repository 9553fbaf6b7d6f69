// Package process builds the server and runs it in processes of its own, for tests that look at it from outside.
package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// timeout is how long Said waits. It is long enough that no test depends on the speed of the machine.
const timeout = 3 * time.Minute

// Build builds the server from the module in the directory root, into the file to. It first stats all sources, so that go test doesn't reuse a
// cached result after one of them has changed: go test only notices the files that the test process itself opens or stats, not those that the
// go command reads.
func Build(root, to string) error {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "dist") {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() && (strings.HasSuffix(path, ".go") || strings.HasPrefix(d.Name(), "go.")) {
			_, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) { // removed after the directory was listed
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", to, "./cmd/vmgroup") // with the flags of make in GOFLAGS, so that the cache has its packages
	build.Dir = root
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// Process is a vmgroup process. It logs JSON lines to its standard error.
type Process struct {
	*exec.Cmd
	// Name is what the tests call the process.
	Name  string
	ended chan struct{} // closed when it has ended
	mu    sync.Mutex
	log   []string
	lines chan map[string]any // closed when its standard error is closed
}

// Start starts a binary. The end of the test ends the process, and logs its output if the test failed.
func Start(t testing.TB, binary, name string, args ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(binary, args...), Name: name, ended: make(chan struct{}), lines: make(chan map[string]any, 1000)}
	p.Env = []string{"HOME=/nonexistent", "GOMAXPROCS=2"}
	stderr, err := p.StderrPipe()
	must.Succeed(t, err)
	must.Succeed(t, p.Cmd.Start())
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
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, strings.Join(p.Log(), "\n"))
		}
	})
	return p
}

// Log returns the lines that the process has logged.
func (p *Process) Log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.log...)
}

// Said waits for a log line with a field, and returns the value of the field.
func (p *Process) Said(t testing.TB, field string) string {
	t.Helper()
	for deadline := time.After(timeout); ; {
		select {
		case line, open := <-p.lines:
			if !open {
				t.Fatalf("%s ended: %s", p.Name, strings.Join(p.Log(), "\n"))
			}
			if text, ok := line[field].(string); ok {
				return text
			}
		case <-deadline:
			t.Fatalf("%s never logged %s", p.Name, field)
		}
	}
}

// Signal sends a signal to the process, if it has not ended.
func (p *Process) Signal(s os.Signal) { _ = p.Process.Signal(s) } // fails if the process has ended

// Kill ends the process at once, even if it is suspended.
func (p *Process) Kill() {
	p.Signal(os.Kill)
	<-p.ended
}

// Terminate ends the process as Kubernetes does: with SIGTERM, and after terminationGracePeriodSeconds with SIGKILL.
func (p *Process) Terminate() {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second): // terminationGracePeriodSeconds
		p.Kill()
	}
}
