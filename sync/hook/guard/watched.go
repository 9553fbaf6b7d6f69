package guard

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// content is what a file held when it was read last.
type content struct {
	path    string
	text    []byte
	missing bool
	err     error // any other reason why it could not be read
}

// watched is what some files say together. They are read, whole, when somebody asks, at most once a second, and parsed when they
// are another than before. So neither the swap of a mounted volume's symbolic link nor a file written in place can be missed, and
// there is nothing to start or to stop. (certwatcher of sigs.k8s.io/controller-runtime and dynamiccertificates of
// k8s.io/apiserver do this by inotify and a timer; each would bring more dependencies than this server has.)
type watched[T any] struct {
	paths []string
	// parse is given the value before, and what the files hold now.
	parse func(before T, files []content) T
	// every is how long an answer holds.
	every time.Duration

	mu      sync.Mutex
	checked time.Time
	digest  [sha256.Size]byte
	value   T
}

const (
	rereadEvery = time.Second
	// largest is the size up to which a file is read, in bytes. Bundles of authorities are the largest of them.
	largest = 1 << 20
)

// now gives what the files say.
func (w *watched[T]) now() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.checked.IsZero() && time.Since(w.checked) < w.every {
		return w.value
	}
	files, digest := w.read()
	if digest != w.digest || w.checked.IsZero() {
		// A certificate and its key may be swapped between the reading of the one and the other: read until twice is the same.
		for range 3 {
			before := digest
			if files, digest = w.read(); digest == before {
				break
			}
		}
		w.value, w.digest = w.parse(w.value, files), digest
	}
	w.checked = time.Now()
	return w.value
}

func (w *watched[T]) read() (files []content, digest [sha256.Size]byte) {
	all := sha256.New()
	for _, path := range w.paths {
		c := content{path: path}
		c.text, c.err = readFile(path)
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

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, largest+1))
	if err != nil {
		return nil, err
	}
	if len(text) > largest {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is larger than 1 MiB")}
	}
	return text, nil
}
