//go:build unix

// Package promises checks from outside, as a user could, what README ("What you can rely on") and the documents promise. The embedded vCenter
// runs in one process, and the server in others, which the suite kills at any moment while vCenter keeps running. The suite calls the hooks as
// Metacontroller does, and checks the result by the VMs in vCenter and their identities.
//
// The suite uses only the API's types, the binary with its flags, the hooks' JSON and vCenter's API, and nothing of how the server works. A
// change of the server may need additional tests here, but must not need changes of the existing ones.
//
//	go test ./test/promises                                              # the scripted cases and a few random lives
//	go test ./test/promises -run Lives -promises.lives 50 -promises.seed 7  # 50 lives from seed 7 on
package promises

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	binary  = flag.String("promises.binary", "", "the vmgroup binary; built from this module if empty")
	seed    = flag.Uint64("promises.seed", 0, "the seed of the first random life; drawn if 0")
	lives   = flag.Int("promises.lives", 2, "how many random lives to run, with a seed each")
	only    = flag.String("promises.only", "", "what random lives are made of: names of operations, separated by commas; all of them if empty")
	keepLog = flag.Bool("promises.log", false, "print the servers' logs and the diary of each life, also of one that kept all promises")
)

// timeout is how long the tests wait for a condition. It is long enough that no test depends on the speed of the machine.
const timeout = 3 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() || *binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "promises")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	*binary = filepath.Join(dir, "vmgroup")
	if err := build(*binary); err != nil {
		fmt.Fprintln(os.Stderr, "build vmgroup:", err)
		return 1
	}
	return m.Run()
}

// build builds the server. It first stats all sources, so that go test doesn't reuse a cached result after one of them has changed: go test
// only notices the files that the test process itself opens or stats, not those that the go command reads.
func build(to string) error {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "dist") {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() && (strings.HasSuffix(path, ".go") || strings.HasPrefix(d.Name(), "go.")) {
			_, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) { // removed after the directory was listed
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-trimpath", "-o", to, "./cmd/vmgroup") // with the flags of make build, so that the cache has its packages
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// eventually waits until a condition is met.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > timeout {
			t.Fatalf("never: %s", what)
		}
	}
}
