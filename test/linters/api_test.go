// Package linters runs gosec on the code, and Kubernetes linters on the API and the manifests. `make lint` runs it.
package linters

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/kube-api-linter/pkg/analysis/registry"
	"sigs.k8s.io/kube-api-linter/pkg/config"
	_ "sigs.k8s.io/kube-api-linter/pkg/registration" // its linters
)

const repository = "../.."

// undecided are the linters that do nothing unless they are configured.
var undecided = []string{"conflictingmarkers", "dependenttags", "forbiddenmarkers", "namingconventions", "preferredmarkers"}

// excused lists the accepted findings, by linter and a pattern of the message, each with its reason. A change of existing fields is not an
// option: stored groups, and clients that were built with these types, must keep working.
var excused = []struct{ linter, finding, reason string }{
	{"conditions", `^Conditions field in VmGroupStatus must be the first`, "the order of the fields is the seed's, and means nothing in JSON"},
	{"conditions", `patchStrategy`, "custom resources have no strategic merge patch (listType=map says the same to server-side apply), and no protobuf"},
	{"jsontags", `^field (Range|family)\.`, "not part of the API: the parsed form of addresses and their bounds"},
	{"optionalorrequired", `^field (Range|family)\.`, "not part of the API, as above"},
	{"minlength", `^field family\.`, "not part of the API, as above"},
	{"maxlength", `^field family\.`, "not part of the API, as above"},
	{"maxlength", `^field (VmGroupStatus|(Update|Canary)Progress|Trial|(Standby)?Member|Quarantined|GivenUp|Stray|NamedObject|IgnoredObject|PersistentDisk)\.`,
		"the server alone writes the status; a bound would have the API server refuse all of it for one long name of vCenter's"},
	{"minlength", `^field (VmGroupStatus|(Update|Canary)Progress|Trial|(Standby)?Member|Quarantined|GivenUp|Stray|NamedObject|IgnoredObject|PersistentDisk)\.`, "as above"},
	{"minlength", `^field \w+\.\w+ must have a minimum (length|items|properties)`,
		"an empty string or list means none, and stored groups can have it: with a bound, the API server would refuse their next edit"},
	{"minlength", `must have either a required field or a minimum properties`, "an empty object means none, as above"},
	{"nobools", `^field (VmGroupSpec\.Paused|Update\.Paused|Tag\.Create|Network\.DHCP|Disk\.Persistent)\b`, "paused is as in a Deployment; a field keeps its type; a disk is persistent or not"},
	{"nobools", `^field Hardware\.(CPUHotAdd|MemoryHotAdd|ReserveAllMemory|SecureBoot)\b`, "as in vCenter: on, off, or as in the template"},
	{"nobools", `^field Hardware\.VTPM\b`, "true adds a vTPM; false keeps the template's"},
	{"nobools", `^field ((Standby)?Member\.Ready|Stray\.Template)\b`, "a field keeps its type, and both kinds of members have the same field"},
	{"nobools", `^field (VmGroupStatus\.Orphaned|CanaryProgress\.Back|Trial\.Ready)\b`, "the server alone writes the status, and it is one or the other"},
	{"nophase", `^naming convention "nophase": field VmGroupStatus\.Phase`, "the seed's contract; the conditions are there as well"},
	{"optionalfields", `should (be a pointer|have the omitempty tag)`,
		"the zero value means the default, in Go as in JSON (omitzero leaves objects out); counts in the status are present even if 0, for columns and the scale subresource"},
	{"requiredfields", `should have the omitempty tag|must have the omitzero tag`, "required fields are always written"},
	{"requiredfields", `^field ((Update|Canary)Progress|Trial|(Standby)?Member|Quarantined|GivenUp|Stray|NamedObject|IgnoredObject|PersistentDisk)\.\w+ has a valid zero value`, "the server alone writes the status, and 0 is an ordinal"},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// linted returns what kube-api-linter finds in the API: "linter: finding".
func linted(t *testing.T, overlay map[string][]byte) (all []string) {
	t.Helper()
	linters, err := registry.DefaultRegistry().InitializeLinters(config.Linters{Enable: []string{"*"}, Disable: undecided}, config.LintersConfig{})
	must(t, err)
	found, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: repository, Overlay: overlay}, "./api/v1alpha1")
	must(t, err)
	if packages.PrintErrors(found) > 0 {
		t.Fatal("package api does not compile")
	}
	graph, err := checker.Analyze(linters, found, nil)
	must(t, err)
	for _, a := range graph.Roots {
		must(t, a.Err)
		for _, d := range a.Diagnostics {
			all = append(all, fmt.Sprintf("%s: %s: %s", a.Analyzer.Name, filepath.Base(found[0].Fset.Position(d.Pos).String()), d.Message))
		}
	}
	return all
}

// unexcused returns the findings that are not excused, and reports unused excuses.
func unexcused(findings []string) (left []string, idle []string) {
	used := map[string]bool{}
	for _, f := range findings {
		linter, rest, _ := strings.Cut(f, ": ")
		_, said, _ := strings.Cut(rest, ": ")
		is := false
		for _, e := range excused {
			if e.linter == linter && regexp.MustCompile(e.finding).MatchString(said) {
				used[e.linter+e.finding], is = true, true
				break
			}
		}
		if !is {
			left = append(left, f)
		}
	}
	for _, e := range excused {
		if !used[e.linter+e.finding] {
			idle = append(idle, e.linter+": "+e.finding)
		}
	}
	return left, idle
}

func TestKubeAPILinterFindsNothingInTheAPIWithoutAnExcuse(t *testing.T) {
	t.Parallel()
	findings := linted(t, nil)
	left, idle := unexcused(findings)
	for _, f := range left {
		t.Errorf("a finding without an excuse: %s", f)
	}
	for _, e := range idle {
		t.Errorf("no finding needs the excuse %s: remove it", e)
	}
	file, err := filepath.Abs(filepath.Join(repository, "api/v1alpha1/planted.go"))
	must(t, err)
	planted := `package v1alpha1
// Planted is an object.
type Planted struct {
	// Another name.
	Port int ` + "`json:\"TCP_port\"`" + `
	Wait float64 ` + "`json:\"wait\"`" + `
}
`
	seen := map[string]bool{}
	left, _ = unexcused(linted(t, map[string][]byte{file: []byte(planted)}))
	for _, f := range left {
		linter, _, _ := strings.Cut(f, ":")
		seen[linter] = true
	}
	for _, want := range []string{"commentstart", "integers", "jsontags", "nofloats", "optionalorrequired"} {
		if !seen[want] {
			t.Errorf("planted: %s finds nothing; linters with findings: %v", want, slices.Sorted(maps.Keys(seen)))
		}
	}
}
