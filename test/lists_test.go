package test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// boundedLists are the functions that may join a list without plan.AtMost, and why each list is short. All other functions must use plan.AtMost or a
// function that calls it, because users, guests and vCenter decide how many names their lists have.
var boundedLists = map[string]string{
	"api/v1alpha1/validate_hardware.go validateExtraConfig": "the reserved keys are constants",
	"api/v1alpha1/validate_networks.go validateGateways":    "a gateway for each network, which the schema bounds",
	"vsphere/tagging/watch.go namesIn":                      "the words of one name",
	"vsphere/tagging/watch.go Names":                        "the words of one name",
	"sync/plan/scope.go ScopeKey":                           "two words",
	"sync/plan/printable.go SentencesAtMost":                "it bounds the list",
	"sync/plan/event.go EventOf":                            "what is hashed is no text for people",
	"sync/plan/place.go AddressText":                        "the record of a member's addresses, which the spec bounds",
	"sync/plan/report.go ReportSpec":                        "six words of the spec",
	"sync/loop/undone.go changeOf":                          "what is compared is no text for people",
	"sync/planner/tell/events.go abandonedEvents":           "the names of one Event, namesInEvent at most",
	"sync/planner/tell/conditions.go exceptions":            "faultTexts has at most four",
	"sync/planner/tell/conditions.go stalledText":           "faultTexts has at most four",
	"sync/planner/tell/deletiontext.go text":                "one for each kind of VM",
	"sync/planner/difference.go sizeDifference":             "three things are compared",
	"sync/planner/tell/message.go message":                  "one for each activity, and faultTexts has at most four",
	"sync/plan/display.go Joined":                           "its arguments",
	"sync/page/page.go printable":                           "the lines of a page",
	"sync/page/overview.go activityOf":                      "four things are counted",
	"sync/hook/guard/guard.go openTokens":                   "the files that a flag names",
	"vsphere/privileges.go missingPrivileges":               "the privileges of a call are constants",
	"vsphere/check/experiment.go attempt":                   "the needs of an experiment are constants",
	"vsphere/check/group.go group":                          "one for each part of a clone",
	"vsphere/check/settings.go lookUpPlaces":                "a path, which the flag bounds",
	"vsphere/disks/disks.go Keys":                           "a record of the disks of a VM",
	"vsphere/disks/disks.go Identify":                       "a record of the disks of a VM",
	"vsphere/disks/disks.go Adopted":                        "a record of the disks of a VM",
	"vsphere/disks/member.go Own":                           "a record of the disks of a VM",
	"vsphere/inventory/groupfolder.go lookUp":               "a path, which the spec bounds",
	"vsphere/inventory/guest.go questionText":               "Steady bounds the text",
	"vsphere/check/recording/standins.go parts":             "a recording is a file: it has what vCenter said, with stand-ins",
	"vsphere/check/recording/standins.go made":              "a recording is a file, as above",
	"vsphere/check/recording/standins.go address":           "a recording is a file, as above",
	"vsphere/vcfault/vimfaults.go objectOf":                 "the key of a cause, which no text shows",
	"vsphere/session/resttags.go BatchTags":                 "Steady bounds the text",
	"vsphere/vcfault/netfaults.go Thumbprint":               "the bytes of a hash",
	"vsphere/vcfault/vimfaults.go joined":                   "it bounds the text",
	"vsphere/vcfault/vimfaults.go Steady":                   "it bounds the text",
	"sync/hook/discovery.go target":                         "the addresses of a member are bounded",
}

func TestEveryListInATextIsBounded(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, root := range []string{"api", "sync", "vsphere"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && (d.Name() == "vcsim" || d.Name() == "vctest") {
				return cmp.Or(err, fs.SkipDir)
			}
			if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				f, is := decl.(*ast.FuncDecl)
				if !is {
					continue
				}
				ast.Inspect(f, func(n ast.Node) bool {
					call, is := n.(*ast.CallExpr)
					if !is {
						return true
					}
					if of, is := call.Fun.(*ast.SelectorExpr); is && of.Sel.Name == "Join" && isNamed(of.X, "strings") {
						name := strings.TrimPrefix(filepath.ToSlash(path), "../") + " " + f.Name.Name
						if used[name] = true; boundedLists[name] == "" {
							t.Errorf("%s joins a list of any length: use plan.AtMost, or list here why it is short", name)
						}
					}
					return true
				})
			}
			return nil
		})
		must.Succeed(t, err)
	}
	for name := range boundedLists {
		if !used[name] {
			t.Errorf("%s joins no list any more: remove it from boundedLists", name)
		}
	}
}

func isNamed(x ast.Expr, name string) bool {
	id, is := x.(*ast.Ident)
	return is && id.Name == name
}
