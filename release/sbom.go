package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom describes in CycloneDX what is in the binaries, by their own build information, and in the image.
func (r release) sbom(binaries map[platform]string) ([]byte, error) {
	components := map[string]cdx.Component{}
	for _, path := range binaries {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, err
		}
		add(components, "std", info.GoVersion[len("go"):], "")
		for _, m := range info.Deps {
			add(components, m.Path, m.Version, m.Sum)
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok { // of this program, which writes the authorities into the image
		for _, m := range info.Deps {
			if m.Path == "golang.org/x/crypto/x509roots/fallback" {
				add(components, m.Path, m.Version, m.Sum)
			}
		}
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: "vmgroup", Type: cdx.ComponentTypeApplication, Name: "vmgroup", Version: r.version,
			PackageURL: "pkg:golang/codeconnect.vmworld.com/vmgroup@" + r.version,
			Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		},
	}
	refs := slices.Sorted(maps.Keys(components))
	all := make([]cdx.Component, 0, len(refs))
	for _, ref := range refs {
		all = append(all, components[ref])
	}
	bom.Components = &all
	bom.Dependencies = &[]cdx.Dependency{{Ref: "vmgroup", Dependencies: &refs}}
	var text bytes.Buffer
	err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return text.Bytes(), err
}

// add adds a module; its checksum is that of go.sum, a SHA-256 of its files' hashes.
func add(components map[string]cdx.Component, path, version, sum string) {
	ref := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: ref}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) > 0 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	}
	components[ref] = c
}
