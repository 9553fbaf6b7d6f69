package breaker

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// serve takes one call from the copy to vCenter, or as far as it is told.
func (w *Wire) serve(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // all of it: only then does net/http notice that a client hangs up
	if err != nil || w.alive.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	e := w.enter(methodOf(r, body))
	broken := false
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		e.Took, e.Done, e.Broken = time.Since(e.Began), true, broken
	}()
	while, stop := w.while(r.Context(), w.alive)
	defer stop()

	switch e.Break.Kind {
	case Refused:
		broken = true
		panic(http.ErrAbortHandler)
	case KilledBefore:
		broken = true
		w.Kill()
		panic(http.ErrAbortHandler)
	case ReplyLost, KilledAfter: // carried out, even if the copy does not wait for it
		open, end := context.WithCancel(w.open)
		defer end()
		res, err := w.pass(open, r, body)
		broken = err == nil && res != nil
		if e.Break.Kind == KilledAfter {
			w.Kill()
		}
		panic(http.ErrAbortHandler)
	case Faulted:
		broken = true
		writeFault(rw, r, e.Break.Fault)
		return
	case SessionGone:
		broken = w.endSession(while, r, body)
	case Stalled:
		timer := time.NewTimer(e.Break.Stall)
		defer timer.Stop()
		select {
		case <-timer.C:
			broken = true
		case <-while.Done():
			panic(http.ErrAbortHandler)
		}
	}
	res, err := w.pass(while, r, body)
	if err != nil || while.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	res.writeTo(rw)
}

// enter numbers a call, and asks what is to become of it.
func (w *Wire) enter(method string) *Entry {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.mu.Lock()
	w.nth[method]++
	e := &Entry{Call: Call{N: len(w.log) + 1, Method: method, Nth: w.nth[method]}, Began: time.Now()}
	w.log = append(w.log, e)
	ask := w.ask
	w.mu.Unlock()
	if ask != nil {
		b := ask(e.Call)
		w.mu.Lock()
		e.Break = b
		w.mu.Unlock()
	}
	return e
}

// while is a context that ends with either of two.
func (w *Wire) while(a, b context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(a)
	stop := context.AfterFunc(b, cancel)
	return ctx, func() { stop(); cancel() }
}

// reply is vCenter's answer, held back.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (a *reply) writeTo(rw http.ResponseWriter) {
	for key, values := range a.header {
		rw.Header()[key] = values
	}
	rw.WriteHeader(a.status)
	_, _ = rw.Write(a.body)
}

// pass has vCenter answer a call. If ctx ends first, vCenter sees its client hang up.
func (w *Wire) pass(ctx context.Context, r *http.Request, body []byte) (*reply, error) {
	target := *r.URL
	target.Scheme, target.Host = "https", w.vc.URL().Host
	out, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Connection")
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // else net/http names itself
	}
	res, err := w.up.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return &reply{status: res.StatusCode, header: res.Header, body: text}, nil
}

// ids are what differs between two calls of one REST operation.
var ids = regexp.MustCompile(`/id:[^/]*`)

// methodOf names a call: a SOAP body's first element, or the REST operation as vcsim names it.
func methodOf(r *http.Request, body []byte) string {
	if method := soapMethod(body); method != "" && r.Method == http.MethodPost && !isREST(r) {
		return method
	}
	name := r.Method + " " + ids.ReplaceAllString(r.URL.Path, "/id:")
	if action := r.URL.Query().Get("~action"); action != "" {
		name += "?~action=" + action
	}
	return name
}

func isREST(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/rest/") || strings.HasPrefix(r.URL.Path, "/api/")
}

// soapMethod is the name of the first element of a SOAP body; "" if there is none.
func soapMethod(text []byte) string {
	d := xml.NewDecoder(bytes.NewReader(text))
	for inBody := false; ; {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		start, is := token.(xml.StartElement)
		switch {
		case !is:
		case inBody:
			return start.Name.Local
		case start.Name.Local == "Body":
			inBody = true
		case start.Name.Local == "Header":
			if d.Skip() != nil {
				return ""
			}
		}
	}
}
