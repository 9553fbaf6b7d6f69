package vcsim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// Without a field's privilege in configPrivileges, the embedded vCenter would let the least role change the field, and no test of roles would
// notice.
func TestEachFieldOfAVMsConfigurationThatTheServerSetsHasItsPrivilege(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../*.go")
	must.Succeed(t, err)
	more, err := filepath.Glob("../disks/*.go")
	must.Succeed(t, err)
	set := map[string]string{}
	for _, file := range append(files, more...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must.Succeed(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if of, is := n.Type.(*ast.SelectorExpr); is && of.Sel.Name == "VirtualMachineConfigSpec" {
					for _, e := range n.Elts {
						set[e.(*ast.KeyValueExpr).Key.(*ast.Ident).Name] = file
					}
				}
			case *ast.AssignStmt: // as in config.Annotation = "", and b.spec.Config.Annotation = ""
				for _, to := range n.Lhs {
					if field, is := to.(*ast.SelectorExpr); is && isConfig(field.X) {
						set[field.Sel.Name] = file
					}
				}
			}
			return true
		})
	}
	if len(set) < 15 {
		t.Fatalf("the sources seem to set only %v", set)
	}
	for field, file := range set {
		if _, of := reflect.TypeFor[types.VirtualMachineConfigSpec]().FieldByName(field); !of {
			continue
		}
		if _, listed := configPrivileges[field]; !listed {
			t.Errorf("%s sets %s of a VirtualMachineConfigSpec: list its privilege in configPrivileges (vsphere/vcsim/rights.go)", file, field)
		}
	}
}

// isConfig reports whether an expression is named as a VirtualMachineConfigSpec is.
func isConfig(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "config" || e.Name == "spec"
	case *ast.SelectorExpr:
		return e.Sel.Name == "Config"
	}
	return false
}
