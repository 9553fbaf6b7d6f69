package page

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// silent is the source of a server with groups that Metacontroller no longer calls.
func silent() *source {
	s := &source{health: plan.Health{Known: true}, calls: plan.Calls{Began: began.Add(-time.Hour), Last: began, Silent: true}, groups: []plan.Report{
		report("shop", "fails", v1alpha1.PhaseError, ""), report("shop", "runs", v1alpha1.PhaseRunning, "")}}
	for i := range s.groups {
		s.groups[i].Lease, s.groups[i].LastKnown = false, true
	}
	return s
}

func TestThePageSaysThatMetacontrollerDoesNotCallAndWhatToAsk(t *testing.T) {
	t.Parallel()
	s := silent()
	p := New(Config{Source: s, Pod: "vmgroup-7d9f4c-x2x"})
	_, body, _ := get(p, "/", "")
	text := textOf(t, body)
	says(t, text, "Metacontroller Doesn't call Last hook call 2026-11-22 09:00:00 UTC", "1 Error", "1 Running", "fails shop 1 of 2",
		"has not called this replica of the server (vmgroup-7d9f4c-x2x) since 2026-11-22 09:00:00 UTC", "kubectl get pods -A -l app.kubernetes.io/name=vmgroup", "Metacontroller is down",
		"can't reach this server, or is refused", "delete none because of this page", "They stay listed until a call comes")
	if strings.Contains(text, "Not called") || strings.Contains(body, "orphans") {
		t.Error("the page says \"Not called\" or names orphans, which is not known: ", text)
	}
	_, body, _ = get(p, groupPath+"shop/fails", "")
	says(t, textOf(t, body), "fails Error", "has not called this replica of the server (vmgroup-7d9f4c-x2x) since 2026-11-22 09:00:00 UTC", "None until Metacontroller calls for the group.", "Ready 1 of 2")
	if strings.Contains(body, "orphans") {
		t.Error("the group's page names orphans, which are not known: ", textOf(t, body))
	}
	if s, _ := statusOf(t, p, "/", http.StatusOK); !s.Silent || s.Called || !s.LastCall.Equal(began) || s.Groups[0].State != "Error" {
		t.Errorf("got the status %+v; want silent calls since %s, and the first group in the state Error", s, began)
	}
	for want, c := range map[string]plan.Calls{
		"Calls Last hook call 2026-11-22 09:00:00 UTC":                                          {Began: began, Last: began},
		"Has not called yet No hook call since this server started 2026-11-22 09:00:00 UTC":     {Began: began},
		"Doesn't call No hook call since this server started 2026-11-22 09:00:00 UTC":           {Began: began, Silent: true},
		"has not called this replica of the server (this one) since it started, 2026-11-22 09:": {Began: began, Silent: true},
	} {
		s := silent()
		s.calls = c
		_, body, _ := get(New(Config{Source: s}), "/", "")
		says(t, textOf(t, body), want)
	}
	none := &source{health: plan.Health{Known: true}, calls: plan.Calls{Began: began, Last: began, Silent: true}} // no calls, because the last group was deleted
	_, body, _ = get(New(Config{Source: none}), "/", "")
	if text := textOf(t, body); strings.Contains(text, "Doesn't call") || !strings.Contains(text, "Has no group to call for") {
		t.Errorf("the page without groups says %q; want \"Has no group to call for\"", text)
	}
}

// Metacontroller calls another replica for the group, or none: the page can't distinguish the two.
func TestAGroupThatIsNotCalledAnyMoreIsListedAsOfItsLastCall(t *testing.T) {
	t.Parallel()
	s := &source{health: plan.Health{Known: true}, calls: plan.Calls{Began: began, Last: began.Add(time.Hour)}, groups: []plan.Report{report("shop", "web", v1alpha1.PhaseError, ""), report("shop", "here", v1alpha1.PhaseRunning, "")}}
	s.groups[0].Lease = false
	p := New(Config{Source: s, Pod: "vmgroup-1"})
	_, body, _ := get(p, "/", "")
	says(t, textOf(t, body), "0 Error", "1 Not called this replica isn't called for it", "as of 2026-11-22 09:00:00 UTC web shop 1 of 2", "another replica is called:", "Metacontroller is late", "no controller calls for it", "no cluster that uses this vCenter has the VmGroup")
	_, body, _ = get(p, groupPath+"shop/web", "")
	says(t, textOf(t, body), "(vmgroup-1) isn't called for the group now: what is below is as last known 2026-11-22 09:00:00 UTC", "kubectl vmgroup status shop/web", "kubectl -n shop get vmgroup web", "Its VMs may serve")
}

// A page that is open on a group without VMs must find the group again when calls come after a restart.
func TestThePageOfAGroupThatIsNotKnownStaysOpen(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]*source{
		"Metacontroller has called for no group since this server started at 2026-11-22 09:00:00 UTC": {calls: plan.Calls{Began: began}},
		"has called for no group since 2026-11-22 09:05:00 UTC":                                       {calls: plan.Calls{Began: began, Last: began.Add(5 * time.Minute), Silent: true}},
		"is not known yet":                                 {calls: plan.Calls{Began: time.Now().Add(-time.Minute), Last: time.Now()}},
		"There is no group \"shop/web\"":                   {calls: plan.Calls{Began: began, Last: time.Now()}},
		"was not called for a group \"shop/web\", and vCe": {calls: plan.Calls{Began: began}, unknown: true},
	} {
		code, body, _ := get(New(Config{Source: s}), groupPath+"shop/web", "")
		says(t, textOf(t, body), want)
		if code == 200 || !strings.Contains(body, "<body data-live>") || !strings.Contains(body, `id="live"`) {
			t.Errorf("the page is answered %d, or lacks the script that keeps it up to date; want another status than 200, and the script: %s", code, body)
		}
	}
}
