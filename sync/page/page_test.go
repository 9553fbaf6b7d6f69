package page

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// source is the test data that the page shows.
type source struct {
	groups  []plan.Report
	unknown bool
	slots   plan.Slots
	health  plan.Health
	calls   plan.Calls
	asked   int
}

func (s *source) Groups() ([]plan.Report, bool) {
	s.asked++
	return slices.Clone(s.groups), !s.unknown
}
func (s *source) Slots() plan.Slots   { return s.slots }
func (s *source) Health() plan.Health { return s.health }
func (s *source) Calls() plan.Calls   { return s.calls }

var began = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// report is a group with one of everything, each text with that word.
func report(namespace, name string, phase v1alpha1.Phase, word string) plan.Report {
	fault := plan.FaultReport{Condition: "CloneBlocked", VM: name + "-1", Reason: "TemplateNotFound", Message: "there is no template " + word}
	return plan.Report{Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace + "-" + name + word), Generation: 3, Lease: phase != "", LastCall: began, LeaseEnds: began.Add(time.Minute),
		Phase: phase, Message: "cloning " + word, DesiredReplicas: 2, Finalizing: true, WaitsForSlot: true,
		WaitsFor: []plan.Limit{{Of: "clones from " + word, Now: 4, Most: 32, Running: 4, Reason: "vCenter queued " + word}, {Of: "all steps", Now: 32, Most: 32, Running: 32, Reason: "--slots permits no more"}},
		Members: []v1alpha1.Member{
			{Name: name + "-0" + word, MoRef: "vm-1" + word, PowerState: "poweredOn", IPs: []string{"10.0.0.7", word}, Host: "host " + word, Zone: "zone " + word, Ready: true},
			{Name: name + "-1", MoRef: "vm-2", PowerState: word, Reason: "NotReady", Message: "not yet " + word}},
		Standby: []v1alpha1.StandbyMember{{Name: name + "-7" + word, MoRef: "vm-7" + word, Ready: true, Host: "host " + word}, {Name: name + "-8", MoRef: "vm-8", Message: "being prepared " + word}},
		Disks: []v1alpha1.PersistentDisk{{Name: "data" + word, Ordinal: 1, ID: "fcd-1" + word, SizeGiB: 100, State: v1alpha1.DiskAttached, MoRef: "vm-1" + word},
			{Name: "data", Ordinal: 2, ID: "fcd-2", SizeGiB: 50, State: v1alpha1.DiskDetached}},
		Verdicts: []plan.Verdict{
			{VM: name + "-1", MoRef: "vm-2", Is: plan.Heal, Reason: "unready " + word, WaitsFor: "its turn " + word},
			{VM: name + "-2" + word, Is: plan.Create, Reason: "one more " + word}},
		Pending: []plan.PendingReport{
			{Op: plan.Clone, VM: name + "-2" + word, State: plan.Running, Reason: "too few " + word, Since: began},
			{Op: plan.PowerOn, VM: name + "-3", State: plan.BackingOff, Reason: "is off " + word, RetryAfter: began, Fault: &fault}},
		Faults: []plan.FaultReport{fault, {Reason: "Own" + word, Message: "own " + word}},
		Actions: []plan.ActionReport{
			{Time: began, Op: plan.Destroy, VM: name + "-9" + word, Reason: "scale-in " + word, Result: plan.ResultOK, DurationSeconds: 3},
			{Time: began.Add(-time.Minute), Op: plan.Clone, VM: name + "-8", Reason: "because " + word, Result: "DatastoreFull", Message: "full " + word, DurationSeconds: 95}},
	}
}

// next forecasts two steps with a word in each text.
func next(word string) func(types.UID, int) plan.Outlook {
	return func(types.UID, int) plan.Outlook {
		return plan.Outlook{More: true, Steps: []plan.Step{{Round: 1, Action: plan.Action{Op: plan.Mark, Key: "web-0" + word, Reason: "update " + word}},
			{Round: 2, After: 30 * time.Second, Action: plan.Action{Op: plan.RemoveFolder, Key: plan.FolderKey, Reason: "why " + word}}}}
	}
}

// get requests a page as a browser does that has cached the page with that ETag.
func get(p http.Handler, path, tag string) (code int, body string, header http.Header) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(text), w.Result().Header
}

// textOf is the visible text of a page.
func textOf(t testing.TB, body string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	must.Succeed(t, err)
	var b strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "title" {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestAGroupsPageShowsWhatIsDoneAndWhyAndWhatBlocks(t *testing.T) {
	t.Parallel()
	p := New(Config{Source: &source{groups: []plan.Report{report("shop", "web", v1alpha1.PhaseError, "x")}}, Version: "v1", Next: next("x")})
	code, body, _ := get(p, "/ui/groups/shop/web", "")
	text := textOf(t, body)
	for _, want := range []string{
		"web Error Deleting cloning x", "vCenter's state is not known ( InventoryNotRead ): the server does nothing", "Ready 1 of 2", "Last hook call 2026-11-22 09:00:00 UTC",
		"TemplateNotFound CloneBlocked web-1 there is no template x What to do: If the group has members, bring the template back: its name, its folder, or the account's right to see it. The members are healthy without it",
		"Clone web-2x Running since 2026-11-22 09:00:00 UTC too few x", "PowerOn web-3 Failed next try 2026-11-22 09:00:00 UTC is off x TemplateNotFound there is no template x",
		"The group waits for a free slot: clones from x : 4 running; limit 4 of at most 32 vCenter queued x all steps : 32 running; limit 32 of at most 32 --slots permits no more", "1 Mark web-0x update x 2 after 30 s RemoveFolder the group why x If each step succeeds", "More follow.", "web-0x vm-1x Ready poweredOn 10.0.0.7 x host x zone zone x", "web-1 vm-2 Not ready NotReady not yet x Heal: unready x (waits for its turn x)", "web-2x Not there yet Create: one more x",
		"web-7x vm-7x Ready to be powered on host x web-8 vm-8 Not ready being prepared x", "datax of ordinal 1 fcd-1x Attached to vm-1x 100 GiB data of ordinal 2 fcd-2 Detached until the next member of the ordinal 50 GiB",
		"2026-11-22 09:00:00 UTC Destroy web-9x scale-in x 3.0 s ok", "Clone web-8 because x 1 min 35 s DatastoreFull full x", "vmgroup v1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the group's page does not say %q", want)
		}
	}
	if code != 200 || !strings.Contains(body, `href="/ui/docs/troubleshooting#templatenotfound"`) || strings.Contains(body, "Sign out") {
		t.Errorf("%d\n%s", code, text)
	}
}

func TestAnOrdinaryRollIsNotShownAsBlocked(t *testing.T) {
	t.Parallel()
	g := report("shop", "web", v1alpha1.PhasePending, "x")
	g.Faults = []plan.FaultReport{
		{Condition: v1alpha1.ConditionMembersDiffer, Reason: "DiffersFromSpec", Message: "web-0 was cloned from another template"},
		{Condition: v1alpha1.ConditionTemplateChanged, Reason: "TemplateChanged", Message: "members that were cloned from another version of the template t: web-0; they are replaced"}}
	p := New(Config{Source: &source{groups: []plan.Report{g}}})
	_, body, _ := get(p, "/ui/groups/shop/web", "")
	if text := textOf(t, body); strings.Contains(text, "Problems,") ||
		!strings.Contains(text, "Members DiffersFromSpec web-0 was cloned from another template TemplateChanged members that were cloned from another version of the template t") {
		t.Errorf("the group: %s", text)
	}
	if _, body, _ = get(p, "/", ""); strings.Contains(body, "DiffersFromSpec") || strings.Contains(body, "TemplateChanged") {
		t.Errorf("the overview: %s", textOf(t, body))
	}
	g.Faults = append(g.Faults, plan.FaultReport{Condition: v1alpha1.ConditionUpdateHeld, Reason: "UpdateHeld", Message: "1 of 3 are updated"})
	_, body, _ = get(New(Config{Source: &source{groups: []plan.Report{g}}}), "/ui/groups/shop/web", "")
	if text := textOf(t, body); !strings.Contains(text, "Problems, and what to do UpdateHeld 1 of 3 are updated") {
		t.Errorf("held: %s; want %q in the text", text, "Problems, and what to do UpdateHeld 1 of 3 are updated")
	}
}

func TestTheOverviewListsGroupsThatNeedAnOperatorFirst(t *testing.T) {
	t.Parallel()
	s := &source{slots: plan.Slots{Most: 8, Running: 7, Waiting: 2, Limits: []plan.Limit{{Of: "clones", Now: 4, Most: 8, Running: 3, Reason: "vCenter queued a task for 12 s"}}}, health: plan.Health{Known: true}, groups: []plan.Report{
		report("a", "runs", v1alpha1.PhaseRunning, ""), report("b", "elsewhere", "", ""), report("c", "pends", v1alpha1.PhasePending, ""), report("d", "fails", v1alpha1.PhaseError, "")}}
	code, body, _ := get(New(Config{Source: s}), "/", "")
	text := textOf(t, body)
	at := 0
	for _, want := range []string{"vCenter Connected", "7 of 8 slots in use 2 groups wait for a slot How many can run at once clones : 3 running; limit 4 of at most 8 vCenter queued a task for 12 s", "1 Error", "1 Pending", "1 Not called", "1 Running",
		"isn't called for the groups not called . Their VMs may serve: delete none of them because of this list",
		"fails d 1 of 2 cloning TemplateNotFound", "pends c", "elsewhere b 2 VMs", "runs a", "Recent actions", "2026-11-22 09:00:00 UTC Destroy d/fails fails-9 scale-in ok", "Clone a/runs runs-8 because DatastoreFull full"} {
		next := strings.Index(text[at:], want)
		if next < 0 {
			t.Fatalf("the page does not say %q after what precedes it: %s", want, text)
		}
		at += next
	}
	if code != 200 || !strings.Contains(body, "<title>(1) Groups · VmGroup</title>") {
		t.Errorf("%d %s; want 200 and %q in the text", code, body, "<title>(1) Groups · VmGroup</title>")
	}
	s.groups = slices.DeleteFunc(s.groups, func(g plan.Report) bool { return g.Phase == "" })
	for at, says := range map[string]bool{"/": false, "/?state=other": true} {
		if _, body, _ = get(New(Config{Source: s}), at, ""); strings.Contains(body, "delete none of them") != says {
			t.Errorf("%s, without such a group: %s", at, textOf(t, body))
		}
	}
	s.health = plan.Health{UnknownSince: began, Fault: &plan.Fault{Reason: "InvalidLogin", Message: "vCenter refuses the account"}}
	s.unknown = true
	_, body, _ = get(New(Config{Source: s}), "/", "")
	for _, want := range []string{"Not known since 2026-11-22 09:00:00 UTC InvalidLogin vCenter refuses the account What to do: Correct the credentials", "The list may be incomplete"} {
		if !strings.Contains(textOf(t, body), want) {
			t.Errorf("the page does not say %q: %s", want, textOf(t, body))
		}
	}
	s.health = plan.Health{Known: true, Unfit: &plan.Fault{Reason: "ResourcePoolAmbiguous", Message: "name one of them"}}
	if _, body, _ = get(New(Config{Source: s}), "/", ""); !strings.Contains(textOf(t, body), "Connected ResourcePoolAmbiguous name one of them") {
		t.Errorf("the page lacks the fault of settings that don't fit: %s", textOf(t, body))
	}
}

// many are groups in ten namespaces, one in 100 with an error.
func many(n int) []plan.Report {
	all := make([]plan.Report, n)
	for i := range all {
		phase := v1alpha1.PhaseRunning
		if i%100 == 7 {
			phase = v1alpha1.PhaseError
		}
		all[i] = report(fmt.Sprintf("team-%d", i%10), fmt.Sprintf("group-%04d", i), phase, "")
		for len(all[i].Actions) < 50 {
			all[i].Actions = append(all[i].Actions, all[i].Actions[1])
		}
	}
	return all
}

func TestTheOverviewHasFiltersAndPages(t *testing.T) {
	t.Parallel()
	p := New(Config{Source: &source{groups: many(2000)}})
	for path, want := range map[string]string{
		"/":                             "20 of 20 rows", // the overview folds running groups
		"/?q=-":                         "50 of 2000 rows, 1–50; next /?page=2&q=-",
		"/?state=running":               "50 of 1980 rows, 1–50; next /?page=2&state=running",
		"/?page=2&state=running":        "50 of 1980 rows, 51–100; previous /?state=running; next /?page=3&state=running",
		"/?page=40&state=running":       "30 of 1980 rows, 1951–1980; previous /?page=39&state=running",
		"/?page=99999&state=running":    "30 of 1980 rows, 1951–1980; previous /?page=39&state=running",
		"/?page=-1":                     "20 of 20 rows",
		"/?page=x&q=-":                  "50 of 2000 rows, 1–50; next /?page=2&q=-",
		"/?state=error":                 "20 of 20 rows",
		"/?q=GROUP-00":                  "50 of 100 rows, 1–50; next /?page=2&q=GROUP-00",
		"/?q=team-3%2Fgroup-0003":       "1 of 1 rows",
		"/?namespace=team-7&page=2":     "50 of 200 rows, 51–100; previous /?namespace=team-7; next /?namespace=team-7&page=3",
		"/?namespace=team-7&state=none": "0 of 0 rows",
	} {
		code, body, _ := get(p, path, "")
		if code != 200 || !strings.HasPrefix(summary(t, body), want) {
			t.Errorf("%s: %d %s, not %s", path, code, summary(t, body), want)
		}
	}
	_, body, _ := get(p, "/", "")
	says(t, textOf(t, body), "1980 groups run as their specs say: list them")
	_, body, _ = get(p, "/?q=team-0%2F", "")
	if first := strings.Index(body, "group-0000"); first < 0 || strings.Contains(textOf(t, body), "run as their specs say:") {
		t.Error("the search for team-0/ does not list group-0000, which runs as its spec says")
	}
	_, body, _ = get(p, "/?q=group-00", "")
	if first := strings.Index(body, "group-0007"); first < 0 || first > strings.Index(body, "group-0000") {
		t.Error("the search for group-00 does not list group-0007, which needs an operator, before group-0000")
	}
	few := New(Config{Source: &source{groups: many(10)}})
	if _, body, _ = get(few, "/", ""); !strings.HasPrefix(summary(t, body), "10 of 10 rows") {
		t.Errorf("few groups: %s; want %q at its start", summary(t, body), "10 of 10 rows")
	}
	if s, _ := statusOf(t, p, "/", 200); len(s.Groups) != 50 {
		t.Errorf("the status for programs has %d groups; want 50", len(s.Groups))
	}
}

// summary is the number of rows on a page of the overview, their total, and the targets of its links.
func summary(t *testing.T, body string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	must.Succeed(t, err)
	rows, links, said := 0, "", ""
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "data-key" && strings.HasPrefix(a.Val, "g-"):
				rows++
			case a.Key == "rel" && a.Val == "prev":
				links += "; previous " + attribute(n, "href")
			case a.Key == "rel" && a.Val == "next":
				links += "; next " + attribute(n, "href")
			}
		}
		if n.Type == html.TextNode && strings.Contains(n.Data, "–") {
			said = strings.Split(n.Data, " of ")[0]
		}
	}
	all := rows
	if said != "" {
		_, _ = fmt.Sscanf(between(textOf(t, body), said+" of ", " "), "%d", &all)
		said = ", " + said
	}
	return fmt.Sprintf("%d of %d rows%s%s", rows, all, said, links)
}

func between(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return text
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func TestMembersOfALargeGroupHavePages(t *testing.T) {
	t.Parallel()
	g := report("shop", "web", v1alpha1.PhaseRunning, "")
	g.Verdicts = nil
	for i := range 248 {
		g.Members = append(g.Members, v1alpha1.Member{Name: fmt.Sprintf("web-%d", i+2), MoRef: fmt.Sprintf("vm-%d", i+3)})
	}
	_, body, _ := get(New(Config{Source: &source{groups: []plan.Report{g}}}), "/ui/groups/shop/web?page=3", "")
	if n := strings.Count(body, `data-key="m-vm-`); n != 50 || !strings.Contains(body, "201–250 of 250") || !strings.Contains(body, `href="/ui/groups/shop/web?page=2#members"`) {
		t.Errorf("%d members: %s", n, textOf(t, body))
	}
}

func TestAnUnchangedPageIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := &source{groups: []plan.Report{report("shop", "web", v1alpha1.PhaseRunning, "")}}
	p := New(Config{Source: s})
	_, _, header := get(p, "/", "")
	tag := header.Get("ETag")
	if code, body, header := get(p, "/", tag); code != 304 || body != "" || header.Get("ETag") != tag || header.Get("Content-Security-Policy") == "" {
		t.Errorf("%d %q %v", code, body, header)
	}
	if s.asked != 1 {
		t.Errorf("within a second the groups were listed %d times; want 1", s.asked)
	}
	s.groups[0].Message = "changed"
	p.facts.until = time.Time{} // expires the page's cache, as a second later
	if code, body, header := get(p, "/", tag); code != 200 || !strings.Contains(body, "changed") || header.Get("ETag") == tag {
		t.Errorf("%d %s", code, body)
	}
}

func TestRequestsWithinASecondShareAForecast(t *testing.T) {
	t.Parallel()
	made := 0
	p := New(Config{Source: &source{groups: []plan.Report{report("shop", "web", v1alpha1.PhasePending, ""), report("shop", "up", v1alpha1.PhaseRunning, ""), report("shop", "there", "", "")}},
		Next: func(group types.UID, most int) plan.Outlook {
			if made++; group != "uid-shop-web" || most != 20 {
				t.Errorf("asked for %d of %s", most, group)
			}
			return plan.Outlook{}
		}})
	for range 3 {
		for _, name := range []string{"web", "up", "there"} {
			get(p, "/ui/groups/shop/"+name, "")
		}
	}
	if made != 1 {
		t.Errorf("%d were made; want 1", made)
	}
	f := p.forecasts["uid-shop-web"]
	f.at = f.at.Add(-time.Minute)
	p.forecasts["uid-shop-web"] = f
	if get(p, "/ui/groups/shop/web", ""); made != 2 {
		t.Errorf("a minute later %d were made; want 2", made)
	}
}

func TestEveryAnswerForbidsTheBrowserToLoadAndRunAnythingElse(t *testing.T) {
	t.Parallel()
	p := New(Config{Source: &source{groups: []plan.Report{report("shop", "web", v1alpha1.PhaseError, "")}}, SignedIn: func(*http.Request) bool { return true }})
	for path, want := range map[string]int{"/": 200, "/ui/groups/shop/web": 200, "/ui/docs/troubleshooting": 200, "/ui/assets/style.css": 200, "/ui/assets/page.js": 200,
		"/ui/assets/icon.svg": 200, "/ui/assets/none.css": 404, "/ui/assets/..": 404, "/ui/docs/how-it-works.svg": 200, "/ui/docs/none": 404, "/ui/docs/docs.go": 404, "/ui/groups/shop/none": 404, "/ui/none": 404, "/ui/sign-in": 303} {
		code, body, header := get(p, path, "")
		if path == "/ui/assets/.." {
			if code == 200 {
				t.Errorf("%s: %s", path, body)
			}
			continue
		}
		if code != want {
			t.Errorf("%s: %d; want %d", path, code, want)
		}
		if code == 303 {
			continue
		}
		csp := header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "style-src 'self'", "script-src 'self'", "connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'", "trusted-types 'none'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy %q has no %s", path, csp, part)
			}
		}
		if strings.Contains(csp, "unsafe") || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cache-Control") == "" {
			t.Errorf("%s: %v", path, header)
		}
		for _, inline := range []string{"<style", " style=", "onclick", "javascript:", "<script>"} {
			if strings.Contains(header.Get("Content-Type"), "html") && strings.Contains(body, inline) {
				t.Errorf("%s has %s", path, inline)
			}
		}
	}
	if _, body, _ := get(p, "/", ""); !strings.Contains(body, `action="/ui/sign-out"`) {
		t.Error("a browser that is signed in can't sign out")
	}
}

func TestNoGroupIsReportedMissingWhileVCenterIsUnknown(t *testing.T) {
	t.Parallel()
	if code, body, _ := get(New(Config{Source: &source{unknown: true}}), "/ui/groups/shop/web", ""); code != 503 || !strings.Contains(body, "inventory is unknown") {
		t.Errorf("%d %s; want 503 and %q in the text", code, body, "inventory is unknown")
	}
}

func TestTheFormLeadsBackToTheRequestedPage(t *testing.T) {
	t.Parallel()
	p := New(Config{Source: &source{}, Version: "v1.2.3"})
	w := httptest.NewRecorder()
	p.AskToken(w, httptest.NewRequest("GET", `/?q="><script>`, nil), true)
	if body := w.Body.String(); w.Code != 401 || !strings.Contains(body, `name="to" value="/?q=&#34;&gt;&lt;script&gt;"`) || !strings.Contains(textOf(t, body), "This token is not valid.") ||
		!strings.Contains(body, `type="password"`) || strings.Contains(body, "Documentation") || strings.Contains(body, "v1.2.3") {
		t.Errorf("%d %s", w.Code, body)
	}
}

func TestTheFormNamesTheTokenOfItsInstall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names             []string
		namespace, secret string
	}{
		{[]string{"vms.example.com", "prod-vmgroup.site.svc", "prod-vmgroup.site"}, "site", "prod-vmgroup-reader-token"},
		{[]string{"vmgroup.east.svc.cluster.local"}, "east", "vmgroup-reader-token"},
		{nil, "vmgroup-system", "vmgroup-reader-token"},
	} {
		p, w := New(Config{Source: &source{}, Names: func() []string { return c.names }}), httptest.NewRecorder()
		p.AskToken(w, httptest.NewRequest("GET", "/", nil), false)
		for _, want := range []string{"In the Secret " + c.secret, "kubectl -n " + c.namespace + " get secret " + c.secret, "kubectl -n " + c.namespace + " create secret generic " + c.secret} {
			if text := textOf(t, w.Body.String()); !strings.Contains(text, want) {
				t.Errorf("%v: no %q in %s", c.names, want, text)
			}
		}
	}
}

func BenchmarkAPageOf2000Groups(b *testing.B) {
	s := &source{groups: many(2000)}
	p := New(Config{Source: s})
	for _, path := range []string{"/", "/?q=group-19&page=2", "/ui/groups/team-7/group-1997"} {
		for _, fresh := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s fresh %t", path, fresh), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if fresh {
						p.facts.until = time.Time{}
					}
					if code, body, _ := get(p, path, ""); code != 200 || len(body) < 1000 {
						b.Fatal(code)
					}
				}
			})
		}
	}
}
