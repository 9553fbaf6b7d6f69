//go:build unix

package test

import (
	"bytes"
	"context"
	"flag"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// pauseNoticed is how long a pause must be for the replica to notice it.
const pauseNoticed = 4 * time.Second

// A hook call to a stopped replica waits in its socket. When the replica resumes, the call has long timed out, and the group may be
// gone: nothing would ever call for it again.
func TestAHookCallThatWaitedForAPausedReplicaClonesNothing(t *testing.T) {
	t.Parallel()
	r := newRealRig(t, vcsim.Config{})
	paused, other := r.serveProcess(), r.serveProcess()
	g := other.group("web", 2)
	g.URL = paused.url
	paused.ready()
	paused.stop()
	body, err := g.Body(false)
	r.must(err)
	answered := make(chan error, 3)
	for range cap(answered) { // Metacontroller tries again after each time-out; something between, such as a proxy, may keep the calls
		wrote := make(chan struct{})
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(wrote) }})
		call, err := http.NewRequestWithContext(ctx, http.MethodPost, paused.url+"/sync", bytes.NewReader(body))
		r.must(err)
		call.Header.Set("Content-Type", "application/json")
		go func() {
			res, err := http.DefaultClient.Do(call)
			if err == nil {
				_ = res.Body.Close()
			}
			answered <- err
		}()
		<-wrote
	}
	upAt(t, g, other.url)
	remove(t, g)
	time.Sleep(other.lease + pauseNoticed) // then nothing removes what arrives late
	if n := len(answered); n > 0 {
		t.Errorf("a stopped replica has answered %d calls", n)
	}
	paused.resume()
	for range cap(answered) {
		r.must(<-answered)
	}
	paused.done()
	r.empty(1)
}

// replicasStops are the calls to vCenter, from the scale-in on, at which
// TestAStoppedReplicaThatResumesTakesDownNoMemberOfTheNewSpec stops a replica.
var replicasStops = flag.String("replicas.stops", "4", "the calls to vCenter at which to stop a replica, separated by commas")

// A replica stops with the answer to one of its calls on the way, and resumes when the others have done otherwise: it must not do
// what it was about to do, because what it saw is no longer true.
func TestAStoppedReplicaThatResumesTakesDownNoMemberOfTheNewSpec(t *testing.T) {
	t.Parallel()
	for _, text := range strings.Split(*replicasStops, ",") {
		nth, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run("call "+text, func(t *testing.T) {
			t.Parallel()
			r := newRealRig(t, vcsim.Config{Latency: briskly})
			paused, other := r.serveProcess(), r.serveProcess()
			g := paused.group("web", 3)
			up(t, g)
			calls, stopped := 0, make(chan struct{})
			var at vcsim.Call
			paused.wire.On(func(call vcsim.Call) vcsim.Break {
				if call.Method != "WaitForUpdatesEx" {
					if calls++; calls == nth {
						at = call
						paused.stop()
						close(stopped)
					}
				}
				return vcsim.Break{}
			})
			g.Scale(2)
			r.callUntilStopped(g, stopped)
			t.Log("stopped at", at)
			g.URL = other.url
			g.Scale(3)
			until(t, g, "three are on again", func(a metacontroller.Answer) bool {
				return metacontroller.Running(a) && tally(r.members(), isOn) == 3 // and not as it knew them a moment ago
			})
			was := refs(r.members())
			time.Sleep(max(paused.lease, pauseNoticed))
			stop := r.sample(func() int { return tally(r.members(), isOn) })
			paused.resume()
			eventually(t, realPatience, "its call is answered", func() bool { return paused.answered(at) })
			paused.done()
			up(t, g)
			if seen := stop(); seen.least < 3 {
				t.Errorf("%d of 3 members were on", seen.least)
			}
			r.sameVMs(was)
		})
	}
}

// callUntilStopped calls a group's hook until its replica stops; a call that waits then is given up.
func (r *rig) callUntilStopped(g *metacontroller.Group, stopped <-chan struct{}) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(within(r.t))
	go func() { <-stopped; cancel() }()
	for ctx.Err() == nil {
		_, _ = g.Sync(ctx)
		time.Sleep(20 * time.Millisecond)
	}
	select {
	case <-stopped:
	default:
		r.t.Fatal("the replica made fewer calls")
	}
}
