package test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// These are requests that Metacontroller sent. Their parents come from its cache, so a parent may be older than that of an earlier request.

// post sends a captured request to a replica.
func (c *wiredReplica) post(hook, file string) metacontroller.Answer {
	c.t.Helper()
	body, err := os.ReadFile("../sync/hook/testdata/captured/" + file)
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := c.rig.client().Post(c.url+hook, "application/json", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // closing a body that was read can't lose data
	var a metacontroller.Answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil || response.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s, %v", file, response.Status, err)
	}
	return a
}

// allReady reports whether a group has this many members, all ready. The phase can't be used here: the captured parent is sent so long
// without its child that a foreign object seems to have the child's name.
func allReady(a metacontroller.Answer, n int32) bool {
	return a.Status.CurrentReplicas == n && a.Status.ReadyReplicas == n
}

// capturedRig starts a vCenter that has the template of the captured groups.
func capturedRig(t *testing.T) *rig {
	return newRig(t, vcsim.Config{Templates: []string{"ubuntu-24.04"}})
}

// The two requests have one parent and were sent a moment apart. The second one doesn't contain the answer to the first.
func TestTwoReplicasWithAStaleParentCloneEachMemberOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := capturedRig(t)
		a, b := r.serveWired(), r.serveWired()
		eventually(t, patience, "both replicas report that two members are up", func() bool {
			return allReady(a.post("/sync", "sync-stale-pair-1.json"), 2) && allReady(b.post("/sync", "sync-stale-pair-2.json"), 2)
		})
		equal(t, r.names(web), running(2))
		r.tidy(a, b)
		equal(t, r.names(web), running(2))
	})
}

// tidy waits until no replica has anything left to do.
func (r *rig) tidy(replicas ...*wiredReplica) {
	for _, c := range replicas {
		c.done()
	}
}

// The test replays a captured life. All replicas get parents of lower generations again, including a replica that was never called before, and also
// while the group is being deleted.
func TestParentsOfLowerGenerationsUndoNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := capturedRig(t)
		a, b, c := r.serveWired(), r.serveWired(), r.serveWired()
		eventually(t, patience, "two members are up", func() bool { return allReady(a.post("/sync", "sync-create.json"), 2) })
		eventually(t, patience, "three members are up", func() bool { return allReady(b.post("/sync", "sync-after-scale.json"), 3) })
		was := refs(r.members())
		for range 20 {
			for _, server := range []*wiredReplica{a, b, c} {
				server.post("/sync", "sync-create.json")
			}
			time.Sleep(time.Second)
		}
		eventually(t, patience, "three members are up", func() bool { return allReady(a.post("/sync", "sync-after-edit.json"), 3) })
		r.sameVMs(was)

		eventually(t, patience, "the group is finalized", func() bool {
			b.post("/sync", "sync-create.json")
			if gone := a.post("/finalize", "finalize-last.json"); gone.Finalized {
				return true
			}
			c.post("/sync", "sync-after-scale.json")
			return false
		})
		r.tidy(a, b, c)
		r.empty(1)
	})
}
