package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// chart is the path of the chart in the checkout.
const chart = "charts/vmgroup"

// writeChart packs the chart as Helm does, but reproducibly.
func (r release) writeChart(source, out, metacontroller string) error {
	dir, err := os.MkdirTemp("", "vmgroup-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory of its own for temporary files
	if metacontroller == "" {
		if metacontroller, err = pullMetacontroller(source, dir); err != nil {
			return err
		}
	}
	if metacontroller == "none" {
		fmt.Fprintln(os.Stderr, "release: the chart is packed without Metacontroller's: don't publish this release")
		metacontroller = ""
	}
	to := filepath.Join(dir, "vmgroup")
	if err := copyChart(source, to, r, metacontroller); err != nil {
		return err
	}
	if err := command(".", nil, "go", "tool", "helm", "lint", to); err != nil {
		return err
	}
	files, err := filesBelow(dir)
	if err != nil {
		return err
	}
	var packed []file
	for _, f := range files {
		if strings.HasPrefix(f.name, "vmgroup/") {
			packed = append(packed, f)
		}
	}
	return r.writeTar(filepath.Join(out, "vmgroup-"+r.number()+".tgz"), packed, true)
}

// dependency is an entry of dependencies in Chart.yaml.
type dependency struct{ Name, Version, Repository string }

// pullMetacontroller fetches the archive of Metacontroller's chart.
func pullMetacontroller(source, dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(source, chart, "Chart.yaml"))
	if err != nil {
		return "", err
	}
	var meta struct{ Dependencies []dependency }
	if err := yaml.Unmarshal(text, &meta); err != nil {
		return "", err
	}
	if len(meta.Dependencies) != 1 {
		return "", fmt.Errorf("%s/Chart.yaml has %d dependencies, want one", chart, len(meta.Dependencies))
	}
	d := meta.Dependencies[0]
	return filepath.Join(dir, d.Name+"-"+d.Version+".tgz"),
		command(".", nil, "go", "tool", "helm", "pull", d.Repository+"/"+d.Name, "--version", d.Version, "--destination", dir)
}

// copyChart copies the contents of the archive: files in place of the checkout's links, without those of .helmignore, with the
// version of the release, and with the archive of Metacontroller's chart or without that dependency.
func copyChart(source, to string, r release, metacontroller string) error {
	from := filepath.Join(source, chart)
	ignored, err := os.ReadFile(filepath.Join(from, ".helmignore"))
	if err != nil {
		return err
	}
	skip := map[string]bool{".helmignore": true}
	for line := range strings.Lines(string(ignored)) {
		skip[strings.TrimSpace(line)] = true
	}
	if err := copyTree(from, "", to, skip); err != nil {
		return err
	}
	if metacontroller != "" {
		content, err := os.ReadFile(metacontroller)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(to, "charts", filepath.Base(metacontroller)), content); err != nil {
			return err
		}
	}
	path := filepath.Join(to, "Chart.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var meta map[string]any
	if err := yaml.Unmarshal(text, &meta); err != nil {
		return err
	}
	meta["version"], meta["appVersion"] = r.number(), r.tag
	if metacontroller == "" {
		delete(meta, "dependencies")
	}
	if text, err = yaml.Marshal(meta); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	return setImage(filepath.Join(to, "values.yaml"), r.image)
}

// setImage names the image, and keeps the comments.
func setImage(path, image string) error {
	const named = "  repository: vmgroup\n"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.Count(string(text), named) != 1 {
		return fmt.Errorf("%s doesn't have one line %q", path, named)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), named, "  repository: "+image+"\n", 1)), 0o644)
}

// copyTree copies a directory, and what its links lead to, except for the names and paths in skip.
func copyTree(root, below, to string, skip map[string]bool) error {
	entries, err := os.ReadDir(filepath.Join(root, below))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(below, e.Name())
		if skip[e.Name()] || skip[filepath.ToSlash(path)] {
			continue
		}
		from := filepath.Join(root, path)
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = copyTree(root, path, to, skip)
		} else if content, e := os.ReadFile(from); e != nil {
			err = e
		} else {
			err = write(filepath.Join(to, path), content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// kustomize builds a kustomization of these lines at the root of the checkout.
func kustomize(source string, lines ...string) ([]byte, error) {
	fsys := filesys.MakeFsInMemory()
	manifests := filepath.Join(source, "manifests")
	if err := filepath.WalkDir(manifests, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		return fsys.WriteFile("/"+filepath.ToSlash(name), content)
	}); err != nil {
		return nil, err
	}
	lines = append([]string{"apiVersion: kustomize.config.k8s.io/v1beta1", "kind: Kustomization"}, lines...)
	if err := fsys.WriteFile("/kustomization.yaml", []byte(strings.Join(lines, "\n"))); err != nil {
		return nil, err
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fsys, "/")
	if err != nil {
		return nil, err
	}
	return built.AsYaml()
}
