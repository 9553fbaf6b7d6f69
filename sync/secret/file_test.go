package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

func TestAnIrregularFileDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	link := filepath.Join(dir, "link")
	must.Succeed(t, os.Symlink(fifo, link))
	for _, path := range []string{fifo, link, dir, "/dev/zero"} {
		if text, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "not a regular file") || len(text) > 0 {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	large := filepath.Join(dir, "large")
	must.Succeed(t, os.WriteFile(large, make([]byte, Largest+1), 0o600))
	if _, err := ReadFile(large); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("got the error %v; want one that says that the file is larger than %d bytes", err, Largest)
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got the error %v; want %v", err, os.ErrNotExist)
	}
}

func TestASecretIsReadThroughKubernetesLinks(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		must.Succeed(t, err)
	}
	must(os.Mkdir(filepath.Join(dir, "..1"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "..1", "token"), []byte("secret"), 0o600))
	must(os.Symlink("..1", filepath.Join(dir, "..data")))
	must(os.Symlink(filepath.Join("..data", "token"), filepath.Join(dir, "token")))
	if text, err := ReadFile(filepath.Join(dir, "token")); string(text) != "secret" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// In a bubble the files' times are the bubble's, so that no time passes between a write and the next reading.
func TestAFileThatIsBeingRewrittenIsReadWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token = "0123456789abcdef0123456789abcdef"
		path := filepath.Join(t.TempDir(), "token")
		write := func(text string, at time.Time) {
			t.Helper()
			must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
			must.Succeed(t, os.Chtimes(path, at, at))
		}
		now := time.Now()
		write(token[:16], now)
		parts := []string{token[:20], token[:20], token}
		text, err := whole(path, func(time.Duration) { // another process keeps writing
			if len(parts) > 0 {
				now = now.Add(time.Millisecond)
				write(parts[0], now)
				parts = parts[1:]
			}
		})
		if string(text) != token || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		always := 0
		if _, err = whole(path, func(time.Duration) { always++; write(strings.Repeat("x", always), time.Now()) }); err == nil {
			t.Error("a file that keeps changing is read")
		}
	})
}

func TestAHangingFileSystemBlocksOnlyOneReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared{running: map[string]*reading{}}
		release, begun := make(chan struct{}), 0
		hang := func(string) ([]byte, error) { begun++; <-release; return []byte("late"), nil }
		for range 3 {
			if _, err := s.of("a", readTime, hang); !errors.Is(err, errHangs) {
				t.Errorf("got the error %v; want %v", err, errHangs)
			}
		}
		synctest.Wait()
		before := time.Now()
		if _, err := s.of("a", readTime, hang); !errors.Is(err, errHangs) || time.Since(before) > 0 || begun != 1 {
			t.Errorf("%v after %s, %d readings", err, time.Since(before), begun)
		}
		if text, err := s.of("b", readTime, func(string) ([]byte, error) { return []byte("b"), nil }); string(text) != "b" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		close(release)
		synctest.Wait()
		if text, err := s.of("a", readTime, hang); string(text) != "late" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
}
