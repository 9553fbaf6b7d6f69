// Package hook serves Metacontroller's JSON over HTTP: it decodes a hook request, passes it to the controller of the groups, and encodes
// the answer. It doesn't depend on vSphere, and answers from memory.
//
// Metacontroller acts only on HTTP 200; on any other code it changes neither children nor status, and shows the body as an Event on the
// VmGroup. So a hook never fails because vCenter does: the status reports that. 4xx is for invalid requests, with one sentence that says
// what to change, and for a finalize of a group that is not being deleted (plan.Refusal). 429 with Retry-After is for overload, and for
// answers that will be known soon.
package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/sync/metrics"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Controller keeps the groups (loop.Loop).
type Controller interface {
	// Sync processes a hook call, which permits acting for a while, and answers it from memory.
	Sync(plan.Call) plan.Result
	// Preview returns what the controller would do for a call, and does nothing.
	Preview(plan.Call) (plan.Result, plan.Outlook, error)
	// Groups reports the groups that Sync was called for. It can be called at any time.
	Groups() []plan.Report
}

// Config has the parts of the server. New needs Controller and Log, Health needs Ready.
type Config struct {
	Controller Controller
	// Preflight finds out in vCenter which steps of a plan would fail. It can be nil.
	Preflight Preflight
	// ListGroups lists the groups in vCenter's stamps, also those that other replicas are called for, and reports whether the list is
	// complete. It can be nil. It must answer from memory.
	ListGroups func() (groups []plan.Listed, known bool)
	// Slots returns how many steps run in vCenter, and how many can. It can be nil.
	Slots func() plan.Slots
	// Ready returns why the server is not ready for hooks; nil if it is.
	Ready func() error
	// Page serves browsers, at / and below /ui/; none if nil.
	Page    http.Handler
	Metrics http.Handler          // serves /metrics; none if nil
	Meter   prometheus.Registerer // counts the hook calls; can be nil
	Log     zerolog.Logger
	// MaxBody is the largest request body, in bytes; 0: 8 MiB. A group of 1,000 members has a status and
	// children of about 0.6 MB.
	MaxBody int64
}

// Limits of simultaneous calls. Each kind of caller has limits of its own, so that none delays another. Metacontroller has five workers,
// and a hook call takes well under a millisecond.
const (
	atOnce      = 64
	backlog     = 256
	backlogWait = 5 * time.Second // Metacontroller gives up after 10 s
	retryAfter  = 2 * time.Second
	// plansAtOnce bounds previews: each reads vCenter while its caller waits, and must not delay the groups' own work.
	plansAtOnce, planBacklog = 2, 16
	// readersAtOnce bounds the answers to GET that are made at once, and pagesAtOnce the pages.
	readersAtOnce, readerBacklog = 4, 128
	pagesAtOnce, pageBacklog     = 4, 64
	scrapesAtOnce, scrapeBacklog = 2, 16
	defaultLimit                 = 8 << 20
)

type server struct {
	Config
	budget budget
}

// New returns the handler of the hooks, of /plan, of /groups, /slots and /sd, and of the page. It doesn't authenticate callers (package
// guard does). GET requests change nothing, and each can be a HEAD request, as RFC 9110, section 9.1, has it.
func New(cfg Config) http.Handler {
	if cfg.MaxBody == 0 {
		cfg.MaxBody = defaultLimit
	}
	s := &server{Config: cfg, budget: newBudget()}
	r := chi.NewRouter()
	r.Use(middleware.GetHead)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "there is no "+r.URL.Path+": POST to /sync, /finalize, /customize or /plan, or GET /, /groups, /groups/{namespace}/{name}, /slots or /sd")
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusMethodNotAllowed, r.Method+" is not allowed for "+r.URL.Path+": POST to /sync, /finalize, /customize and /plan, and GET the others")
	})
	measure := s.measure()
	r.Group(func(r chi.Router) {
		r.Use(measure, s.recoverer, throttle(atOnce, backlog))
		r.Post("/sync", s.sync)
		r.Post("/finalize", s.finalize)
		r.Post("/customize", s.customize)
	})
	r.With(measure, s.written, s.recoverer, throttle(plansAtOnce, planBacklog)).Post("/plan", s.plan)
	r.Group(func(r chi.Router) {
		r.Use(measure, s.written, s.recoverer, throttle(readersAtOnce, readerBacklog))
		r.Get("/groups", s.groups)
		r.Get("/groups/{namespace}/{name}", s.group)
		r.Get("/slots", s.slots)
		r.Get("/sd", s.sd)
	})
	if cfg.Page != nil {
		r.Group(func(r chi.Router) {
			r.Use(measure, s.written, s.recoverer, throttle(pagesAtOnce, pageBacklog))
			r.Method(http.MethodGet, "/", cfg.Page)
			r.Method(http.MethodGet, "/ui/*", cfg.Page)
		})
		// Callers need no token for these, and each is a constant, so they don't count against the limits.
		r.With(measure, s.recoverer).Method(http.MethodGet, "/ui/assets/*", cfg.Page)
	}
	return r
}

// throttle bounds the calls that run and that wait.
func throttle(run, wait int) func(http.Handler) http.Handler {
	return middleware.ThrottleWithOpts(middleware.ThrottleOpts{
		Limit: run, BacklogLimit: wait, BacklogTimeout: backlogWait, StatusCode: http.StatusTooManyRequests,
		// In whole seconds: with any other value, or without the header, Metacontroller would call again at once.
		RetryAfterFn: func(bool) time.Duration { return retryAfter },
	})
}

func (s *server) sync(w http.ResponseWriter, r *http.Request) {
	call, ok := s.call(w, r)
	if !ok {
		return
	}
	if call.Finalizing {
		refuse(w, http.StatusUnprocessableEntity, "finalizing is true: this request belongs to /finalize (set spec.hooks.finalize in the CompositeController)")
		return
	}
	if r.Context().Err() != nil { // the caller has disconnected, and may have called another replica since
		return
	}
	result := s.Controller.Sync(call.Call)
	if result.Refusal != nil {
		refuseCall(w, result.Refusal)
		return
	}
	s.answer(w, call.Call, &result, func(out SyncResponse) any { return out })
}

func (s *server) finalize(w http.ResponseWriter, r *http.Request) {
	call, ok := s.call(w, r)
	if !ok {
		return
	}
	if !call.Finalizing {
		refuse(w, http.StatusUnprocessableEntity, "finalizing is false: this request belongs to /sync; nothing is removed")
		return
	}
	if r.Context().Err() != nil {
		return
	}
	result := s.Controller.Sync(call.Call)
	if result.Refusal != nil {
		refuseCall(w, result.Refusal)
		return
	}
	if call.Unselected() {
		s.letGo(w, call, &result)
		return
	}
	s.answer(w, call.Call, &result, func(out SyncResponse) any { return FinalizeResponse{out, result.Finalized} })
}

func (s *server) customize(w http.ResponseWriter, r *http.Request) {
	if call, ok := s.decode(w, r); ok {
		write(w, customizeResponse(call.Group))
	}
}

func (s *server) answer(w http.ResponseWriter, call plan.Call, result *plan.Result, as func(SyncResponse) any) {
	out, err := respond(call.Group.Namespace, result)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	write(w, as(out))
}

// call decodes a request of sync or finalize. It must have a UID, which is the group's identity.
func (s *server) call(w http.ResponseWriter, r *http.Request) (received, bool) {
	call, ok := s.decode(w, r)
	if ok && call.Group.UID == "" {
		refuse(w, http.StatusUnprocessableEntity, "metadata.uid must be set: it is the group's identity")
		return call, false
	}
	return call, ok
}

func (s *server) decode(w http.ResponseWriter, r *http.Request) (received, bool) {
	return s.decodeAnd(w, r, func(*Request, []byte) {})
}

// decodeAnd decodes a request, and completes it before it is checked.
func (s *server) decodeAnd(w http.ResponseWriter, r *http.Request, complete func(req *Request, body []byte)) (received, bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "send JSON, with the header Content-Type: application/json")
		return received{}, false
	}
	body, done, ok := s.body(w, r)
	if !ok {
		return received{}, false
	}
	defer done()
	var req Request
	if err := json.Unmarshal(body, &req); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not a JSON hook request: "+decodeError(err))
		return received{}, false
	}
	complete(&req, body)
	call, err := req.call()
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return received{}, false
	}
	in := received{Call: call}
	if call.Unselected() {
		if in.status, err = statusOf(body); err != nil {
			refuse(w, http.StatusBadRequest, "the body is not a JSON hook request: "+decodeError(err))
			return received{}, false
		}
	}
	return in, true
}

// decodeError describes a decoding error. A syntax error of the decoder quotes the input, which may be a part of a Secret, so the
// description has only the position. Other errors quote a value, which may be as long as the body, so the description is cut.
func decodeError(err error) string {
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Sprintf("syntax error at byte %d", syntax.Offset)
	}
	if text := err.Error(); len(text) > 500 {
		return strings.ToValidUTF8(text[:500], "") + "…"
	}
	return err.Error()
}

// read reads a body to its end, or refuses it.
func (s *server) read(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := readAll(http.MaxBytesReader(w, r.Body, s.MaxBody), r.ContentLength)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
		return nil, false
	} else if err != nil {
		refuse(w, http.StatusBadRequest, "the body could not be read to its end")
		return nil, false
	}
	return body, true
}

// readAll reads a body, into one buffer if its length is known.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length <= 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

// Health returns the handler of /healthz, /readyz and /metrics, which has an address of its own: nothing there is secret, so probes and
// scrapes need no token.
func Health(cfg Config) http.Handler {
	s := &server{Config: cfg, budget: newBudget()}
	r := chi.NewRouter()
	r.Use(middleware.GetHead)
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "this address serves only /healthz, /readyz and /metrics; the hooks have another address")
	})
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	r.Get("/readyz", s.readyz)
	if cfg.Metrics != nil {
		r.With(s.written, throttle(scrapesAtOnce, scrapeBacklog)).Method(http.MethodGet, "/metrics", cfg.Metrics)
	}
	return r
}

func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.Ready(); err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// recoverer answers a panic with 500 and logs it with its stack; the body has no details. The value of a panic may contain a part of a
// Secret, so the log has only the values of the runtime's own errors, which contain no data. The stack contains no strings.
func (s *server) recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				what := fmt.Sprintf("a %T", p)
				if fault, ours := p.(runtime.Error); ours {
					what = fault.Error()
				}
				s.Log.Error().Str("path", r.URL.Path).Str("panic", what).Bytes("stack", debug.Stack()).Msg("a hook panicked")
				refuse(w, http.StatusInternalServerError, "internal error: see the server's log")
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// measure counts and times the calls of hooks, /groups, /sd and the page.
func (s *server) measure() func(http.Handler) http.Handler {
	duration := metrics.HookDuration.Histogram(s.Meter)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began, status := time.Now(), middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			next.ServeHTTP(status, r)
			code := status.Status()
			if code == 0 {
				code = http.StatusOK
			}
			// The label is the route's pattern, not the path: names of groups must not become labels.
			hook := chi.RouteContext(r.Context()).RoutePattern()
			duration.WithLabelValues(hook, strconv.Itoa(code)).Observe(time.Since(began).Seconds())
			s.Log.Debug().Str("hook", hook).Int("code", code).Dur("durationSeconds", time.Since(began)).Msg("hook call")
		})
	}
}

func write(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "could not encode the answer: "+err.Error())
		return
	}
	body = plan.PrintableJSON(body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	_, _ = w.Write(append(body, '\n'))
}

// refuse answers with one sentence.
func refuse(w http.ResponseWriter, code int, sentence string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, plan.Bounded(plan.Printable(sentence), plan.TextMost)+"\n")
}
