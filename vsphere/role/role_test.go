package role

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

func TestNoSourceCallsAMethodOutsideTheLeastRole(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, name := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must.Succeed(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				if s, is := call.Fun.(*ast.SelectorExpr); is {
					if pkg, is := s.X.(*ast.Ident); is && (pkg.Name == "methods" || pkg.Name == "pbmmethods") {
						found[s.Sel.Name]++
					}
				}
			}
			return true
		})
	}
	// Two functions of govmomi are not named after the calls that they make.
	for own, name := range map[string]string{"GetServiceContent": "RetrieveServiceContent", "GetCurrentTime": "CurrentTime"} {
		found[name] = found[own]
		delete(found, own)
	}
	if len(found) < 25 {
		t.Fatalf("only %d methods were found in the sources", len(found))
	}
	if outside := Outside(found); len(outside) > 0 {
		t.Errorf("the least role does not allow %v: add them to calls, with their privileges, and these to least", outside)
	}
}

// sources returns the source files of vsphere and of all packages below it, without tests and the embedded vCenter.
func sources(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "vcsim" {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	})
	must.Succeed(t, err)
	return files
}

func TestACallOutsideTheLeastRoleIsReported(t *testing.T) {
	t.Parallel()
	got := Outside(map[string]int{
		"CloneVM_Task": 1, "CreateVM_Task": 1, "POST /rest/com/vmware/cis/tagging/tag": 1, "DELETE /rest/com/vmware/cis/tagging/tag/id:": 1,
		"POST /rest/com/vmware/cis/tagging/tag-association?~action=attach-multiple-tags-to-object": 1,
		"POST /rest/com/vmware/cis/tagging/tag/id:?~action=list-tags-for-category":                 1,
	})
	want := []string{"CreateVM_Task", "DELETE /rest/com/vmware/cis/tagging/tag/id:"}
	if !slices.Equal(got, want) {
		t.Errorf("the calls outside are %q, want %q", got, want)
	}
}

func TestThePrivilegesOfTheCallsAreThoseOfTheLeastRole(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{}
	for name, needs := range calls {
		for _, id := range needs {
			needed[id] = true
			if id != privAnyone && !slices.ContainsFunc(slices.Concat(least, trial), func(p Privilege) bool { return p.ID == id }) {
				t.Errorf("%s needs %s, which is neither in the least role nor one of the deep check's", name, id)
			}
		}
	}
	all := slices.Concat(least, trial)
	for i, p := range all {
		if !needed[p.ID] {
			t.Errorf("no call needs %s: remove it from the role", p.ID)
		}
		twice := func(q Privilege) bool {
			return q.ID == p.ID && slices.ContainsFunc(p.On, func(s Scope) bool { return slices.Contains(q.On, s) })
		}
		if slices.ContainsFunc(all[:i], twice) {
			t.Errorf("%s is in the least role twice for %v", p.ID, p.On)
		}
	}
}

func TestTheTablesInTheDocumentsAreThoseOfTheSources(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference.md")
	must.Succeed(t, err)
	for _, table := range []string{neededTable(), optionalTable(), trialTable()} {
		if !strings.Contains(string(text), table) {
			t.Errorf("docs/reference.md does not have this table:\n%s", table)
		}
	}
}

func TestTheTestsAndChecksNamedInTheDocumentExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/vcenter.md")
	must.Succeed(t, err)
	var sources strings.Builder
	for _, pattern := range []string{"../*.go", "../*/*.go", "../*/*/*.go", "../../sync/*/*_test.go", "../../test/*_test.go"} {
		files, err := filepath.Glob(pattern)
		must.Succeed(t, err)
		for _, name := range files {
			source, err := os.ReadFile(name)
			must.Succeed(t, err)
			sources.Write(source)
		}
	}
	named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1)
	if len(named) < 30 {
		t.Fatalf("only %d tests are named", len(named))
	}
	for _, name := range named {
		if !strings.Contains(sources.String(), "func "+name+"(") {
			t.Errorf("there is no %s", name)
		}
	}
	for _, check := range regexp.MustCompile(`\*(deep: [^*…]+)\*`).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(sources.String(), `"`+check[1]+`"`) {
			t.Errorf("there is no check %q", check[1])
		}
	}
	for _, file := range regexp.MustCompile("`([a-z/]+\\.go)`").FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat("../" + file[1]); err == nil {
			continue
		}
		if _, err := os.Stat("../../" + file[1]); err != nil { // the path is relative to the root of the repository
			t.Error(err)
		}
	}
}

// neededTable returns the Markdown table of the privileges without which the server can't create or remove any member.
func neededTable() string {
	var b strings.Builder
	b.WriteString("| privilege | on | why |\n|---|---|---|\n")
	for _, p := range least {
		if p.Needed() {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", p.ID, where(p), p.Why)
		}
	}
	return b.String()
}

// optionalTable returns the Markdown table of the privileges that only some features need.
func optionalTable() string {
	var b strings.Builder
	b.WriteString("| privilege | on | without it |\n|---|---|---|\n")
	for _, p := range least {
		if !p.Needed() {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", p.ID, where(p), p.Without)
		}
	}
	return b.String()
}

// where lists the objects on which a privilege is needed.
func where(p Privilege) string {
	on := make([]string, 0, len(p.On)+1)
	for _, scope := range p.On {
		on = append(on, string(scope))
	}
	if p.Also != "" {
		on = append(on, p.Also)
	}
	return strings.Join(on, "; ")
}

// trialTable returns the Markdown table of the privileges that only the deep check uses.
func trialTable() string {
	var b strings.Builder
	b.WriteString("| privilege | on | what the deep check does with it |\n|---|---|---|\n")
	for _, p := range trial {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.ID, p.On[0], p.Why)
	}
	return b.String()
}
