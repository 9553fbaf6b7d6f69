package test

import (
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Found by the soak: when vCenter was down for longer than a moment, the collector that awaits tasks was forgotten, not destroyed,
// and stayed in a session that outlived the outage.
func TestAnOutageLeavesNoCollectorForTasksBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{})
		g := r.serve().group("web", 1)
		r.Hold(vcsim.Clone)
		for range 3 {
			until(t, g, "the clone is awaited", func(metacontroller.Answer) bool { return r.Counts().Listed > 0 })
			r.Down()
			time.Sleep(30 * time.Second) // longer than a retry takes
			r.Up()
			until(t, g, "vCenter is up again", func(metacontroller.Answer) bool { return r.Counts().ListViews > 0 && r.Counts().Listed > 0 })
		}
		r.Release(vcsim.Clone)
		up(t, g)
		eventually(t, patience, "one collector for updates, one for tasks", func() bool {
			c := r.Counts()
			return c.ListViews == 1 && c.Collectors == 2 && c.Filters == 2
		})
	})
}

// A replica can't name a collector whose creation had no reply. It stays as long as the session, without a filter, so the soak
// must not wait for its end.
func TestACollectorWhoseCreationHadNoReplyGoesWithItsSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{})
		r.must(r.admin.Logout(t.Context()))
		replicas := []*serverReplica{r.serve(), r.serve()}
		s := &soak{rig: r}
		eventually(t, patience, "both replicas watch vCenter", s.watched)
		r.LoseReply("CreatePropertyCollector", 1) // the next is the one for tasks
		g := replicas[0].group("web", 1)
		up(t, g)
		remove(t, g)
		time.Sleep(time.Hour)
		c := r.Counts()
		if s.watched() || !lostCollectors(c) || c.Filters != 2 {
			t.Fatalf("want one collector too many, without a filter, for as long as the session lasts: %+v", c)
		}
		s.t, s.outage = t, true
		s.endAbandoned()
		eventually(t, patience, "both replicas are logged in, and nothing else is left", s.watched)
		if s.abandoned > 0 {
			t.Error("a lost collector counts as an abandoned session")
		}
	})
}
