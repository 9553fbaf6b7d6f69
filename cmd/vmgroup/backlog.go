package main

import (
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeconnect.vmworld.com/vmgroup/sync/metrics"
)

const (
	// backlogMost bounds the log lines that wait for a slow reader, in bytes: about 3,000 lines of the usual 300 bytes, which is more than a
	// server with hundreds of groups writes in a minute, and a small part of the pod's memory.
	backlogMost = 1 << 20
	// lastLines is how long the process waits at its end until its last log lines are read.
	lastLines = time.Second
)

// backlog is a writer that never blocks, however slow the other end is: a pipe without a reader blocks every writer, with all
// locks that it holds. One goroutine writes the waiting lines, in order. Each Write is a line; a line for which there is no room is dropped
// and counted. (zerolog's diode drops old lines instead of new ones, counts them only when the reader is back, has no bound in bytes, prints
// to standard error itself when writers collide, and its Close waits for the reader.)
type backlog struct {
	to   io.Writer
	wake chan struct{} // with a buffer of one
	done chan struct{} // closed when run has ended

	mu      sync.Mutex
	waiting []byte
	lines   int // in waiting
	writing int // bytes that were taken from waiting, and are being written
	closed  bool
	dropped prometheus.Counter
	untold  int       // lines that were dropped since say was called
	say     func(int) // reports dropped lines, by writing to to; nil: no report
}

// newBacklog returns a backlog in front of to. Its goroutine ends after close, once to has taken the waiting lines.
func newBacklog(to io.Writer) *backlog {
	b := &backlog{to: to, wake: make(chan struct{}, 1), done: make(chan struct{}), dropped: metrics.LogLinesDropped.Counter(nil).WithLabelValues()}
	go b.run()
	return b
}

// count makes the backlog count dropped lines with a counter, and report them with say when the other end takes lines again. say is never
// called concurrently, and can block.
func (b *backlog) count(dropped prometheus.Counter, say func(lines int)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped, b.say = dropped, say
}

// Write takes a line, or drops it. It never fails.
func (b *backlog) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.writing+len(b.waiting)+len(line) > backlogMost {
		b.drop(1)
		return len(line), nil
	}
	b.waiting = append(b.waiting, line...)
	b.lines++
	b.wakeUp()
	return len(line), nil
}

// drop counts dropped lines. The caller holds mu.
func (b *backlog) drop(lines int) {
	b.dropped.Add(float64(lines))
	b.untold += lines
}

func (b *backlog) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run writes the waiting lines, until the backlog is closed and empty.
func (b *backlog) run() {
	defer close(b.done)
	for range b.wake {
		for b.writeNext() {
		}
		b.mu.Lock()
		ended := b.closed
		b.mu.Unlock()
		if ended {
			return
		}
	}
}

// writeNext writes the waiting lines, and reports whether there were any and the other end took them.
func (b *backlog) writeNext() bool {
	b.mu.Lock()
	batch, lines, untold, say := b.waiting, b.lines, b.untold, b.say
	b.waiting, b.lines, b.writing = nil, 0, len(batch)
	if say == nil {
		untold = 0
	}
	b.mu.Unlock()
	if len(batch) == 0 && untold == 0 {
		return false
	}
	_, err := b.to.Write(batch)
	if err == nil && untold > 0 {
		say(untold) // here, because the lines of batch came before the dropped ones
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing = 0
	if err != nil { // the reader is gone
		b.drop(lines)
		return false
	}
	b.untold -= untold
	return true
}

// close writes the waiting lines, for at most lastLines. Later lines are dropped.
func (b *backlog) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wakeUp()
	timer := time.NewTimer(lastLines)
	defer timer.Stop()
	select {
	case <-b.done:
	case <-timer.C:
	}
}
