package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// reported returns what a run prints of the output of go test -json.
func reported(of int, verbose bool, output string) (*run, string) {
	var out strings.Builder
	r := &run{out: &out, of: of, verbose: verbose, leftOut: "the rest", began: time.Now()}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for line := range strings.Lines(output) {
			lines <- line
		}
	}()
	r.read(lines)
	r.close(90 * time.Second)
	return r, out.String()
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		_, after, found := strings.Cut(text, part)
		if !found {
			t.Fatalf("want %q, in this order, in:\n%s", parts, text)
		}
		text = after
	}
}

const passed = `{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"output","Package":"m/a","Test":"TestOne","Output":"    a_test.go:1: said\n"}
{"Action":"output","Package":"m/a","Test":"TestOne","Output":"--- PASS: TestOne (1.50s)\n"}
{"Action":"pass","Package":"m/a","Test":"TestOne","Elapsed":1.5}
{"Action":"output","Package":"m/a","Test":"TestTwo","Output":"    a_test.go:2: left out: it is long (make test-all runs it)\n"}
{"Action":"skip","Package":"m/a","Test":"TestTwo","Elapsed":0}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t1.6s\n"}
{"Action":"pass","Package":"m/a","Elapsed":1.6}
{"Action":"start","Package":"m/b"}
{"Action":"output","Package":"m/b","Output":"ok  \tm/b\t(cached)\n"}
{"Action":"pass","Package":"m/b","Elapsed":0}
{"Action":"start","Package":"m/none"}
{"Action":"output","Package":"m/none","Output":"?   \tm/none\t[no test files]\n"}
{"Action":"skip","Package":"m/none","Elapsed":0}
`

func TestARunShowsEachPackageAndCounts(t *testing.T) {
	r, out := reported(2, false, passed)
	contains(t, out, "  1/2 ok        1.6 s  m/a\n", "  2/2 ok       cached  m/b\n",
		"ok: 2 packages (1 of them cached), 1 tests passed, 0 failed, 1 skipped, in 0s, 1m30s of processor time",
		"slowest packages: m/a 1.6 s\n", "slowest tests: TestOne 1.5 s\n", "left out: 1 tests, and the rest\n")
	if strings.Contains(out, "said") {
		t.Errorf("a test that passes is shown:\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "tally")
	must.Succeed(t, r.addTo(file))
	tally, err := os.ReadFile(file)
	must.Succeed(t, err)
	if want := "ok  \tm/a\t1.6s\nok  \tm/b\t(cached)\nsum 1 0 1\n"; string(tally) != want {
		t.Errorf("the tally is %q, want %q", tally, want)
	}
	if _, out := reported(0, true, passed); !strings.Contains(out, "a_test.go:1: said") {
		t.Errorf("a verbose run does not show what a test says:\n%s", out)
	}
}

func TestARunShowsWhatFailedTestsSaidSubtestsFirst(t *testing.T) {
	r, out := reported(0, false, `{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Test":"TestOne","Output":"--- FAIL: TestOne (0.00s)\n"}
{"Action":"output","Package":"m/a","Test":"TestOne/sub","Output":"    a_test.go:1: wrong\n"}
{"Action":"fail","Package":"m/a","Test":"TestOne/sub","Elapsed":0}
{"Action":"fail","Package":"m/a","Test":"TestOne","Elapsed":0}
{"Action":"output","Package":"m/a","Test":"TestHangs","Output":"    a_test.go:2: begins\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a","Elapsed":0.1}
`)
	contains(t, out, "  1 FAILED    0.1 s  m/a\n", "a_test.go:1: wrong\n", "--- FAIL: TestOne", "a_test.go:2: begins\n", "FAILED: 1 packages", "2 failed")
	if r.failed != 2 {
		t.Errorf("%d failed, want 2", r.failed)
	}
}

// The compiler's errors name the package with the variant that it compiles for tests.
func TestAPackageThatDoesNotCompileFails(t *testing.T) {
	r, out := reported(0, false, `{"ImportPath":"m/a [m/a.test]","Action":"build-output","Output":"a_test.go:1:1: undefined: x\n"}
{"ImportPath":"m/a [m/a.test]","Action":"build-fail"}
{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a [build failed]\n"}
{"Action":"fail","Package":"m/a","Elapsed":0,"FailedBuild":"m/a [m/a.test]"}
`)
	contains(t, out, "FAILED", "undefined: x", "FAILED: 1 packages", "1 failed")
	if r.failed != 1 {
		t.Errorf("%d failed, want 1", r.failed)
	}
}

func TestARaceThatATestDoesNotFailForIsShown(t *testing.T) {
	_, out := reported(0, false, `{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Test":"TestOne","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"m/a","Test":"TestOne","Output":"Write at 0x1\n"}
{"Action":"pass","Package":"m/a","Test":"TestOne","Elapsed":0}
{"Action":"fail","Package":"m/a","Elapsed":0}
`)
	contains(t, out, "WARNING: DATA RACE\nWrite at 0x1\n", "1 failed")
}

func TestACommandsStatusIsTheReports(t *testing.T) {
	for _, x := range []struct {
		script string
		want   int
	}{
		{`echo '{"Action":"pass","Package":"m/a","Elapsed":0}'`, 0},
		{`echo '{"Action":"pass","Package":"m/a","Elapsed":0}'; exit 3`, 3},
		{`echo '{"Action":"fail","Package":"m/a","Elapsed":0}'`, 1},
		{`echo no tests`, 1},
	} {
		r := &run{out: &strings.Builder{}, began: time.Now()}
		got, err := r.command([]string{"sh", "-c", x.script})
		must.Succeed(t, err)
		if got != x.want {
			t.Errorf("%s: status %d, want %d", x.script, got, x.want)
		}
	}
}
