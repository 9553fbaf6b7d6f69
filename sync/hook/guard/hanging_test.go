package guard

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

func TestAFIFOInPlaceOfTheTokenLocksOutWithoutBlocking(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	path := filepath.Join(t.TempDir(), "token")
	must.Succeed(t, os.WriteFile(path, []byte(token), 0o600))
	meter := prometheus.NewRegistry()
	g, err := New(Config{TokenFiles: []string{path}, Log: zerolog.Nop(), Meter: meter})
	must.Succeed(t, err)
	unreadable := func(want float64) {
		t.Helper()
		if got := unreadableIn(t, meter); got != want {
			t.Errorf("vmgroup_key_files_unreadable is %v; want %v", got, want)
		}
	}
	call := func() int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/sync", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		g.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })).ServeHTTP(w, r)
		return w.Code
	}
	if code := call(); code != http.StatusOK || g.Ready() != nil {
		t.Fatalf("with its files, the server answers %d and is ready with %v; want 200, and no error", code, g.Ready())
	}
	unreadable(0)
	must.Succeed(t, os.Remove(path))
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	g.keys.every, g.keys.wait = 0, timeout // reads the files at every call, however slow this machine is
	if code := call(); code != http.StatusUnauthorized {
		t.Errorf("with a token file that hangs, the server answers %d; want 401", code)
	}
	if err := g.Ready(); err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("readiness: %v; want an error and %q in the text", err, "--token-file")
	}
	unreadable(1)
}

// A read that hangs continues in the background, and until the read ends, now returns the previous value.
func TestAHangingReadingKeepsNoLock(t *testing.T) {
	release := make(chan struct{})
	w := &watched[int]{every: time.Nanosecond, parse: func(before int, _ []content) int {
		if before == 1 {
			<-release
		}
		return before + 1
	}}
	if w.now() != 1 {
		t.Fatal("the first reading is not waited for")
	}
	w.digest[0]++ // makes the file look changed
	done := make(chan int)
	for range 8 {
		go func() { done <- w.now() }()
	}
	for range 8 {
		if got := <-done; got != 1 {
			t.Errorf("got %d; want 1", got)
		}
	}
	close(release)
}
