// Package adoptfrom says from which folders the groups of a namespace may adopt VMs. It is pure.
package adoptfrom

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// Rule allows the groups of a namespace to adopt the VMs in a folder, and in those below it.
type Rule struct {
	// Namespace is a namespace of Kubernetes; "*" is any.
	Namespace string
	// Folder is the inventory path of a folder, "/DC0/vm/legacy".
	Folder string
}

// Parse parses a rule of --adopt-from: "namespace=/DC0/vm/legacy", or "*=/DC0/vm/legacy".
func Parse(s string) (Rule, error) {
	namespace, folder, is := strings.Cut(s, "=")
	r := Rule{Namespace: namespace, Folder: folder}
	if !is {
		return Rule{}, fmt.Errorf("%q is not a rule: write it as namespace=/DC0/vm/folder", s)
	}
	if err := r.validate(); err != nil {
		return Rule{}, err
	}
	return r, nil
}

func (r Rule) validate() error {
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
func (r Rule) path() []string {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(r.Folder, "/"), "/"), "/")
	for i := range parts {
		parts[i] = naming.Unescape(parts[i])
	}
	return parts
}

// Validate finds errors in rules.
func Validate(rules []Rule) error {
	var errs []error
	for _, r := range rules {
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("--adopt-from: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Folders are the folders that rules name.
type Folders []folder

type folder struct {
	namespace string
	path      []string
}

// New returns what rules allow.
func New(rules []Rule) (all Folders) {
	for _, r := range rules {
		all = append(all, folder{r.Namespace, r.path()})
	}
	return all
}

// Allow reports whether groups of a namespace may adopt the VMs in a place, given by the names that lead to it. It compares whole names: a VM
// in /DC0/vm/legacy2 is not in /DC0/vm/legacy.
func (f Folders) Allow(namespace string, place []string) bool {
	return slices.ContainsFunc(f, func(r folder) bool {
		return (r.namespace == "*" || r.namespace == namespace) &&
			len(place) >= len(r.path) && slices.Equal(place[:len(r.path)], r.path)
	})
}
