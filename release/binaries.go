package main

import (
	"fmt"
	"path/filepath"
)

// platforms are those of the binaries; the image is for those of linux.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

type platform struct{ os, arch string }

// buildBinaries builds the static binaries, and returns their paths.
func (r release) buildBinaries(source, out string) (map[platform]string, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	paths := map[platform]string{}
	for _, p := range platforms {
		paths[p] = filepath.Join(out, fmt.Sprintf("vmgroup-%s-%s-%s", r.number(), p.os, p.arch))
		// Independent of the builder's settings: paths, the state of the checkout, a newer instruction set.
		env := []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off"}
		if err := command(source, env, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
			"-ldflags", "-s -w -buildid= -X main.version="+r.version, "-o", paths[p], "./cmd/vmgroup"); err != nil {
			return nil, err
		}
	}
	return paths, nil
}
