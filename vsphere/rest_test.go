package vsphere

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/simulator"
	vapi "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
)

// restLab is vCenter's REST API without the rest of vCenter. Its calls have the names of restCall. It is made before the
// test is one of those that run in parallel: the simulator changes a global of its own then.
type restLab struct {
	t      testing.TB
	server *httptest.Server
	next   http.Handler

	mu       sync.Mutex
	password string
	calls    map[string]int
	sessions map[string]bool
	fail     map[string][]http.HandlerFunc // answers instead, each once
	lose     map[string]int                // carried out, and not answered
	agent    string
	opID     string
}

func startRESTLab(t testing.TB) *restLab {
	t.Helper()
	l := &restLab{t: t, password: "right", calls: map[string]int{}, sessions: map[string]bool{},
		fail: map[string][]http.HandlerFunc{}, lose: map[string]int{}}
	model := simulator.VPX()
	model.Datacenter, model.Host, model.Machine = 0, 0, 0
	if err := model.Create(); err != nil {
		t.Fatal(err)
	}
	model.Map().SessionManager().ValidLogin = func(r *types.Login) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return r.UserName == labUser && r.Password == l.password
	}
	_, l.next = vapi.New(&url.URL{Host: "vc.example.com", User: url.User("asked")}, model.Map())
	l.server = httptest.NewUnstartedServer(l)
	l.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	l.server.StartTLS()
	t.Cleanup(func() { l.server.Close(); model.Remove() })
	return l
}

func (l *restLab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call, answer := restCall(r), httptest.NewRecorder()
	l.mu.Lock()
	l.calls[call]++
	l.agent, l.opID = r.UserAgent(), r.Header.Get("X-Request-ID")
	var instead http.HandlerFunc
	if queue := l.fail[call]; len(queue) > 0 {
		instead, l.fail[call] = queue[0], queue[1:]
	}
	id := r.Header.Get("vmware-api-session-id")
	known := call == "POST session" || l.sessions[id]
	lose := l.lose[call] > 0
	if lose {
		l.lose[call]--
	}
	l.mu.Unlock()
	switch {
	case instead != nil:
		instead(answer, r)
	case !known:
		answer.WriteHeader(http.StatusUnauthorized)
	default:
		l.next.ServeHTTP(answer, r)
	}
	l.mu.Lock()
	if text := answer.Body.String(); call == "POST session" && answer.Code == http.StatusOK {
		l.sessions[strings.Split(text, `"`)[3]] = true
	} else if call == "DELETE session" {
		delete(l.sessions, id)
	}
	l.mu.Unlock()
	if lose {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(answer.Code)
	_, _ = io.Copy(w, answer.Body)
}

func (l *restLab) client(logger zerolog.Logger) *client {
	l.t.Helper()
	c, err := newClient(Config{Host: l.server.URL, User: labUser, Password: "right", Insecure: true, UserAgent: "vmgroup-test", Log: logger})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.logout(context.Background()) })
	return c
}

func (l *restLab) count(call string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[call]
}

func (l *restLab) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sessions)
}

func (l *restLab) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.sessions)
}

func (l *restLab) setPassword(password string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.password = password
}

func (l *restLab) answer(call string, status int, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail[call] = append(l.fail[call], func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (l *restLab) loseReply(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose[call]++
}

func askREST(ctx context.Context, rs *restSession) error {
	_, err := rs.ListCategories(ctx)
	return err
}

func TestTheRESTSessionIsOpenedOnceForAllWhenItIsNeededAndLoggedOutAtTheEnd(t *testing.T) {
	l := startRESTLab(t)
	t.Parallel()
	c, s := l.client(zerolog.Nop()), new(session)
	if l.open() != 0 {
		t.Error("there is a session that nobody needs")
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if err := c.rest.call(t.Context(), s, askREST); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := l.count("POST session"); n != 1 || l.open() != 1 {
		t.Errorf("%d logins, %d sessions", n, l.open())
	}
	if l.agent != "vmgroup-test" || !strings.HasPrefix(l.opID, "vmgroup-") {
		t.Errorf("agent %q, operation %q", l.agent, l.opID)
	}
	c.logout(t.Context())
	if l.open() != 0 {
		t.Error("a session is left behind")
	}
	if err := c.rest.call(t.Context(), s, askREST); reasonOf(t, err) != ReasonCancelled || l.open() != 0 {
		t.Errorf("after the end: %v, %d sessions", err, l.open())
	}
}

func TestALostRESTSessionIsReplacedOnceAndASecondLossIsTold(t *testing.T) {
	l := startRESTLab(t)
	t.Parallel()
	c, s := l.client(zerolog.Nop()), new(session)
	for range 3 {
		if err := c.rest.call(t.Context(), s, askREST); err != nil {
			t.Fatal(err)
		}
		l.drop()
	}
	if n := l.count("POST session"); n != 3 {
		t.Errorf("%d logins", n)
	}
	err := c.rest.call(t.Context(), s, func(ctx context.Context, rs *restSession) error {
		l.drop()
		return askREST(ctx, rs)
	})
	if e := restClassify(err); e.Reason != ReasonNotAuthenticated || !e.Passing || l.count("POST session") != 4 {
		t.Errorf("%v, %d logins", err, l.count("POST session"))
	}
}

func TestAnotherSOAPSessionHasAnotherRESTSessionAndTheOldOneIsLoggedOut(t *testing.T) {
	l := startRESTLab(t)
	t.Parallel()
	c := l.client(zerolog.Nop())
	for range 3 {
		if err := c.rest.call(t.Context(), new(session{epoch: 1}), askREST); err != nil {
			t.Fatal(err)
		}
	}
	if l.count("POST session") != 3 || l.open() != 1 {
		t.Errorf("%d logins, %d sessions", l.count("POST session"), l.open())
	}
}

func TestARefusedPasswordIsNotTriedAtTheRESTAPIAgainUntilItMayBeRight(t *testing.T) {
	l := startRESTLab(t)
	t.Parallel()
	var text bytes.Buffer
	c, s := l.client(zerolog.New(&text)), new(session)
	clock := &clock{at: time.Now()}
	c.now = clock.now
	l.setPassword("new")
	refused := func(want int) {
		t.Helper()
		for range 5 {
			err := c.rest.call(t.Context(), s, askREST)
			if e := restClassify(err); e.Reason != ReasonInvalidLogin || !e.Person || strings.Contains(err.Error(), "right") {
				t.Errorf("got %v", err)
			}
			clock.pass(time.Minute)
		}
		if n := l.count("POST session"); n != want {
			t.Errorf("%d logins, not %d", n, want)
		}
	}
	refused(1)
	clock.pass(refusedMost)
	refused(2)
	s = new(session{epoch: 2}) // a login that the password was good for
	refused(3)
	l.setPassword("right")
	clock.pass(refusedMost)
	if err := c.rest.call(t.Context(), s, askREST); err != nil {
		t.Error(err)
	}
	if strings.Contains(text.String(), "right") || strings.Contains(text.String(), "Basic") {
		t.Errorf("the log tells the password: %s", text.String())
	}
	if c.health() == nil || c.backoff.refused != nil {
		t.Error("the SOAP session has a part in it")
	}
}

func TestALoginThatFailsOtherwiseIsTriedAgainAfterAWhile(t *testing.T) {
	l := startRESTLab(t)
	t.Parallel()
	c, s := l.client(zerolog.Nop()), new(session)
	clock := &clock{at: time.Now()}
	c.now = clock.now
	for tries, status := range []int{http.StatusServiceUnavailable, http.StatusForbidden} { // the latter by what stands before vCenter
		l.answer("POST session", status, "<html>")
		for range 3 {
			if e := restClassify(c.rest.call(t.Context(), s, askREST)); e.Reason != ReasonTaggingUnavailable || !e.Passing || e.Person {
				t.Errorf("got %v", e)
			}
		}
		if n := l.count("POST session"); n != tries+1 {
			t.Errorf("%d logins", n)
		}
		clock.pass(connectMost)
	}
	if err := c.rest.call(t.Context(), s, askREST); err != nil {
		t.Error(err)
	}
}

func TestAnswersOfTheRESTAPIAreTold(t *testing.T) {
	l := startRESTLab(t)
	t.Parallel()
	c, s := l.client(zerolog.Nop()), new(session)
	create := func(ctx context.Context, rs *restSession) error {
		_, err := rs.CreateCategory(ctx, &tags.Category{Name: "x"})
		return err
	}
	for _, x := range []struct {
		status          int
		body, reason    string
		person, passing bool
		says            string
	}{
		{403, "", ReasonMissingPrivilege, true, false, "InventoryService.Tagging.CreateCategory"},
		{400, `{"type":"com.vmware.vapi.std.errors.unauthorized","value":{}}`, ReasonMissingPrivilege, true, false, "CreateCategory"},
		{400, `{"type":"com.vmware.vapi.std.errors.invalid_argument","value":{"messages":[{"id":"x","default_message":"That is no name.","args":[]}]}}`,
			ReasonTagRefused, true, false, "That is no name."},
		{502, "<html>Bad Gateway", ReasonTaggingUnavailable, false, true, "502 Bad Gateway"},
		{429, "", ReasonTaggingUnavailable, false, true, "429"},
		{404, "", ReasonTaggingUnavailable, false, true, "404"},
	} {
		l.answer("POST tagging/category", x.status, x.body)
		e := restClassify(c.rest.call(t.Context(), s, create))
		if e == nil || e.Reason != x.reason || e.Person != x.person || e.Passing != x.passing || !strings.Contains(e.Message, x.says) {
			t.Errorf("%d %s: %+v", x.status, x.body, e)
		}
	}
	l.loseReply("POST tagging/category")
	if e := restClassify(c.rest.call(t.Context(), s, create)); e.Reason != ReasonVCenterUnreachable || !e.Passing {
		t.Errorf("a lost reply: %v", e)
	}
}
