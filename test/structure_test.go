package test

import (
	"bytes"
	"cmp"
	"flag"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

var structured = flag.String("structure", "", "the folder of a package, such as sync/planner: TestStructure counts the arrows between its files")

// The test counts the arrows between the files of a package, for those who move code between files:
//
//	go test ./test -run TestStructure -v -structure sync/planner
//
// An arrow leads from a file to another one whose functions, types, variables, constants or fields it uses. In an order of the files, an arrow to an
// earlier file leads upward. The test looks for an order with few of these.
func TestStructure(t *testing.T) {
	if *structured == "" {
		t.Skip("give -structure")
	}
	arrows := arrowsIn(t, filepath.Join("..", *structured))
	order, upward := leastUpward(arrows)
	t.Logf("%d files, %d arrows, %d upward in the order %s", len(order), len(arrows), len(upward), strings.Join(order, " "))
	for _, a := range upward {
		t.Logf("%s uses of %s: %s", a.from, a.to, strings.Join(arrows[a], " "))
	}
}

// arrow leads from a file to one whose names it uses.
type arrow struct{ from, to string }

// arrowsIn returns the arrows between the files of the package in a folder, without tests, and the names for which each file uses another.
func arrowsIn(t *testing.T, folder string) map[arrow][]string {
	t.Helper()
	list := exec.Command("go", "list", "-C", folder, "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	listed, err := list.Output()
	must.Succeed(t, err)
	exported := map[string]string{} // the file with a package's types
	for line := range strings.Lines(string(listed)) {
		if path, file, is := strings.Cut(strings.TrimSpace(line), " "); is {
			exported[path] = file
		}
	}
	fileSet := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	must.Succeed(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(fileSet, name, nil, 0)
			must.Succeed(t, err)
			files = append(files, file)
		}
	}
	imports := importer.ForCompiler(fileSet, "gc", func(path string) (io.ReadCloser, error) {
		data, err := os.ReadFile(exported[path])
		return io.NopCloser(bytes.NewReader(data)), err
	})
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: imports}).Check(folder, fileSet, files, info)
	must.Succeed(t, err)
	arrows := map[arrow][]string{}
	for at, used := range info.Uses {
		field, isVar := used.(*types.Var)
		_, isFunc := used.(*types.Func)
		if used.Pkg() != pkg || used.Parent() != pkg.Scope() && !isFunc && !(isVar && field.IsField()) {
			continue
		}
		a := arrow{filepath.Base(fileSet.Position(at.Pos()).Filename), filepath.Base(fileSet.Position(used.Pos()).Filename)}
		if a.from != a.to && !slices.Contains(arrows[a], used.Name()) {
			arrows[a] = append(arrows[a], used.Name())
		}
	}
	for _, names := range arrows {
		slices.Sort(names)
	}
	return arrows
}

// leastUpward returns an order of the files with few upward arrows, and these. It moves one file at a time, as long as that helps.
func leastUpward(arrows map[arrow][]string) (order []string, upward []arrow) {
	between := map[string]map[string]int{} // the arrows from a file to another
	for a := range arrows {
		for _, file := range []string{a.from, a.to} {
			if between[file] == nil {
				between[file] = map[string]int{}
				order = append(order, file)
			}
		}
		between[a.from][a.to] = 1
	}
	slices.Sort(order)
	for moved := true; moved; {
		moved = false
		for _, file := range slices.Clone(order) {
			at := slices.Index(order, file)
			rest := slices.Delete(slices.Clone(order), at, at+1)
			best, more := 0, make([]int, len(order)) // by place: upward arrows more than with the file at the top
			for i, other := range rest {
				more[i+1] = more[i] + between[file][other] - between[other][file]
				if more[i+1] < more[best] {
					best = i + 1
				}
			}
			if more[best] < more[at] {
				order, moved = slices.Insert(rest, best, file), true
			}
		}
	}
	for a := range arrows {
		if slices.Index(order, a.from) > slices.Index(order, a.to) {
			upward = append(upward, a)
		}
	}
	slices.SortFunc(upward, func(a, b arrow) int { return cmp.Or(strings.Compare(a.from, b.from), strings.Compare(a.to, b.to)) })
	return order, upward
}
