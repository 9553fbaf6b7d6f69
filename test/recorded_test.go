package test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// A recorded file has a license to keep, so each file must be used by a test. A file counts as used if the source of a test
// contains the file's name without its extension.
func TestEveryRecordedPieceIsUsedByATestAndListedWithItsSource(t *testing.T) {
	const pieces = "../vsphere/vctest/recorded/pieces"
	readme, err := os.ReadFile(pieces + "/README.md")
	must.Succeed(t, err)
	var tests strings.Builder
	err = filepath.WalkDir("../vsphere", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") && filepath.Base(name) != "recorded.go" {
			return err
		}
		text, err := os.ReadFile(name)
		tests.Write(text)
		return err
	})
	must.Succeed(t, err)
	err = fs.WalkDir(os.DirFS(pieces), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Base(name) == "README.md" || path.Base(name) == "LICENSE" {
			return err
		}
		if base := strings.TrimSuffix(path.Base(name), path.Ext(name)); !strings.Contains(tests.String(), base) {
			t.Errorf("no test uses the recording %s: remove it", name)
		}
		if owner, _, _ := strings.Cut(name, "/"); !strings.Contains(string(readme), "| "+owner) {
			t.Errorf("README.md says no source of %s", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
