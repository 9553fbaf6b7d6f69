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

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// A duration in the log is a number of seconds, always under the same key.
func TestEveryDurationIsLoggedInSecondsUnderOneKey(t *testing.T) {
	found := 0
	eachCall(t, func(at token.Position, method string, args []ast.Expr) {
		if len(args) != 2 {
			return
		}
		key, named := args[0].(*ast.BasicLit)
		if !named || key.Kind != token.STRING {
			return
		}
		name, _ := strconv.Unquote(key.Value)
		switch {
		case method == "Dur":
			if found++; name != "durationSeconds" {
				t.Errorf("%s: a duration is logged as %q: use durationSeconds", at, name)
			}
		case name == "durationSeconds":
			t.Errorf("%s: durationSeconds is logged with %s: use Dur", at, method)
		}
	})
	if found < 4 {
		t.Errorf("found only %d logged durations: does this test look in the right place?", found)
	}
}

// Messages are constants, and fields have what varies, so that a developer finds the source of a log line by searching for its message.
func TestEveryMessageOfTheLogIsAConstant(t *testing.T) {
	found := 0
	eachCall(t, func(at token.Position, method string, args []ast.Expr) {
		switch {
		case method == "Msgf" || method == "MsgFunc":
			t.Errorf("%s: %s: use Msg, and fields for what varies", at, method)
		case method == "Msg" && len(args) == 1:
			if found++; !isLiteral(args[0]) {
				t.Errorf("%s: the message isn't a constant: use fields for what varies", at)
			}
		}
	})
	if found < 50 {
		t.Errorf("found only %d messages: does this test look in the right place?", found)
	}
}

// isLiteral reports whether an expression is a string literal, or several with + between them.
func isLiteral(e ast.Expr) bool {
	if sum, is := e.(*ast.BinaryExpr); is {
		return isLiteral(sum.X) && isLiteral(sum.Y)
	}
	text, is := e.(*ast.BasicLit)
	return is && text.Kind == token.STRING
}

// eachCall visits each call of a method (or of a function of another package) in the sources, except for tests.
func eachCall(t *testing.T, visit func(at token.Position, method string, args []ast.Expr)) {
	t.Helper()
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
			if call, is := n.(*ast.CallExpr); is {
				if method, is := call.Fun.(*ast.SelectorExpr); is {
					visit(files.Position(call.Pos()), method.Sel.Name, call.Args)
				}
			}
			return true
		})
		return nil
	})
	must.Succeed(t, err)
}
