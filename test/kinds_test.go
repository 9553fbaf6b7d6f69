package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"testing"
)

// A kind of step has a rank, a method that carries it out, and a line in the model of vCenter that forecasts and properties use: without a rank, it would
// come before all others.
func TestEachKindOfStepIsRankedCarriedOutAndModelled(t *testing.T) {
	files := token.NewFileSet()
	in := func(path ...string) *ast.File {
		file, err := parser.ParseFile(files, filepath.Join(append([]string{".."}, path...)...), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	actions := in("sync", "plan", "action.go")
	var kinds []string
	ranked := map[string]bool{}
	for _, d := range actions.Decls {
		for _, s := range asSpecs(d) {
			switch {
			case nameIn(s.Type) == "Op":
				kinds = append(kinds, s.Names[0].Name)
			case s.Names[0].Name == "kinds":
				ranked = namesUsed(s)
			}
		}
	}
	if len(kinds) < 20 {
		t.Fatalf("only %d kinds of steps: does this test still look for the right type?", len(kinds))
	}
	carriedOut, modelled := casesOf(in("vsphere", "do.go"), "act"), casesOf(in("sync", "plan", "model.go"), "Apply", "change")
	for name := range casesOf(in("sync", "plan", "mark.go"), "Restamp") {
		modelled[name] = true
	}
	for _, kind := range kinds {
		for where, has := range map[string]map[string]bool{
			"kinds (sync/plan/action.go)": ranked, "act (vsphere/do.go)": carriedOut, "Apply, change or Restamp (sync/plan)": modelled,
		} {
			if !has[kind] {
				t.Errorf("the kind of step %s is missing in %s", kind, where)
			}
		}
	}
}

func asSpecs(d ast.Decl) (all []*ast.ValueSpec) {
	if d, is := d.(*ast.GenDecl); is {
		for _, s := range d.Specs {
			if s, is := s.(*ast.ValueSpec); is {
				all = append(all, s)
			}
		}
	}
	return all
}

// casesOf returns the names in the cases and conditions of functions.
func casesOf(file *ast.File, functions ...string) map[string]bool {
	names := map[string]bool{}
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is {
			continue
		}
		for _, name := range functions {
			if f.Name.Name != name {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CaseClause:
					for _, e := range n.List {
						maps.Copy(names, namesUsed(e))
					}
				case *ast.IfStmt:
					maps.Copy(names, namesUsed(n.Cond))
				}
				return true
			})
		}
	}
	return names
}

func namesUsed(n ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if n, is := n.(*ast.Ident); is {
			names[n.Name] = true
		}
		return true
	})
	return names
}
