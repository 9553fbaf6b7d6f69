package vcsim_test

import (
	"context"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestOutageKeepsAddressSessionsAndTasks(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		before := v.URL().String()
		v.Hold(vcsim.Clone)
		c.startClone(t, "vm")
		v.Down()
		v.Release(vcsim.Clone)
		for range 2 {
			if _, err := methods.GetCurrentTime(c.ctx, c.Client.Client); err == nil {
				t.Fatal("vCenter answers while it is down")
			}
		}
		eventually(t, "the clone completes", func() bool { return len(v.VMs()) == 2 })
		v.Up()
		if v.URL().String() != before {
			t.Errorf("got the URL %v, want %s", v.URL(), before)
		}
		if _, err := methods.GetCurrentTime(c.ctx, c.Client.Client); err != nil {
			t.Errorf("the session did not survive: %v", err)
		}
	})
}

func TestStalledVCenterAnswersAfterUp(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.Stall()
		short, cancel := context.WithTimeout(c.ctx, time.Minute)
		defer cancel()
		if _, err := methods.GetCurrentTime(short, c.Client.Client); err == nil {
			t.Fatal("vCenter answers while it is stalled")
		}
		answered := make(chan error, 1)
		go func() {
			_, err := methods.GetCurrentTime(c.ctx, c.Client.Client)
			answered <- err
		}()
		select {
		case err := <-answered:
			t.Fatalf("vCenter answers while it is stalled: %v", err)
		case <-time.After(time.Minute):
		}
		addVM(t, v, "/DC0/vm", "vm") // the admin does not use the network
		v.Up()
		ok(t, <-answered)
	})
}

func TestRestartDropsSessionsAndTasks(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.Hold(vcsim.Clone)
		task := c.startClone(t, "vm")
		v.Restart()
		v.Release(vcsim.Clone)

		eventually(t, "a new connection finds no session", func() bool {
			_, err := methods.GetCurrentTime(c.ctx, c.Client.Client)
			return fault.Is(err, new(types.NotAuthenticated))
		})
		if n := v.Sessions(); n != 0 {
			t.Errorf("%d sessions survived", n)
		}
		c = login(t, v)
		var info mo.Task
		wantFault[*types.ManagedObjectNotFound](t, c.RetrieveOne(c.ctx, task.Reference(), []string{"info"}, &info))
		wantFault[*types.ManagedObjectNotFound](t, object.NewTask(c.Client.Client, task.Reference()).Wait(c.ctx))
		var tm mo.TaskManager
		ok(t, c.RetrieveOne(c.ctx, *c.ServiceContent.TaskManager, []string{"recentTask"}, &tm))
		if len(tm.RecentTask) != 0 {
			t.Errorf("recentTask is %v", tm.RecentTask)
		}
		eventually(t, "the clone exists without its task", func() bool { return len(v.VMs()) == 2 })
	})
}

func TestSessionsAreCountedAndDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		if n := v.Sessions(); n != 0 {
			t.Errorf("%d sessions exist before the first login", n)
		}
		a, b := login(t, v), login(t, v)
		if n := v.Sessions(); n != 2 {
			t.Errorf("%d sessions exist, want 2", n)
		}
		ok(t, a.Logout(a.ctx))
		if n := v.Sessions(); n != 1 {
			t.Errorf("%d sessions exist, want 1", n)
		}
		waiting := make(chan error, 1)
		task := b.startLongTask(t, v)
		go func() { waiting <- task.Wait(b.ctx) }()
		eventually(t, "the wait begins", func() bool { return v.Calls()["WaitForUpdatesEx"] > 1 })
		v.DropSessions()
		wantFault[*types.NotAuthenticated](t, <-waiting)
		_, err := methods.GetCurrentTime(b.ctx, b.Client.Client)
		wantFault[*types.NotAuthenticated](t, err)
		if n := v.Sessions(); n != 0 {
			t.Errorf("%d sessions exist, want none", n)
		}
		addVM(t, v, "/DC0/vm", "vm") // the admin is still logged in
	})
}

func (c *client) startLongTask(t testing.TB, v *vcsim.VCenter) *object.Task {
	t.Helper()
	v.Hold(vcsim.Clone)
	return c.startClone(t, "long")
}

func TestLoginsAreCheckedAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{User: "me", Password: "old"})
		try := func(user, password string) error {
			_, err := v.Login(t.Context(), url.UserPassword(user, password), transportTo(t, v))
			return err
		}
		ok(t, try("me", "old"))
		for _, c := range [][2]string{{"me", "wrong"}, {"you", "old"}, {"me", ""}} {
			wantFault[*types.InvalidLogin](t, try(c[0], c[1]))
		}
		v.SetPassword("new")
		wantFault[*types.InvalidLogin](t, try("me", "old"))
		ok(t, try("me", "new"))
		if in, refused := v.Logins(); in != 2 || refused != 4 {
			t.Errorf("%d accepted and %d rejected logins, want 2 and 4", in, refused)
		}
		if got := v.URL().User.String(); got != "me:new" {
			t.Errorf("the URL has %s", got)
		}
		anyone := start(t, vcsim.Config{})
		for _, user := range []*url.Userinfo{anyone.URL().User, url.UserPassword("who", "ever")} {
			_, err := anyone.Login(t.Context(), user, transportTo(t, anyone))
			ok(t, err)
		}
	})
}
