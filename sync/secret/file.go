// This file reads small files that others write while the server runs: tokens, passwords, certificates. Whatever
// is in a file's place, reading it ends, and returns the file complete or not at all. Its mutex guards which files are being read, and
// is never held while one is.

package secret

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
	// Largest is the largest size of a file, in bytes. Bundles of authorities are the largest files.
	Largest = 1 << 20
	// patience bounds a reading, on a file system that does not answer.
	patience = 5 * time.Second
	// settle is how long a file must be unchanged: somebody may still be writing it.
	settle = 100 * time.Millisecond
	// tries is how often a file is read that keeps changing.
	tries = 20
)

// errHangs means that a file could not be read in time. Nobody else reads it until that reading has ended.
var errHangs = errors.New("the file system does not answer")

// ReadFile returns the content of a regular file. It follows symbolic links, because Kubernetes mounts Secrets with them. It reads until
// two readings agree. Errors are of package fs, such as fs.ErrNotExist, and contain nothing of the content.
func ReadFile(path string) ([]byte, error) { return readings.of(path, patience, wholeFile) }

var readings = shared{running: map[string]*reading{}}

// shared runs one reading of each file at a time: one that hangs stays the only one.
type shared struct {
	mu      sync.Mutex
	running map[string]*reading
}

// reading is a reading in progress. text and err are valid once done is closed.
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
		return nil, &fs.PathError{Op: "read", Path: path, Err: errHangs}
	}
}

func wholeFile(path string) ([]byte, error) { return whole(path, time.Sleep) }

// whole reads until a file has been unchanged for settle, and two readings agree.
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
	return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it keeps changing")}
}

// once reads a file, and when it was last written. Neither a FIFO nor a device blocks it: it opens only regular files, and
// without waiting, in case the file is no longer regular.
func once(path string) (text []byte, written time.Time, err error) {
	fail := func(why error) ([]byte, time.Time, error) {
		return nil, written, &fs.PathError{Op: "read", Path: path, Err: why}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, written, err
	}
	if !info.Mode().IsRegular() {
		return fail(fmt.Errorf("not a regular file but %s", info.Mode().Type()))
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
		return fail(fmt.Errorf("not a regular file but %s", info.Mode().Type()))
	}
	if text, err = io.ReadAll(io.LimitReader(f, Largest+1)); err != nil {
		return nil, written, err
	}
	if len(text) > Largest {
		return fail(errors.New("it is larger than 1 MiB"))
	}
	return text, info.ModTime(), nil
}
