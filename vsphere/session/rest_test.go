package session

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vapi/tags"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// restLab is a lab with a REST API whose answers a test can replace. Its calls have the names of RESTCall.
type restLab struct {
	*vctest.REST
	*lab
}

func startRESTLab(t testing.TB) *restLab {
	t.Helper()
	l := startLab(t)
	return &restLab{vctest.NewREST(RESTCall), l}
}

// inARESTBubble runs a test with a lab in a synctest bubble, in parallel with other tests.
func inARESTBubble(t *testing.T, test func(t *testing.T, l *restLab)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, startRESTLab(t)) })
}

func (l *restLab) client(logger zerolog.Logger) *Client {
	l.t.Helper()
	cfg := l.lab.config()
	cfg.Log, cfg.Metrics = logger, nil
	c := l.lab.client(cfg)
	c.Transport().RegisterProtocol("https", l)
	return c
}

// cis is the prefix of the REST calls that vcsim names by their path.
const cis = "/rest/com/vmware/cis/"

func askREST(ctx context.Context, rs *RESTSession) error {
	_, err := rs.ListCategories(ctx)
	return err
}

func TestOneRESTSessionIsOpenedForAllWhenItIsNeededAndLoggedOutAtTheEnd(t *testing.T) {
	inARESTBubble(t, func(t *testing.T, l *restLab) {
		c, s := l.client(zerolog.Nop()), new(Session)
		if l.RESTSessions() != 0 {
			t.Error("there is an unneeded session")
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
		if n := l.Count("POST session"); n != 1 || l.RESTSessions() != 1 {
			t.Errorf("%d logins, %d sessions; want 1 and 1", n, l.RESTSessions())
		}
		if l.Agent != "vmgroup-test" || !strings.HasPrefix(l.OpID, "vmgroup-") {
			t.Errorf("agent %q, operation %q", l.Agent, l.OpID)
		}
		c.Logout(t.Context())
		if l.RESTSessions() != 0 {
			t.Error("a session is left behind")
		}
		if err := c.rest.call(t.Context(), s, askREST); vctest.ReasonOf(t, err) != vcfault.ReasonCancelled || l.RESTSessions() != 0 {
			t.Errorf("after the end: %v, %d sessions", err, l.RESTSessions())
		}
	})
}

func TestALostRESTSessionIsReplacedOnceAndASecondLossIsReported(t *testing.T) {
	inARESTBubble(t, func(t *testing.T, l *restLab) {
		c, s := l.client(zerolog.Nop()), new(Session)
		for range 3 {
			must.Succeed(t, c.rest.call(t.Context(), s, askREST))
			l.DropSessions()
		}
		if n := l.Count("POST session"); n != 3 {
			t.Errorf("vCenter saw %d logins; want 3", n)
		}
		err := c.rest.call(t.Context(), s, func(ctx context.Context, rs *RESTSession) error {
			l.DropSessions()
			return askREST(ctx, rs)
		})
		if e := restClassify(err); e.Reason != vcfault.ReasonNotAuthenticated || !e.Transient || l.Count("POST session") != 4 {
			t.Errorf("%v, %d logins", err, l.Count("POST session"))
		}
	})
}

// vCenter 8.0.0 can fail to localize its own "unauthenticated" and report that failure instead (terraform-provider-vsphere#1819).
func TestARESTSessionWhoseLossIsReportedDifferentlyIsReplaced(t *testing.T) {
	inARESTBubble(t, func(t *testing.T, l *restLab) {
		c, s := l.client(zerolog.Nop()), new(Session)
		for _, body := range []string{
			`{"type":"com.vmware.vapi.std.errors.invalid_argument","value":{"error_type":"INVALID_ARGUMENT","messages":[{"args":["messages","com.vmware.vapi.std.errors.unauthenticated"],"default_message":"Could not convert field 'messages' of structure 'com.vmware.vapi.std.errors.unauthenticated'","id":"vapi.bindings.typeconverter.tovalue.struct.field.error"},{"args":["args","com.vmware.vapi.std.localizable_message"],"default_message":"Required field 'args' of structure 'com.vmware.vapi.std.localizable_message' is missing","id":"vapi.bindings.typeconverter.tovalue.struct.field.missing"}]}}`,
			`{"type":"com.vmware.vapi.std.errors.unauthenticated","value":{"messages":[]}}`,
		} {
			was := l.Count("POST session")
			if was == 0 {
				was = 1 // the first call logs in first
			}
			l.Answer("GET tagging/category", 400, body)
			if err := c.rest.call(t.Context(), s, askREST); err != nil || l.Count("POST session") != was+1 {
				t.Errorf("%v after %d logins; want no error and %d", err, l.Count("POST session"), was+1)
			}
		}
	})
}

func TestAnotherSOAPSessionHasAnotherRESTSessionAndTheOldOneIsLoggedOut(t *testing.T) {
	inARESTBubble(t, func(t *testing.T, l *restLab) {
		c := l.client(zerolog.Nop())
		for range 3 {
			must.Succeed(t, c.rest.call(t.Context(), new(Session{Epoch: 1}), askREST))
		}
		if l.Count("POST session") != 3 || l.RESTSessions() != 1 {
			t.Errorf("%d logins, %d sessions; want 3 and 1", l.Count("POST session"), l.RESTSessions())
		}
	})
}

func TestARefusedPasswordIsNotTriedAtTheRESTAPIAgainUntilItMayBeRight(t *testing.T) {
	inARESTBubble(t, func(t *testing.T, l *restLab) {
		var text bytes.Buffer
		c, s := l.client(zerolog.New(&text)), new(Session)
		l.SetPassword("new")
		refused := func(want int) {
			t.Helper()
			for range 5 {
				err := c.rest.call(t.Context(), s, askREST)
				if e := restClassify(err); e.Reason != vcfault.ReasonInvalidLogin || !e.NeedsOperator || strings.Contains(err.Error(), "right") {
					t.Errorf("got %v", err)
				}
				time.Sleep(time.Minute)
			}
			if n := l.Count("POST session"); n != want {
				t.Errorf("%d logins, not %d", n, want)
			}
		}
		refused(1)
		time.Sleep(afterRefusal.Most)
		refused(2)
		s = new(Session{Epoch: 2}) // a new SOAP login, so the password is valid
		refused(3)
		l.SetPassword("right")
		time.Sleep(afterRefusal.Most)
		if err := c.rest.call(t.Context(), s, askREST); err != nil {
			t.Error(err)
		}
		if strings.Contains(text.String(), "right") || strings.Contains(text.String(), "Basic") {
			t.Errorf("the log has the password: %s", text.String())
		}
		if c.Health() == nil || c.backoff.refused != nil {
			t.Error("the SOAP session is involved")
		}
	})
}

func TestALoginThatFailsForAnotherReasonIsTriedAgainAfterAWhile(t *testing.T) {
	inARESTBubble(t, func(t *testing.T, l *restLab) {
		c, s := l.client(zerolog.Nop()), new(Session)
		for tries, status := range []int{http.StatusServiceUnavailable, http.StatusForbidden} { // a proxy in front of vCenter answers 403
			l.Answer("POST session", status, "<html>")
			for range 3 {
				if e := restClassify(c.rest.call(t.Context(), s, askREST)); e.Reason != vcfault.ReasonTaggingUnavailable || !e.Transient || e.NeedsOperator {
					t.Errorf("got %v", e)
				}
			}
			if n := l.Count("POST session"); n != tries+1 {
				t.Errorf("vCenter saw %d logins; want %d", n, tries+1)
			}
			time.Sleep(afterFailure.Most)
		}
		if err := c.rest.call(t.Context(), s, askREST); err != nil {
			t.Error(err)
		}
	})
}

// vCenter answers a login with 503 when it has no sessions left: until 8.0 U2 it says so for each user, later it counts them with those of SOAP.
func TestWithoutSessionsOfTheRESTAPITheServerSaysSoAndTriesAgainOnlyAfterAWhile(t *testing.T) {
	inARESTBubble(t, func(t *testing.T, l *restLab) {
		for _, x := range []struct {
			body          string
			needsOperator bool
			says          string
		}{
			{`{"type":"com.vmware.vapi.std.errors.service_unavailable","value":{"messages":[{"id":"com.vmware.vapi.endpoint.failedToLoginMaxUserSessionCountReached"}]}}`,
				true, "end those that other programs left behind"},
			{"", false, "may have used up vCenter's sessions"},
		} {
			c, s := l.client(zerolog.Nop()), new(Session)
			before := l.Count("POST session")
			full := -1
			for range 600 { // two calls a second of five minutes
				if n := l.Count("POST session"); n > full {
					full = n
					l.Answer("POST session", http.StatusServiceUnavailable, x.body)
				}
				if e := restClassify(c.rest.call(t.Context(), s, askREST)); e == nil || e.Reason != vcfault.ReasonTaggingUnavailable || e.NeedsOperator != x.needsOperator || !strings.Contains(e.Message, x.says) {
					t.Fatalf("got %+v; want TaggingUnavailable that says %q", e, x.says)
				}
				time.Sleep(time.Second / 2)
			}
			if n := l.Count("POST session") - before; n < 50 || n > 80 {
				t.Errorf("%d logins in five minutes; want one after each five seconds or so", n)
			}
			for range 2 { // the first call may get an answer that is left
				time.Sleep(2 * time.Minute)
				_ = c.rest.call(t.Context(), s, askREST)
			}
			if err := c.rest.call(t.Context(), s, askREST); err != nil {
				t.Errorf("once there are sessions again: %v", err)
			}
		}
	})
}

func TestAnswersOfTheRESTAPIAreClassified(t *testing.T) {
	inARESTBubble(t, func(t *testing.T, l *restLab) {
		c, s := l.client(zerolog.Nop()), new(Session)
		create := func(ctx context.Context, rs *RESTSession) error {
			_, err := rs.CreateCategory(ctx, &tags.Category{Name: "x"})
			return err
		}
		for _, x := range []struct {
			status                   int
			body, reason             string
			needsOperator, transient bool
			says                     string
		}{
			{403, "", vcfault.ReasonMissingPrivilege, true, false, "InventoryService.Tagging.CreateCategory"},
			{400, `{"type":"com.vmware.vapi.std.errors.unauthorized","value":{}}`, vcfault.ReasonMissingPrivilege, true, false, "CreateCategory"},
			{400, `{"type":"com.vmware.vapi.std.errors.invalid_argument","value":{"messages":[{"id":"x","default_message":"That is no name.","args":[]}]}}`,
				vcfault.ReasonTagRefused, true, false, "That is no name."},
			{503, `{"type":"com.vmware.vapi.std.errors.service_unavailable","value":{"messages":[{"id":"com.vmware.vapi.endpoint.failedToLoginMaxUserSessionCountReached","default_message":"User session count is limited to 550. Existing session count is 550 for user vmgroup@vsphere.local","args":[]}]}}`,
				vcfault.ReasonTaggingUnavailable, true, false, "no more sessions"},
			{502, "<html>Bad Gateway", vcfault.ReasonTaggingUnavailable, false, true, "502 Bad Gateway"},
			{429, "", vcfault.ReasonTaggingUnavailable, false, true, "429"},
			{404, "", vcfault.ReasonTaggingUnavailable, false, true, "404"},
		} {
			l.Answer("POST tagging/category", x.status, x.body)
			e := restClassify(c.rest.call(t.Context(), s, create))
			if e == nil || e.Reason != x.reason || e.NeedsOperator != x.needsOperator || e.Transient != x.transient || !strings.Contains(e.Message, x.says) {
				t.Errorf("%d %s: %+v", x.status, x.body, e)
			}
		}
		l.LoseReply("POST "+cis+"tagging/category", 1)
		if e := restClassify(c.rest.call(t.Context(), s, create)); e.Reason != vcfault.ReasonVCenterUnreachable || !e.Transient {
			t.Errorf("a lost reply: %v", e)
		}
	})
}

// An error of the REST API, or of a proxy in front of it, is always a typed fault, in one line of a bounded length.
func FuzzRESTError(f *testing.F) {
	for _, body := range []string{`{"type":"com.vmware.vapi.std.errors.not_found","value":{"messages":[{"default_message":"no such tag"}]}}`, `<html>`, `{"value":[]}`, ``,
		`{"type":"com.vmware.vapi.std.errors.already_exists","value":{"messages":[{},{}]}}`} {
		for _, status := range []int{400, 401, 403, 404, 429, 500, 503} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 400 || status > 599 {
			return
		}
		err := readRESTError("POST tagging/tag", &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))})
		typed := restClassify(err)
		if typed.Reason == "" || typed.Message == "" || strings.ContainsAny(typed.Message, "\n\r") || len(typed.Message) > 4096 {
			t.Fatalf("the fault is %+v, want a reason and a message of one line and at most 4096 bytes", typed.Fault)
		}
		if status == 401 && typed.Reason != vcfault.ReasonNotAuthenticated {
			t.Fatalf("the fault is %+v, want NotAuthenticated", typed.Fault)
		}
	})
}
