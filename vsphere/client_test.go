package vsphere

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// ask makes one call that needs a session.
func ask(ctx context.Context, s *session) error {
	_, err := methods.GetCurrentTime(ctx, s.vim)
	return err
}

func TestManyWhoAskAtOnceShareOneLogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
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
		if n := l.logins(); n != 1 {
			t.Errorf("%d logins, want 1", n)
		}
	})
}

func TestALostSessionIsReplacedOnceAndTheCallRunsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		const times = 20
		for range times {
			if err := c.call(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
			l.DropSessions()
			time.Sleep(time.Hour)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if err := c.call(t.Context(), ask); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := l.Sessions(); n != 1 {
				t.Fatalf("%d sessions, want 1", n)
			}
		}
		if n := l.logins(); n != times+1 {
			t.Errorf("%d logins, want %d", n, times+1)
		}
		if calls := l.calls()["Login"]; calls != times+1 {
			t.Errorf("Login was counted %d times", calls)
		}
	})
}

func TestSessionsThatNeverLastAreNotOpenedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		var err error
		for range 50 {
			if err = c.call(t.Context(), ask); err != nil {
				break
			}
			l.DropSessions()
		}
		if err == nil || reasonOf(t, err) != vcfault.ReasonNotAuthenticated {
			t.Errorf("got %v", err)
		}
		if n := l.logins(); n > quickLosses+2 {
			t.Errorf("%d logins", n)
		}
		if f := c.health(); f == nil || f.Reason != vcfault.ReasonNotAuthenticated {
			t.Errorf("health %v", f)
		}
	})
}

func TestAFunctionThatFailsOtherwiseIsNotRunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		runs := 0
		err := c.call(t.Context(), func(context.Context, *session) error {
			runs++
			return soap.WrapVimFault(&types.ConcurrentAccess{})
		})
		if runs != 1 || reasonOf(t, err) != vcfault.ReasonConcurrentAccess || c.health() != nil {
			t.Errorf("%d runs, %v, health %v", runs, err, c.health())
		}
	})
}

func TestARefusedPasswordIsNotTriedAgainUntilItChangesOrTimePasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		cfg := l.config()
		c := l.client(cfg)
		write := func(password string) {
			t.Helper()
			if err := os.WriteFile(cfg.PasswordFile, []byte(password), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		refused := func(logins int) {
			t.Helper()
			for range 5 {
				_, err := c.session(t.Context())
				if reasonOf(t, err) != vcfault.ReasonInvalidLogin || strings.Contains(err.Error(), "wrong") {
					t.Errorf("got %v", err)
				}
			}
			if n := l.logins(); n != logins {
				t.Errorf("%d logins, want %d", n, logins)
			}
		}
		write("wrong")
		refused(1)
		if f := c.health(); f == nil || f.Reason != vcfault.ReasonInvalidLogin || !f.Person {
			t.Errorf("health %v", f)
		}
		time.Sleep(refusedFirst * 6 / 5)
		refused(2)
		time.Sleep(refusedFirst * 6 / 5)
		refused(2) // the wait has doubled
		for i := range 10 {
			time.Sleep(refusedMost * 6 / 5)
			refused(3 + i) // and never passes the most
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
	})
}

func TestARotatedPasswordIsReadAtTheNextLogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		cfg := l.config()
		c := l.client(cfg)
		if err := c.call(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		l.SetPassword("rotated")
		if err := os.WriteFile(cfg.PasswordFile, []byte("rotated"), 0o600); err != nil {
			t.Fatal(err)
		}
		l.DropSessions()
		if err := c.call(t.Context(), ask); err != nil {
			t.Error(err)
		}
	})
}

func TestWithVCenterDownCallersGetTheLastErrorAtOnceAndTheSessionIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		if err := c.call(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		before, _ := c.session(t.Context())
		l.Down()
		if err := c.call(t.Context(), ask); reasonOf(t, err) != vcfault.ReasonVCenterUnreachable {
			t.Errorf("got %v", err)
		}
		_, first := c.session(t.Context())
		calls := l.calls()
		for range 100 {
			if _, err := c.session(t.Context()); reasonOf(t, err) != vcfault.ReasonVCenterUnreachable {
				t.Errorf("got %v", err)
			}
		}
		if after := l.calls(); after["CurrentTime"] != calls["CurrentTime"] || after["Login"] != calls["Login"] {
			t.Errorf("calls were made: %v, %v", calls, after)
		}
		if f := c.health(); f == nil || *f != first.(*vcfault.Error).Fault {
			t.Errorf("health %v", f)
		}
		l.Up()
		time.Sleep(2 * time.Second)
		after, err := c.session(t.Context())
		if err != nil || after != before {
			t.Errorf("another session, %v", err)
		}
		if got := l.Sessions(); got != 1 {
			t.Errorf("%d sessions, want 1", got)
		}
		c.lost(before, errors.New("of old"))
		c.lost(before, errors.New("of old")) // a late comer changes nothing
	})
}

func TestLogoutLeavesNoSessionAndEndsTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		if err := c.call(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.logout(context.WithoutCancel(ctx))
		if n := l.Sessions(); n != 0 {
			t.Errorf("%d sessions, want 0", n)
		}
		if _, err := c.session(t.Context()); reasonOf(t, err) != vcfault.ReasonCancelled {
			t.Errorf("got %v", err)
		}
		c.logout(t.Context()) // once more does no harm
	})
}

func TestLogoutWhileALoginIsUnderWayLeavesNoSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
		eventually(t, "no session is left", func() bool { return l.Sessions() == 0 })
	})
}

func TestACallerWhoLeavesDoesNotEndTheLoginOfTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.session(ctx); err != nil && reasonOf(t, err) != vcfault.ReasonCancelled {
			t.Errorf("got %v", err)
		}
		if _, err := c.session(t.Context()); err != nil {
			t.Error(err)
		}
		if n := l.logins(); n != 1 {
			t.Errorf("%d logins, want 1", n)
		}
	})
}

func TestCredentialsThatCannotBeReadAreAFaultAndNoPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		cfg := l.config()
		cfg.PasswordFile += ".missing"
		c := l.client(cfg)
		if _, err := c.session(t.Context()); reasonOf(t, err) != vcfault.ReasonCredentials {
			t.Errorf("got %v", err)
		}
	})
}

func TestEveryCallBearsAnOperationIDAndTheCallersIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		var log bytes.Buffer
		var mu sync.Mutex
		cfg := l.config()
		cfg.Log = zerolog.New(zerolog.SyncWriter(lockedWriter{&mu, &log})).Level(zerolog.DebugLevel)
		c := l.client(cfg)
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
	})
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
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		if l.Sessions() != 0 {
			t.Fatal("a session of ours at the start")
		}
		synctest.Wait()
		before := inBubble(t)
		for range 5 {
			c := l.client(l.config())
			ts, stop := awaiting(t, c)
			ref := l.task()
			l.end(ref, nil, nil)
			get(t, waitFor(t.Context(), ts, ref))
			stop()
			c.logout(t.Context())
		}
		synctest.Wait()
		if n := inBubble(t); n > before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
}

// inBubble counts the goroutines of the caller's bubble.
func inBubble(t *testing.T) int {
	t.Helper()
	all := make([]byte, 8<<20)
	all = all[:runtime.Stack(all, true)]
	bubble := regexp.MustCompile(`synctest bubble \d+\]`).Find(all) // the caller's is the first stack
	if bubble == nil {
		t.Fatal("the caller is in no bubble")
	}
	return bytes.Count(all, bubble)
}

func TestFaultsAreKnownAsTheyComeFromTheWire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		err := c.call(t.Context(), func(ctx context.Context, s *session) error {
			_, err := methods.PowerOnVM_Task(ctx, s.vim, &types.PowerOnVM_Task{This: types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-none"}})
			return err
		})
		if !fault.Is(err, &types.ManagedObjectNotFound{}) || reasonOf(t, err) != vcfault.ReasonGone {
			t.Errorf("got %v", err)
		}
		err = c.call(t.Context(), func(ctx context.Context, s *session) error {
			_, err := methods.CreateFolder(ctx, s.vim, &types.CreateFolder{This: s.vim.ServiceContent.RootFolder, Name: "DC0"})
			return err
		})
		if reasonOf(t, err) != vcfault.ReasonNameConflict {
			t.Errorf("got %v", err)
		}
	})
}
