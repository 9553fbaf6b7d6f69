package guard

import (
	"bytes"
	"log"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// quietFor is how long a log line stands for all of its kind: strangers shall not fill the log.
const quietFor = 10 * time.Second

// quiet lets one log line through in a while.
type quiet struct {
	mu    sync.Mutex
	until time.Time
	times int
}

// say tells whether to log now, and how often it happened since the line before, this time included.
func (q *quiet) say(now time.Time) (times int, say bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.times++
	if now.Before(q.until) {
		return q.times, false
	}
	times, q.times, q.until = q.times, 0, now.Add(quietFor)
	return times, true
}

// serverLog is what net/http says by itself: of failed handshakes, and of panics that nobody else caught. handshakes is called
// with where one came from; it logs them in its own measure.
func serverLog(to zerolog.Logger, handshakes func(from string)) *log.Logger {
	return log.New(lines{to: to, handshakes: handshakes, quiet: &quiet{}}, "", 0)
}

type lines struct {
	to         zerolog.Logger
	handshakes func(from string)
	quiet      *quiet
}

func (l lines) Write(line []byte) (int, error) {
	written := len(line)
	if rest, is := bytes.CutPrefix(line, []byte("http: TLS handshake error from ")); is {
		from, _, _ := bytes.Cut(rest, []byte(": "))
		l.handshakes(string(from))
		return written, nil
	}
	if bytes.HasPrefix(line, []byte("http: panic serving ")) {
		// The value of a panic may be anything, a secret too; the stack has addresses and no strings.
		_, stack, _ := bytes.Cut(line, []byte("\ngoroutine "))
		l.to.Error().Str("stack", "goroutine "+string(stack)).Msg("a handler panicked")
		return written, nil
	}
	if times, say := l.quiet.say(time.Now()); say {
		l.to.Warn().Int("times", times).Msg(string(bytes.TrimSpace(line)))
	}
	return written, nil
}
