package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is what go test -json prints: see `go doc test2json`, and for builds `go help buildjson`.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of a package that is built, with the variant: m/a [m/a.test]
	FailedBuild                   string // the ImportPath that a package's tests could not run for
	Elapsed                       float64
}

// name is a test, or a package if test is empty.
type name struct{ pkg, test string }

// took is how long a package or a test of the top ran.
type took struct {
	name    name
	seconds float64
}

// run is what is known of the tests so far.
type run struct {
	out     io.Writer
	of      int // how many packages there are; 0: unknown
	verbose bool
	leftOut string
	watched bool // by a person
	began   time.Time

	said                    map[name][]string // what those say that have not passed
	lines                   []string          // go test's line of each package
	packages, tests         []took
	cached                  int
	passed, failed, skipped int             // tests and subtests; a package that fails although no test of it did counts as one
	thinned                 int             // of the skipped, those that a thin run leaves out
	failures                map[string]bool // packages of which a test failed
	running                 map[string]bool // packages
}

var (
	// wrong are the beginnings of what is no test's: a race, or a crash, that stands among what a test says that passed.
	wrong = regexp.MustCompile(`^(WARNING: DATA RACE|panic: |fatal error: )`)
	// lineOfAPackage is go test's line of a package.
	lineOfAPackage = regexp.MustCompile(`^(ok|FAIL)\s+\S`)
)

// read reads the command's output until it ends. Lines that are no events are shown as they are.
func (r *run) read(lines <-chan string) {
	r.said, r.failures, r.running = map[name][]string{}, map[string]bool{}, map[string]bool{}
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			var e event
			if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(r.out, line)
				continue
			}
			r.add(e)
		case <-time.After(quiet):
			if r.watched {
				r.tell("%s: %s", time.Since(r.began).Round(time.Second), r.waits())
			}
		}
	}
}

func (r *run) tell(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// waits says what the command does while no line comes.
func (r *run) waits() string {
	var running []string
	for pkg := range r.running {
		running = append(running, short(pkg))
	}
	slices.Sort(running)
	if len(running) == 0 {
		return "compiling"
	}
	return "compiling, or running the tests of " + strings.Join(running, ", ")
}

func (r *run) add(e event) {
	n := name{cmp.Or(e.Package, e.ImportPath), e.Test}
	switch e.Action {
	case "start":
		r.running[n.pkg] = true
	case "output", "build-output":
		r.heard(n, e.Output)
	case "pass", "fail", "skip":
		r.ended(n, e)
	}
}

func (r *run) heard(n name, text string) {
	if n.test == "" && lineOfAPackage.MatchString(text) {
		r.lines = append(r.lines, strings.TrimRight(text, "\n"))
		if strings.Contains(text, "(cached)") {
			r.cached++
		}
	}
	if r.verbose && n.test != "" && !strings.Contains(n.test, "/") && !strings.HasPrefix(text, "=== ") {
		fmt.Fprint(r.out, text)
	}
	r.said[n] = append(r.said[n], text)
}

func (r *run) ended(n name, e event) {
	said := r.said[n]
	if e.Action != "fail" {
		delete(r.said, n)
		if at := slices.IndexFunc(said, wrong.MatchString); at >= 0 {
			r.show(said[at:min(len(said), at+60)])
		}
	}
	switch {
	case n.test == "":
		r.packageEnded(n, e, said)
	case e.Action == "pass":
		r.passed++
	case e.Action == "skip":
		r.skipped++
		if slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, "left out: ") }) {
			r.thinned++
		}
	default:
		r.failed++
		r.failures[n.pkg] = true
	}
	if n.test != "" && !strings.Contains(n.test, "/") {
		r.tests = append(r.tests, took{n, e.Elapsed})
	}
}

// packageEnded tells how a package ended, and what its tests said that failed, or have not ended: subtests first.
func (r *run) packageEnded(n name, e event, said []string) {
	if e.Action == "skip" { // it has no tests
		delete(r.running, n.pkg)
		return
	}
	delete(r.running, n.pkg)
	r.packages = append(r.packages, took{n, e.Elapsed})
	of := ""
	if r.of > 0 {
		of = fmt.Sprintf("/%d", r.of)
	}
	how := "ok    "
	if e.Action == "fail" {
		how = "FAILED"
	}
	lasted := fmt.Sprintf("%6.1f s", e.Elapsed)
	if slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, "(cached)") }) {
		lasted = "  cached"
	}
	r.tell("%3d%s %s %s  %s", len(r.packages), of, how, lasted, short(n.pkg))
	if e.Action != "fail" {
		return
	}
	if !r.failures[n.pkg] {
		r.failed++
	}
	build := name{e.FailedBuild, ""}
	r.show(r.said[build])
	delete(r.said, build)
	var left []name
	for other := range r.said {
		if other.pkg == n.pkg {
			left = append(left, other)
		}
	}
	slices.SortFunc(left, func(a, b name) int { return strings.Compare(b.test, a.test) })
	for _, other := range left {
		r.show(r.said[other])
		delete(r.said, other)
	}
}

// show prints what a test or a package said: of much, the beginning and the end.
func (r *run) show(said []string) {
	said = slices.DeleteFunc(slices.Clone(said), func(text string) bool { return strings.HasPrefix(text, "=== ") })
	if len(said) > 120 {
		said = slices.Concat(said[:80], []string{fmt.Sprintf("... %d lines ...\n", len(said)-110)}, said[len(said)-30:])
	}
	for _, text := range said {
		fmt.Fprint(r.out, text)
	}
}

// close prints the closing lines.
func (r *run) close(processor time.Duration) {
	if len(r.packages) == 0 {
		r.tell("FAILED: no package's tests ran")
		return
	}
	how := "ok"
	if r.failed > 0 {
		how = "FAILED"
	}
	r.tell("%s: %d packages (%d of them cached), %d tests passed, %d failed, %d skipped, in %s, %s of processor time", how, len(r.packages), r.cached,
		r.passed, r.failed, r.skipped, time.Since(r.began).Round(time.Second), processor.Round(time.Second))
	if slow := slowest(r.packages, 4); slow != "" {
		r.tell("slowest packages: %s", slow)
	}
	if slow := slowest(r.tests, 4); slow != "" {
		r.tell("slowest tests: %s", slow)
	}
	if r.leftOut != "" {
		r.tell("left out: %d tests, and %s", r.thinned, r.leftOut)
	}
}

// slowest returns the slowest of some, from a second on.
func slowest(all []took, most int) string {
	slices.SortFunc(all, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	var texts []string
	for _, t := range all[:min(len(all), most)] {
		if t.seconds >= 1 {
			texts = append(texts, fmt.Sprintf("%s %.1f s", cmp.Or(t.name.test, short(t.name.pkg)), t.seconds))
		}
	}
	return strings.Join(texts, ", ")
}

// addTo adds go test's lines and the sums to a file.
func (r *run) addTo(file string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, line := range r.lines {
		fmt.Fprintln(f, line)
	}
	fmt.Fprintln(f, "sum", r.passed, r.failed, r.skipped)
	return f.Close()
}

// short is the name of a package within the module.
func short(pkg string) string { return strings.TrimPrefix(pkg, "codeconnect.vmworld.com/vmgroup/") }
