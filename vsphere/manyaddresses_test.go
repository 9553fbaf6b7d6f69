package vsphere

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// reportMany makes guests report that many more addresses, which members don't need. In an answer, each address counts as two XML marks, of which
// session.xmlBounds allows 1,048,576.
func (w *world) reportMany(addresses int, names ...string) {
	time.Sleep(time.Minute) // Tools run
	for _, name := range names {
		w.must(w.AddIP(name, slices.Repeat([]string{"fe80::1"}, addresses)...))
	}
}

// The stream's first answer has the addresses of all guests in vCenter, not only of members. A full read has those of all members.
func TestGuestsThatReportMoreThanAnAnswerCanHaveHideNoOthers(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Guest: vcsim.Guest{Tools: true}})
		_, err := w.AddVM("/DC0/vm", "other")
		w.must(err)
		w.must(w.PowerOn("other"))
		before := w.start()
		var vms []plan.VM
		for i := range int32(3) {
			vms = append(vms, before.running(i, true))
		}
		before.stop()
		w.reportMany(270_000, "other", "web-0", "web-1") // two of them are more than an answer can have
		w.reportMany(530_000, "web-2")                   // and so is this one

		var log bytes.Buffer
		c := w.config()
		c.Through, c.Log = nil, zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.WarnLevel)
		v, err := New(c)
		w.must(err)
		p := w.run(v)
		p.until("vCenter is known", func() bool { return p.state().Known })
		addresses := map[string]int{}
		for _, vm := range p.state(vms[0].MoRef, vms[1].MoRef, vms[2].MoRef).VMs {
			addresses[vm.Name] = len(vm.IPs)
		}
		if !maps.Equal(addresses, map[string]int{"web-0": 1, "web-1": 1, "web-2": 1}) {
			t.Errorf("the members have these numbers of addresses: %v; want one each", addresses)
		}
		p.stop()
		if n := strings.Count(log.String(), vms[2].MoRef); n != 1 || strings.Contains(log.String(), "VC_HOST") {
			t.Errorf("want one line about %s in the log, and none about VC_HOST:\n%s", vms[2].MoRef, log.String())
		}
	})
}
