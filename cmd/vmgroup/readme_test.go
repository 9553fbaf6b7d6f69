package main

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// readmeBlocks are the shell blocks of a README with the output that follows each, if any.
func readmeBlocks(t *testing.T) (blocks [][2]string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	must.Succeed(t, err)
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:\n```\n(.*?)```\n)?").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, [2]string{m[1], m[2]})
	}
	return blocks
}

// Blocks that another test runs, or that need tools or clusters that the test lacks, by their first words.
var readmeElsewhere = map[string]string{
	"git clone ":                "test/newcomer.sh, which types all of \"Try it\"",
	"make demo":                 "TestTheDemoFollowsItsFileAndCleansUp; its screen: TestTheDemoShowsMembersAndTheirProgress",
	"make run":                  "the server that this test starts; make test runs this test",
	"make build\nVC_HOST=":      "needs a vCenter; with --simulator: TestACheckOfTheEmbeddedVCenterSucceeds",
	"make image ":               "needs docker and a registry: .ci/run builds the image and a release",
	"kubectl create namespace ": "needs a cluster and the chart of a release: test/e2e installs it with Helm, and applies the sample",
}

// The test runs the README's session as a user types it, with the server's port instead of the README's.
func TestTheReadmesCommandsPrintWhatItShows(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the README's blocks are for a shell such as bash, which is not here")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the README's blocks call curl, which is not here")
	}
	p := serveReady(t, nil, "--simulator", "--simulator-clone-time", "1s", "--simulator-power-time", "1s", "--simulator-boot-time", "1s")
	at, err := url.Parse(p.url)
	must.Succeed(t, err)
	manifests, err := filepath.Abs("../../manifests")
	must.Succeed(t, err)
	dir := t.TempDir()
	program := fmt.Sprintf("#!/bin/sh\nexec env %s=1 '%s' \"$@\"\n", beVmgroup, os.Args[0])
	for _, err := range []error{os.Symlink(manifests, filepath.Join(dir, "manifests")), os.Mkdir(filepath.Join(dir, "bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "bin", "vmgroup"), []byte(program), 0o755)} {
		must.Succeed(t, err)
	}
	var typed, said strings.Builder
	elsewhere, used := slices.Collect(maps.Keys(readmeElsewhere)), make(map[string]bool)
	for _, block := range readmeBlocks(t) {
		if i := slices.IndexFunc(elsewhere, func(words string) bool { return strings.HasPrefix(block[0], words) }); i >= 0 {
			used[elsewhere[i]] = true
			continue
		}
		typed.WriteString(strings.ReplaceAll(strings.ReplaceAll(block[0], "127.0.0.1:8080", at.Host), "make build\n", ""))
		said.WriteString(block[1])
	}
	for words := range readmeElsewhere {
		if !used[words] {
			t.Errorf("the README has no block that begins with %q", words)
		}
	}
	c := exec.Command("bash", "-c", typed.String())
	c.Dir = dir
	out, errs, _ := run(t, c)
	if want := outputPattern(said.String()); !want.MatchString(out) || errs != "" {
		t.Errorf("README:\n%s\nactual output:\n%s%s", said.String(), out, errs)
	}
	_, metrics := get(t, p.health+"/metrics")
	for _, m := range []string{"vmgroup_hook_duration_seconds", "vmgroup_actions_total", "vmgroup_groups", "vmgroup_vcenter_calls_total", "go_goroutines"} {
		if !strings.Contains(metrics, m) {
			t.Errorf("/metrics has no %s", m)
		}
	}
	p.stop(t)
	if !strings.Contains(p.logged(), "embedded vCenter") {
		t.Error("the log does not name the embedded vCenter's address")
	}
}

// outputPattern matches an output as a document shows it: "…" matches any lines, any moRef matches another one, and columns can be
// wider or narrower.
func outputPattern(shown string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(shown)
	pattern = strings.ReplaceAll(pattern, "…\n", "(.*\n)*?")
	pattern = regexp.MustCompile("vm-[0-9]+").ReplaceAllString(pattern, "vm-[0-9]+")
	pattern = regexp.MustCompile("  +").ReplaceAllString(pattern, "  +")
	return regexp.MustCompile("^" + pattern + "$")
}
