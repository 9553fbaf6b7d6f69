package test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// figures are the resources in use at a quiet moment. They must not grow from one quiet moment to the next.
type figures struct {
	vcsim.Counts
	goroutines int   // goroutines of the servers, without those of the embedded vCenter
	heap       int64 // bytes that the servers' code has allocated and still uses, according to the memory profile
	heapInUse  uint64
	files      int // open file descriptors; 0 where unknown
	left       int // files in the temporary directory
	series     int // the number of series in the metrics of both replicas
	known      int // groups that the replicas remember
}

const figuresHead = "   time  when         lived  goroutines  heap kB  in use kB  descriptors  tmp  sessions  rest  collectors  filters  series  groups"

// sample takes the figures, and writes a line of the table.
func (s *soak) sample(when string) figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 3 { // finalizers run after the first collection and free more memory, and the profile shows the last collection but one
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f := figures{Counts: s.Counts(), goroutines: serversGoroutines(), heap: serversHeap(), heapInUse: m.HeapInuse, files: descriptors(), left: len(filesIn(os.TempDir()))}
	for i := range s.servers {
		f.known += leases(s.servers[i].loop)
		families, err := s.registries[i].Gather()
		if err != nil {
			s.t.Error(err)
		}
		for _, family := range families {
			f.series += len(family.GetMetric())
		}
	}
	s.table = append(s.table, fmt.Sprintf("%6.0fs  %-11s %6d  %10d  %7d  %9d  %11d  %3d  %8d  %4d  %10d  %7d  %6d  %6d", time.Since(s.began).Seconds(), when,
		s.lived.Load(), f.goroutines, f.heap>>10, f.heapInUse>>10, f.files, f.left, f.Sessions, f.RESTSessions, f.Collectors, f.Filters, f.series, f.known))
	return f
}

// compare reports the figures that have grown beyond their bounds. The bounds allow a few kB for each deleted group, because the server remembers such
// a group for an hour so that no stale call restores it. They also allow new series of metrics, because the second part may have kinds of steps, calls
// and faults that the first part didn't have.
func (s *soak) compare(before, after figures) {
	s.t.Helper()
	deleted := s.lived.Load()
	for _, c := range []struct {
		what          string
		before, after int64
		more          int64
	}{
		{"goroutines", int64(before.goroutines), int64(after.goroutines), 4},
		{"bytes of the servers' heap", before.heap, after.heap, 1<<20 + 2*4<<10*deleted},
		{"open files", int64(before.files), int64(after.files), 8},
		{"files in the temporary directory", int64(before.left), int64(after.left), 8},
		{"sessions", int64(before.Sessions), int64(after.Sessions), 0},
		{"REST sessions", int64(before.RESTSessions), int64(after.RESTSessions), 2},
		{"property collectors", 2, int64(after.Collectors), 0},
		{"property filters", 2, int64(after.Filters), 0},
		{"series of metrics", int64(before.series), int64(after.series), 60},
		{"groups", int64(before.known), int64(after.known), 0},
	} {
		if c.after > c.before+c.more {
			s.t.Errorf("%s: %d, up from %d; want at most %d", c.what, c.after, c.before, c.before+c.more)
		}
	}
}

// isServers reports whether a stack is of the servers' code: not of the embedded vCenter's, nor of the tests' own.
func isServers(stack []uintptr) (is bool) {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		switch {
		case strings.Contains(frame.Function, "/vsphere/vcsim."), strings.Contains(frame.Function, "govmomi/simulator."):
			return false
		case strings.Contains(frame.Function, "vmgroup/sync/"), strings.Contains(frame.Function, "vmgroup/vsphere."):
			is = true
		}
		if !more {
			return is
		}
	}
}

func serversGoroutines() (n int) {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+100)
	all, ok := runtime.GoroutineProfile(records)
	if !ok {
		return -1
	}
	for i := range records[:all] {
		if isServers(records[i].Stack()) {
			n++
		}
	}
	return n
}

// serversHeap scales the profile's samples to bytes as go tool pprof does. The profile has one sample for each runtime.MemProfileRate bytes.
func serversHeap() (bytes int64) {
	n, _ := runtime.MemProfile(nil, false)
	records := make([]runtime.MemProfileRecord, n+100)
	n, ok := runtime.MemProfile(records, false)
	if !ok {
		return -1
	}
	for i := range records[:n] {
		if isServers(records[i].Stack()) {
			bytes += records[i].InUseBytes()
		}
	}
	return bytes
}

func descriptors() int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(open)
}

func filesIn(dir string) (paths []string) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error { paths = append(paths, path); return nil })
	return paths
}
