package manifests_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

var (
	reading = []string{"get", "list", "watch"}
	writing = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
)

// rights are the verbs that a role allows, by "resource.group".
func rights(role rbacv1.ClusterRole) map[string][]string {
	all := map[string][]string{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := strings.TrimSuffix(resource+"."+group, ".")
				all[name] = append(all[name], rule.Verbs...)
				slices.Sort(all[name])
			}
		}
	}
	return all
}

// Without a right for a kind of child, no group would make progress; a right beyond the needed ones is a risk.
func TestMetacontrollerHasExactlyTheRightsThatTheControllerNeeds(t *testing.T) {
	objects := build(t, "metacontroller-rights")
	group := v1alpha1.GroupVersion.Group
	want := map[string][]string{
		"vmgroups." + group:            {"get", "list", "patch", "update", "watch"},
		"vmgroups/status." + group:     {"get", "patch", "update"},
		"vmgroups/finalizers." + group: {"get", "patch", "update"},
		"secrets":                      reading,
		"namespaces":                   reading,
		"events":                       {"create", "patch"}, // children that childResources does not list are created, and never read
	}
	for _, child := range decode[compositeController](t, objects, "CompositeController/vmgroup").Spec.ChildResources {
		of, _, hasGroup := strings.Cut(child.APIVersion, "/")
		if hasGroup {
			want[child.Resource+"."+of] = writing
			continue
		}
		want[child.Resource] = writing
	}
	got := rights(decode[rbacv1.ClusterRole](t, objects, "ClusterRole/vmgroup-metacontroller"))
	for what, verbs := range want {
		if !slices.Equal(got[what], verbs) {
			t.Errorf("%s: allowed %v, want %v", what, got[what], verbs)
		}
		delete(got, what)
	}
	for what, verbs := range got {
		t.Errorf("%s: allowed %v, but not needed", what, verbs)
	}
	binding := decode[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding/vmgroup-metacontroller")
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != "metacontroller" || binding.Subjects[0].Namespace != "metacontroller" ||
		binding.RoleRef.Name != "vmgroup-metacontroller" {
		t.Errorf("the binding is of %v to %v", binding.Subjects, binding.RoleRef)
	}
}

func TestTheBaseGrantsNoRights(t *testing.T) {
	for id := range build(t, "root") {
		if strings.Contains(id, "RoleBinding/") {
			t.Errorf("%s is in the base", id)
		}
	}
}
