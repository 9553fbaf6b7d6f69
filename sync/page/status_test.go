package page

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// statusOf requests the JSON status of a page, as a program does.
func statusOf(t *testing.T, p *Page, path string, code int) (s Status, text string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != code || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s: status %d, %s; want %d and %s", path, w.Code, w.Header().Get("Content-Type"), code, "application/json")
	}
	must.Succeed(t, json.Unmarshal(w.Body.Bytes(), &s))
	return s, w.Body.String()
}

// The status must contain what the templates show: a text of each kind that is on the page.
func TestTheStatusOfAGroupHasWhatItsPageShows(t *testing.T) {
	t.Parallel()
	const word = "planted"
	p := New(Config{Source: &source{groups: []plan.Report{report("shop", "web", v1alpha1.PhaseError, word)}, health: plan.Health{Known: true}}, VCenter: "vc.example.com", Version: "v1"})
	s, text := statusOf(t, p, groupPath+"shop/web", http.StatusOK)
	for _, want := range []string{"cloning " + word, "there is no template " + word, "TemplateNotFound", "unready " + word, "its turn " + word, "one more " + word,
		"not yet " + word, "too few " + word, "is off " + word, "because " + word, "full " + word, "own " + word, "being prepared " + word, "host " + word, "vc.example.com"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is on the page, and not in %s", want, text)
		}
	}
	if len(s.Groups) != 1 || s.Groups[0].State != "Error" || s.Groups[0].Detail == nil || !s.Called || s.Version != "v1" {
		t.Fatalf("got the status %+v; want one group, in the state Error, with details, called, and the version v1", s)
	}
	block := s.Groups[0].Detail.Blocks[0]
	if block.Todo == "" || strings.ContainsAny(block.Todo, "<>") {
		t.Errorf("what to do about %s: %q", block.Reason, block.Todo)
	}
}

func TestTheStatusListsTheWorstGroupFirst(t *testing.T) {
	t.Parallel()
	elsewhere := report("shop", "old", "", "x")
	p := New(Config{Source: &source{groups: []plan.Report{report("a", "pending", v1alpha1.PhasePending, "x"), report("b", "broken", v1alpha1.PhaseError, "x"), elsewhere}, slots: plan.Slots{Most: 32, Running: 3}, unknown: true}})
	s, _ := statusOf(t, p, "/", http.StatusOK)
	if len(s.Groups) != 3 || s.Groups[0].Name != "broken" || s.Groups[1].Name != "pending" || s.Groups[2].State != "Not called" || !s.Incomplete || s.Slots.Running != 3 || len(s.Recent) == 0 {
		t.Errorf("got the status %+v; want broken, pending and the group that is not called, incomplete, with 3 slots in use and recent actions", s)
	}
	p = New(Config{Source: &source{groups: []plan.Report{elsewhere}}})
	if s, _ := statusOf(t, p, "/", http.StatusOK); s.Called {
		t.Error("a replica that isn't called for any group says that it is")
	}
	p = New(Config{Source: &source{groups: []plan.Report{report("b", "broken", v1alpha1.PhaseError, "x"), elsewhere}}})
	if s, _ := statusOf(t, p, groupPath+"shop/old", http.StatusOK); s.Called {
		t.Error("a replica that is called for another group says that it is for this one")
	}
	p = New(Config{Source: &source{calls: plan.Calls{Began: began, Last: began}}})
	if _, text := statusOf(t, p, groupPath+"shop/nope", http.StatusNotFound); !strings.Contains(text, `There is no group \"shop/nope\"`) {
		t.Errorf("the status of a group that doesn't exist says %s", text)
	}
}
