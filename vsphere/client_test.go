package vsphere

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// ask makes one call that needs a session.
func ask(ctx context.Context, s *session) error {
	_, err := methods.GetCurrentTime(ctx, s.vim)
	return err
}

func TestManyWhoAskAtOnceShareOneLogin(t *testing.T) {
	l := startLab(t)
	c, _ := l.client(l.config())
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			s, err := c.session(t.Context())
			if err != nil || s.epoch != 1 || s.user != labUser || s.uuid == "" {
				t.Errorf("got %+v, %v", s, err)
			}
		})
	}
	all.Wait()
	if n := l.logins.Load(); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
}

func TestALostSessionIsReplacedOnceAndTheCallRunsAgain(t *testing.T) {
	l := startLab(t)
	c, _ := l.client(l.config())
	clock := &clock{at: time.Now()}
	c.now = clock.now
	const times = 20
	for range times {
		if err := c.call(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		l.drop()
		clock.pass(time.Hour)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := c.call(t.Context(), ask); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := len(l.sessions()); n != 1 {
			t.Fatalf("%d sessions, want 1", n)
		}
	}
	if n := l.logins.Load(); n != times+1 {
		t.Errorf("%d logins, want %d", n, times+1)
	}
	if calls := l.calls()["Login"]; calls != times+1 {
		t.Errorf("Login was counted %d times", calls)
	}
}

func TestSessionsThatNeverLastAreNotOpenedForEver(t *testing.T) {
	l := startLab(t)
	c, _ := l.client(l.config())
	var err error
	for range 50 {
		if err = c.call(t.Context(), ask); err != nil {
			break
		}
		l.drop()
	}
	if err == nil || reasonOf(t, err) != ReasonNotAuthenticated {
		t.Errorf("got %v", err)
	}
	if n := l.logins.Load(); n > quickLosses+2 {
		t.Errorf("%d logins", n)
	}
	if f := c.health(); f == nil || f.Reason != ReasonNotAuthenticated {
		t.Errorf("health %v", f)
	}
}

func TestAFunctionThatFailsOtherwiseIsNotRunAgain(t *testing.T) {
	l := startLab(t)
	c, _ := l.client(l.config())
	runs := 0
	err := c.call(t.Context(), func(context.Context, *session) error {
		runs++
		return soap.WrapVimFault(&types.ConcurrentAccess{})
	})
	if runs != 1 || reasonOf(t, err) != ReasonConcurrentAccess || c.health() != nil {
		t.Errorf("%d runs, %v, health %v", runs, err, c.health())
	}
}

func TestARefusedPasswordIsNotTriedAgainUntilItChangesOrTimePasses(t *testing.T) {
	l := startLab(t)
	cfg := l.config()
	c, _ := l.client(cfg)
	clock := &clock{at: time.Now()}
	c.now = clock.now
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(cfg.PasswordFile, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(logins int32) {
		t.Helper()
		for range 5 {
			_, err := c.session(t.Context())
			if reasonOf(t, err) != ReasonInvalidLogin || strings.Contains(err.Error(), "wrong") {
				t.Errorf("got %v", err)
			}
		}
		if n := l.logins.Load(); n != logins {
			t.Errorf("%d logins, want %d", n, logins)
		}
	}
	write("wrong")
	refused(1)
	if f := c.health(); f == nil || f.Reason != ReasonInvalidLogin || !f.Person {
		t.Errorf("health %v", f)
	}
	clock.pass(refusedFirst * 6 / 5)
	refused(2)
	clock.pass(refusedFirst * 6 / 5)
	refused(2) // the wait has doubled
	for i := range 10 {
		clock.pass(refusedMost * 6 / 5)
		refused(int32(3 + i)) // and never passes the most
	}
	write("wrong2")
	refused(13) // another one is tried at once
	write("right")
	if _, err := c.session(t.Context()); err != nil {
		t.Error(err)
	}
	if c.health() != nil {
		t.Errorf("health %v", c.health())
	}
}

func TestARotatedPasswordIsReadAtTheNextLogin(t *testing.T) {
	l := startLab(t)
	cfg := l.config()
	c, _ := l.client(cfg)
	if err := c.call(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	l.password.Store("rotated")
	if err := os.WriteFile(cfg.PasswordFile, []byte("rotated"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.drop()
	if err := c.call(t.Context(), ask); err != nil {
		t.Error(err)
	}
}

func TestWithVCenterDownCallersGetTheLastErrorAtOnceAndTheSessionIsTakenUpAgain(t *testing.T) {
	l := startLab(t)
	c, n := l.client(l.config())
	clock := &clock{at: time.Now()}
	c.now = clock.now
	if err := c.call(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	before, _ := c.session(t.Context())
	n.fail()
	if err := c.call(t.Context(), ask); reasonOf(t, err) != ReasonVCenterUnreachable {
		t.Errorf("got %v", err)
	}
	_, first := c.session(t.Context())
	calls := l.calls()
	for range 100 {
		if _, err := c.session(t.Context()); reasonOf(t, err) != ReasonVCenterUnreachable {
			t.Errorf("got %v", err)
		}
	}
	if after := l.calls(); after["CurrentTime"] != calls["CurrentTime"] || after["Login"] != calls["Login"] {
		t.Errorf("calls were made: %v, %v", calls, after)
	}
	if f := c.health(); f == nil || *f != first.(*Error).Fault {
		t.Errorf("health %v", f)
	}
	n.up()
	clock.pass(2 * time.Second)
	after, err := c.session(t.Context())
	if err != nil || after != before {
		t.Errorf("another session, %v", err)
	}
	if got := len(l.sessions()); got != 1 {
		t.Errorf("%d sessions, want 1", got)
	}
	c.lost(before, errors.New("of old"))
	c.lost(before, errors.New("of old")) // a late comer changes nothing
}

func TestLogoutLeavesNoSessionAndEndsTheClient(t *testing.T) {
	l := startLab(t)
	c, _ := l.client(l.config())
	if err := c.call(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.logout(context.WithoutCancel(ctx))
	if n := len(l.sessions()); n != 0 {
		t.Errorf("%d sessions, want 0", n)
	}
	if _, err := c.session(t.Context()); reasonOf(t, err) != ReasonCancelled {
		t.Errorf("got %v", err)
	}
	c.logout(t.Context()) // once more does no harm
}

func TestLogoutWhileALoginIsUnderWayLeavesNoSession(t *testing.T) {
	l := startLab(t)
	for range 20 {
		cfg := l.config()
		c, err := newClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = c.session(context.Background()) }()
		runtime.Gosched()
		c.logout(context.Background())
	}
	eventually(t, "no session is left", func() bool { return len(l.sessions()) == 0 })
}

func TestACallerWhoLeavesDoesNotEndTheLoginOfTheOthers(t *testing.T) {
	l := startLab(t)
	c, _ := l.client(l.config())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.session(ctx); err != nil && reasonOf(t, err) != ReasonCancelled {
		t.Errorf("got %v", err)
	}
	if _, err := c.session(t.Context()); err != nil {
		t.Error(err)
	}
	if n := l.logins.Load(); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
}

func TestCredentialsThatCannotBeReadAreAFaultAndNoPanic(t *testing.T) {
	l := startLab(t)
	cfg := l.config()
	cfg.PasswordFile += ".missing"
	c, _ := l.client(cfg)
	if _, err := c.session(t.Context()); reasonOf(t, err) != ReasonCredentials {
		t.Errorf("got %v", err)
	}
}

func TestEveryCallBearsAnOperationIDAndTheCallersIsKept(t *testing.T) {
	l := startLab(t)
	var log bytes.Buffer
	var mu sync.Mutex
	cfg := l.config()
	cfg.Log = zerolog.New(zerolog.SyncWriter(lockedWriter{&mu, &log})).Level(zerolog.DebugLevel)
	c, _ := l.client(cfg)
	ctx := context.WithValue(t.Context(), types.ID{}, "vmgroup-mine")
	if err := c.call(ctx, ask); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for _, line := range lines {
		if strings.Contains(line, `"method"`) && !strings.Contains(line, `"opID":"vmgroup-`) {
			t.Errorf("no operationID: %s", line)
		}
		if strings.Contains(line, "right") {
			t.Errorf("the password is logged: %s", line)
		}
	}
	if !strings.Contains(log.String(), `"method":"CurrentTime","opID":"vmgroup-mine"`) {
		t.Errorf("the caller's id is not kept: %s", log.String())
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestNoGoroutineOutlivesTheClient(t *testing.T) {
	l := startLab(t)
	if len(l.sessions()) != 0 {
		t.Fatal("a session of ours at the start")
	}
	before := runtime.NumGoroutine()
	for range 5 {
		c, _ := l.client(l.config())
		ts, stop := awaiting(t, c)
		ref := l.task()
		l.end(ref, nil, nil)
		get(t, waitFor(t.Context(), ts, ref))
		stop()
		c.logout(t.Context())
	}
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+2 })
}
