package guard

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"sync"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/secret"
)

// content is a file as last read.
type content struct {
	path    string
	text    []byte
	missing bool
	err     error // any other reason why it could not be read
}

// watched is a value that is parsed from one or more files. It reads the files when the value is asked for, at most once a second, and
// parses them when they have changed. So it notices both the swap of a mounted volume's symbolic link and a file written in place, and
// needs no start or stop. (certwatcher of sigs.k8s.io/controller-runtime and dynamiccertificates of k8s.io/apiserver use inotify and a
// timer; each would bring more dependencies than this server has.)
type watched[T any] struct {
	paths []string
	// parse gets the former value and the files' present content.
	parse func(before T, files []content) T
	// every is how long a value is valid.
	every time.Duration
	// wait is how long a caller waits for the files to be read. After that, callers get the former value until the read ends or times out
	// (secret.ReadFile).
	wait time.Duration

	mu      sync.Mutex
	checked time.Time
	digest  [sha256.Size]byte
	value   T
	// unread is the number of files that could not be read the last time, and missing of those that did not exist.
	unread, missing int
	// reading is closed when the current read ends; nil if none runs.
	reading chan struct{}
}

func watch[T any](paths []string, parse func(before T, files []content) T) *watched[T] {
	return &watched[T]{paths: paths, parse: parse, every: time.Second, wait: 500 * time.Millisecond}
}

// now returns the current value. One goroutine at a time reads the files, without holding the lock, so a hanging file system blocks no
// caller for longer than wait.
func (w *watched[T]) now() T {
	w.mu.Lock()
	if !w.checked.IsZero() && time.Since(w.checked) < w.every {
		defer w.mu.Unlock()
		return w.value
	}
	first := w.checked.IsZero()
	if w.reading == nil {
		w.reading = make(chan struct{})
		go w.refresh(w.reading)
	}
	reading := w.reading
	w.mu.Unlock()
	var enough <-chan time.Time
	if !first { // before the first read there is no value
		timer := time.NewTimer(w.wait)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-reading:
	case <-enough:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value
}

// refresh reads the files, and parses them if they changed.
func (w *watched[T]) refresh(done chan struct{}) {
	files, digest := w.read()
	w.mu.Lock()
	before, changed := w.value, digest != w.digest || w.checked.IsZero()
	w.mu.Unlock()
	if changed {
		// A certificate and its key may be replaced between the reads of the two files: read until two rounds return the same.
		for range 3 {
			last := digest
			if files, digest = w.read(); digest == last {
				break
			}
		}
		before = w.parse(before, files)
	}
	unread, missing := 0, 0
	for i := range files {
		switch {
		case files[i].missing:
			missing++
		case files[i].err != nil:
			unread++
		}
	}
	w.mu.Lock()
	w.value, w.digest, w.unread, w.missing, w.checked, w.reading = before, digest, unread, missing, time.Now(), nil
	w.mu.Unlock()
	close(done)
}

// lost returns the numbers of files that could not be read the last time, and of those that did not exist.
func (w *watched[T]) lost() (unread, missing int) {
	w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unread, w.missing
}

func (w *watched[T]) read() (files []content, digest [sha256.Size]byte) {
	all := sha256.New()
	for _, path := range w.paths {
		c := content{path: path}
		c.text, c.err = secret.ReadFile(path)
		if errors.Is(c.err, fs.ErrNotExist) {
			c.missing, c.err = true, nil
		}
		one := sha256.Sum256(c.text)
		all.Write(one[:])
		switch {
		case c.missing:
			all.Write([]byte("missing"))
		case c.err != nil:
			all.Write([]byte(c.err.Error()))
		}
		files = append(files, c)
	}
	all.Sum(digest[:0])
	return files, digest
}
