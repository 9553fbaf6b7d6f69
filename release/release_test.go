package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
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
		t.Errorf("a release without a section: %v", err)
	}
	if notes, err := (release{version: "v99.0.0-rc.1"}).notes(repository); err != nil || !bytes.HasPrefix(notes, []byte("# VmGroup 99.0.0-rc.1\n\n")) {
		t.Errorf("%v %.40s", err, notes)
	}
}

func TestAnArchiveIsReproducibleAndDoesNotNameItsMaker(t *testing.T) {
	r := release{time: time.Unix(1700000000, 0)}
	var one, two bytes.Buffer
	for _, to := range []*bytes.Buffer{&one, &two} {
		if err := r.tar(to, []file{{name: "tmp/", mode: 0o1777}, {name: "a", mode: 0o644, content: []byte("a")}}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the archives differ")
	}
}

func TestTheImageTrustsMozillasAuthorities(t *testing.T) {
	text := authorities()
	if n := bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----")); n < 80 {
		t.Errorf("%d authorities", n)
	}
	if !bytes.Equal(text, authorities()) {
		t.Error("their order differs")
	}
}
