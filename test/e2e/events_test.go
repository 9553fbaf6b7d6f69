package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// event is an Event as kubectl shows it.
type event struct {
	Reason, Message, Type, ReportingComponent string
	Source                                    struct{ Component string }
	FirstTimestamp, LastTimestamp             time.Time
	Count                                     int
}

// events returns the Events of a group. Each Event of the server must be complete.
func (r *rig) events(t *testing.T, namespace, name string) []event {
	t.Helper()
	var list struct{ Items []event }
	out := r.kubectl(t, "-n", namespace, "get", "events", "--field-selector=involvedObject.kind=VmGroup,involvedObject.name="+name, "-o", "json")
	must.Succeed(t, json.Unmarshal([]byte(out), &list))
	for _, e := range list.Items {
		if e.Source.Component != "vmgroup" {
			continue
		}
		if e.ReportingComponent != "vmgroup" || e.Count < 1 || e.FirstTimestamp.IsZero() || e.LastTimestamp.Before(e.FirstTimestamp) || e.Type != "Normal" && e.Type != "Warning" {
			t.Errorf("got the Event %+v; want the component vmgroup twice, a count, its times in order, and a type", e)
		}
	}
	return list.Items
}

// byReason groups the messages of Events by reason.
func byReason(events []event) map[string][]string {
	all := map[string][]string{}
	for _, e := range events {
		all[e.Reason] = append(all[e.Reason], e.Message)
	}
	return all
}

func TestEventsSayWhatHappenedToAGroup(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "events")
	r.kubectlWith(t, webYAML, "-n", namespace, "apply", "-f", "-")
	r.settled(t, namespace, "web", 3)
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=2")
	g := r.settled(t, namespace, "web", 2)
	gone := g.Status.Members[0].MoRef
	r.destroy(t, gone)
	eventually(t, func() string {
		if g := r.group(t, namespace, "web"); slices.Contains(moRefs(g), gone) {
			return gone + " is still a member"
		}
		return ""
	})
	r.settled(t, namespace, "web", 2)
	r.kubectl(t, "-n", namespace, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"template":"vm-operator-template-2"}}`)
	r.settled(t, namespace, "web", 2)
	r.kubectl(t, "-n", namespace, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"replicas":3,"template":"typo"}}`)

	var all map[string][]string
	eventually(t, func() string {
		all = byReason(r.events(t, namespace, "web"))
		for _, reason := range []string{"MemberCreated", "MemberRemoved", "MemberGone", "UpdateStarted", "UpdateFinished", "TemplateNotFound"} {
			if len(all[reason]) == 0 {
				return fmt.Sprintf("no %s among %v", reason, all)
			}
		}
		return ""
	})
	says := func(reason string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if n := strings.Count(strings.Join(all[reason], "\n"), text); n != 1 {
				t.Errorf("%s says %q %d times, want 1: %q", reason, text, n, all[reason])
			}
		}
	}
	says("MemberRemoved", "web-2 (", "scale-in: from 3 members to 2")
	says("MemberGone", "Removed in vCenter by ", ": web-", "("+gone+")") // the user's name is from vCenter's events
	says("UpdateFinished", "finished")
	says("TemplateNotFound", `template "typo" not found`)
	if bad := all["SyncError"]; len(bad) > 0 {
		t.Errorf("Metacontroller failed to sync the group: %q; want none", bad)
	}

	r.kubectl(t, "-n", namespace, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"replicas":2,"template":"vm-operator-template-2"}}`)
	r.settled(t, namespace, "web", 2)
	settled := time.Now()
	time.Sleep(2 * resync)
	for _, e := range r.events(t, namespace, "web") { // an Event that the rate limit delayed arrives later, but with an earlier time
		if e.LastTimestamp.After(settled) {
			t.Errorf("a settled group has a new Event: %+v", e)
		}
	}
	described := r.kubectl(t, "-n", namespace, "describe", "vg", "web")
	if _, events, _ := strings.Cut(described, "Events:"); !strings.Contains(events, "MemberRemoved") || strings.Contains(events, "<unknown>") {
		t.Errorf("kubectl describe shows %s", events)
	}
	t.Log(described[strings.Index(described, "Events:"):])
}

func TestTheEventThatNamesKeptDisksArrives(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "promise-disks")
	r.kubectlWith(t, strings.Replace(webYAML, "replicas: 3", "replicas: 2, disks: [{name: data, sizeGiB: 1, persistent: true}], deletion: {shutdownTimeoutSeconds: 0}", 1), "-n", namespace, "apply", "-f", "-")
	g := r.settled(t, namespace, "web", 2)
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
	eventually(t, func() string {
		all := byReason(r.events(t, namespace, "web"))
		for _, d := range g.Status.Disks {
			if !strings.Contains(strings.Join(all["DisksKept"], "\n"), d.ID) {
				return fmt.Sprintf("no Event DisksKept names %s: %q", d.ID, all)
			}
		}
		for _, ref := range moRefs(g) {
			if !strings.Contains(strings.Join(all["MemberRemoved"], "\n"), ref) {
				return fmt.Sprintf("no Event MemberRemoved names %s: %q", ref, all)
			}
		}
		return ""
	})
}
