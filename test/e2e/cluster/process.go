package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// timeout is how long a process can take to start or to end, on a loaded machine.
const timeout = 2 * time.Minute

// Process is a process that ends with the test at the latest, even if the test panics, times out or is killed.
type Process struct {
	name, log string
	cmd       *exec.Cmd
	ended     chan struct{} // closed when the process has ended
	err       error         // how the process ended; set before ended is closed
}

// Unmeasured is the environment of the processes that stand for other machines: without it, their garbage collectors compete with the
// server for the processors, because their heaps are small here.
var Unmeasured = []string{"GOGC=400"}

// Apart reports whether etcd, the API server, its controllers and Metacontroller get the lowest priority, so that they take no time from the
// server and vCenter, as if they had processors of their own.
var Apart bool

// StartApart is Start for a process of the control plane (Apart).
func StartApart(dir, name, binary string, args ...string) (*Process, error) {
	if Apart {
		binary, args = "nice", append([]string{"-n", "19", binary}, args...)
	}
	return Start(dir, name, Unmeasured, binary, args...)
}

// Start starts a process, and appends its output to dir/name.log.
func Start(dir, name string, env []string, binary string, args ...string) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(dir, name+".log"), cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = dir, log, log, endsWithParent()
	p.cmd.Env = append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, env...)
	started := make(chan error)
	go func() {
		// "Parent" is the thread that started it, which must live as long as the process (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close() //nolint:errcheck // the process wrote it
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Stop asks the process to end, and waits until it has.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.name, timeout)
	}
}

// Busy is the processor time that the process has taken; zero on systems whose kernel doesn't tell.
func (p *Process) Busy() time.Duration { return Busy(p.cmd.Process.Pid) }

// Kill ends the process at once, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // the process may have ended by itself
	<-p.ended
}

// Log returns the output of all processes with its name in that directory.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Await waits until the process is ready. It fails if the process ends.
func (p *Process) Await(ready func() error) error {
	for began := time.Now(); ; {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %w\n%s", p.name, errors.Join(p.err, err), tail(p.Log()))
		case <-time.After(100 * time.Millisecond):
		}
		if time.Since(began) > timeout {
			return fmt.Errorf("%s is not ready within %s: %w\n%s", p.name, timeout, err, tail(p.Log()))
		}
	}
}

func tail(text string) string { return text[max(0, len(text)-4000):] }

// FreePorts returns TCP ports of the loopback interface that are free now. They are below those that kernels assign to clients
// (from 32768 on in Linux), which other processes may take before the test does.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range 100 * n {
		port := 10000 + rand.IntN(22000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close() //nolint:errcheck // only at the end, so that all are different
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("found no free ports on loopback")
}
