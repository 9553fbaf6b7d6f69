package vcfault

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	_ "github.com/vmware/govmomi/pbm/types" // registers its types
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// basesIn returns the type that each struct of a package embeds first, by name, without its package.
func basesIn(t *testing.T, path string) map[string]string {
	t.Helper()
	list := exec.Command("go", "list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`, path)
	files, err := list.Output()
	must.Succeed(t, err)
	bases := map[string]string{}
	for name := range strings.Lines(string(files)) {
		file, err := parser.ParseFile(token.NewFileSet(), strings.TrimSpace(name), nil, parser.SkipObjectResolution)
		must.Succeed(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			body, is := spec.Type.(*ast.StructType)
			if !is || len(body.Fields.List) == 0 || len(body.Fields.List[0].Names) > 0 {
				return false
			}
			switch of := body.Fields.List[0].Type.(type) {
			case *ast.Ident:
				bases[spec.Name.Name] = of.Name
			case *ast.SelectorExpr:
				bases[spec.Name.Name] = of.Sel.Name
			}
			return false
		})
	}
	return bases
}

func TestEachFaultOfVCenterIsClassified(t *testing.T) {
	vim := basesIn(t, "github.com/vmware/govmomi/vim25/types")
	pbm := basesIn(t, "github.com/vmware/govmomi/pbm/types")
	lookUp := types.TypeFunc()
	seen := 0
	for prefix, bases := range map[string]map[string]string{"": vim, "pbm:": pbm} {
		for name := range bases {
			base := name
			for base != "MethodFault" && base != "" {
				if next := bases[base]; next != "" {
					base = next
				} else {
					base = vim[base]
				}
			}
			if base == "" || name == "VimFault" || name == "RuntimeFault" { // the root types are in no class
				continue
			}
			seen++
			kind, known := lookUp(prefix + name)
			if !known {
				t.Fatalf("%s%s has no type", prefix, name)
			}
			f, is := reflect.New(kind).Interface().(types.BaseMethodFault)
			if !is {
				t.Fatalf("%v is no fault", kind)
			}
			if rowOf(kind) == nil {
				t.Errorf("%v has no row, and none that it is derived from has one", kind)
				continue
			}
			e := Classify("clone", byTask(f, ""))
			if e.Reason == "" || e.Message == "" || e.NeedsOperator != bool(rowOf(kind).who) || e.NeedsOperator && e.Transient {
				t.Errorf("%v: %+v", kind, e.Fault)
			}
		}
	}
	if seen < 600 {
		t.Errorf("%d faults were looked at: are they still found?", seen)
	}
}

func TestNoFaultHasTwoRowsAndNoRowRepeatsWhatItsBaseSays(t *testing.T) {
	had := map[reflect.Type]bool{}
	for i := range table {
		for _, f := range table[i].faults {
			kind := reflect.TypeOf(f)
			if had[kind] {
				t.Errorf("%v is in two rows", kind)
			}
			had[kind] = true
			if base := rowOf(kind.Field(0).Type); base == &table[i] {
				t.Errorf("%v is derived from a type of the same row", kind)
			}
		}
	}
}

// The server promises that the faults listed here end without an operator: every other fault shows as ERROR, with advice.
func TestOnlyWhatNamesAMomentIsTransient(t *testing.T) {
	var reasons []string
	for _, r := range table {
		if r.who == retry {
			reasons = append(reasons, r.reason)
		}
	}
	slices.Sort(reasons)
	want := "Cancelled ConcurrentAccess FileUnavailable Gone HostNotConnected Internal InvalidPowerState InvalidState MethodDisabled NotAuthenticated TaskInProgress Timeout TooManyClones ToolsUnavailable"
	if got := strings.Join(slices.Compact(reasons), " "); got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestFaultsThatNeedAnOperatorAreNotTransient(t *testing.T) {
	for _, c := range []struct {
		fault  types.BaseMethodFault
		reason string
	}{
		{&types.NotSupported{}, ReasonNotSupported},
		{&types.HostAccessRestrictedToManagementServer{}, ReasonNotSupported},
		{&types.DiskMoveTypeNotSupported{}, ReasonNotSupported},
		{&types.DatacenterMismatch{}, ReasonNotSupported},
		{&types.CloneFromSnapshotNotSupported{}, ReasonSnapshotUnusable},
		{&types.InvalidArgument{}, ReasonInvalidConfiguration},
		{&types.InvalidName{}, ReasonInvalidConfiguration},
		{&types.CannotCreateFile{}, ReasonFileUnavailable},
		{&types.FileNotFound{}, ReasonFileUnavailable},
		{&types.EncryptionKeyRequired{}, ReasonRefused},
		{&types.RestrictedByAdministrator{}, ReasonRefused},
		{&types.DisallowedChangeByService{}, ReasonRefused},
		{&types.VmPowerOnDisabled{}, ReasonRefused},
		{&types.NotFound{}, ReasonRefused},
		{&types.CannotUseNetwork{}, ReasonNetworkUnusable},
		{&types.VmHostAffinityRuleViolation{}, ReasonRuleViolation},
		{&types.NoCompatibleHostWithAccessToDevice{}, ReasonResourceLimit},
		{&types.SSLVerifyFault{}, ReasonHostNotConnected},
		{&types.LicenseServerUnavailable{}, ReasonLicense},
	} {
		if e := Classify("clone", byTask(c.fault, "it says so")); e.Reason != c.reason || !e.NeedsOperator || e.Transient {
			t.Errorf("%T: %+v", c.fault, e.Fault)
		}
	}
}
