package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A duration in the log is a number of seconds, always under the same key.
func TestEveryDurationIsLoggedInSecondsUnderOneKey(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		tree, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || len(call.Args) != 2 {
				return true
			}
			method, is := call.Fun.(*ast.SelectorExpr)
			key, named := call.Args[0].(*ast.BasicLit)
			if !is || !named || key.Kind != token.STRING {
				return true
			}
			name, _ := strconv.Unquote(key.Value)
			switch {
			case method.Sel.Name == "Dur":
				if found++; name != "durationSeconds" {
					t.Errorf("%s: a duration is logged as %q: use durationSeconds", files.Position(call.Pos()), name)
				}
			case method.Sel.Name != "Dur" && name == "durationSeconds":
				t.Errorf("%s: durationSeconds is logged with %s: use Dur", files.Position(call.Pos()), method.Sel.Name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 4 {
		t.Errorf("found only %d logged durations: does this test look in the right place?", found)
	}
}
