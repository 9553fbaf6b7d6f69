package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// maxImage is the most that an image can have to download, in bytes.
const maxImage = 30 << 20

// writeImage writes one OCI image layout, as a tar, with the image for each architecture: the same as the Dockerfile's.
func (r release) writeImage(binaries map[platform]string, path string) error {
	images := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		image, err := r.imageOf(p, binaries[p])
		if err != nil {
			return err
		}
		images = mutate.AppendManifests(images, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	dir, err := os.MkdirTemp("", "vmgroup-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory of its own for temporary files
	store, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := store.AppendIndex(images, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.tag,
		"io.containerd.image.name":          r.image + ":" + r.tag, // lets `ctr images import` and kind know its name
	})); err != nil {
		return err
	}
	files, err := filesBelow(dir)
	if err != nil {
		return err
	}
	return r.writeTar(path, files, false)
}

func (r release) imageOf(p platform, binary string) (v1.Image, error) {
	files, err := r.root(binary)
	if err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	if err := r.tar(&buffer, files); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, err
	}
	if size, err := layer.Size(); err != nil || size > maxImage {
		return nil, fmt.Errorf("%s/%s has %d bytes compressed, want at most %d: %w", p.os, p.arch, size, maxImage, err)
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.time}
	config.History = []v1.History{{Created: config.Created, CreatedBy: "make release"}}
	config.Config = v1.Config{
		User:         "65532:65532",
		ExposedPorts: map[string]struct{}{"8443": {}, "8081": {}},
		Entrypoint:   []string{"/vmgroup"},
		Cmd:          []string{"serve"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "vmgroup",
			"org.opencontainers.image.description": "Answers Metacontroller's hooks for VmGroup: groups of VMs in vSphere",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     r.version,
		},
	}
	return mutate.ConfigFile(image, config)
}

// root is the content of an image: the binary, the authorities that it trusts, and /tmp.
func (r release) root(binary string) ([]file, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	return []file{
		{name: "etc/", mode: 0o755}, {name: "etc/ssl/", mode: 0o755}, {name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities()},
		{name: "tmp/", mode: 0o1777},
		{name: "vmgroup", mode: 0o755, content: program},
	}, nil
}

// authorities are Mozilla's, except for those that it trusts only in part, which a file can't express.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	return text.Bytes()
}

// file is a file of an archive; the name of a directory ends in a slash.
type file struct {
	name    string
	mode    int64
	content []byte
}

// tar writes files as an archive that is independent of who made it, and when.
func (r release) tar(to io.Writer, files []file) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: r.time, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.name[len(f.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	return w.Close()
}
