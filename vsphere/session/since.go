package session

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/types"
)

// TPMPolicy is the field of a clone's spec that decides whether the clone copies a virtual TPM, for Session.Has.
const TPMPolicy = "VirtualMachineCloneSpec.tpmProvisionPolicy"

// since is the API version that introduced a property, or a field of a request (vim25: its "Since" or minAPIVersion). Older vCenters
// refuse any call that names it: [doc] RetrievePropertiesEx, CreateFilter: InvalidProperty.
var since = map[string][]int{
	TPMPolicy:                            {8, 0, 0, 1},
	"config.hardware.autoCoresPerSocket": {8, 0, 0, 1},
	"guest.customizationInfo":            {7, 0, 2},
}

// Supported returns a spec without the properties that this vCenter lacks.
func (s *Session) Supported(spec types.PropertyFilterSpec) types.PropertyFilterSpec {
	lacks := func(path string) bool { return !s.Has(path) }
	spec.PropSet = slices.Clone(spec.PropSet)
	for i := range spec.PropSet {
		if p := &spec.PropSet[i]; slices.ContainsFunc(p.PathSet, lacks) {
			p.PathSet = slices.DeleteFunc(slices.Clone(p.PathSet), lacks)
		}
	}
	return spec
}

// Has reports whether this vCenter has a property, or a field of a request.
func (s *Session) Has(path string) bool {
	needs, is := since[path]
	if !is {
		return true
	}
	var version []int
	for part := range strings.SplitSeq(s.Vim.ServiceContent.About.ApiVersion, ".") {
		n, _ := strconv.Atoi(part)
		version = append(version, n)
	}
	return slices.Compare(version, needs) >= 0
}
