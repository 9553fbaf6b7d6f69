package session

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/types"
)

// since is the API version that introduced a property (vim25: its "Since" or minAPIVersion). Older vCenters refuse any call that names
// it: [doc] RetrievePropertiesEx, CreateFilter: InvalidProperty.
var since = map[string][]int{
	"config.hardware.autoCoresPerSocket": {8, 0, 0, 1},
	"guest.customizationInfo":            {7, 0, 2},
}

// Supported returns a spec without the properties that this vCenter lacks.
func (s *Session) Supported(spec types.PropertyFilterSpec) types.PropertyFilterSpec {
	lacks := func(path string) bool { return !s.has(path) }
	spec.PropSet = slices.Clone(spec.PropSet)
	for i := range spec.PropSet {
		if p := &spec.PropSet[i]; slices.ContainsFunc(p.PathSet, lacks) {
			p.PathSet = slices.DeleteFunc(slices.Clone(p.PathSet), lacks)
		}
	}
	return spec
}

func (s *Session) has(path string) bool {
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
