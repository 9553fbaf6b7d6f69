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

// Bounds, in bytes, on the memory of all requests together while they are read and decoded. A request of Kubernetes needs far less; but 64
// bodies of the largest size at once would take half a gigabyte, and so would a single body of 8 MiB with [{},{},{},…]. A pod has 256 MiB
// in the manifests.
const (
	readingBudget  = 32 << 20
	decodingBudget = 64 << 20
	// budgetWait is how long a request waits for its shares of both budgets together, in addition to backlogWait.
	budgetWait = 2 * time.Second
	// smallPart is the size below which a part of a request is free: 64 of them are 16 MiB. smallAnswer is the size below which an answer is
	// free: one for each possible connection makes 16 MiB.
	smallPart   = 256 << 10
	smallAnswer = 16 << 10
	// maxValues bounds the JSON values of a body: a group of 1,000 members, with a Service, has some 40,000.
	maxValues = 200_000
	// valueBytes bounds the memory of one decoded value: a member of 192 bytes, in a list that doubles as it grows.
	valueBytes = 400
)

// budget shares the memory among requests.
type budget struct{ reading, decoding, writing *semaphore.Weighted }

func newBudget() budget {
	return budget{semaphore.NewWeighted(readingBudget), semaphore.NewWeighted(decodingBudget), semaphore.NewWeighted(writingBudget)}
}

// body reads a request's body within the budget, and reserves what its decoding needs; done releases both. If it returns
// no body, it has refused the request.
func (s *server) body(w http.ResponseWriter, r *http.Request) (body []byte, done func(), ok bool) {
	length := r.ContentLength
	if length > s.MaxBody {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", s.MaxBody))
		return nil, nil, false
	}
	if length < 0 { // unknown: reserve for the maximum
		length = s.MaxBody
	}
	waiting := time.Now()
	read, ok := share(r.Context(), s.budget.reading, readingBudget, length, smallPart, budgetWait)
	if !ok {
		busy(w, manyLarge)
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
	decoded, ok := share(r.Context(), s.budget.decoding, decodingBudget, int64(2*len(body)+valueBytes*values), smallPart, left)
	if !ok {
		read()
		busy(w, manyLarge)
		return nil, nil, false
	}
	return body, func() { decoded(); read() }, true
}

// share reserves a part of a budget, at most all of it, and returns the function that releases it. Small parts are free: even all together
// they need little memory, and they must not wait behind large ones.
func share(ctx context.Context, of *semaphore.Weighted, all, part, small int64, wait time.Duration) (back func(), ok bool) {
	if part <= small {
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

// busy asks the caller to retry, with Retry-After in whole seconds: with any other value, or without the header, Metacontroller would call
// again at once.
func busy(w http.ResponseWriter, sentence string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	refuse(w, http.StatusTooManyRequests, sentence)
}

const manyLarge = "too many large requests at once: try again later"

// countValues returns an upper bound of the values in a JSON text: it counts opening brackets and commas outside of strings.
// The text need not be valid JSON.
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

// afterString returns the text after a string's closing quote.
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
