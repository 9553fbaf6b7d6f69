// This file reads small files that other programs write while the server runs: tokens, passwords, certificates. A read always ends, even if
// the path is a FIFO or on a hanging file system, and returns the file complete or not at all. The mutex guards the list of files that are
// being read, and isn't held during a read.

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
	// Largest is the largest size of a file, in bytes. Bundles of CAs are the largest files.
	Largest = 1 << 20
	// readTime bounds a read, on a file system that does not answer.
	readTime = 5 * time.Second
	// settle is how long a file must be unchanged: a program may still be writing it.
	settle = 100 * time.Millisecond
	// tries is how often a file that keeps changing is read.
	tries = 20
)

// errHangs means that a file could not be read in time. Until that read ends, no other read of the file begins.
var errHangs = errors.New("the file system does not answer")

// ReadFile returns the content of a regular file. It follows symbolic links, because Kubernetes mounts Secrets with them. It reads until
// two reads agree. Errors are of package fs, such as fs.ErrNotExist, and contain no content.
func ReadFile(path string) ([]byte, error) { return readings.of(path, readTime, wholeFile) }

var readings = shared{running: map[string]*reading{}}

// shared runs one read of each file at a time, so a file that hangs occupies only one goroutine.
type shared struct {
	mu      sync.Mutex
	running map[string]*reading
}

// reading is a read in progress. text and err are valid once done is closed.
type reading struct {
	done  chan struct{}
	until time.Time
	text  []byte
	err   error
}

func (s *shared) of(path string, within time.Duration, read func(string) ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	r := s.running[path]
	if r == nil {
		r = &reading{done: make(chan struct{}), until: time.Now().Add(within)}
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

// whole reads until a file has been unchanged for settle, and two reads agree.
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
	return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("the file keeps changing")}
}

// once reads a file and its modification time. Neither a FIFO nor a device blocks it: it opens only regular files, and with O_NONBLOCK, in
// case the file is no longer regular.
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
		return fail(errors.New("the file is larger than 1 MiB"))
	}
	return text, info.ModTime(), nil
}
