package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	const text = "# Changelog\n\n## Unreleased\n\n### Added\n- three\n\n## 1.2.0 (2026-11-01)\n\n- two\n\n## [1.1.0]\n- one\n"
	for version, want := range map[string]string{"Unreleased": "### Added\n- three", "1.2.0": "- two", "1.1.0": "- one"} {
		if got, found := changes(text, version); !found || got != want {
			t.Errorf("%s: %v %q", version, found, got)
		}
	}
	if got, found := changes(text, "1.2"); found {
		t.Errorf("1.2: %q", got)
	}
}

func TestOnlyAPreReleaseCanUseTheUnreleasedNotes(t *testing.T) {
	if _, err := (release{version: "v99.0.0"}).notes(repository); err == nil || !strings.Contains(err.Error(), "99.0.0") {
		t.Errorf("a release without a section: %v; want an error and %q in the text", err, "99.0.0")
	}
	if notes, err := (release{version: "v99.0.0-rc.1"}).notes(repository); err != nil || !bytes.HasPrefix(notes, []byte("# VmGroup 99.0.0-rc.1\n\n")) {
		t.Errorf("%v %.40s", err, notes)
	}
}

// Artifact Hub shows the chart's page and metadata, and GitHub the notes, where the checkout's relative links lead nowhere.
func TestWhatIsReadElsewhereLinksToTheRepositoryAtItsVersion(t *testing.T) {
	r := release{version: "v99.0.0-rc.1", image: "registry.example.com/vmgroup", tag: "v99.0.0-rc.1", repository: "https://github.com/Example/vmgroup"}
	notes, err := r.notes(repository)
	succeed(t, err)
	dir := t.TempDir()
	succeed(t, copyChart(repository, dir, r, ""))
	page, meta, alerts := chartFiles(t, dir, "README.md")[0], chartFiles(t, dir, "Chart.yaml")[0], chartFiles(t, dir, "files/monitoring/prometheusrule.yaml")[0]
	for name, text := range map[string]string{"the notes": string(notes), "the chart's page": page, "Chart.yaml": meta, "the alerts": alerts} {
		if strings.Contains(text, "OWNER") || !strings.Contains(text, r.repository) {
			t.Errorf("%s names no repository:\n%.400s", name, text)
		}
	}
	for _, text := range []string{string(notes), page} {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			at, here := strings.CutPrefix(l[1], r.repository+"/blob/v99.0.0-rc.1/")
			file, _, _ := strings.Cut(at, "#")
			if _, err := os.Stat(filepath.Join(repository, file)); here && err != nil || !strings.Contains(l[1], "://") {
				t.Errorf("%s leads nowhere: %v", l[1], err)
			}
		}
	}
	if !strings.Contains(alerts, "runbook_url: "+r.repository+"/blob/v99.0.0-rc.1/docs/troubleshooting.md#") {
		t.Errorf("the alerts link elsewhere:\n%.1000s", alerts)
	}
	for _, want := range []string{"image: registry.example.com/vmgroup:v99.0.0-rc.1", "name: vmgroups.vm.codeconnect.vmworld.com"} {
		if !strings.Contains(meta, want) {
			t.Errorf("Chart.yaml lacks %q:\n%s", want, meta)
		}
	}
}

// The test does what krew does with the manifest: it takes the archive of the platform, compares the checksum, and links to the program.
func TestKrewFindsThePluginOfEachPlatform(t *testing.T) {
	dir := t.TempDir()
	binaries := map[platform]string{}
	for _, p := range platforms {
		binaries[p] = filepath.Join(t.TempDir(), "binary")
		succeed(t, os.WriteFile(binaries[p], []byte("for "+p.os+"/"+p.arch), 0o755))
	}
	r := release{version: "v1.2.3", repository: "https://github.com/Example/vmgroup", time: time.Unix(1700000000, 0)}
	succeed(t, r.writePlugin(repository, dir, binaries))
	var manifest struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, ShortDescription, Homepage string
			Platforms                           []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	succeed(t, yaml.Unmarshal([]byte(chartFiles(t, dir, "vmgroup.yaml")[0]), &manifest))
	if manifest.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || manifest.Kind != "Plugin" || manifest.Metadata.Name != "vmgroup" ||
		manifest.Spec.Version != "v1.2.3" || manifest.Spec.ShortDescription == "" || manifest.Spec.Homepage != r.repository {
		t.Errorf("got the krew manifest %+v; want the plugin vmgroup v1.2.3 with a description and the repository %s", manifest, r.repository)
	}
	for _, p := range manifest.Spec.Platforms {
		of := platform{p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"]}
		archive, ours := strings.CutPrefix(p.URI, "https://github.com/Example/vmgroup/releases/download/v1.2.3/")
		if sum, err := checksum(filepath.Join(dir, archive)); !ours || err != nil || sum != p.SHA256 {
			t.Errorf("%v: %s has the checksum %s: %v", of, p.URI, sum, err)
		}
		out, err := exec.Command("tar", "-xzOf", filepath.Join(dir, archive), p.Bin).Output()
		if want := "for " + of.os + "/" + of.arch; err != nil || string(out) != want {
			t.Errorf("%v: %s of %s is %q: %v", of, p.Bin, archive, out, err)
		}
		if _, err := exec.Command("tar", "-xzOf", filepath.Join(dir, archive), "LICENSE").Output(); err != nil {
			t.Errorf("%s has no license: %v", archive, err)
		}
		delete(binaries, of)
	}
	if len(binaries) > 0 {
		t.Errorf("without a plugin: %v; want none", binaries)
	}
}

type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Needs       string
		Environment string
		Permissions map[string]string
		Steps       []struct{ Uses, Run string }
	}
}

// The job that runs downloaded code must have no right to write, and the job that can sign must not write releases. No job may run before ci
// has passed, and what writes for others waits for the environment's reviewers.
func TestEachJobOfATagHasTheLeastToken(t *testing.T) {
	var w workflow
	succeed(t, yaml.Unmarshal([]byte(chartFiles(t, repository, ".github/workflows/release.yaml")[0]), &w))
	got := map[string]string{}
	for name, job := range w.Jobs {
		got[name] = fmt.Sprint(job.Needs, job.Permissions, job.Environment)
	}
	want := map[string]string{
		"passed":  "map[actions:read]",
		"build":   "passedmap[contents:read]",
		"push":    "buildmap[contents:read id-token:write packages:write]release",
		"publish": "pushmap[contents:write]release",
	}
	if diff := gocmp.Diff(want, got); diff != "" || w.Permissions == nil || len(w.Permissions) > 0 {
		t.Errorf("want (-), got (+), and by default %v:\n%s", w.Permissions, diff)
	}
	if checks := w.Jobs["passed"].Steps[0].Run; !strings.Contains(checks, "ci.yaml/runs?head_sha=$GITHUB_SHA&branch=main&event=push&status=success") {
		t.Errorf("passed asks %s; want %q in the text", checks, "ci.yaml/runs?head_sha=$GITHUB_SHA&branch=main&event=push&status=success")
	}
}

// The owner of an action or image can move its tag, so a release must name digests.
func TestWhatBuildsAReleaseIsNamedByDigest(t *testing.T) {
	action := regexp.MustCompile(`(?m)^\s*- uses: (\S+)`)
	for _, text := range chartFiles(t, repository, ".github/workflows/*.yaml") {
		for _, m := range action.FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(m[1]) {
				t.Errorf("%s is not named by a commit", m[1])
			}
		}
	}
	dockerfile := chartFiles(t, repository, "Dockerfile")[0]
	if !regexp.MustCompile(`(?m)^ARG GO_IMAGE=golang:\S+@sha256:[0-9a-f]{64}$`).MatchString(dockerfile) {
		t.Error("the Dockerfile names Go's image without a digest")
	}
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(dockerfile, -1) {
		if !slices.Contains([]string{"scratch", "base", "${GO_IMAGE}"}, m[1]) {
			t.Errorf("the Dockerfile is from %s", m[1])
		}
	}
}

func TestAnArchiveIsReproducibleAndDoesNotNameItsMaker(t *testing.T) {
	r := release{time: time.Unix(1700000000, 0)}
	var one, two bytes.Buffer
	for _, to := range []*bytes.Buffer{&one, &two} {
		succeed(t, r.tar(to, []file{{name: "tmp/", mode: 0o1777}, {name: "a", mode: 0o644, content: []byte("a")}}))
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the archives differ")
	}
}

func TestTheImageTrustsMozillasAuthorities(t *testing.T) {
	text := authorities()
	if n := bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----")); n < 80 {
		t.Errorf("%d authorities; want at least 80", n)
	}
	if !bytes.Equal(text, authorities()) {
		t.Error("their order differs")
	}
}

// succeed ends the test if err is not nil.
func succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
