// Package planted keeps a set of defects that a developer could put into the product by mistake: at least one for each invariant of
// docs/design.md, each promise, each precondition and each table of faults. They show which tests carry the assurance: a test that no planted
// defect needs, and that has no fault that was really found, can go.
//
// A plain run checks that each defect still fits its source. `make planted` plants each one by Go's -overlay, so that no file changes, runs the
// tests that are to see it, and prints which do.
package planted

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

var (
	plant = flag.Bool("planted", false, "plant each defect, and run the tests that are to see it")
	only  = flag.String("planted.only", "", "plant only the defects with this text in their names")

	plantShort = flag.Bool("planted.short", false, "plant only the defects that make test is to see")

	update = flag.Bool("update", false, "write the table of README.md")
)

// defect is a change of one source, and the tests that see it.
type defect struct {
	name string // what it breaks
	file string // from the root of the repository
	from string // occurs in the file once
	to   string
	seen []layer
}

// layer is some tests of a package.
type layer struct {
	packages string
	run      string // go test's -run
}

var (
	planner   = layer{"./sync/planner", "."}
	loop      = layer{"./sync/loop", "."}
	probe     = layer{"./sync/probe", "."}
	world     = layer{"./test/world", "."}
	vsphere   = layer{"./vsphere", "."}
	inventory = layer{"./vsphere/inventory", "."}
	stamp     = layer{"./vsphere/stamp", "."}
	faults    = layer{"./vsphere/vcfault", "."}
	disks     = layer{"./vsphere/disks", "."}
	session   = layer{"./vsphere/session", "."}
	hooks     = layer{"./sync/hook", "."}
	library   = layer{"./vsphere/library", "."}
	limits    = layer{"./sync/limiter", "."}
)

const fromOutside = "./test/promises"

// promises are tests from outside.
func promises(run string) layer { return layer{fromOutside, run} }

// through are tests that go through the hooks and the embedded vCenter.
func through(run string) layer { return layer{"./test", run} }

const root = "../.."

func TestEachPlantedDefectFitsItsSource(t *testing.T) {
	names := map[string]bool{}
	for _, d := range defects {
		if _, err := planted(d); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		if names[d.name] || len(d.seen) == 0 {
			t.Errorf("%s: named twice, or seen by no test", d.name)
		}
		names[d.name] = true
	}
	for _, name := range inMakeTest {
		if !names[name] {
			t.Errorf("inMakeTest names %q, which is no defect", name)
		}
	}
}

// String is a cell of the table.
func (l layer) String() string {
	text := "`" + strings.TrimPrefix(l.packages, "./") + "`"
	if l.run != "." {
		text += " (" + strings.ReplaceAll(l.run, "|", ", ") + ")"
	}
	return text
}

func TestTheTableSaysWhichLayersSeeEachDefect(t *testing.T) {
	page, err := os.ReadFile("README.md")
	must.Succeed(t, err)
	const head = "| defect | planted in | seen by |\n|---|---|---|\n"
	before, after, found := strings.Cut(string(page), head)
	var rows strings.Builder
	for _, d := range defects {
		var by []string
		for _, l := range d.seen {
			by = append(by, l.String())
		}
		fmt.Fprintf(&rows, "| %s | `%s` | %s |\n", d.name, d.file, strings.Join(by, ", "))
	}
	if found && after == rows.String() {
		return
	}
	if !*update {
		t.Fatal("README.md is not as the defects are: go test ./test/planted -update")
	}
	must.Succeed(t, os.WriteFile("README.md", []byte(before+head+rows.String()), 0o644))
}

// Two defects are planted at once: what the go command and the tests do then fills two cores.
func TestPlantedDefectsAreSeen(t *testing.T) {
	if !*plant {
		t.Skip("it takes half an hour: make planted")
	}
	each(t, nil, func(t *testing.T, d defect) {
		var by []string
		for _, l := range d.seen {
			test, err := see(t.TempDir(), d, l)
			if err != nil {
				t.Error(err)
				continue
			}
			by = append(by, fmt.Sprintf("`%s`: `%s`", strings.TrimPrefix(l.packages, "./"), test))
		}
		t.Logf("seen by %s", strings.Join(by, ", "))
	})
}

func TestMakeTestSeesPlantedDefects(t *testing.T) {
	if !*plant && !*plantShort {
		t.Skip("it takes minutes: make planted")
	}
	each(t, inMakeTest, func(t *testing.T, d defect) {
		overlay, err := overlaid(t.TempDir(), d)
		must.Succeed(t, err)
		cmd := exec.Command("make", "-s", "test", "PKG="+d.seen[0].packages)
		cmd.Dir = root
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") }),
			"GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
		said, err := cmd.CombinedOutput()
		m := failed.FindSubmatch(said)
		if err == nil || m == nil {
			t.Fatalf("make test doesn't see it: %v\n%.4000s", err, said)
		}
		t.Logf("seen by `make test`: `%s`", m[1])
	})
}

// each runs a test for each wanted defect of some; nil: of all.
func each(t *testing.T, names []string, test func(t *testing.T, d defect)) {
	for _, d := range defects {
		if !strings.Contains(d.name, *only) || names != nil && !slices.Contains(names, d.name) {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// planted returns the source with the defect.
func planted(d defect) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, d.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), d.from); n != 1 {
		return "", fmt.Errorf("%q occurs %d times in %s", d.from, n, d.file)
	}
	return strings.Replace(string(text), d.from, d.to, 1), nil
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// overlaid writes the source with a defect into a directory, and returns the file for Go's -overlay.
func overlaid(dir string, d defect) (string, error) {
	text, err := planted(d)
	if err != nil {
		return "", err
	}
	source, overlay := filepath.Join(dir, "planted.go"), filepath.Join(dir, "overlay.json")
	path, err := filepath.Abs(filepath.Join(root, d.file))
	if err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: source}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(source, []byte(text), 0o600), os.WriteFile(overlay, replace, 0o600))
}

// see plants a defect, runs a layer, and returns the first test that failed.
func see(dir string, d defect, l layer) (string, error) {
	overlay, err := overlaid(dir, d)
	if err != nil {
		return "", err
	}
	args := []string{"test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout", "10m", "-run", l.run, l.packages}
	if l.packages == fromOutside { // it runs the server in processes of its own
		binary := filepath.Join(dir, "vmgroup")
		build := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "./cmd/vmgroup")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build vmgroup: %w\n%.2000s", err, out)
		}
		args = append(args, "-promises.binary", binary)
	} else if test, err := fails(append(args, "-short")); test != "" || err != nil { // most are seen by few cases
		return test, err
	}
	test, err := fails(args)
	if err == nil && test == "" {
		err = fmt.Errorf("%s doesn't see it", l.packages)
	}
	return test, err
}

// fails runs go test, and returns the first test that fails, if any.
func fails(args []string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if m := failed.FindSubmatch(out); m != nil {
		return string(m[1]), nil
	}
	return "", fmt.Errorf("go %s: %w\n%.2000s", strings.Join(args, " "), err, out)
}
