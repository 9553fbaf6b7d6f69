package vsphere

import (
	"flag"
	"os"
	"testing"
)

// TestMain has more tests at once than there are CPUs, unless told otherwise: they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if !told {
		_ = flag.Set("test.parallel", "6")
	}
	os.Exit(m.Run())
}
