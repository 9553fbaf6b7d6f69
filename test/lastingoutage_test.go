package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// outage is a failure of vCenter or of Metacontroller as a whole, not of single calls.
type outage struct {
	begins, ends func(x *lasting)
	refuses      string // the calls that vCenter refuses during the outage
	silent       bool   // Metacontroller calls no hook
	reason, says string // of the condition VCenterReachable
	// logins is the maximum number of connections to vCenter that the server opens in an hour, and calls the maximum number of its calls.
	logins, calls int
	// within is the maximum time from the end of the outage until the server notices the end.
	within time.Duration
}

const outageTime = time.Hour

var outages = map[string]outage{
	"vCenter is away": { // a restart of vCenter, which ends all sessions
		begins: func(x *lasting) { x.Down() },
		ends:   func(x *lasting) { x.Restart() },
		reason: "VCenterUnreachable", says: "vCenter",
		calls: 60, within: 2 * time.Minute, // each call is an attempt to connect
	},
	"vCenter answers nothing": {
		begins: func(x *lasting) { x.Stall() },
		ends:   func(x *lasting) { x.Up() },
		reason: "Timeout", says: "vCenter did not answer in time",
		calls: 60, within: 2 * time.Minute,
	},
	"vCenter's stream is broken": {
		begins:  func(x *lasting) { x.becomes(&types.SystemError{}) },
		ends:    func(x *lasting) { x.becomes(nil) },
		refuses: "WaitForUpdatesEx", reason: "Internal", says: "SystemError",
		calls: 10 * 60, within: 2 * time.Minute,
	},
	"vCenter refuses reads": {
		begins:  func(x *lasting) { x.becomes(&types.SystemError{}); x.DropSessions() },
		ends:    func(x *lasting) { x.becomes(nil) },
		refuses: "RetrievePropertiesEx", reason: "Internal", says: "SystemError",
		calls: 10 * 60, within: 2 * time.Minute,
	},
	"vCenter refuses the login": { // the server rarely retries, because failed logins would lock the account (vsphere/session/login.go)
		begins:  func(x *lasting) { x.becomes(&types.InvalidLogin{}); x.DropSessions() },
		ends:    func(x *lasting) { x.becomes(nil) },
		refuses: "Login", reason: "InvalidLogin", says: "the people who run the server",
		logins: 10, calls: 20, within: 12 * time.Minute,
	},
	"Metacontroller is silent": {
		begins: func(*lasting) {}, ends: func(*lasting) {},
		silent: true,
		calls:  6 * idleCalls, within: 2 * time.Minute,
	},
}

func TestAnOutageOfAnHourIsSaidOnceAndSparesVCenter(t *testing.T) {
	t.Parallel()
	for i, name := range slices.Sorted(maps.Keys(outages)) {
		if leftOut(i) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { checkOutage(t, outages[name], *lastingGroups) })
		})
	}
}

// checkOutage scales n groups out when an outage begins, and checks what the server does and reports during and after the outage.
func checkOutage(t *testing.T, o outage, n int) {
	x := newLasting(t, vcsim.Config{}, o.refuses)
	groups := x.groupsOf(n)
	work := allUp(t, groups...)
	began := time.Now()
	o.begins(x)
	for _, g := range groups {
		g.Scale(4)
	}
	live := func(during time.Duration) {
		if o.silent {
			time.Sleep(during)
		} else {
			called(t, during, groups...)
		}
	}
	live(3 * time.Minute) // the server gives up a clone call without an answer after 90 s
	first, texts := x.log.count(), statusesOf(groups)
	live(3 * time.Minute)
	before := x.spent()
	live(outageTime)
	after := x.spent()
	logins, calls, lines := after.logins-before.logins, after.calls-before.calls, x.log.count()-first
	t.Logf("%d connections and %d calls in an hour; %d lines in the log", logins, calls, lines)
	if logins > o.logins || calls > o.calls {
		t.Errorf("%d connections and %d calls in an hour", logins, calls)
	}
	if lines > 1 {
		t.Errorf("%d lines in the log while nothing changed, want at most 1: %s", lines, x.log.all[first:min(first+9, len(x.log.all))])
	}
	for i, text := range statusesOf(groups) {
		if text != texts[i] {
			t.Errorf("the status changed:\n%s\n%s", texts[i], text)
		}
		if c := condition(metacontroller.Answer{Status: groups[i].Status}, v1alpha1.ConditionVCenterReachable); !o.silent &&
			(c.Status != "False" || c.Reason != o.reason || !strings.Contains(c.Message, o.says) || c.LastTransitionTime.After(began.Add(time.Minute))) {
			t.Errorf("%s: the outage began at %s: %+v", groups[i].Name, began, c)
		}
	}

	o.ends(x)
	last := x.log.count()
	took := allUp(t, groups...)
	t.Logf("up %s after the end, without the outage %s; %d lines in the log", took, work, x.log.count()-last)
	if took > o.within+work {
		t.Errorf("up %s after the end, without the outage %s; want at most %s", took, work, o.within+work)
	}
	called(t, 5*time.Minute, groups...)
	for _, g := range groups {
		if len(g.Status.Members) != 4 || g.Status.Phase != v1alpha1.PhaseRunning {
			t.Errorf("%s: %s, %d members: %s", g.Name, g.Status.Phase, len(g.Status.Members), g.Status.LastMessage)
		}
		if twice := saidTwice(t, g); len(twice) > 0 {
			t.Errorf("%s: said more than once: %v; want none", g.Name, twice)
		}
	}
}

// spending returns how many connections and calls the server has made to vCenter so far.
type spending struct{ logins, calls int }

func (x *lasting) spent() (s spending) {
	for method, n := range callsIn(x.t, x.registry) {
		if !strings.HasPrefix(method, "WaitForUpdates") {
			s.calls += n
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s.logins = x.dials
	return s
}

// statusesOf returns the stored statuses of the groups.
func statusesOf(groups []*metacontroller.Group) (all []string) {
	for _, g := range groups {
		all = append(all, string(value(json.Marshal(g.Status))))
	}
	return all
}

// saidTwice lists the messages that more than one Event of a group has.
func saidTwice(t *testing.T, g *metacontroller.Group) (twice []string) {
	t.Helper()
	said := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(g.Events)) {
		var e struct {
			Reason, Note, Message string
			Regarding             struct{ Name string }
		}
		if err := json.Unmarshal(g.Events[name], &e); err != nil {
			t.Error(err)
		}
		text := fmt.Sprintf("%s %s %s%s", e.Regarding.Name, e.Reason, e.Note, e.Message)
		if said[text]++; said[text] == 2 {
			twice = append(twice, text)
		}
	}
	return twice
}
