package session

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
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// ask makes one call that needs a session.
func ask(ctx context.Context, s *Session) error {
	_, err := methods.GetCurrentTime(ctx, s.Vim)
	return err
}

func TestConcurrentCallersShareOneLogin(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		c := l.client(l.config())
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				s, err := c.Session(t.Context())
				if err != nil || s.Epoch != 1 || s.User != vctest.User || s.UUID == "" {
					t.Errorf("got %+v, %v", s, err)
				}
			})
		}
		all.Wait()
		l.tried(1)
	})
}

func TestALostSessionIsReplacedOnceAndTheCallRunsAgain(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		c := l.client(l.config())
		const times = 20
		for range times {
			l.must(c.Call(t.Context(), ask))
			l.DropSessions()
			time.Sleep(time.Hour)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if err := c.Call(t.Context(), ask); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			l.open(1)
		}
		l.tried(times + 1)
		if calls := l.Counted()["Login"]; calls != times+1 {
			t.Errorf("%d logins were counted; want %d", calls, times+1)
		}
	})
}

func TestSessionsThatNeverLastAreNotOpenedForever(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		c := l.client(l.config())
		var err error
		for range 50 {
			if err = c.Call(t.Context(), ask); err != nil {
				break
			}
			l.DropSessions()
		}
		if err == nil || vctest.ReasonOf(t, err) != vcfault.ReasonNotAuthenticated {
			t.Errorf("got %v", err)
		}
		if n := l.Tries(); n > quickLosses+2 {
			t.Errorf("vCenter saw %d logins; want at most %d", n, quickLosses+2)
		}
		if f := c.Health(); f == nil || f.Reason != vcfault.ReasonNotAuthenticated {
			t.Errorf("health %v", f)
		}
	})
}

func TestAFunctionThatFailsForAnotherReasonIsNotRunAgain(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		c := l.client(l.config())
		runs := 0
		err := c.Call(t.Context(), func(context.Context, *Session) error {
			runs++
			return soap.WrapVimFault(&types.ConcurrentAccess{})
		})
		if runs != 1 || vctest.ReasonOf(t, err) != vcfault.ReasonConcurrentAccess || c.Health() != nil {
			t.Errorf("%d runs, %v, health %v", runs, err, c.Health())
		}
	})
}

// vCenter locks an account after 5 refusals within 180 s by default.
func TestTwoClientsThatAskEachSecondWithAWrongPasswordDoNotLockTheAccount(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		cfg := l.config()
		l.must(os.WriteFile(cfg.PasswordFile, []byte("wrong"), 0o600))
		clients := []*Client{l.client(cfg), l.client(cfg)}
		var tries []time.Time // the time of each login, in seconds
		for began := time.Now(); time.Since(began) < 30*time.Minute; time.Sleep(time.Second) {
			for _, c := range clients {
				if _, err := c.Session(t.Context()); vctest.ReasonOf(t, err) != vcfault.ReasonInvalidLogin {
					t.Fatal(err)
				}
			}
			for len(tries) < l.Tries() {
				tries = append(tries, time.Now())
			}
		}
		for i := range tries {
			if i >= 4 && tries[i].Sub(tries[i-4]) < 180*time.Second {
				t.Errorf("5 logins within %s", tries[i].Sub(tries[i-4]))
			}
		}
		if len(tries) < 6 {
			t.Errorf("only %d logins in all", len(tries))
		}
	})
}

func TestARefusedPasswordIsNotTriedAgainUntilItChangesOrTimePasses(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		cfg := l.config()
		c := l.client(cfg)
		write := func(password string) {
			t.Helper()
			l.must(os.WriteFile(cfg.PasswordFile, []byte(password), 0o600))
		}
		refused := func(logins int) {
			t.Helper()
			for range 5 {
				_, err := c.Session(t.Context())
				if vctest.ReasonOf(t, err) != vcfault.ReasonInvalidLogin || strings.Contains(err.Error(), "wrong") {
					t.Errorf("got %v", err)
				}
			}
			l.tried(logins)
		}
		write("wrong")
		refused(1)
		if f := c.Health(); f == nil || f.Reason != vcfault.ReasonInvalidLogin || !f.NeedsOperator {
			t.Errorf("health %v", f)
		}
		time.Sleep(afterRefusal.First * 6 / 5)
		refused(2)
		time.Sleep(afterRefusal.First * 6 / 5)
		refused(2) // the wait has doubled
		for i := range 10 {
			time.Sleep(afterRefusal.Most * 6 / 5)
			refused(3 + i) // the wait never exceeds the maximum
		}
		write("wrong2")
		refused(13) // the client tries a changed password at once
		write("right")
		if _, err := c.Session(t.Context()); err != nil {
			t.Error(err)
		}
		if c.Health() != nil {
			t.Errorf("health %v", c.Health())
		}
	})
}

func TestARotatedPasswordIsReadAtTheNextLogin(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		cfg := l.config()
		c := l.client(cfg)
		l.must(c.Call(t.Context(), ask))
		l.SetPassword("rotated")
		l.must(os.WriteFile(cfg.PasswordFile, []byte("rotated"), 0o600))
		l.DropSessions()
		if err := c.Call(t.Context(), ask); err != nil {
			t.Error(err)
		}
	})
}

func TestWithVCenterDownCallersGetTheLastErrorAtOnceAndTheSessionResumes(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		c := l.client(l.config())
		l.must(c.Call(t.Context(), ask))
		before, _ := c.Session(t.Context())
		l.Down()
		if err := c.Call(t.Context(), ask); vctest.ReasonOf(t, err) != vcfault.ReasonVCenterUnreachable {
			t.Errorf("got %v", err)
		}
		_, first := c.Session(t.Context())
		calls := l.Counted()
		for range 100 {
			if _, err := c.Session(t.Context()); vctest.ReasonOf(t, err) != vcfault.ReasonVCenterUnreachable {
				t.Errorf("got %v", err)
			}
		}
		if after := l.Counted(); after["CurrentTime"] != calls["CurrentTime"] || after["Login"] != calls["Login"] {
			t.Errorf("calls were made: %v, %v", calls, after)
		}
		if f := c.Health(); f == nil || *f != first.(*vcfault.Error).Fault {
			t.Errorf("health %v", f)
		}
		l.Up()
		time.Sleep(2 * time.Second)
		after, err := c.Session(t.Context())
		if err != nil || after != before {
			t.Errorf("another session, %v", err)
		}
		l.open(1)
		c.Lost(before, errors.New("of old"))
		c.Lost(before, errors.New("of old")) // a second report about the same session has no effect
	})
}

func TestLogoutLeavesNoSessionAndEndsTheClient(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		c := l.client(l.config())
		l.must(c.Call(t.Context(), ask))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.Logout(context.WithoutCancel(ctx))
		l.open(0)
		if _, err := c.Session(t.Context()); vctest.ReasonOf(t, err) != vcfault.ReasonCancelled {
			t.Errorf("got %v", err)
		}
		c.Logout(t.Context()) // a second logout has no effect
	})
}

func TestLogoutDuringALoginLeavesNoSession(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		for range 20 {
			cfg := l.config()
			c, err := New(cfg)
			must.Succeed(t, err)
			go func() { _, _ = c.Session(context.Background()) }()
			runtime.Gosched()
			c.Logout(context.Background())
		}
		vctest.Eventually(t, "no session is left", func() bool { return l.Sessions() == 0 })
	})
}

func TestACallerThatGivesUpDoesNotEndASharedLogin(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		c := l.client(l.config())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Session(ctx); err != nil && vctest.ReasonOf(t, err) != vcfault.ReasonCancelled {
			t.Errorf("got %v", err)
		}
		if _, err := c.Session(t.Context()); err != nil {
			t.Error(err)
		}
		l.tried(1)
	})
}

func TestUnreadableCredentialsAreAFaultAndNoPanic(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		cfg := l.config()
		cfg.PasswordFile += ".missing"
		c := l.client(cfg)
		if _, err := c.Session(t.Context()); vctest.ReasonOf(t, err) != vcfault.ReasonCredentials {
			t.Errorf("got %v", err)
		}
	})
}

func TestEveryCallHasAnOperationIDAndTheCallersIsKept(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		var log bytes.Buffer
		var mu sync.Mutex
		cfg := l.config()
		cfg.Log = zerolog.New(zerolog.SyncWriter(lockedWriter{&mu, &log})).Level(zerolog.DebugLevel)
		c := l.client(cfg)
		ctx := context.WithValue(t.Context(), types.ID{}, "vmgroup-mine")
		l.must(c.Call(ctx, ask))
		mu.Lock()
		defer mu.Unlock()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		for _, line := range lines {
			if strings.Contains(line, `"method"`) && !strings.Contains(line, `"opID":"vmgroup-`) {
				t.Errorf("a logged call has no operation ID: %s", line)
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

func TestFaultsAreRecognizedAsTheyComeFromTheWire(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		c := l.client(l.config())
		err := c.Call(t.Context(), func(ctx context.Context, s *Session) error {
			_, err := methods.PowerOnVM_Task(ctx, s.Vim, &types.PowerOnVM_Task{This: types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-none"}})
			return err
		})
		if !fault.Is(err, &types.ManagedObjectNotFound{}) || vctest.ReasonOf(t, err) != vcfault.ReasonGone {
			t.Errorf("got %v", err)
		}
		err = c.Call(t.Context(), func(ctx context.Context, s *Session) error {
			_, err := methods.CreateFolder(ctx, s.Vim, &types.CreateFolder{This: s.Vim.ServiceContent.RootFolder, Name: "DC0"})
			return err
		})
		if vctest.ReasonOf(t, err) != vcfault.ReasonNameConflict {
			t.Errorf("got %v", err)
		}
	})
}
