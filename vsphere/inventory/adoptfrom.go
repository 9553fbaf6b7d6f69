// This file says from which folders the groups of a namespace can adopt VMs. It is pure.

package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// AdoptRule allows the groups of a namespace to adopt the VMs in a folder, and in those below it.
type AdoptRule struct {
	// Namespace is a namespace of Kubernetes; "*" is any.
	Namespace string
	// Folder is the inventory path of a folder, "/DC0/vm/legacy".
	Folder string
}

// ParseAdoptRule parses a rule of --adopt-from: "namespace=/DC0/vm/legacy", or "*=/DC0/vm/legacy".
func ParseAdoptRule(s string) (AdoptRule, error) {
	namespace, folder, is := strings.Cut(s, "=")
	r := AdoptRule{Namespace: namespace, Folder: folder}
	if !is {
		return AdoptRule{}, fmt.Errorf("%q is not a rule: write namespace=/DC0/vm/folder", s)
	}
	if err := r.validate(); err != nil {
		return AdoptRule{}, err
	}
	return r, nil
}

func (r AdoptRule) validate() error {
	if r.Namespace == "" || r.Namespace != "*" && strings.ContainsAny(r.Namespace, "*/ ") {
		return fmt.Errorf("%q is not a namespace: name one, or * for any", r.Namespace)
	}
	if !strings.HasPrefix(r.Folder, "/") || slices.ContainsFunc(r.path(), func(part string) bool {
		return part == "" || part == "." || part == ".."
	}) {
		return fmt.Errorf("%q is not an inventory path of a folder: start at the root, as in /DC0/vm/legacy", r.Folder)
	}
	return nil
}

// path returns the names that lead from the root folder to the rule's folder, as people write them.
func (r AdoptRule) path() []string {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(r.Folder, "/"), "/"), "/")
	for i := range parts {
		parts[i] = naming.Unescape(parts[i])
	}
	return parts
}

// validateAdoptRules finds errors in rules.
func validateAdoptRules(rules []AdoptRule) error {
	var errs []error
	for _, r := range rules {
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("--adopt-from: %w", err))
		}
	}
	return errors.Join(errs...)
}

// adoptFolders are the folders that rules name.
type adoptFolders []adoptFolder

type adoptFolder struct {
	namespace string
	path      []string
}

// newAdoptFolders returns the folders of rules.
func newAdoptFolders(rules []AdoptRule) (all adoptFolders) {
	for _, r := range rules {
		all = append(all, adoptFolder{r.Namespace, r.path()})
	}
	return all
}

// Allow reports whether groups of a namespace can adopt the VMs in a place, given by the names that lead to it. It compares whole names: a VM
// in /DC0/vm/legacy2 is not in /DC0/vm/legacy.
func (f adoptFolders) Allow(namespace string, place []string) bool {
	return slices.ContainsFunc(f, func(r adoptFolder) bool {
		return (r.namespace == "*" || r.namespace == namespace) &&
			len(place) >= len(r.path) && slices.Equal(place[:len(r.path)], r.path)
	})
}
