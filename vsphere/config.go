// This file is the configuration: the vCenter, the account, and what groups are allowed to set.

package vsphere

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// Config names the vCenter, the account, the objects in vCenter to use, and what groups may set.
type Config struct {
	session.Config
	inventory.Selection
	// ExtraKeys are the keys that groups can set in spec.extraConfig.
	ExtraKeys ExtraKeys
	// PCIDevices are the devices that groups can name in spec.hardware.pciDevices.
	PCIDevices PCIDevices
	// AcceptEULAs accepts the license agreements of the content library items that the server deploys. LibraryNetwork is the network, by name or
	// inventory path, for those adapters of an item whose own network the hosts of the pool do not have.
	AcceptEULAs    bool
	LibraryNetwork string
	// Changed is called, from any goroutine, when vCenter's state of the group with that UID changed; "" means all groups. It must not block.
	// It can be nil.
	Changed func(types.UID)
	// Leased reports whether the step for that Action.Key of the group with that UID may continue. A step asks right before each of its calls.
	// If Leased is nil, steps always continue.
	Leased func(uid types.UID, vm string) bool
}

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

// Patterns allow the texts that match one of them, regardless of case. "*" matches any text, including '/'; every other character matches
// itself. Empty Patterns allow nothing.
type Patterns []string

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

// matches reports whether a text matches a pattern: it begins and ends as the pattern does, and has the parts between the stars in their order.
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
