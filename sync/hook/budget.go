package hook

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
)

// What requests may hold in memory while they are read and decoded, all of them together, in bytes. Whatever Kubernetes
// can send is far below what one may hold; but 64 bodies of the largest size at once would be half a gigabyte, and a body
// of 8 MiB that says [{},{},{},…] becomes one as well, by itself. A pod has 256 MiB in the manifests.
const (
	readingBudget  = 32 << 20
	decodingBudget = 64 << 20
	// budgetWait is how long a request waits for its share, in both places together. It comes on top of backlogWait.
	budgetWait = 2 * time.Second
	// smallPart is what counts for nothing: 64 of them are 16 MiB.
	smallPart = 256 << 10
	// maxValues is how many values a body may have: a group of 1,000 members, with a Service, has some 40,000.
	maxValues = 200_000
	// valueBytes is what one decoded value takes at the most: a member of 192 bytes, in a list that doubles as it grows.
	valueBytes = 400
)

// budget shares the memory among the requests.
type budget struct{ reading, decoding *semaphore.Weighted }

func newBudget() budget {
	return budget{semaphore.NewWeighted(readingBudget), semaphore.NewWeighted(decodingBudget)}
}

// body reads a request's body within the budget, and takes what its decoding will need; done gives all back. If it gives
// no body, the request was refused.
func (s *server) body(w http.ResponseWriter, r *http.Request) (body []byte, done func(), ok bool) {
	length := r.ContentLength
	if length > s.MaxBody {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", s.MaxBody))
		return nil, nil, false
	}
	if length < 0 { // it does not say: any length is possible
		length = s.MaxBody
	}
	waiting := time.Now()
	read, ok := share(r.Context(), s.budget.reading, readingBudget, length, budgetWait)
	if !ok {
		busy(w)
		return nil, nil, false
	}
	left := budgetWait - time.Since(waiting)
	if body, ok = s.read(w, r); !ok {
		read()
		return nil, nil, false
	}
	values := countValues(body)
	if values > maxValues {
		read()
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d values", maxValues))
		return nil, nil, false
	}
	decoded, ok := share(r.Context(), s.budget.decoding, decodingBudget, int64(2*len(body)+valueBytes*values), left)
	if !ok {
		read()
		busy(w)
		return nil, nil, false
	}
	return body, func() { decoded(); read() }, true
}

// share takes a part of a budget, all of it at the most, and gives what gives it back. Small parts are free: that many as
// run at once come to little, and they shall not wait behind large ones.
func share(ctx context.Context, of *semaphore.Weighted, all, part int64, wait time.Duration) (back func(), ok bool) {
	if part <= smallPart {
		return func() {}, true
	}
	part = min(part, all)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if of.Acquire(ctx, part) != nil {
		return nil, false
	}
	return func() { of.Release(part) }, true
}

// busy asks the caller to come again. Metacontroller takes whole seconds; anything else, or none, would make it call again
// at once.
func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	refuse(w, http.StatusTooManyRequests, "many large requests come at once: call again later")
}

// countValues says how many values a JSON text has at the most: what opens, and what follows a comma, outside of strings.
// It does not matter here whether it is JSON.
func countValues(body []byte) (n int) {
	for len(body) > 0 {
		at := bytes.IndexByte(body, '"')
		part := body
		if at >= 0 {
			part = body[:at]
		}
		for _, c := range part {
			if c == ',' || c == '{' || c == '[' {
				n++
			}
		}
		if at < 0 {
			return n
		}
		body = afterString(body[at+1:])
	}
	return n
}

// afterString is what comes after a string's closing quote.
func afterString(text []byte) []byte {
	for {
		at := bytes.IndexByte(text, '"')
		if at < 0 {
			return nil
		}
		slashes := 0
		for slashes < at && text[at-1-slashes] == '\\' {
			slashes++
		}
		text = text[at+1:]
		if slashes%2 == 0 {
			return text
		}
	}
}
