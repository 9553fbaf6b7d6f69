package plan

import (
	"fmt"
	"slices"
	"strings"
)

// LabelKeys are the keys of labels that a group's children take from the group: whole keys, or all keys with a prefix (example.com/*).
type LabelKeys []string

// ParseLabelKeys checks the keys of a setting. A key that other programs act on is an error.
func ParseLabelKeys(keys []string) (LabelKeys, error) {
	all := make(LabelKeys, 0, len(keys))
	for _, key := range keys {
		key = strings.TrimSpace(key)
		prefix, name, prefixed := strings.Cut(key, "/")
		switch {
		case key == "" || strings.ContainsAny(key, " \t=") || prefixed && (prefix == "" || name == ""):
			return nil, fmt.Errorf("%q is not the key of a label: write team, example.com/team or example.com/*", key)
		case strings.Contains(key, "*") && (!prefixed || name != "*" || strings.Contains(prefix, "*")):
			return nil, fmt.Errorf("%q: an asterisk can only stand for all names of a prefix, such as example.com/*", key)
		case actedOn(key):
			return nil, fmt.Errorf("%q: other programs act on objects with this label, so the children never take it from their group", key)
		}
		all = append(all, key)
	}
	return all, nil
}

// described are the labels of Kubernetes' own domain that only describe an object
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/). The others there, such as those of Services and
// EndpointSlices, change what Kubernetes does.
var described = []string{"app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/part-of", "app.kubernetes.io/version"}

// others are the domains of programs that take an object with a label for theirs, and may remove it: deployers, Cluster API, Metacontroller,
// and this server.
var others = []string{"kubernetes.io", "k8s.io", "x-k8s.io", "argoproj.io", "fluxcd.io", "helm.sh", "metacontroller.io", "codeconnect.vmworld.com"}

// actedOn reports whether other programs act on objects that have the label.
func actedOn(key string) bool {
	prefix, _, prefixed := strings.Cut(key, "/")
	if !prefixed {
		return key == "controller-uid" // Metacontroller finds a group's children by it
	}
	return !slices.Contains(described, key) && slices.ContainsFunc(others, func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) })
}

// CopyTo adds the labels of a group that its children take from it. It replaces none.
func (k LabelKeys) CopyTo(child, group map[string]string) {
	for key, value := range group {
		if _, has := child[key]; has || actedOn(key) {
			continue
		}
		prefix, _, prefixed := strings.Cut(key, "/")
		if slices.Contains(k, key) || prefixed && slices.Contains(k, prefix+"/*") {
			child[key] = value
		}
	}
}
