package linters

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/securego/gosec/v2"
	"github.com/securego/gosec/v2/analyzers"
	"github.com/securego/gosec/v2/rules"
	"golang.org/x/tools/go/packages"
)

// insecure returns gosec's findings in packages, by "rule file" as in .ci/gosec.txt.
func insecure(t *testing.T, overlay map[string][]byte, patterns ...string) map[string]string {
	t.Helper()
	root, err := filepath.Abs(repository)
	must(t, err)
	found, err := packages.Load(&packages.Config{Mode: gosec.LoadMode, Dir: root, Overlay: overlay}, patterns...)
	must(t, err)
	if packages.PrintErrors(found) > 0 {
		t.Fatal("the packages do not compile")
	}
	all := map[string]string{}
	for _, p := range found {
		if strings.Contains(p.PkgPath+"/", "/vmgroup/test/") {
			continue
		}
		// Each package gets an analyzer of its own, because gosec's rules keep state: after a TLS configuration with a MinVersion, they missed
		// configurations without one in later packages.
		g := gosec.NewAnalyzer(gosec.NewConfig(), false, true, false, 1, log.New(io.Discard, "", 0))
		g.LoadRules(rules.Generate(false).RulesInfo())
		g.LoadAnalyzers(analyzers.Generate(false).AnalyzersInfo())
		g.CheckRules(p)
		g.CheckAnalyzers(p)
		issues, _, _ := g.Report()
		for _, i := range issues {
			file, err := filepath.Rel(root, i.File)
			must(t, err)
			all[i.RuleID+" "+file] += fmt.Sprintf("\n%s:%s: %s", file, i.Line, i.What)
		}
	}
	return all
}

func TestGosecFindsNothingWithoutAnExcuse(t *testing.T) {
	t.Setenv("GOSECGOVERSION", runtime.Version()) // otherwise gosec runs the go command for each loop that it sees
	text, err := os.ReadFile(filepath.Join(repository, ".ci/gosec.txt"))
	must(t, err)
	var excuses []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		excuses = append(excuses, strings.TrimSpace(line))
	}
	findings := insecure(t, nil, "./...")
	t.Logf("%d findings", len(findings))
	for finding, words := range findings {
		if !slices.Contains(excuses, finding) {
			t.Errorf("the finding %s is not in .ci/gosec.txt:%s", finding, words)
		}
	}
	file, err := filepath.Abs(filepath.Join(repository, "sync/secret/planted.go"))
	must(t, err)
	planted := `package secret
import "crypto/tls"
func narrow(n int) (int32, *tls.Config) { return int32(n), &tls.Config{InsecureSkipVerify: true} }
`
	seen := insecure(t, map[string][]byte{file: []byte(planted)}, "./sync/secret")
	for _, want := range []string{"G115 sync/secret/planted.go", "G402 sync/secret/planted.go"} {
		if seen[want] == "" {
			t.Errorf("planted: gosec doesn't find %s; it finds %v", want, seen)
		}
	}
}
