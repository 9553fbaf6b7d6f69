package vsphere

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// ExtraKeys are patterns of the keys that spec.extraConfig can set, "sched.*", regardless of case. Without any, it can set none.
type ExtraKeys []string

// Validate finds patterns that match nothing.
func (k ExtraKeys) Validate() error {
	for _, pattern := range k {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("--extra-config (VMGROUP_EXTRA_CONFIG): %q is not a pattern of keys, such as sched.* or disk.EnableUUID", pattern)
		}
	}
	return nil
}

func (k ExtraKeys) allow(key string) bool {
	return !v1alpha1.IsReservedKey(key) && slices.ContainsFunc(k, func(pattern string) bool {
		is, _ := path.Match(strings.ToLower(pattern), strings.ToLower(key)) // Validate refused the others
		return is
	})
}
