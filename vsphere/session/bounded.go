package session

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// bounds limit one answer, after decompression, because an answer from vCenter's address may never end. The decoders limit nesting, to
// 10,000.
type bounds struct {
	// bytes is the maximum size of the answer.
	bytes int64
	// parts is the maximum number of values, which begin with one of marks: a decoded value may need a hundred times as much memory.
	parts int64
	marks string
	// run is the maximum number of bytes between two marks, as of one text or name; 0 for no limit.
	run int64
}

var (
	// xmlBounds have room for a page of 250 objects (pageMost; updatesMost and bulk of package inventory) of 128 KiB and 4,000 tags each.
	// A member is read with some 10 KB; with two addresses on each of 50 networks of its guest it has some 25 KB and 1,600 tags. So a
	// vCenter with 40,000 VMs, all of them members, is read in 160 pages. No text that the server reads is longer than some 10 KB.
	xmlBounds = bounds{bytes: 32 << 20, parts: 1 << 20, marks: "<", run: 1 << 20}
	// jsonBounds have room for the ids of 25,000 tags.
	jsonBounds = bounds{bytes: 4 << 20, parts: 256 << 10, marks: "{[,"}
)

// headerMost bounds the header of an answer, in bytes.
const headerMost = 256 << 10

// checked returns the answer with a body whose reading fails outside the bounds. It returns an error for a redirect.
func (b bounds) checked(res *http.Response, err error) (*http.Response, error) {
	if res, err = undirected(res, err); err != nil {
		return nil, err
	}
	res.Status = fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode)) // the server's own text can be anything
	if res.Request != nil {
		if all := omitted(res.Request.Context()); len(all) > 0 {
			res.Body = newOmitter(res.Body, all)
		}
	}
	body := &boundedBody{ReadCloser: res.Body, bounds: b, beyond: endless}
	if isLoggedIn(res.Request) {
		body.beyond = tooLarge
	}
	body.timer = time.AfterFunc(answerTimeout, func() {
		body.late.Store(true)
		_ = body.ReadCloser.Close()
	})
	res.Body = body
	return res, nil
}

// boundedBody is the body of an answer. Reading it fails if the answer exceeds its bounds, or takes longer than answerTimeout after the end of
// its header.
type boundedBody struct {
	io.ReadCloser
	bounds
	timer            *time.Timer
	late             atomic.Bool
	over             bool  // whether the body has ended or failed
	size, had, since int64 // bytes, parts, and bytes since the last mark
	beyond           func(what string) error
}

// Read reads the next part.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.read(p)
	b.over = b.over || err != nil
	return n, err
}

func (b *boundedBody) read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.late.Load() {
		return 0, vcfault.ForRetry(vcfault.ReasonTimeout, "vCenter did not end its answer in time; the server tries again.")
	}
	b.size += int64(n)
	for rest := p[:n]; ; {
		at := bytes.IndexAny(rest, b.marks)
		if at < 0 {
			b.since += int64(len(rest))
			break
		}
		if b.since+int64(at) > b.run && b.run > 0 {
			return 0, b.beyond(fmt.Sprintf("a text of more than %d MiB", b.run>>20))
		}
		b.had, b.since, rest = b.had+1, 0, rest[at+1:]
	}
	switch {
	case b.size > b.bytes:
		return 0, b.beyond(fmt.Sprintf("more than %d MiB", b.bytes>>20))
	case b.had > b.parts:
		return 0, b.beyond(fmt.Sprintf("more than %d values", b.parts))
	case b.run > 0 && b.since > b.run:
		return 0, b.beyond(fmt.Sprintf("a text of more than %d MiB", b.run>>20))
	}
	return n, err
}

// Bounds on what Close reads after an answer's last element, until net/http sees the answer's end: usually the last chunk, which is empty.
const (
	tailMost = 4 << 10
	tailWait = time.Second
)

// Close reads the rest of the answer and closes it. The decoders stop at the last element, but net/http closes a connection whose answer was
// not read to its end, and the next call would need a new connection with a TLS handshake.
func (b *boundedBody) Close() error {
	if !b.over && b.timer.Reset(tailWait) {
		_, _ = io.CopyN(io.Discard, b.ReadCloser, tailMost)
	}
	b.timer.Stop()
	return b.ReadCloser.Close()
}

// isLoggedIn reports whether a request has a session, of SOAP or of REST. If it has one, the answer is vCenter's own.
func isLoggedIn(req *http.Request) bool {
	return req != nil && (req.Header.Get("Cookie") != "" || req.Header.Get("vmware-api-session-id") != "")
}

func endless(what string) error {
	return vcfault.ForRetry(vcfault.ReasonNotVCenterAPI,
		"An answer from vCenter's address has %s, which no answer of vCenter has: check that VC_HOST leads to vCenter itself, and not to a proxy or a login page.", what)
}

func tooLarge(what string) error {
	return vcfault.ForRetry(vcfault.ReasonAnswerTooLarge,
		"An answer of vCenter has %s: the server reads no more at once, because that might need more memory than it has.", what)
}
