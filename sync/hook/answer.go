package hook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Bounds of an answer to a reader. The server makes an answer completely before it writes it, so that a client that reads slowly, or not at
// all, occupies only a connection and the answer's memory for a while, and doesn't count against readersAtOnce.
const (
	// answerMost bounds an answer, in bytes: a vCenter with 40,000 VMs gives answers of about 28 MB.
	answerMost = 32 << 20
	// writingBudget bounds all answers that are being written, in bytes.
	writingBudget = 32 << 20
	// writeTime is how long a client has to read an answer, and writeTimePerMiB how much longer for each MiB of the answer.
	writeTime       = 5 * time.Second
	writeTimePerMiB = time.Second
)

var errAnswerTooLarge = errors.New("the answer is too large")

// answer is a http.ResponseWriter that keeps what is written to it.
type answer struct {
	header http.Header
	code   int
	parts  [][]byte
	size   int
	over   bool // the answer is larger than answerMost
}

func (a *answer) Header() http.Header { return a.header }

// WriteHeader sets the status. An error discards what was written before.
func (a *answer) WriteHeader(code int) {
	if code >= http.StatusInternalServerError {
		a.code, a.parts, a.size = 0, nil, 0
	}
	if a.code == 0 {
		a.code = code
	}
}

func (a *answer) Write(p []byte) (int, error) {
	if a.over = a.over || a.size+len(p) > answerMost; a.over {
		return 0, errAnswerTooLarge
	}
	a.WriteHeader(http.StatusOK)
	a.parts, a.size = append(a.parts, append([]byte(nil), p...)), a.size+len(p)
	return len(p), nil
}

// written writes the answers of next, each within writeTime and all within the budget. It must wrap the throttle, so that an answer that is
// being written takes no place there.
func (s *server) written(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{header: w.Header()}
		next.ServeHTTP(a, r)
		if a.over {
			refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("the answer has more than %d MiB: ask for less of it, such as /sd?namespace=shop or /groups/{namespace}/{name}", answerMost>>20))
			return
		}
		back, ok := share(r.Context(), s.budget.writing, writingBudget, int64(a.size), smallAnswer, budgetWait)
		if !ok {
			busy(w, "too many large answers are being read: try again later")
			return
		}
		defer back()
		// Not every ResponseWriter has a deadline; http.Server has one of its own.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime + time.Duration(a.size>>20)*writeTimePerMiB))
		if a.size > 0 {
			w.Header().Set("Content-Length", strconv.Itoa(a.size))
		}
		w.WriteHeader(cmp.Or(a.code, http.StatusOK))
		for _, part := range a.parts {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
		// Flush, so that next's answer isn't released while the server's own buffer still has a part of it.
		_ = http.NewResponseController(w).Flush()
	})
}

// writeList writes a JSON list, one element at a time.
func writeList[T any](w http.ResponseWriter, all func(yield func(T) bool)) {
	w.Header().Set("Content-Type", "application/json")
	before := "["
	for one := range all {
		body, err := json.Marshal(one)
		if err != nil {
			refuse(w, http.StatusInternalServerError, "could not encode the answer: "+err.Error())
			return
		}
		if _, err = w.Write(append([]byte(before), plan.PrintableJSON(body)...)); err != nil {
			return
		}
		before = ","
	}
	if before == "[" {
		before = "[]\n"
	} else {
		before = "]\n"
	}
	_, _ = w.Write([]byte(before))
}
