package vsphere

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Patterns allow texts regardless of case: "*" stands for any text, also one with a '/', and everything else for itself. Without any, they
// allow nothing.
type Patterns []string

// ExtraKeys are the keys that spec.extraConfig can set, "svga.*".
type ExtraKeys Patterns

// Validate finds patterns that match nothing.
func (k ExtraKeys) Validate() error {
	return Patterns(k).validate("--extra-config (VMGROUP_EXTRA_CONFIG)", "keys, such as svga.* or disk.EnableUUID")
}

func (k ExtraKeys) allow(key string) bool {
	return !v1alpha1.IsReservedKey(key) && Patterns(k).allow(key)
}

// PCIDevices are the devices that spec.hardware.pciDevices can name, "10de:1eb8" or "grid_t4-*".
type PCIDevices Patterns

// Validate finds patterns that match nothing.
func (d PCIDevices) Validate() error {
	return Patterns(d).validate("--pci-devices (VMGROUP_PCI_DEVICES)", "devices, such as 10de:1eb8 or grid_t4-*")
}

func (p Patterns) validate(flag, what string) error {
	for _, pattern := range p {
		if strings.TrimSpace(pattern) != pattern || pattern == "" {
			return fmt.Errorf("%s: %q is not a pattern of %s", flag, pattern, what)
		}
	}
	return nil
}

func (p Patterns) allow(text string) bool {
	return slices.ContainsFunc(p, func(pattern string) bool { return matches(strings.ToLower(pattern), strings.ToLower(text)) })
}

// matches reports whether a text is as a pattern says: what is between its stars comes in that order.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return text == pattern
	}
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, has := strings.Cut(text, part)
		if !has {
			return false
		}
		text = after
	}
	return true
}
