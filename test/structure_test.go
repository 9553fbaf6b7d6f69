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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"

	"codeconnect.vmworld.com/vmgroup/test/thin"
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

// A plan is decided, and then told. What decides can't see what tells: only the files that hand a decision over use package tell, and what they hand over
// is plain data, so that telling can't call back. In package tell, all arrows lead downward; in the planner, few don't: a new one needs a reason.
func TestTheStructureOfThePlanner(t *testing.T) {
	thin.NotShort(t)
	planner, tell := filepath.Join("..", "sync", "planner"), filepath.Join("..", "sync", "planner", "tell")
	handOver := []string{"planner.go", "told.go"}
	p := parse(t, planner)
	for _, file := range p.files {
		name := filepath.Base(p.fileSet.Position(file.Pos()).Filename)
		uses := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return strings.HasSuffix(i.Path.Value, `/sync/planner/tell"`) })
		if uses != slices.Contains(handOver, name) {
			t.Errorf("%s uses package tell: %t; only %s do", name, uses, strings.Join(handOver, " and "))
		}
	}
	told := parse(t, tell)
	for _, wrong := range notData(told.pkg.Scope().Lookup("Decision").Type(), "Decision", map[types.Type]bool{}) {
		t.Errorf("%s is no plain data", wrong)
	}
	noMoreUpward(t, map[string]int{planner: 4, tell: 0})
}

// What the inventory keeps doesn't know the Inventory that keeps it, so all arrows lead downward: from what answers to what is kept.
func TestTheStructureOfTheInventory(t *testing.T) {
	thin.NotShort(t)
	noMoreUpward(t, map[string]int{filepath.Join("..", "vsphere", "inventory"): 0})
}

// noMoreUpward fails if more arrows between the files of a folder lead upward than were there.
func noMoreUpward(t *testing.T, were map[string]int) {
	t.Helper()
	for folder, most := range were {
		order, upward := leastUpward(arrowsIn(t, folder))
		if len(upward) > most {
			t.Errorf("%s: %d arrows between its files lead upward, and there were %d, in the order %s: %v", folder, len(upward), most, strings.Join(order, " "), upward)
		}
	}
}

// The planner gives the faults that it finds a reason and no message, and package tell has words for each of these reasons.
func TestTheFaultsOfThePlannerGetTheirWordsWhereTheyAreTold(t *testing.T) {
	const words = "faultwords.go"
	planner, tell := filepath.Join("..", "sync", "planner"), filepath.Join("..", "sync", "planner", "tell")
	given, said := map[string]bool{}, map[string]bool{}
	for _, file := range parse(t, planner).files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if fun, is := x.Fun.(*ast.Ident); is && fun.Name == "needsOperator" {
					given[nameIn(x.Args[0])] = true
				}
			case *ast.AssignStmt:
				if to, is := x.Lhs[0].(*ast.SelectorExpr); is && to.Sel.Name == "Reason" {
					given[nameIn(x.Rhs[0])] = true
				}
			case *ast.CompositeLit:
				if reason, message := keyIn(x, "Reason"), keyIn(x, "Message"); nameIn(x.Type) != "Fault" || reason == nil {
				} else if message == nil {
					given[nameIn(reason)] = true
				} else if text, is := message.(*ast.BasicLit); is || callOf(message, "Sprintf") {
					t.Errorf("the planner words the fault %s: %v", nameIn(reason), text)
				}
			}
			return true
		})
	}
	p := parse(t, tell)
	for _, file := range p.files {
		if filepath.Base(p.fileSet.Position(file.Pos()).Filename) == words {
			ast.Inspect(file, func(n ast.Node) bool {
				if x, is := n.(*ast.CaseClause); is {
					for _, one := range x.List {
						said[nameIn(one)] = true
					}
				}
				return true
			})
		}
	}
	for reason := range given {
		if len(reason) > len("Reason") && !said[reason] {
			t.Errorf("the planner gives the fault %s without a message, and %s has no words for it: add them to inWords", reason, words)
		}
	}
	for _, reason := range []string{"ReasonSuperseded", "ReasonTooManyDisks", "ReasonProbePathSuspected", "ReasonAddressesExhausted"} {
		if !given[reason] {
			t.Errorf("the planner's fault %s isn't among those that the test finds: %v", reason, given)
		}
	}
}

// nameIn is the name that an expression ends with: Fault of plan.Fault.
func nameIn(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// keyIn is the value of a key in a composite literal; nil if it isn't there.
func keyIn(x *ast.CompositeLit, key string) ast.Expr {
	for _, e := range x.Elts {
		if pair, is := e.(*ast.KeyValueExpr); is && nameIn(pair.Key) == key {
			return pair.Value
		}
	}
	return nil
}

// callOf reports whether an expression calls a function of that name.
func callOf(x ast.Expr, name string) bool {
	call, is := x.(*ast.CallExpr)
	return is && nameIn(call.Fun) == name
}

// Each thing that the planner may do to a VM is a concern: a file, and a line in the table. Concerns don't use each other, but for one: a clone of a standby
// member is a clone.
func TestEachConcernIsAFileAndALine(t *testing.T) {
	thin.NotShort(t)
	p := parse(t, filepath.Join("..", "sync", "planner"))
	const table = "concerns.go"
	files, lines := map[string]bool{}, map[types.Object]bool{}
	for at, used := range p.info.Uses {
		lines[used] = lines[used] || filepath.Base(p.fileSet.Position(at.Pos()).Filename) == table
	}
	for _, name := range p.pkg.Scope().Names() {
		is := p.pkg.Scope().Lookup(name)
		if _, isVar := is.(*types.Var); !isVar || is.Type().String() != "*"+p.pkg.Path()+".concern" {
			continue
		}
		if files[filepath.Base(p.fileSet.Position(is.Pos()).Filename)] = true; !lines[is] {
			t.Errorf("%s has no line in %s", name, table)
		}
	}
	if len(files) < 10 {
		t.Fatalf("only %d files have concerns: does this test still look for the right type?", len(files))
	}
	var between []arrow
	for a := range arrowsIn(t, filepath.Join("..", "sync", "planner")) {
		if files[a.from] && files[a.to] && a != (arrow{"standby.go", "clone.go"}) {
			between = append(between, a)
		}
	}
	if len(between) > 0 {
		t.Errorf("concerns use each other: %v", between)
	}
}

// What the inventory remembers beside what was read is in types with a lock of their own. Only their methods take it, so that their file shows what it
// guards. Inventory and Reader, whose methods are in several files, have the other locks.
func TestALockOfTheInventoryIsTakenInItsTypesFile(t *testing.T) {
	thin.NotShort(t)
	p := parse(t, filepath.Join("..", "vsphere", "inventory"))
	several := map[types.Object]bool{}
	for _, name := range []string{"Inventory", "Reader"} {
		for field := range p.pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct).Fields() {
			several[field] = true
		}
	}
	locks := map[types.Object]bool{}
	for at, used := range p.info.Uses {
		field, isVar := used.(*types.Var)
		if !isVar || !field.IsField() || several[field] || !strings.HasPrefix(field.Type().String(), "sync.") || !strings.HasSuffix(field.Type().String(), "Mutex") {
			continue
		}
		locks[field] = true
		if uses, has := p.fileSet.Position(at.Pos()), p.fileSet.Position(field.Pos()); uses.Filename != has.Filename {
			t.Errorf("%s takes a lock of %s", uses, filepath.Base(has.Filename))
		}
	}
	if len(locks) < 6 {
		t.Errorf("only %d locks are taken: does this test still see them?", len(locks))
	}
}

// notData names the parts of a type that aren't plain data: functions, channels and interfaces. Types of other modules aren't looked into.
func notData(of types.Type, name string, seen map[types.Type]bool) (wrong []string) {
	if seen[of] {
		return nil
	}
	seen[of] = true
	if is, named := types.Unalias(of).(*types.Named); named && (is.Obj().Pkg() == nil || !strings.HasPrefix(is.Obj().Pkg().Path(), module) && !strings.HasPrefix(is.Obj().Pkg().Path(), "..")) {
		return nil
	}
	switch of := of.Underlying().(type) {
	case *types.Signature, *types.Chan, *types.Interface:
		return []string{name}
	case *types.Struct:
		for field := range of.Fields() {
			wrong = append(wrong, notData(field.Type(), name+"."+field.Name(), seen)...)
		}
	case *types.Pointer:
		return notData(of.Elem(), name, seen)
	case *types.Slice:
		return notData(of.Elem(), name, seen)
	case *types.Array:
		return notData(of.Elem(), name, seen)
	case *types.Map:
		return append(notData(of.Key(), name, seen), notData(of.Elem(), name, seen)...)
	}
	return wrong
}

// arrow leads from a file to one whose names it uses.
type arrow struct{ from, to string }

// parsed is a package with its types, without tests.
type parsed struct {
	fileSet *token.FileSet
	files   []*ast.File
	pkg     *types.Package
	info    *types.Info
}

// parse returns the package in a folder.
func parse(t *testing.T, folder string) parsed {
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
	return parsed{fileSet, files, pkg, info}
}

// arrowsIn returns the arrows between the files of the package in a folder, and the names for which each file uses another.
func arrowsIn(t *testing.T, folder string) map[arrow][]string {
	t.Helper()
	p := parse(t, folder)
	arrows := map[arrow][]string{}
	for at, used := range p.info.Uses {
		field, isVar := used.(*types.Var)
		_, isFunc := used.(*types.Func)
		if used.Pkg() != p.pkg || used.Parent() != p.pkg.Scope() && !isFunc && !(isVar && field.IsField()) {
			continue
		}
		a := arrow{filepath.Base(p.fileSet.Position(at.Pos()).Filename), filepath.Base(p.fileSet.Position(used.Pos()).Filename)}
		if a.from != a.to && !slices.Contains(arrows[a], used.Name()) {
			arrows[a] = append(arrows[a], used.Name())
		}
	}
	for _, names := range arrows {
		slices.Sort(names)
	}
	return arrows
}

// leastUpward returns an order of the files with few upward arrows, and these. It begins with an order in which only arrows of circles lead upward, and
// moves one file at a time, as long as that helps.
func leastUpward(arrows map[arrow][]string) (order []string, upward []arrow) {
	between := map[string]map[string]int{} // the arrows from a file to another
	for a := range arrows {
		for _, file := range []string{a.from, a.to} {
			if between[file] == nil {
				between[file] = map[string]int{}
			}
		}
		between[a.from][a.to] = 1
	}
	placed := map[string]bool{}
	var place func(string)
	place = func(file string) {
		if placed[file] {
			return
		}
		placed[file] = true
		for _, below := range slices.Sorted(maps.Keys(between[file])) {
			place(below)
		}
		order = slices.Insert(order, 0, file)
	}
	for _, file := range slices.Sorted(maps.Keys(between)) {
		place(file)
	}
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
