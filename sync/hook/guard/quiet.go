package guard

import (
	"bytes"
	"log"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// quietFor is the time between two log lines of a kind, so that unauthenticated clients cannot fill the log.
const quietFor = 10 * time.Second

// quiet limits the log lines of one kind to one in quietFor.
type quiet struct {
	mu    sync.Mutex
	until time.Time
	times int
}

// say reports whether to log now, and how many events happened since the last line, including this one.
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

// serverLog handles net/http's own log: failed handshakes, and panics that nothing else caught. It calls handshakes with the
// address of each failed handshake instead of logging it.
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
		// The value of a panic may be anything, even a secret; the stack has addresses and no strings.
		_, stack, _ := bytes.Cut(line, []byte("\ngoroutine "))
		l.to.Error().Str("stack", "goroutine "+string(stack)).Msg("a handler panicked")
		return written, nil
	}
	if times, say := l.quiet.say(time.Now()); say {
		l.to.Warn().Int("times", times).Bytes("line", bytes.TrimSpace(line)).Msg("line of net/http")
	}
	return written, nil
}
