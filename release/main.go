// Command release builds a release of VmGroup into a directory: static binaries, an OCI image layout for both architectures, the
// Helm chart, install.yaml, kubectl's plugin with a manifest for krew, VmGroup's JSON schema, an SBOM, notes from CHANGELOG.md, and
// checksums of all these. The same commit, version, names and version of Go give the same bytes: the time of every file is that of the
// commit, and the image trusts the Mozilla authorities of a module in go.mod, not those of the machine. `make release` runs it.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// release describes a release.
type release struct {
	version    string    // vX.Y.Z, or with a pre-release
	image      string    // name of the image, without a tag
	tag        string    // of the image
	repository string    // where the sources and the releases are
	time       time.Time // of every file
}

// number is the version as Helm and the changelog write it.
func (r release) number() string { return strings.TrimPrefix(r.version, "v") }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run() error {
	version := flag.String("version", "", "version to release: vX.Y.Z, or with a pre-release such as vX.Y.Z-rc.1")
	image := flag.String("image", "vmgroup", "name under which the image will be found, without a tag; registries refuse capitals, so they become small")
	repository := flag.String("repository", placeholder, "URL of the repository on GitHub, from which the files of this release will be downloaded")
	metacontroller := flag.String("metacontroller-chart", "", "archive of Metacontroller's chart, of the version in Chart.yaml (default: pulled from its registry); none: a chart that can't bring Metacontroller")
	source := flag.String("source", "..", "checkout to release")
	out := flag.String("out", "../dist/release", "directory to write to; emptied first")
	flag.Parse()
	if !semver.IsValid(*version) || semver.Canonical(*version) != *version {
		return fmt.Errorf("version %q is not vX.Y.Z", *version)
	}
	committed, err := commitTime(*source)
	if err != nil {
		return err
	}
	r := release{version: *version, image: strings.ToLower(*image), tag: *version, repository: *repository, time: committed}
	if err := os.RemoveAll(*out); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	return r.build(*source, *out, *metacontroller)
}

// build makes the parts of a release, each after those that it needs.
func (r release) build(source, out, metacontroller string) error {
	notes, err := r.notes(source)
	if err != nil {
		return err
	}
	binaries, err := r.buildBinaries(source, out)
	if err != nil {
		return err
	}
	if err := r.writeImage(binaries, filepath.Join(out, "vmgroup-"+r.number()+"-image.tar")); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := r.writeChart(source, out, metacontroller); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	for name, tree := range map[string]string{"install.yaml": "manifests", "install-simulator.yaml": "manifests/overlays/simulator"} {
		text, err := kustomize(source, "resources: ["+tree+"]", fmt.Sprintf("images: [{name: vmgroup, newName: %q, newTag: %q}]", r.image, r.tag))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			return err
		}
	}
	if err := r.writePlugin(source, out, binaries); err != nil {
		return fmt.Errorf("plugin: %w", err)
	}
	sbom, err := r.sbom(binaries)
	if err != nil {
		return fmt.Errorf("SBOM: %w", err)
	}
	schema, err := os.ReadFile(filepath.Join(source, "manifests/vmgroup.schema.json"))
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"vmgroup.schema.json": schema, "vmgroup-" + r.number() + ".cdx.json": sbom, "NOTES.md": notes} {
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			return err
		}
	}
	return writeChecksums(out)
}

// commitTime is SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch), or the time of the commit HEAD.
func commitTime(source string) (time.Time, error) {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		out, err := exec.Command("git", "-C", source, "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("read the commit time of HEAD: %w", err)
		}
		epoch = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// notes returns the section of CHANGELOG.md for this version; of a pre-release, it can be the section Unreleased.
func (r release) notes(source string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(source, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	section, found := changes(string(text), r.number())
	if !found && semver.Prerelease(r.version) != "" {
		section, found = changes(string(text), "Unreleased")
	}
	if !found || section == "" {
		return nil, fmt.Errorf("CHANGELOG.md has no section %q: rename the section Unreleased", "## "+r.number())
	}
	return []byte(r.elsewhere("# VmGroup "+r.number()+"\n\n"+section+"\n\n[Verify what you download](docs/install.md#verify-a-release).\n", ".")), nil
}

// changes returns the text below the heading of a version, which can have a date.
func changes(text, version string) (string, bool) {
	for section := range strings.SplitSeq("\n"+text, "\n## ") {
		heading, body, _ := strings.Cut(section, "\n")
		if name, _, _ := strings.Cut(heading, " "); strings.Trim(name, "[]") == version {
			return strings.TrimSpace(body), true
		}
	}
	return "", false
}

// command runs a program in a directory; its error contains what the program printed to stderr.
func command(dir string, env []string, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err), errors.New(cmp.Or(string(out), "it printed nothing")))
	}
	return nil
}
