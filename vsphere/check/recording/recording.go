// Package recording writes down a client's calls to vCenter, by SOAP and REST, and vCenter's answers, so that a person can read the recording
// and send it, and a test can replay it.
//
// It promises that a recording contains no text of an installation: it keeps numbers, booleans, times, enumerations, the ids of managed objects,
// and the texts of the properties that allowed lists; it replaces any other text by a stand-in, which is the same for the same text. It leaves
// out HTTP's headers, which have the session's cookie.
//
// Locks: Recorder.mu guards the file and the stand-ins. It is not held across a call of vCenter.
package recording

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

const head = `# What vmgroup and a vCenter said to each other, as "vmgroup check --record" wrote it (format 1).
#
# Read it before you send it. Names, paths, addresses, accounts, notes, messages and all other texts of your vCenter are replaced: "text-7" is
# the same text wherever it is. Kept are numbers, times, ids of managed objects such as vm-42, and the words of vSphere's API.
# Of a list with more than 20 elements, the rest is left out. Where an exchange repeats another one, only its number is given.
`

// bodyMost is the maximum size of a recorded request or answer, in bytes. Of a larger one, only its size is recorded.
const bodyMost = 8 << 20

// Recorder writes a recording. Its methods can be called from any goroutine.
type Recorder struct {
	mu      sync.Mutex
	out     io.Writer
	err     error
	texts   standIns
	section string
	n       int
	written map[[sha256.Size]byte]int // the number of an exchange, by its hash without number and time
}

// New begins a recording. The caller closes the writer after the last call.
func New(out io.Writer) *Recorder {
	r := &Recorder{out: out, texts: newStandIns(), written: map[[sha256.Size]byte]int{}}
	_, r.err = io.WriteString(out, head)
	return r
}

// Err returns the first error of the writer, after which the recording is incomplete; nil if there was none.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Section begins a section of the recording. name is the name of a check.
func (r *Recorder) Section(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.section != name {
		r.section = name
		r.write("\n## " + name + "\n")
	}
}

// Wire returns a transport that makes calls with next, and records them (session.Config.Wire).
func (r *Recorder) Wire(next http.RoundTripper) http.RoundTripper { return wire{r, next} }

type wire struct {
	recorder *Recorder
	next     http.RoundTripper
}

// RoundTrip makes a call, and records it when its answer is complete.
func (w wire) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			sent, _ = io.ReadAll(io.LimitReader(body, bodyMost+1))
			_ = body.Close()
		}
	}
	began := time.Now()
	res, err := w.next.RoundTrip(req)
	if err != nil {
		w.recorder.add(req, sent, 0, nil, time.Since(began))
		return res, err
	}
	res.Body = &recordedBody{ReadCloser: res.Body, done: func(answer []byte) { w.recorder.add(req, sent, res.StatusCode, answer, time.Since(began)) }}
	return res, nil
}

// recordedBody is the body of an answer. It keeps what is read from it, and calls done with that when it is closed.
type recordedBody struct {
	io.ReadCloser
	text bytes.Buffer
	once sync.Once
	done func([]byte)
}

// Read reads the next part.
func (h *recordedBody) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if h.text.Len() <= bodyMost {
		h.text.Write(p[:n])
	}
	return n, err
}

// Close closes the answer.
func (h *recordedBody) Close() error {
	h.once.Do(func() { h.done(h.text.Bytes()) })
	return h.ReadCloser.Close()
}

// add records an exchange. A status of 0 means that there was no answer.
func (r *Recorder) add(req *http.Request, sent []byte, status int, answer []byte, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body := session.BodyOf(req)
	var name, question, reply string
	if body != nil {
		body = elem(body)
		name = strings.TrimSuffix(body.Name(), "Body")
		question, reply = r.soap(body, sent), r.soap(body, answer)
	} else {
		name = req.Method + " " + r.address(req.URL)
		question, reply = r.json(sent), r.json(answer)
	}
	if strings.Contains(name, "Login") {
		question = "(left out: it has the account's password)\n"
	}
	r.n++
	what := fmt.Sprintf("%s %d", name, status)
	text := question + separator + reply
	sum := sha256.Sum256([]byte(what + text))
	if before, is := r.written[sum]; is {
		r.write(fmt.Sprintf("\n### %d %s, %d ms, as %d\n", r.n, what, took.Milliseconds(), before))
		return
	}
	r.written[sum] = r.n
	r.write(fmt.Sprintf("\n### %d %s, %d ms\n%s", r.n, what, took.Milliseconds(), text))
}

const separator = "---\n"

func (r *Recorder) write(text string) {
	if r.err == nil {
		_, r.err = io.WriteString(r.out, text)
	}
}
