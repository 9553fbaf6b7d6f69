package e2e

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// servedYAML is a group with each kind of child.
const servedYAML = `apiVersion: vm.codeconnect.vmworld.com/v1alpha1
kind: VmGroup
metadata: {name: web}
spec:
  cpu: 1
  memory: 1
  replicas: 2
  template: vm-operator-template
  readiness: {check: GuestIP}
  service: {ports: [{name: http, port: 80}], annotations: {example.com/ours: "yes"}}
`

// contents are what the children of a group have that the server sets.
func (r *rig) contents(t *testing.T, namespace string) string {
	t.Helper()
	return r.kubectl(t, "-n", namespace, "get", "services,configmaps,endpointslices", "-l", v1alpha1.LabelGroup+"=web", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.labels} {.metadata.annotations.example\.com/ours} {.data} {.spec} {.endpoints} {.ports}{"\n"}{end}`)
}

// The CRD accepts addresses of two networks, and the server refuses them.
func TestAnEditThatTheServerRefusesChangesNoChild(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "refused")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	patch := func(spec string) { k("patch", "vg", "web", "--type=merge", "-p", `{"spec":`+spec+`}`) }
	r.kubectlWith(t, servedYAML, "-n", namespace, "apply", "-f", "-")
	r.endpoints(t, namespace, "web", r.settled(t, namespace, "web", 2))
	was := r.contents(t, namespace)
	if n := strings.Count(was, "\n"); n != 3 || !strings.Contains(was, `"port":80`) || !strings.Contains(was, "web-1") {
		t.Fatalf("the children are\n%s", was)
	}

	patch(`{"service":{"type":"ClusterIP"},"networks":[{"network":"VM Network","ipv4":{"ranges":["10.0.0.7","10.9.0.7","10.9.0.8"],"prefixLength":24}}]}`)
	r.until(t, namespace, "web", "refused", func(g *v1alpha1.VmGroup) bool { return g.Status.Phase == v1alpha1.PhaseError })
	k("label", "vg", "web", "once=more") // causes another hook call
	r.until(t, namespace, "web", "refused", func(g *v1alpha1.VmGroup) bool { return g.Status.Phase == v1alpha1.PhaseError })
	if now := r.contents(t, namespace); now != was {
		t.Errorf("while the spec is refused, the children are\n%s\nand were\n%s", now, was)
	}
	t.Log("vCenter doesn't answer")
	r.vcenter.Down()
	r.until(t, namespace, "web", "without vCenter", func(g *v1alpha1.VmGroup) bool {
		return meta.IsStatusConditionFalse(g.Status.Conditions, v1alpha1.ConditionVCenterReachable)
	})
	now := r.contents(t, namespace)
	r.vcenter.Up()
	if now != was {
		t.Errorf("without vCenter, the children are\n%s\nand were\n%s", now, was)
	}
	patch(`{"networks":null,"service":{"type":null,"ports":[{"name":"https","port":443}]}}`)
	g := r.settled(t, namespace, "web", 2)
	eventually(t, func() string {
		if is := r.contents(t, namespace); !strings.Contains(is, `"port":443`) || strings.Contains(is, `"port":80`) {
			return "with another port, the children are\n" + is
		}
		return ""
	})
	r.endpoints(t, namespace, "web", g)
	k("delete", "vg", "web", "--timeout=2m")
}

// labelPolicy refuses ConfigMaps without the label team.
const labelPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: needs-team}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: refused}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - {expression: "'team' in object.metadata.?labels.orValue({})", message: every ConfigMap here needs the label team}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: needs-team}
spec: {policyName: needs-team, validationActions: [Deny]}
`

// The hooks aren't told why a child doesn't appear; the condition leads to the Event that quotes the API server.
func TestAChildThatAPolicyRefusesIsReportedAndGetsItsLabel(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "refused")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	r.kubectlWith(t, labelPolicy, "create", "-f", "-")
	defer r.kubectlWith(t, labelPolicy, "delete", "-f", "-")
	eventually(t, func() string { // the API server takes a moment to obey a new policy
		if _, err := r.Kubectl("-n", namespace, "create", "configmap", "probe", "--dry-run=server"); err == nil {
			return "the policy is not in force"
		}
		return ""
	})
	text := strings.Replace(webYAML, "replicas: 3", "replicas: 1", 1)
	r.kubectlWith(t, text, "-n", namespace, "apply", "-f", "-")
	k("label", "vg", "web", "team=a")
	missing := func(g *v1alpha1.VmGroup) string {
		if c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionChildMissing); c != nil && c.Status == "True" {
			return c.Message
		}
		return ""
	}
	r.until(t, namespace, "web", "without its ConfigMap", func(g *v1alpha1.VmGroup) bool {
		return strings.Contains(missing(g), "ConfigMap web-members: if the API server refuses to create it, the group's Event SyncError says why")
	})
	if out := k("describe", "vg", "web"); !strings.Contains(out, "SyncError") || !strings.Contains(out, "every ConfigMap here needs the label team") {
		t.Errorf("no Event says why:\n%s", out)
	}
	must.Succeed(t, r.server.Stop())
	r.startServer(t, "--child-labels", "team")
	r.until(t, namespace, "web", "with its ConfigMap", func(g *v1alpha1.VmGroup) bool { return missing(g) == "" && g.Status.Phase == v1alpha1.PhaseRunning })
	if team := k("get", "configmap", "web-members", "-o", "jsonpath={.metadata.labels.team}"); team != "a" {
		t.Errorf("the ConfigMap has the label team=%q; want a", team)
	}
	k("delete", "vg", "web", "--timeout=2m")
	must.Succeed(t, r.server.Stop())
	r.startServer(t)
}

func TestAnObjectOfAUserIsNeverTakenForAChild(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "taken")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	const guard = repository + "/charts/vmgroup/files/cluster/childguard.yaml"
	r.kubectl(t, "apply", "-f", guard)
	defer r.kubectl(t, "delete", "-f", guard)
	k("create", "service", "clusterip", "web", "--tcp=443:8443")
	k("create", "configmap", "web-members", "--from-literal=mine=yes", "--from-literal=members.json=mine")
	r.refuses(t, "a child of a group that it was not made for", "", []string{"-n", namespace, "patch", "configmap", "web-members", "--type=merge", "-p",
		`{"metadata":{"ownerReferences":[{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","name":"web","uid":"u-1","controller":true}]}}`}, "was not made for VmGroup web", "ChildMissing")
	was := k("get", "service/web", "configmap/web-members", "-o", "jsonpath={range .items[*]}{.metadata.resourceVersion} {.spec} {.data} {.metadata.ownerReferences}{\"\\n\"}{end}")
	r.kubectlWith(t, servedYAML, "-n", namespace, "apply", "-f", "-")
	var conflict string
	r.until(t, namespace, "web", "in conflict", func(g *v1alpha1.VmGroup) bool {
		if c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionChildMissing); c != nil && c.Status == "True" {
			conflict = c.Message
		}
		return strings.Contains(conflict, "Service web") && strings.Contains(conflict, "ConfigMap web-members") && g.Status.ReadyReplicas == 2
	})
	k("delete", "vg", "web", "--timeout=2m")
	if now := k("get", "service/web", "configmap/web-members", "-o", "jsonpath={range .items[*]}{.metadata.resourceVersion} {.spec} {.data} {.metadata.ownerReferences}{\"\\n\"}{end}"); now != was {
		t.Errorf("the user's objects are\n%s\nand were\n%s", now, was)
	}

	t.Log("a child that lost its owner, and is still marked as one, comes back")
	k("delete", "service/web", "configmap/web-members")
	r.kubectlWith(t, servedYAML, "-n", namespace, "apply", "-f", "-")
	r.endpoints(t, namespace, "web", r.settled(t, namespace, "web", 2))
	uid := func() string {
		return k("get", "service", "web", "-o", "jsonpath={.metadata.uid} {.metadata.ownerReferences[*].kind}")
	}
	before := uid()
	k("patch", "service", "web", "--type=merge", "-p", `{"metadata":{"ownerReferences":null}}`)
	eventually(t, func() string {
		if now := uid(); now != before || !slices.Contains(strings.Fields(now), v1alpha1.Kind) {
			return "the Service is " + now + ", and was " + before
		}
		return ""
	})
	k("delete", "vg", "web", "--timeout=2m")
}
