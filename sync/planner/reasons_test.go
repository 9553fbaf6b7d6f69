package planner_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// The log, /groups and the Events show an action's reason. The stories show every kind of action.
func TestEveryActionOfTheStoriesHasAReason(t *testing.T) {
	shown := map[plan.Op]bool{}
	everyResult(func(name string, r *plan.Result) {
		for _, a := range r.Actions {
			if shown[a.Op] = true; a.Reason == "" {
				t.Errorf("%s: %s %s has no reason", name, a.Op, a.Key)
			}
		}
	})
	for _, op := range opsOf(t) {
		if !shown[op] {
			t.Errorf("no story shows the action %s, with its reason", op)
		}
	}
}

// opsOf are the constants of type Op, as action.go declares them.
func opsOf(t *testing.T) (ops []plan.Op) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), "../plan/action.go", nil, 0)
	must.Succeed(t, err)
	ast.Inspect(tree, func(n ast.Node) bool {
		if c, is := n.(*ast.ValueSpec); is {
			if kind, is := c.Type.(*ast.Ident); is && kind.Name == "Op" {
				op, _ := strconv.Unquote(c.Values[0].(*ast.BasicLit).Value)
				ops = append(ops, plan.Op(op))
			}
		}
		return true
	})
	if len(ops) < 20 {
		t.Fatalf("action.go declares %d actions: does this test still look in the right place?", len(ops))
	}
	return ops
}
