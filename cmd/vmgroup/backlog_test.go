package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// unread starts vmgroup serve with a pipe as standard error, and reads it until the server listens. The caller has the pipe's end.
func unread(t *testing.T, args ...string) (p *process, stderr *os.File) {
	t.Helper()
	stderr, w, err := os.Pipe()
	must.Succeed(t, err)
	t.Cleanup(func() { _ = stderr.Close() })
	p = &process{Cmd: vmgroup(nil, append([]string{"serve", "--simulator", "--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0"}, args...)...)}
	p.Stderr = w
	must.Succeed(t, p.Start())
	_ = w.Close()
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	lines := bufio.NewReaderSize(stderr, 16)
	for p.url == "" {
		line, err := lines.ReadBytes('\n')
		must.Succeed(t, err)
		var said struct {
			Listen string
			Health string `json:"health_listen"`
		}
		if json.Unmarshal(line, &said) == nil && said.Listen != "" {
			p.url, p.health = "http://"+said.Listen, "http://"+said.Health
		}
	}
	return p, stderr
}

// ends sends SIGTERM to a process, and returns how it ended.
func (p *process) ends(t *testing.T) error {
	t.Helper()
	must.Succeed(t, p.Process.Signal(syscall.SIGTERM))
	defer time.AfterFunc(timeout, func() { _ = p.Process.Kill() }).Stop()
	return p.Wait()
}

// calls makes hook calls, each for a new group, so that the server logs lines.
func (p *process) calls(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		g := metacontroller.New(p.url, "default", fmt.Sprint("web-", i), fmt.Sprint("uid-", i), 0)
		if _, err := g.Sync(t.Context()); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

// dropped returns the metric of dropped log lines.
func (p *process) dropped(t *testing.T) string {
	t.Helper()
	_, all := get(t, p.health+"/metrics")
	for line := range strings.Lines(all) {
		if value, is := strings.CutPrefix(line, "vmgroup_log_lines_dropped_total "); is {
			return strings.TrimSpace(value)
		}
	}
	t.Fatal("the metric is missing")
	return ""
}

// A pipe buffers 64 KiB before a write blocks.
func TestAReaderOfTheLogThatStallsStopsNeitherTheHooksNorTheEnd(t *testing.T) {
	t.Parallel()
	p, _ := unread(t)
	p.calls(t, 500)
	if code, page := get(t, p.url+"/"); code != 200 {
		t.Errorf("the page: %d, want 200: %s", code, page)
	}
	if n := p.dropped(t); n != "0" {
		t.Errorf("%s lines were dropped, and 1 MiB has room for all; want %s", n, "0")
	}
	if err := p.ends(t); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// A write to a pipe without a reader would end the process by SIGPIPE.
func TestAReaderOfTheLogThatIsGoneStopsNeitherTheHooksNorTheEnd(t *testing.T) {
	t.Parallel()
	p, stderr := unread(t)
	_ = stderr.Close()
	p.calls(t, 2)
	eventually(t, "dropped lines", func() bool { return p.dropped(t) != "0" })
	p.calls(t, 2)
	if err := p.ends(t); err != nil {
		t.Errorf("the server, whose log has no reader, ended with %v", err)
	}
}

// reader is the other end of a backlog: it takes one write for each value in takes, and fails after it is closed.
type reader struct {
	takes chan bool
	text  strings.Builder
}

func (r *reader) Write(p []byte) (int, error) {
	if !<-r.takes {
		return 0, syscall.EPIPE
	}
	return r.text.Write(p)
}

type counter struct {
	prometheus.Counter
	n float64
}

func (c *counter) Add(n float64) { c.n += n }

// stalled returns a backlog whose reader takes nothing until told, with a first line that is being written.
func stalled(dropped *counter) (b *backlog, r *reader) {
	r = &reader{takes: make(chan bool, 1000)}
	b = newBacklog(r)
	b.count(dropped, func(lines int) { fmt.Fprintf(r, "%d lines were dropped\n", lines) })
	fmt.Fprintln(b, "first")
	synctest.Wait()
	return b, r
}

func TestLinesWithoutRoomAreDroppedCountedAndToldOfInTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dropped := &counter{}
		b, r := stalled(dropped)
		kib := strings.Repeat("x", 1023) + "\n"
		for range 1023 {
			fmt.Fprint(b, kib)
		}
		fmt.Fprint(b, kib) // the line "first" takes room, too
		fmt.Fprint(b, kib)
		fmt.Fprintln(b, "short")
		fmt.Fprint(b, kib)
		if dropped.n != 3 {
			t.Errorf("%v lines are counted; want 3", dropped.n)
		}
		for range 3 { // the first line, the waiting lines, and the number of dropped lines
			r.takes <- true
		}
		synctest.Wait()
		if got, want := r.text.String(), "first\n"+strings.Repeat(kib, 1023)+"short\n3 lines were dropped\n"; got != want {
			t.Errorf("%d bytes: …%q", len(got), got[max(0, len(got)-100):])
		}
		r.takes <- true
		fmt.Fprintln(b, "last")
		b.close()
		if got := r.text.String(); !strings.HasSuffix(got, "dropped\nlast\n") || dropped.n != 3 {
			t.Errorf("%v lines are counted: …%q", dropped.n, got[len(got)-100:])
		}
	})
}

func TestTheEndWaitsForAReaderOfTheLastLinesButNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := stalled(&counter{})
		fmt.Fprintln(b, "last")
		time.AfterFunc(lastLines/2, func() { r.takes <- true; r.takes <- true })
		if b.close(); r.text.String() != "first\nlast\n" {
			t.Errorf("the reader got %q; want the lines first and last", r.text.String())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b, r := stalled(&counter{})
		began := time.Now()
		if b.close(); time.Since(began) != lastLines {
			t.Errorf("after %s; want %s", time.Since(began), lastLines)
		}
		r.takes <- true
	})
	synctest.Test(t, func(t *testing.T) {
		dropped := &counter{}
		b, r := stalled(dropped)
		close(r.takes)
		synctest.Wait()
		began := time.Now()
		if b.close(); time.Since(began) != 0 || dropped.n != 1 {
			t.Errorf("after %s, %v lines are counted; want 0 and 1", time.Since(began), dropped.n)
		}
	})
}
