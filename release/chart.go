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
type dependency struct {
	Name       string `json:"name"`
	Alias      string `json:"alias"`
	Version    string `json:"version"`
	Repository string `json:"repository"`
	Condition  string `json:"condition"`
}

// dependencies are what a release adds to Chart.yaml: Metacontroller's chart. Without a network, the chart of a checkout has none.
func dependencies(source string) ([]dependency, error) {
	path := filepath.Join(source, "release/metacontroller/Chart.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var meta struct{ Dependencies []dependency }
	if err := yaml.Unmarshal(text, &meta); err != nil {
		return nil, err
	}
	if len(meta.Dependencies) != 1 {
		return nil, fmt.Errorf("%s has %d dependencies, want one", path, len(meta.Dependencies))
	}
	return meta.Dependencies, nil
}

// pullMetacontroller fetches the archive of Metacontroller's chart.
func pullMetacontroller(source, dir string) (string, error) {
	all, err := dependencies(source)
	if err != nil {
		return "", err
	}
	d := all[0]
	return filepath.Join(dir, d.Name+"-"+d.Version+".tgz"),
		command(".", nil, "go", "tool", "helm", "pull", d.Repository+"/"+d.Name, "--version", d.Version, "--destination", dir)
}

// copyChart copies the contents of the archive: without those of .helmignore, with the version of the release and the addresses of its
// documents, and with the archive of Metacontroller's chart, if there is one.
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
	if err := copyTree(from, to, skip); err != nil {
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
	if err := yaml.Unmarshal([]byte(r.named(string(text))), &meta); err != nil {
		return err
	}
	meta["version"], meta["appVersion"] = r.number(), r.tag
	if metacontroller != "" {
		if meta["dependencies"], err = dependencies(source); err != nil {
			return err
		}
	}
	if text, err = yaml.Marshal(meta); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	page, err := os.ReadFile(filepath.Join(to, "README.md"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "README.md"), []byte(r.elsewhere(string(page), chart)), 0o644); err != nil {
		return err
	}
	rules := filepath.Join(to, "files/monitoring/prometheusrule.yaml")
	if text, err = os.ReadFile(rules); err != nil {
		return err
	}
	runbooks := strings.ReplaceAll(string(text), placeholder+"/blob/main/", r.repository+"/blob/"+r.version+"/")
	if err := os.WriteFile(rules, []byte(runbooks), 0o644); err != nil {
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

// copyTree copies a directory, except for files with a name in skip.
func copyTree(from, to string, skip map[string]bool) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || skip[entry.Name()] {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return write(filepath.Join(to, name), content)
	})
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
	for _, dir := range []string{"manifests", chart + "/files"} {
		files, err := filesBelow(filepath.Join(source, dir))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if err := fsys.WriteFile("/"+dir+"/"+f.name, f.content); err != nil {
				return nil, err
			}
		}
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
