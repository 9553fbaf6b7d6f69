package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// writePlugin packs kubectl's plugin for each platform, and writes the manifest from which krew installs it. Krew takes archives only, and
// wants the license in them; the manifest's file must have the plugin's name (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
func (r release) writePlugin(source, out string, binaries map[platform]string) error {
	license, err := os.ReadFile(filepath.Join(source, "LICENSE"))
	if err != nil {
		return err
	}
	var all []map[string]any
	for _, p := range platforms {
		program, err := os.ReadFile(binaries[p])
		if err != nil {
			return err
		}
		archive := fmt.Sprintf("kubectl-vmgroup-%s-%s-%s.tar.gz", r.number(), p.os, p.arch)
		files := []file{{name: "LICENSE", mode: 0o644, content: license}, {name: "kubectl-vmgroup", mode: 0o755, content: program}}
		if err := r.writeTar(filepath.Join(out, archive), files, true); err != nil {
			return err
		}
		sum, err := checksum(filepath.Join(out, archive))
		if err != nil {
			return err
		}
		all = append(all, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]string{"os": p.os, "arch": p.arch}},
			"uri":      r.repository + "/releases/download/" + r.version + "/" + archive, "sha256": sum, "bin": "kubectl-vmgroup",
		})
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]string{"name": "vmgroup"},
		"spec": map[string]any{
			"version": r.version, "homepage": r.repository, "platforms": all,
			"shortDescription": "Show and preview what VmGroup does in vSphere",
			"description":      "Runs vmgroup status and vmgroup plan in the pod of VmGroup's server, with kubectl exec.",
			"caveats":          "You need the right to create pods/exec in the namespace of VmGroup's server.",
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "vmgroup.yaml"), text, 0o644)
}
