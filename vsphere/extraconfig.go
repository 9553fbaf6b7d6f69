package vsphere

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
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

// fillExtraConfig sets the advanced settings of spec.extraConfig.
func (b *cloneBuilder) fillExtraConfig(_ context.Context) error {
	for _, key := range slices.Sorted(maps.Keys(b.details.Spec.ExtraConfig)) {
		if !b.cfg.ExtraKeys.allow(key) {
			return vcfault.New(vcfault.ReasonInvalidConfiguration, true, "The server does not allow the key %q of spec.extraConfig: remove it, or start the server with an --extra-config that matches it.", key)
		}
		b.spec.Config.ExtraConfig = append(b.spec.Config.ExtraConfig, &types.OptionValue{Key: key, Value: b.details.Spec.ExtraConfig[key]})
	}
	return nil
}
