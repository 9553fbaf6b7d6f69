// Package test has the tests of the product as a whole: which package can import which, and groups from creation to deletion, through real hook calls
// and the embedded vCenter.
package test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

const module = "codeconnect.vmworld.com/vmgroup"

// allowed lists which packages of this module each package can import, and which of the guarded third-party modules. Imports run
// one way: cmd → hook, loop, vsphere; loop → planner → tell → children; those → plan; all → api, which has the types of the spec.
var allowed = map[string]struct {
	ours   []string
	theirs []string // names of third-party modules, as guarded lists them
}{
	"api/v1alpha1":                {},
	"sync/plan":                   {ours: []string{"api/v1alpha1"}},
	"sync/planner":                {ours: []string{"api/v1alpha1", "sync/plan", "sync/planner/children", "sync/planner/tell"}},
	"sync/planner/tell":           {ours: []string{"api/v1alpha1", "sync/plan", "sync/planner/children"}},
	"sync/planner/children":       {ours: []string{"api/v1alpha1", "sync/plan"}},
	"sync/hook":                   {ours: []string{"api/v1alpha1", "sync/plan", "sync/metrics"}, theirs: []string{"chi", "zerolog", "prometheus"}},
	"sync/page":                   {ours: []string{"api/v1alpha1", "docs", "sync/plan"}},
	"docs":                        {},
	"sync/secret":                 {},
	"sync/limiter":                {},
	"sync/retry":                  {},
	"sync/metrics":                {theirs: []string{"prometheus"}},
	"sync/hook/guard":             {ours: []string{"sync/secret", "sync/metrics"}, theirs: []string{"zerolog", "prometheus"}},
	"sync/probe":                  {ours: []string{"api/v1alpha1", "sync/metrics", "sync/plan"}, theirs: []string{"prometheus"}},
	"sync/loop":                   {ours: []string{"api/v1alpha1", "sync/limiter", "sync/plan", "sync/planner", "sync/metrics", "sync/retry"}, theirs: []string{"zerolog", "prometheus", "client-go"}},
	"vsphere":                     {ours: []string{"api/v1alpha1", "sync/plan", "sync/metrics", "vsphere/arrival", "vsphere/disks", "vsphere/removalcause", "vsphere/guest", "vsphere/inventory", "vsphere/library", "vsphere/session", "vsphere/naming", "vsphere/places", "vsphere/role", "vsphere/stamp", "vsphere/tagging", "vsphere/tasks", "vsphere/vcfault", "vsphere/attributes", "vsphere/hardware", "vsphere/hosts", "vsphere/inflight", "vsphere/source", "sync/retry"}, theirs: []string{"govmomi", "zerolog", "prometheus", "uuid"}},
	"vsphere/inventory":           {ours: []string{"sync/plan", "vsphere/stamp", "api/v1alpha1", "vsphere/disks", "vsphere/guest", "vsphere/naming", "vsphere/session", "vsphere/vcfault", "sync/retry"}, theirs: []string{"govmomi", "zerolog"}},
	"vsphere/arrival":             {ours: []string{"sync/plan", "vsphere/inventory", "vsphere/naming", "vsphere/session", "vsphere/vcfault"}, theirs: []string{"govmomi", "zerolog"}},
	"vsphere/check":               {ours: []string{"api/v1alpha1", "sync/plan", "sync/planner", "vsphere", "vsphere/check/recording", "vsphere/disks", "vsphere/removalcause", "vsphere/guest", "vsphere/inventory", "vsphere/library", "vsphere/naming", "vsphere/role", "vsphere/session", "vsphere/stamp", "vsphere/tasks", "vsphere/vcfault", "vsphere/hardware", "vsphere/source", "sync/retry"}, theirs: []string{"govmomi", "uuid"}},
	"vsphere/check/recording":     {ours: []string{"vsphere/session"}, theirs: []string{"govmomi"}},
	"vsphere/attributes":          {ours: []string{"vsphere/session", "vsphere/vcfault"}, theirs: []string{"govmomi"}},
	"vsphere/hardware":            {ours: []string{"api/v1alpha1", "sync/plan", "vsphere/disks", "vsphere/naming", "vsphere/places", "vsphere/session", "vsphere/vcfault"}, theirs: []string{"govmomi"}},
	"vsphere/hosts":               {ours: []string{"vsphere/session", "vsphere/vcfault"}, theirs: []string{"govmomi"}},
	"vsphere/inflight":            {ours: []string{"sync/plan", "vsphere/inventory", "vsphere/tasks", "vsphere/vcfault"}, theirs: []string{"govmomi"}},
	"vsphere/source":              {ours: []string{"api/v1alpha1", "vsphere/disks", "vsphere/guest", "vsphere/hardware", "vsphere/library", "vsphere/naming", "vsphere/places", "vsphere/session", "vsphere/stamp", "vsphere/vcfault"}, theirs: []string{"govmomi"}},
	"vsphere/disks":               {ours: []string{"api/v1alpha1", "sync/plan", "vsphere/naming", "vsphere/session", "vsphere/vcfault"}, theirs: []string{"govmomi", "zerolog"}},
	"vsphere/removalcause":        {ours: []string{"sync/plan", "vsphere/inventory", "vsphere/naming", "vsphere/session", "vsphere/vcfault", "sync/retry"}, theirs: []string{"govmomi", "zerolog"}},
	"vsphere/guest":               {ours: []string{"api/v1alpha1", "sync/plan", "vsphere/session", "vsphere/vcfault"}, theirs: []string{"govmomi"}},
	"vsphere/library":             {ours: []string{"api/v1alpha1", "sync/plan", "vsphere/naming", "vsphere/session", "vsphere/vcfault", "sync/retry"}, theirs: []string{"govmomi", "zerolog"}},
	"vsphere/session":             {ours: []string{"vsphere/vcfault", "sync/secret", "sync/metrics", "sync/plan", "sync/retry"}, theirs: []string{"govmomi", "zerolog", "prometheus"}},
	"vsphere/naming":              {ours: []string{"api/v1alpha1", "vsphere/vcfault"}, theirs: []string{"govmomi"}},
	"vsphere/places":              {ours: []string{"vsphere/naming", "vsphere/session", "vsphere/vcfault"}, theirs: []string{"govmomi"}},
	"vsphere/role":                {ours: []string{"vsphere/session"}},
	"vsphere/session/sessiontest": {ours: []string{"vsphere/session", "vsphere/vcsim", "vsphere/vctest"}, theirs: []string{"govmomi", "zerolog"}},
	"vsphere/stamp":               {ours: []string{"sync/plan"}},
	"vsphere/tagging":             {ours: []string{"api/v1alpha1", "sync/plan", "vsphere/naming", "vsphere/session", "vsphere/vcfault"}, theirs: []string{"govmomi", "zerolog"}},
	"vsphere/tasks":               {ours: []string{"vsphere/session", "vsphere/vcfault", "sync/retry"}, theirs: []string{"govmomi", "zerolog"}},
	"vsphere/vcfault":             {ours: []string{"sync/secret", "sync/plan"}, theirs: []string{"govmomi"}},
	"vsphere/vcsim":               {theirs: []string{"govmomi", "uuid"}},
	"vsphere/vctest":              {ours: []string{"test/memnet", "vsphere/vcfault", "vsphere/vcsim"}, theirs: []string{"govmomi", "prometheus"}},
	"vsphere/vctest/recorded":     {theirs: []string{"govmomi"}},
	"cmd/vmgroup":                 {ours: []string{"sync/secret", "api/v1alpha1", "cmd/vmgroup/doctor", "sync/plan", "sync/hook", "sync/hook/guard", "sync/limiter", "sync/loop", "sync/metacontroller", "sync/metrics", "sync/page", "sync/probe", "vsphere", "vsphere/check", "vsphere/inventory", "vsphere/vcsim"}, theirs: []string{"chi", "cobra", "uuid", "zerolog", "prometheus"}},
	"cmd/vmgroup/doctor":          {ours: []string{"sync/page"}},
	"sync/metacontroller":         {ours: []string{"api/v1alpha1"}},
	"test/bare":                   {theirs: []string{"govmomi"}},
	"test/memnet":                 {},
	"test/must":                   {},
	"test/report":                 {},
	"test/thin":                   {},
	"test/process":                {ours: []string{"test/must"}},
}

// guarded has the third-party modules that only packages listed in allowed can import, and the name of each in allowed.
var guarded = map[string]string{
	"github.com/go-chi/chi": "chi", "github.com/vmware/govmomi": "govmomi", "github.com/rs/zerolog": "zerolog",
	"github.com/prometheus": "prometheus", "k8s.io/client-go": "client-go", "github.com/spf13": "cobra", "github.com/google/uuid": "uuid",
}

// pure are the standard packages that the planner, sync/plan, sync/retry and the limiter can import. These packages depend only on their arguments, so they use
// no context, clock, logger, I/O or goroutine.
var pure = []string{"bytes", "cmp", "compress/gzip", "crypto/sha256", "encoding/base64", "encoding/hex", "encoding/json", "fmt", "hash/fnv", "iter", "maps", "math",
	"net/netip", "net/url", "regexp", "slices", "strconv", "strings", "time", "unicode", "unicode/utf16", "unicode/utf8"}

func TestImportsRunOneWay(t *testing.T) {
	seen, used := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return fs.SkipDir
		}
		if d.IsDir() && path != ".." && isModule(path) {
			return fs.SkipDir // other modules have go.mod files of their own
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		pkg := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator)))
		can, known := allowed[pkg]
		if !known {
			t.Errorf("%s isn't in allowed: add it, with the packages that it can import", pkg)
			return nil
		}
		seen[pkg] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			if ours, ok := strings.CutPrefix(name, module+"/"); ok {
				if used[pkg+" "+ours] = true; !slices.Contains(can.ours, ours) {
					t.Errorf("%s imports %s", path, ours)
				}
			}
			for prefix, short := range guarded {
				if strings.HasPrefix(name, prefix) && !slices.Contains(can.theirs, short) {
					t.Errorf("%s imports %s", path, name)
				}
			}
			if (strings.HasPrefix(pkg, "sync/plan") || pkg == "sync/limiter" || pkg == "sync/retry") && !strings.Contains(name, ".") && !slices.Contains(pure, name) {
				t.Errorf("%s imports %s, which a pure package can't import", path, name)
			}
		}
		return nil
	})
	must.Succeed(t, err)
	for pkg, can := range allowed {
		if !seen[pkg] {
			t.Errorf("%s has no files: remove it from allowed", pkg)
		}
		for _, ours := range can.ours {
			if !used[pkg+" "+ours] {
				t.Errorf("%s no longer imports %s: remove that from allowed", pkg, ours)
			}
		}
	}
}

func TestTheTableOfPackagesInTheDesignListsAllAndNoOther(t *testing.T) {
	text, err := os.ReadFile("../docs/design.md")
	must.Succeed(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Packages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || !strings.Contains(cells[1], "`") {
			continue
		}
		for i, name := range strings.Split(cells[1], "`") {
			if _, known := allowed[name]; i%2 == 1 && !known {
				t.Errorf("the table has %s, which is no package", name)
			}
			listed[name] = true
		}
	}
	for pkg := range allowed {
		if !listed[pkg] && !strings.HasPrefix(pkg, "test/") {
			t.Errorf("the table of packages lacks %s", pkg)
		}
	}
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
