package test

import (
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Found by the soak: when vCenter was down for longer than a moment, the collector that awaits tasks was forgotten, not destroyed,
// and stayed in a session that outlived the outage.
func TestAnOutageLeavesNoCollectorForTasksBehind(t *testing.T) {
	t.Parallel()
	r := newRealRig(t, vcsim.Config{})
	g := r.serve().group("web", 1)
	r.Hold(vcsim.Clone)
	for range 3 {
		until(t, g, "the clone is awaited", func(metacontroller.Answer) bool { return r.Counts().Listed > 0 })
		r.Down()
		time.Sleep(300 * time.Millisecond) // longer than a retry takes
		r.Up()
		until(t, g, "vCenter is up again", func(metacontroller.Answer) bool { return r.Counts().ListViews > 0 && r.Counts().Listed > 0 })
	}
	r.Release(vcsim.Clone)
	up(t, g)
	eventually(t, time.Minute, "one collector for updates, one for tasks", func() bool {
		c := r.Counts()
		return c.ListViews == 1 && c.Collectors == 2 && c.Filters == 2
	})
}
