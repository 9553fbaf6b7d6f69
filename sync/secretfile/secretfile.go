// Package secretfile reads small files that others write while the server runs: tokens, passwords, certificates. Whatever
// stands in a file's place, reading it ends, and gives what the file holds as a whole.
package secretfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// Largest is the size up to which a file is read, in bytes. Bundles of authorities are the largest of them.
	Largest = 1 << 20
	// patience bounds a reading, on a file system that does not answer.
	patience = 5 * time.Second
	// settle is how long a file must not have been written to, for it to be read: somebody may be in the midst of it.
	settle = 100 * time.Millisecond
	// tries is how often a file is looked at that goes on to change.
	tries = 20
)

// ErrHangs means that a file could not be read in time. It is not read by anybody else until that reading has ended.
var ErrHangs = errors.New("the file system does not answer")

// Read gives what a regular file holds; symbolic links are followed, as Kubernetes mounts Secrets by them. It reads until two
// readings agree. Errors are fs.ErrNotExist and the like, by their types, and hold nothing of the content.
func Read(path string) ([]byte, error) { return readings.of(path, patience, wholeFile) }

var readings = shared{running: map[string]*reading{}}

// shared has one reading of each file at a time: one that hangs stays the only one.
type shared struct {
	mu      sync.Mutex
	running map[string]*reading
}

// reading is one that is under way. text and err are read after done is closed.
type reading struct {
	done  chan struct{}
	until time.Time
	text  []byte
	err   error
}

func (s *shared) of(path string, patience time.Duration, read func(string) ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	r := s.running[path]
	if r == nil {
		r = &reading{done: make(chan struct{}), until: time.Now().Add(patience)}
		s.running[path] = r
		go func() {
			r.text, r.err = read(path)
			s.mu.Lock()
			delete(s.running, path)
			s.mu.Unlock()
			close(r.done)
		}()
	}
	s.mu.Unlock()
	timer := time.NewTimer(time.Until(r.until))
	defer timer.Stop()
	select {
	case <-r.done:
		return bytes.Clone(r.text), r.err
	case <-timer.C:
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrHangs}
	}
}

func wholeFile(path string) ([]byte, error) { return whole(path, time.Sleep) }

// whole reads until a file has not been written to for a while, and two readings agree.
func whole(path string, sleep func(time.Duration)) ([]byte, error) {
	text, written, err := once(path)
	for range tries {
		if err != nil {
			return nil, err
		}
		if time.Since(written).Abs() < settle {
			sleep(settle)
		}
		again, rewritten, err2 := once(path)
		if err2 == nil && bytes.Equal(text, again) && written.Equal(rewritten) {
			return text, nil
		}
		text, written, err = again, rewritten, err2
	}
	if err != nil {
		return nil, err
	}
	return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is being written to all the time")}
}

// once reads a file, and when it was written to last. Neither a FIFO nor a device blocks it: what is no regular file is not
// opened, and what has become none meanwhile is opened without waiting.
func once(path string) (text []byte, written time.Time, err error) {
	fail := func(why error) ([]byte, time.Time, error) {
		return nil, written, &fs.PathError{Op: "read", Path: path, Err: why}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, written, err
	}
	if !info.Mode().IsRegular() {
		return fail(fmt.Errorf("it is no regular file but %s", info.Mode().Type()))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, written, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if info, err = f.Stat(); err != nil {
		return nil, written, err
	}
	if !info.Mode().IsRegular() {
		return fail(fmt.Errorf("it is no regular file but %s", info.Mode().Type()))
	}
	if text, err = io.ReadAll(io.LimitReader(f, Largest+1)); err != nil {
		return nil, written, err
	}
	if len(text) > Largest {
		return fail(errors.New("it is larger than 1 MiB"))
	}
	return text, info.ModTime(), nil
}
