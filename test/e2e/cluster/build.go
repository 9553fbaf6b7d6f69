// Package cluster is a Kubernetes control plane on loopback for the end-to-end tests: a real etcd, kube-apiserver, kubectl
// and, where wanted, kube-controller-manager, built from the modules that the neighbouring module "kubernetes" pins.
// There is no kubelet: nothing ever runs in a Pod.
package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// cacheVariable names the environment variable for the directory of the binaries.
const cacheVariable = "E2E_CACHE"

// packages are what the binaries are built from.
var packages = map[string]string{
	"etcd":                    "./etcd",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
	"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
}

// Build makes sure that these binaries exist, and returns their directory: one for each state of the module's files and each
// version of Go. The first time takes minutes; Build logs its progress.
func Build(module string, progress io.Writer, names ...string) (string, error) {
	dir, err := cacheDir(module)
	if err != nil {
		return "", err
	}
	var flags []string
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			continue
		}
		if flags == nil {
			if flags, err = linkerFlags(module); err != nil {
				return "", err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(progress, "building %s; the first time this takes some minutes\n", name)
		if err := build(module, dir, name, flags); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// cacheDir is outside the repository, so that a fresh clone finds the binaries that another clone built.
func cacheDir(module string) (string, error) {
	sum := sha256.New()
	for _, file := range []string{"go.mod", "go.sum", "etcd/main.go"} {
		content, err := os.ReadFile(filepath.Join(module, file))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", file, len(content), content)
	}
	platform, err := run(module, nil, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	sum.Write([]byte(platform))
	root := os.Getenv(cacheVariable)
	if root == "" {
		if root, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("no directory for the binaries (name one with %s): %w", cacheVariable, err)
		}
		root = filepath.Join(root, "vmgroup-e2e")
	}
	return filepath.Join(root, hex.EncodeToString(sum.Sum(nil))[:16]), nil
}

// linkerFlags give the binaries the version of a release of Kubernetes, from which kubectl and kube-apiserver derive their
// features.
func linkerFlags(module string) ([]string, error) {
	version, err := run(module, nil, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	version = strings.TrimSpace(version)
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("k8s.io/kubernetes is at %q, which is not a release", version)
	}
	flags := "-s -w"
	for _, at := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s -X %[1]s.gitTreeState=clean", at, version, parts[0], parts[1])
	}
	return []string{"-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", flags}, nil
}

// build puts the binary in its place in one step, so that an interrupted build leaves no partial binary.
func build(module, dir, name string, flags []string) error {
	making := filepath.Join(dir, fmt.Sprintf(".%s.%d", name, os.Getpid()))
	defer os.Remove(making) //nolint:errcheck // after a success, the file has another name
	args := append(append([]string{"build"}, flags...), "-o", making, packages[name])
	if _, err := run(module, []string{"CGO_ENABLED=0"}, "go", args...); err != nil {
		return fmt.Errorf("build %s: %w", name, err)
	}
	return os.Rename(making, filepath.Join(dir, name))
}

// run runs a command to its end, in a directory and with additional environment variables; its error contains the output.
func run(dir string, env []string, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return stdout.String(), errors.Join(fmt.Errorf("%s: %w", c, err), errors.New(stderr.String()))
	}
	return stdout.String(), nil
}
