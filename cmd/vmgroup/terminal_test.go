package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// screen is a terminal of 80 columns and 24 rows on which a command runs.
type screen struct {
	*exec.Cmd
	terminal *os.File
	mu       sync.Mutex
	text     strings.Builder
	ended    chan struct{}
}

func onScreen(t *testing.T, c *exec.Cmd) *screen {
	t.Helper()
	terminal, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Skipf("no terminal here: %v", err)
	}
	s := &screen{Cmd: c, terminal: terminal, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		_, _ = io.Copy(s, terminal) // until the command ends
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-s.ended
		_ = terminal.Close()
	})
	return s
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// lines are what was written since the cursor was last at the top, without colors.
func (s *screen) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.text.String()
	return strings.Split(strings.TrimRight(strings.ReplaceAll(escapes.ReplaceAllString(text[strings.LastIndex(text, ansiHome)+1:], ""), "\r\n", "\n"), "\n"), "\n")
}

func (s *screen) has(text string) bool { return strings.Contains(strings.Join(s.lines(), "\n"), text) }

func fits(t *testing.T, lines []string) {
	t.Helper()
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 80 && strings.Contains(strings.TrimSpace(line), " ") { // a line of one word can't be wrapped
			t.Errorf("%d characters: %s", utf8.RuneCountInString(line), line)
		}
	}
}

func TestTablesAndFlagsAreAsWideAsTheTerminal(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), "group.yaml")
	must.Succeed(t, os.WriteFile(long, []byte(strings.Replace(head, "name: web", "name: a-rather-long-name-of-a-group", 1)+", networks: [{network: nowhere}]}\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		has  string
	}{
		"plan":  {[]string{"plan", long, "--simulator"}, "\nPlan: blocked: shop/"},
		"check": {[]string{"check", "--simulator"}, "\nOK "},
		"help":  {[]string{"serve", "--help"}, "\nAddresses, and who can call:\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onScreen(t, vmgroup(quickly, c.args...))
			<-s.ended
			lines := s.lines()
			if name == "help" { // help does not wrap the description above this line
				lines = lines[slices.Index(lines, "Addresses, and who can call:"):]
			}
			fits(t, lines)
			if !s.has(c.has) {
				t.Errorf("the terminal does not show %q:\n%s", c.has, strings.Join(s.lines(), "\n"))
			}
		})
	}
}

func TestTheDemoFitsTheTerminalAndEndsAtOnceOnASecondInterrupt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "group.yaml")
	twelve := strings.Replace(head, "replicas: 2", "replicas: 12", 1)
	held := strings.Replace(twelve, "namespace: shop", "namespace: shop, annotations: {hold.vm.codeconnect.vmworld.com/x: web-3/%s}", 1) + ", deletion: {holdTimeoutSeconds: 3600}}\n"
	must.Succeed(t, os.WriteFile(file, []byte(fmt.Sprintf(held, "vm-1")), 0o600))
	s := onScreen(t, vmgroup(nil, "demo", "-f", file, "--listen", "127.0.0.1:0", "--clone-time", "50ms", "--power-time", "10ms", "--boot-time", "10ms"))
	eventually(t, "12 members are ready", func() bool {
		lines := s.lines()
		fits(t, lines)
		if len(lines) > 24 {
			t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		return s.has("12 of 12 ready") && s.has("web-11") && s.has("■■■■ ready")
	})
	ref := regexp.MustCompile(`web-3 +(vm-[0-9]+)`).FindStringSubmatch(strings.Join(s.lines(), "\n"))
	if ref == nil {
		t.Fatalf("the demo does not show web-3 and its moRef:\n%s", strings.Join(s.lines(), "\n"))
	}
	must.Succeed(t, os.WriteFile(file, []byte(strings.Replace(fmt.Sprintf(held, ref[1]), "replicas: 12", "replicas: 11", 1)), 0o600))
	eventually(t, "the hold is read", func() bool { return s.has("11 of 11 ready") })
	interrupt := func() {
		must.Succeed(t, s.Process.Signal(syscall.SIGINT))
	}
	interrupt()
	eventually(t, "the deletion waits for the hold", func() bool { return s.has("A second Ctrl-C ends at once.") && s.has(" 1 of 11 ready") })
	interrupt()
	<-s.ended
	_ = s.Wait()
	s.mu.Lock()
	text := s.text.String()
	s.mu.Unlock()
	last := text[strings.LastIndex(text, ansiCursorOn)+len(ansiCursorOn):]
	if s.ProcessState.ExitCode() != 1 || !strings.HasPrefix(last, "vmgroup: shop/web was not deleted yet: ") || !strings.Contains(last, "the annotations that hold") {
		t.Errorf("%v: %q", s.ProcessState, last)
	}
}

func TestTheDemoLeavesOutReadyMembersThatHaveNoRoom(t *testing.T) {
	t.Parallel()
	var rows []demoRow
	for i := range 40 {
		rows = append(rows, demoRow{name: fmt.Sprintf("web-%d", i), ready: i != 30, progress: "p"})
	}
	got := demoTable(slices.Clone(rows), 4)
	if len(got) != 5 || !strings.Contains(got[1], "web-0") || !strings.Contains(got[2], "web-1") || !strings.Contains(got[3], "web-30") || got[4] != "  … and 37 more" {
		t.Errorf("got the table %q; want a header, two ready members, web-30 and that 37 more exist", got)
	}
}
