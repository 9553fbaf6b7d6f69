package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// report is the status of a group that has two of three members.
const report = `{"phase": "PENDING", "currentReplicas": 2, "desiredReplicas": 3, "readyReplicas": 1, "availableReplicas": 0, "updatedReplicas": 2, "standbyReplicas": 1,
	"selector": "vm.codeconnect.vmworld.com/group=web", "lastMessage": "cloning 1 member (docs)", "summary": "cloning 1 member",
	"conditions": [{"type": "Ready", "status": "False", "reason": "Reconciling", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}`

// stored makes a group with a status.
func (k *kube) stored(t *testing.T, namespace, name string, spec map[string]any, status string) *unstructured.Unstructured {
	t.Helper()
	ctx := context.Background()
	g, err := k.groups(namespace).Create(ctx, group(name, spec), strictly)
	must.Succeed(t, err)
	g.Object["status"] = parse(t, []byte(status))
	if g, err = k.groups(namespace).UpdateStatus(ctx, g, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestKubectlShowsAGroupInItsColumns(t *testing.T) {
	k := api(t)
	namespace := k.namespace(t, "columns")
	k.stored(t, namespace, "web", map[string]any{"replicas": int64(3), "template": "ubuntu-24.04"}, report)
	for _, c := range []struct{ args, want string }{
		{"vg", `
NAME  PHASE    CURRENT  DESIRED  CPU  MEMORY  TEMPLATE      READY  AGE  LAST_MESSAGE
web   PENDING  2        3        2    4       ubuntu-24.04  1      AGE  cloning 1 member
`},
		{"vmgroups -o wide", `
NAME  PHASE    CURRENT  DESIRED  CPU  MEMORY  TEMPLATE      READY  AGE  LAST_MESSAGE    AVAILABLE  UPDATED  STANDBY  REASON  VCENTER
web   PENDING  2        3        2    4       ubuntu-24.04  1      AGE  cloning 1 member  0          2        1  Reconciling
`},
		{"vmgroup/web -o name", `
vmgroup.vm.codeconnect.vmworld.com/web
`},
	} {
		out := k.kubectl(t, append([]string{"-n", namespace, "get"}, strings.Fields(c.args)...)...)
		if got, want := table(out), table(strings.TrimPrefix(c.want, "\n")); got != want {
			t.Errorf("kubectl get %s shows\n%s\nwant\n%s", c.args, got, want)
		}
	}
	if out := k.kubectl(t, "-n", namespace, "get", "all", "-o", "name"); !strings.Contains(out, "vmgroup.vm.codeconnect.vmworld.com/web") {
		t.Errorf("kubectl get all does not show the group: %s", out)
	}
	k.kubectl(t, "-n", namespace, "wait", "--for=jsonpath={.status.phase}=PENDING", "--timeout=1m", "vg/web")
	if out := k.kubectl(t, "explain", "vg.spec.cpu"); !strings.Contains(out, "1 to 768") {
		t.Errorf("kubectl explain vg.spec.cpu does not say 1 to 768: %s", out)
	}
}

// kubectl shows the label of a group that no install serves.
func TestKubectlShowsTheLabelOfTheInstall(t *testing.T) {
	k := api(t)
	namespace := k.namespace(t, "unserved")
	k.kubectlWith(t, labeled("lost", "esat"), "-n", namespace, "create", "-f", "-")
	if out := k.kubectl(t, "-n", namespace, "get", "vg", "lost", "-o", "wide"); !regexp.MustCompile(`\bVCENTER\b.*\n.*\besat\b`).MatchString(out) {
		t.Errorf("kubectl get vg -o wide doesn't show the label:\n%s", out)
	}
}

// kubectl waits forever for an absent condition to become false, so a status must list its conditions. The statuses are the planner's.
func TestKubectlWaitsForTheBeginningAndTheEndOfACondition(t *testing.T) {
	k := api(t)
	a, err := answers()
	must.Succeed(t, err)
	namespace, seen := k.namespace(t, "waits"), map[string]bool{}
	for _, text := range a.statuses {
		status := parse(t, text)
		phase, _ := status["phase"].(string)
		if seen[phase] || phase == "PENDING" {
			continue
		}
		seen[phase] = true
		name := strings.ToLower(phase)
		k.stored(t, namespace, name, nil, string(text))
		until := map[string]string{"RUNNING": "Ready", "ERROR": "Stalled"}[phase]
		k.kubectl(t, "-n", namespace, "wait", "--for=condition="+until, "--timeout=1m", "vg/"+name)
	}
	if len(seen) != 2 {
		t.Errorf("there were %v; want 2 of them", seen)
	}
}

var age = regexp.MustCompile(`^([0-9]+[hms])+$`)

// table is what kubectl prints, with two blanks between columns, whose widths are kubectl's choice. Each age is "AGE".
func table(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		var cells []string
		for _, cell := range strings.Split(strings.TrimRight(line, " \n"), "  ") {
			if cell = strings.TrimSpace(cell); age.MatchString(cell) {
				cell = "AGE"
			}
			if cell != "" {
				cells = append(cells, cell)
			}
		}
		lines = append(lines, strings.Join(cells, "  "))
	}
	return strings.Join(lines, "\n")
}

func TestAGroupScalesLikeADeployment(t *testing.T) {
	k := api(t)
	namespace := k.namespace(t, "scale")
	ctx := context.Background()
	k.stored(t, namespace, "web", map[string]any{"replicas": int64(3)}, report)
	k.kubectl(t, "-n", namespace, "scale", "vg/web", "--current-replicas=3", "--replicas=5")
	g, err := k.groups(namespace).Get(ctx, "web", metav1.GetOptions{})
	must.Succeed(t, err)
	if n, _, _ := unstructured.NestedInt64(g.Object, "spec", "replicas"); n != 5 || g.GetGeneration() != 2 {
		t.Errorf("%d replicas in generation %d; want 5 and 2", n, g.GetGeneration())
	}
	// An autoscaler reads the scale subresource: it multiplies the replicas of the status, and finds its targets by the selector.
	scale, err := k.groups(namespace).Get(ctx, "web", metav1.GetOptions{}, "scale")
	must.Succeed(t, err)
	want := map[string]any{"spec": map[string]any{"replicas": int64(5)},
		"status": map[string]any{"replicas": int64(2), "selector": "vm.codeconnect.vmworld.com/group=web"}}
	for part, value := range want {
		if !reflect.DeepEqual(scale.Object[part], value) {
			t.Errorf("%s of the scale is %v, want %v", part, scale.Object[part], value)
		}
	}
	if scale.GetAPIVersion() != "autoscaling/v1" || scale.GetKind() != "Scale" {
		t.Errorf("the scale is a %s of %s; want a Scale of autoscaling/v1", scale.GetKind(), scale.GetAPIVersion())
	}
	// An autoscaler writes the replicas through the scale subresource.
	patch := types.MergePatchType
	if _, err := k.groups(namespace).Patch(ctx, "web", patch, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Error(err)
	}
	if _, err := k.Kubectl("-n", namespace, "scale", "vg/web", "--replicas=1001"); err == nil || !strings.Contains(err.Error(), "less than or equal to 1000") {
		t.Errorf("scaled to 1001: %v; want an error and %q in the text", err, "less than or equal to 1000")
	}
	out := k.kubectl(t, "-n", namespace, "autoscale", "vg/web", "--min=2", "--max=9", "--cpu=80%", "-o", "jsonpath={.spec.scaleTargetRef}")
	if out != `{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","name":"web"}` {
		t.Errorf("an autoscaler for the group targets %s; want %s", out, `{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","name":"web"}`)
	}
}

func TestAStatusChangesOnlyThroughItsSubresource(t *testing.T) {
	k := api(t)
	namespace := k.namespace(t, "status")
	ctx := context.Background()
	g := k.stored(t, namespace, "web", nil, report)
	g.Object["status"].(map[string]any)["phase"] = "RUNNING"
	g.Object["spec"].(map[string]any)["cpu"] = int64(4)
	g, err := k.groups(namespace).Update(ctx, g, metav1.UpdateOptions{})
	must.Succeed(t, err)
	if phase, _, _ := unstructured.NestedString(g.Object, "status", "phase"); phase != "PENDING" || g.GetGeneration() != 2 {
		t.Errorf("after an edit of spec and status: phase %s, generation %d; want %s and 2", phase, g.GetGeneration(), "PENDING")
	}
	g.Object["spec"].(map[string]any)["cpu"] = int64(8)
	g.Object["status"].(map[string]any)["phase"] = "RUNNING"
	if g, err = k.groups(namespace).UpdateStatus(ctx, g, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if cpu, _, _ := unstructured.NestedInt64(g.Object, "spec", "cpu"); cpu != 4 || g.GetGeneration() != 2 {
		t.Errorf("after an edit of the status: %d CPUs, generation %d; want 4 and 2", cpu, g.GetGeneration())
	}
	g.Object["status"].(map[string]any)["phase"] = "DONE"
	_, err = k.groups(namespace).UpdateStatus(ctx, g, metav1.UpdateOptions{})
	if causes := refusal(t, err); !names(causes, "status.phase", `"RUNNING"`) {
		t.Errorf("got the causes %v; want one about status.phase that names the phases", causes)
	}
}

// The name of a folder is the lock of an ordinal, and there must be only one: see invariant 1 in docs/design.md.
func TestAGroupStaysInItsFolderWhileItHasMembers(t *testing.T) {
	k := api(t)
	namespace := k.namespace(t, "folder")
	ctx := context.Background()
	const says = "cannot be changed while the group has members"
	for i, c := range []struct {
		phase   string
		current int
		spec    string // the placement before
		edit    string
		field   string // the refused field; empty if the API server accepts the change
	}{
		{"RUNNING", 0, `{}`, `{"folder": "teams"}`, ""},
		{"RUNNING", 3, `{"folder": "teams", "datacenter": "DC0"}`, `{"pool": "C1", "antiAffinity": "Preferred"}`, ""},
		{"RUNNING", 3, `{}`, `{"folder": "teams"}`, "spec.placement.folder"},
		{"RUNNING", 3, `{"folder": "teams"}`, `{"folder": null}`, "spec.placement.folder"},
		{"RUNNING", 3, `{"folder": "teams"}`, `null`, "spec.placement.folder"},
		{"RUNNING", 1, `{"datacenter": "DC0"}`, `{"datacenter": "DC1"}`, "spec.placement.datacenter"},
		{"PENDING", 0, `{"datacenter": "DC0"}`, `{"datacenter": "DC1"}`, "spec.placement.datacenter"},
		{"ERROR", 0, `{"datacenter": "DC0"}`, `{"datacenter": "DC1"}`, ""},
	} {
		name := fmt.Sprintf("web%d", i)
		k.stored(t, namespace, name, map[string]any{"placement": parse(t, []byte(c.spec))}, fmt.Sprintf(
			`{"phase": %q, "currentReplicas": %d, "desiredReplicas": 0, "readyReplicas": 0, "availableReplicas": 0, "updatedReplicas": 0}`, c.phase, c.current))
		_, err := k.groups(namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"placement":`+c.edit+`}}`), metav1.PatchOptions{})
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.field != "" && !names(refusal(t, err), c.field, says):
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A member that loses a disk may lose data.
func TestDisksAreOnlyAddedAndGrowWhileTheGroupHasMembers(t *testing.T) {
	k := api(t)
	namespace := k.namespace(t, "disks")
	const before = `{"rootDisk": {"sizeGiB": 40}, "disks": [{"name": "data", "sizeGiB": 10}, {"name": "log", "sizeGiB": 5}]}`
	for i, c := range []struct {
		current     int
		edit, field string
	}{
		{3, `{"disks": [{"name": "data", "sizeGiB": 20}, {"name": "log", "sizeGiB": 5}, {"name": "new", "sizeGiB": 1}]}`, ""},
		{3, `{"rootDisk": {"sizeGiB": 41}}`, ""},
		{3, `{"rootDisk": {"sizeGiB": 39}}`, "spec.rootDisk"},
		{3, `{"rootDisk": null}`, "spec.rootDisk"},
		{3, `{"disks": null}`, "spec.disks"},
		{3, `{"disks": [{"name": "data", "sizeGiB": 10}]}`, "spec.disks"},
		{3, `{"disks": [{"name": "log", "sizeGiB": 5}, {"name": "data", "sizeGiB": 10}]}`, "spec.disks"},
		{3, `{"disks": [{"name": "data", "sizeGiB": 10}, {"name": "log", "sizeGiB": 4}]}`, "spec.disks"},
		{0, `{"rootDisk": null, "disks": [{"name": "log", "sizeGiB": 4}]}`, ""},
		{0, `{"disks": [{"name": "log", "sizeGiB": 4}, {"name": "log", "sizeGiB": 4}]}`, "spec.disks[1]"},
		{0, `{"disks": [{"name": "Log", "sizeGiB": 4}]}`, "spec.disks[0].name"},
		{0, `{"clone": {"mode": "Linked"}}`, "spec.rootDisk"},
		{3, `{"disks": [{"name": "data", "sizeGiB": 10, "persistent": true}, {"name": "log", "sizeGiB": 5}]}`, "spec.disks"},
		{0, `{"disks": [{"name": "data", "sizeGiB": 10, "persistent": true}], "deletion": {"quarantineSeconds": 60}}`, "spec.deletion.quarantineSeconds"},
		{0, `{"disks": [{"name": "data", "sizeGiB": 10, "persistent": true}], "adopt": ["vm-7"]}`, "spec.adopt"},
		{0, `{"disks": [{"name": "data", "sizeGiB": 10, "persistent": true, "retention": {"whenScaled": "Delete"}}]}`, ""},
	} {
		name := fmt.Sprintf("web%d", i)
		k.stored(t, namespace, name, parse(t, []byte(before)), fmt.Sprintf(
			`{"phase": "RUNNING", "currentReplicas": %d, "desiredReplicas": 0, "readyReplicas": 0, "availableReplicas": 0, "updatedReplicas": 0}`, c.current))
		_, err := k.groups(namespace).Patch(context.Background(), name, types.MergePatchType, []byte(`{"spec":`+c.edit+`}`), metav1.PatchOptions{})
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.field != "" && !names(refusal(t, err), c.field, ""):
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Lists with several owners are merged by their keys.
func TestTwoFieldManagersKeepTheirOwnEntriesOfLists(t *testing.T) {
	k := api(t)
	namespace := k.namespace(t, "hands")
	ctx := context.Background()
	apply := func(manager string, spec map[string]any) *unstructured.Unstructured {
		t.Helper()
		g := group("web", nil)
		if manager != "owner" {
			g.Object["spec"] = map[string]any{}
		}
		for field, value := range spec {
			g.Object["spec"].(map[string]any)[field] = value
		}
		raw, err := json.Marshal(g)
		must.Succeed(t, err)
		stored, err := k.groups(namespace).Patch(ctx, "web", types.ApplyPatchType, raw, metav1.PatchOptions{FieldManager: manager, FieldValidation: metav1.FieldValidationStrict})
		must.Succeed(t, err)
		return stored
	}
	apply("owner", map[string]any{"tags": []any{map[string]any{"category": "team", "name": "shop"}}, "adopt": []any{"vm-1"}})
	g := apply("backup", map[string]any{"tags": []any{map[string]any{"category": "backup", "name": "daily"}}, "adopt": []any{"vm-2"}})
	spec := g.Object["spec"].(map[string]any)
	if len(spec["tags"].([]any)) != 2 || len(spec["adopt"].([]any)) != 2 {
		t.Errorf("the second manager's entries replaced the first one's: %v", spec)
	}
	g = apply("backup", nil)
	spec = g.Object["spec"].(map[string]any)
	if tags := spec["tags"].([]any); len(tags) != 1 || tags[0].(map[string]any)["category"] != "team" {
		t.Errorf("after the second manager withdrew its entries: %v", spec)
	}
}
