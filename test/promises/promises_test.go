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
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/process"
	"codeconnect.vmworld.com/vmgroup/test/thin"
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
	if thin.Run() || *binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "promises")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	*binary = filepath.Join(dir, "vmgroup")
	if err := process.Build(filepath.Join("..", ".."), *binary); err != nil {
		fmt.Fprintln(os.Stderr, "build vmgroup:", err)
		return 1
	}
	return m.Run()
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
