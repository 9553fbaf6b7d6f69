package planner_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// Only the function remove, whose table says which VM can be removed and when, plans the removal of a VM.
func TestOnlyRemoveRemovesVMs(t *testing.T) {
	removes := map[string]bool{"Destroy": true, "Quarantine": true, "Release": true}
	files, err := filepath.Glob("../plan*/*.go")
	must.Succeed(t, err)
	found := 0
	wants := func(file string, what ast.Expr) {
		if of, ok := what.(*ast.SelectorExpr); ok {
			what = of.Sel // plan.Destroy
		}
		if is, ok := what.(*ast.Ident); !ok || !removes[is.Name] {
			return
		} else if found++; filepath.Base(file) != "remove.go" {
			t.Errorf("%s creates an action %s: let it call steps.remove", file, is.Name)
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must.Succeed(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Op" {
					wants(file, n.Value)
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if field, ok := to.(*ast.SelectorExpr); ok && field.Sel.Name == "Op" && len(n.Lhs) == len(n.Rhs) {
						wants(file, n.Rhs[i])
					}
				}
			}
			return true
		})
	}
	if found != len(removes) {
		t.Errorf("%d actions that remove were found, want %d: does this test still look in the right place?", found, len(removes))
	}
}
