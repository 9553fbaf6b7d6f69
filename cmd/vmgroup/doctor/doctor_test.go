package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/page"
)

func (s *stage) examine() []Finding {
	s.t.Helper()
	return Examine(context.Background(), s.kubectl, Install{Namespace: "vmgroup-system", Name: "vmgroup", Version: "v1.2.3", Fields: s.answer.Fields, Now: now})
}

// without returns the findings that aren't OK, a line each.
func without(findings []Finding, levels ...Level) (lines []string) {
	for _, f := range findings {
		if !slices.Contains(levels, f.Level) {
			lines = append(lines, fmt.Sprintf("%s: %s: %s: %s → %s", f.Level, f.Category, f.Check, f.Detail, f.Todo))
		}
	}
	return lines
}

func TestAWholeInstallHasNoFinding(t *testing.T) {
	s := newStage(t)
	findings := s.examine()
	if wrong := without(findings, OK); len(wrong) > 0 {
		t.Errorf("the install of the manifests has findings:\n%s", strings.Join(wrong, "\n"))
	}
	if len(findings) < 25 {
		t.Errorf("%d checks: %+v", len(findings), findings)
	}
}

// Each control plane is broken in one way, and the first thing that fails names it, with what to do.
func TestEachBrokenControlPlaneIsNamed(t *testing.T) {
	const pod, controller = "pods/vmgroup-7d9-a", controllersCRD + "/vmgroup"
	list := func(items ...any) []any { return items }
	obj := func(pairs ...any) map[string]any {
		o := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			o[pairs[i].(string)] = pairs[i+1]
		}
		return o
	}
	notReady := func(s *stage, at string) {
		s.set(at, "status.conditions", list(obj("type", "Ready", "status", "False")))
	}
	for name, c := range map[string]struct {
		breaks func(*stage)
		level  Level
		says   []string
	}{
		"no API server":         {func(s *stage) { s.down = true }, Fail, []string{"kubectl reaches the API server", "refused", "--context"}},
		"no CRD":                {func(s *stage) { delete(s.objects, "crd/"+groupsCRD) }, Fail, []string{"CRD of VmGroups", "there is no CustomResourceDefinition"}},
		"Metacontroller's CRDs": {func(s *stage) { delete(s.objects, "crd/"+controllersCRD) }, Fail, []string{"Metacontroller's CRD", "Install Metacontroller"}},
		"no Metacontroller":     {func(s *stage) { delete(s.objects, "metacontroller/metacontroller-0") }, Fail, []string{"Metacontroller runs", "no pod has", "no hook is called"}},
		"Metacontroller crashes": {func(s *stage) {
			notReady(s, "metacontroller/metacontroller-0")
			s.set("metacontroller/metacontroller-0", "status.containerStatuses", list(obj("restartCount", 7, "state", obj("waiting", obj("reason", "CrashLoopBackOff")),
				"lastState", obj("terminated", obj("reason", "OOMKilled", "exitCode", 137, "finishedAt", now.Add(-time.Minute).Format(time.RFC3339))))))
		}, Fail, []string{"Metacontroller runs", "metacontroller/metacontroller-0", "CrashLoopBackOff"}},
		"Metacontroller too old": {func(s *stage) {
			s.set("metacontroller/metacontroller-0", "spec.containers", list(obj("image", "metacontrollerio/metacontroller:v4.11.9")))
		}, Fail, []string{"4.17.2 or newer", "v4.11.9", "Upgrade"}},
		"Metacontroller's rights": {func(s *stage) { s.denied = "watch secrets" }, Fail, []string{"rights that VmGroup needs", "lacks watch secrets", "metacontroller-rights"}},
		"no CompositeController":  {func(s *stage) { delete(s.objects, controller) }, Fail, []string{"a CompositeController calls this server", "vmgroup.vmgroup-system.svc"}},
		"another URL": {func(s *stage) {
			s.set(controller, "spec.hooks.sync.webhook.url", "https://vmgroup.elsewhere.svc:8443/sync")
		}, Fail, []string{"a CompositeController calls this server", "vmgroup calls vmgroup.elsewhere.svc:8443"}},
		"no finalize hook": {func(s *stage) { s.set(controller, "spec.hooks.finalize", nil) }, Fail, []string{"its hooks are complete", "no hook finalize"}},
		"a hook's path": {func(s *stage) {
			s.set(controller, "spec.hooks.finalize.webhook.url", "https://vmgroup.vmgroup-system.svc:8443/sync")
		}, Fail, []string{"its hooks are complete", "finalize calls", "Correct it to https://vmgroup.vmgroup-system.svc:8443/finalize"}},
		"two select one group": {func(s *stage) {
			s.add(controllersCRD, "second", `{"spec": {"parentResource": {"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "resource": "vmgroups"},
				"hooks": {"sync": {"version": "v2", "webhook": {"url": "https://vmgroup.second.svc:8443/sync"}}}}}`)
		}, Fail, []string{"no other CompositeController selects", "second", "labelSelector"}},
		"no resync":    {func(s *stage) { s.set(controller, "spec.resyncPeriodSeconds", nil) }, Warn, []string{"resyncPeriodSeconds is 0", "Set it to 300"}},
		"a child kind": {func(s *stage) { s.set(controller, "spec.childResources", list()) }, Fail, []string{"keeps the groups' ConfigMaps", "childResources lacks"}},
		"a complaint": {func(s *stage) {
			s.add("complaints", "e", `{"type": "Warning", "reason": "CreateError", "message": "Cannot create new controller: secret not found", "lastTimestamp": "2026-11-30T02:00:00Z"}`)
		}, Fail, []string{"no complaint", "Cannot create new controller", "restart Metacontroller"}},
		"scaled to 0":   {func(s *stage) { s.set("deployment/vmgroup", "spec.replicas", 0) }, Fail, []string{"Deployment exists", "scaled to 0", "--replicas=1"}},
		"no Deployment": {func(s *stage) { delete(s.objects, "deployment/vmgroup") }, Fail, []string{"there is no Deployment vmgroup-system/vmgroup", "--install"}},
		"the image": {func(s *stage) {
			notReady(s, pod)
			s.set(pod, "status.phase", "Pending")
			s.set(pod, "status.containerStatuses", list(obj("state", obj("waiting", obj("reason", "ImagePullBackOff", "message", "Back-off pulling image vmgroup:dev")))))
		}, Fail, []string{"its pods are ready", "ImagePullBackOff: Back-off pulling image vmgroup:dev"}},
		"a crash loop": {func(s *stage) {
			notReady(s, pod)
			s.logs = "vmgroup: --host (VC_HOST) is not set\n"
			s.set(pod, "status.containerStatuses", list(obj("restartCount", 3, "state", obj("waiting", obj("reason", "CrashLoopBackOff")),
				"lastState", obj("terminated", obj("reason", "Error", "exitCode", 2, "finishedAt", now.Add(-time.Minute).Format(time.RFC3339))))))
		}, Fail, []string{"its pods are ready", "CrashLoopBackOff", "exit code 2", "VC_HOST) is not set"}},
		"no node": {func(s *stage) {
			s.set(pod, "status.phase", "Pending")
			s.set(pod, "status.containerStatuses", nil)
			s.set(pod, "status.conditions", list(obj("type", "PodScheduled", "status", "False", "message", "0/3 nodes are available")))
		}, Fail, []string{"its pods are ready", "no node takes it: 0/3 nodes are available"}},
		"a quota": {func(s *stage) {
			delete(s.objects, pod)
			s.set("deployment/vmgroup", "status.conditions", list(obj("type", "ReplicaFailure", "status", "True", "reason", "FailedCreate", "message", "exceeded quota: pods")))
		}, Fail, []string{"its pods are ready", "FailedCreate: exceeded quota: pods"}},
		"killed, and back": {func(s *stage) {
			s.set(pod, "status.containerStatuses", list(obj("restartCount", 1, "lastState", obj("terminated", obj("reason", "OOMKilled", "exitCode", 137, "finishedAt", now.Add(-time.Minute).Format(time.RFC3339))))))
		}, Warn, []string{"has not ended within the last hour", "OOMKilled, exit code 137", "memory limit"}},
		"no credentials":    {func(s *stage) { delete(s.secrets, "vc-creds") }, Fail, []string{"Secrets that the server mounts", "no Secret vmgroup-system/vc-creds", "secrets-of-the-hooks"}},
		"a key of a Secret": {func(s *stage) { delete(s.secrets["vc-creds"], "VC_PASS") }, Fail, []string{"vc-creds has no key VC_PASS"}},
		"the certificate expired": {func(s *stage) { s.issue("vmgroup-tls", now.Add(-time.Hour), "vmgroup.vmgroup-system.svc") }, Fail,
			[]string{"the server's certificate is valid", "expired at 2026-11-30 02:00:00 UTC", "Renew it"}},
		"the certificate ends soon": {func(s *stage) { s.issue("vmgroup-tls", now.AddDate(0, 0, 5), "vmgroup.vmgroup-system.svc") }, Warn,
			[]string{"the server's certificate is valid", "expires at 2026-12-05"}},
		"the certificate's name": {func(s *stage) { s.issue("vmgroup-tls", now.AddDate(1, 0, 0), "vmgroup.other.svc") }, Fail,
			[]string{"Metacontroller trusts the server's certificate", "vmgroup.other.svc", "Issue it for vmgroup.vmgroup-system.svc"}},
		"another authority": {func(s *stage) {
			s.ca = nil
			s.issue("vmgroup-tls", now.AddDate(1, 0, 0), "vmgroup.vmgroup-system.svc")
		}, Fail, []string{"Metacontroller trusts the server's certificate", "unknown authority"}},
		"another key": {func(s *stage) {
			before := s.secrets["vmgroup-tls"]["tls.key"]
			s.issue("vmgroup-tls", now.AddDate(1, 0, 0), "vmgroup.vmgroup-system.svc")
			s.secrets["vmgroup-tls"]["tls.key"] = before
		}, Fail, []string{"its key fit together"}},
		"no authority": {func(s *stage) { delete(s.secrets, "vmgroup-hook-client") }, Fail, []string{"trusts an authority", "no Secret vmgroup-system/vmgroup-hook-client", "restart Metacontroller"}},
		"another token": {func(s *stage) {
			s.set(controller, "spec.endpointConfigs.authorization.secretRef.name", "old-token")
			s.secrets["old-token"] = map[string]string{"token": "planted-other"}
		}, Fail, []string{"accepts Metacontroller's token", "is none of the tokens"}},
		"the endpointConfig's host": {func(s *stage) { s.set(controller, "spec.endpointConfigs.host", "vmgroup.vmgroup-system.svc") }, Fail,
			[]string{"has an endpointConfig for its hooks", "with the port"}},
		"no client certificate": {func(s *stage) {
			containers := s.objects["deployment/vmgroup"]["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
			c := containers[0].(map[string]any)
			c["env"] = append(c["env"].([]any), obj("name", "VMGROUP_CLIENT_CA_FILE", "value", "/etc/vmgroup-tls/ca.crt"))
		}, Fail, []string{"presents a certificate", "no clientTLS", "components/mtls"}},
		"no Service":       {func(s *stage) { delete(s.objects, "service/vmgroup") }, Fail, []string{"the Service leads to the server", "there is no Service"}},
		"another selector": {func(s *stage) { s.set("service/vmgroup", "spec.selector", obj("app", "vmgroup")) }, Fail, []string{"the Service leads to the server", "app=vmgroup"}},
		"another port":     {func(s *stage) { s.set("service/vmgroup", "spec.ports.port", 9443) }, Fail, []string{"has the port that the CompositeController calls", "8443", "9443"}},
		"no endpoint":      {func(s *stage) { delete(s.objects, "endpointslices/vmgroup-x") }, Fail, []string{"a ready endpoint", "it has none"}},
		"the NetworkPolicy": {func(s *stage) {
			s.set("metacontroller/metacontroller-0", "metadata.namespace", "operators")
		}, Fail, []string{"NetworkPolicies let Metacontroller in", "names Metacontroller's namespace operators", "caller.namespace"}},
		"the hooks refuse": {func(s *stage) { s.answer.Code, s.answer.Hook = 401, "the server answers 401 Unauthorized" }, Fail, []string{"the hooks answer as Metacontroller calls them (vmgroup-7d9-a)", "401"}},
		"an older CRD": {func(s *stage) {
			s.answer.Fields = append(slices.Clone(s.answer.Fields), "spec.zeal", "spec.zeal.more")
		}, Fail, []string{"the CRD has the fields of the server", "it lacks spec.zeal →", "drops its value"}},
		"a newer CRD": {func(s *stage) {
			s.answer.Fields = slices.DeleteFunc(slices.Clone(s.answer.Fields), func(f string) bool { return strings.HasPrefix(f, "spec.standby") })
		}, Warn, []string{"it also has spec.standby", "Upgrade the server"}},
		"another version": {func(s *stage) { s.answer.Version = "v1.1.0" }, Warn, []string{"this program has the server's version", "v1.1.0"}},
		"no vCenter": {func(s *stage) {
			s.answer.Status.VCenter = page.VCenterStatus{Address: "vc.example.com", Message: "dial tcp: connection refused", Why: []page.Why{{Reason: "VCenterUnreachable", Todo: "Restore the connection"}}}
		}, Fail, []string{"knows vCenter's state", "connection refused (VCenterUnreachable)", "Restore the connection"}},
		"never called": {func(s *stage) {
			s.answer.Status.Called, s.answer.Status.Silent, s.answer.Status.Started = false, true, now.Add(-time.Hour)
		}, Fail, []string{"Metacontroller calls the hooks", "not since the server started at 2026-11-30 02:00:00 UTC", "delete none"}},
		"not called yet": {func(s *stage) {
			s.answer.Status.Called, s.answer.Status.Started = false, now.Add(-time.Second)
		}, Warn, []string{"Metacontroller calls the hooks", "not since the server started", "Wait a minute"}},
		"a label of no install": {func(s *stage) {
			s.set(groupsCRD+"/web", "metadata.labels", obj("vm.codeconnect.vmworld.com/vcenter", "west"))
		}, Warn, []string{"selected by a CompositeController", "none selects shop/web"}},
		"a finalizer of no install": {func(s *stage) {
			s.set(groupsCRD+"/web", "metadata.finalizers", list("metacontroller.io/compositecontroller-west"))
			s.set(groupsCRD+"/web", "metadata.deletionTimestamp", "2026-11-30T02:00:00Z")
		}, Fail, []string{"no deletion waits", "shop/web waits for west"}},
		"failed calls": {func(s *stage) {
			s.add("events", "e", `{"type": "Warning", "reason": "SyncError", "message": "connection refused", "lastTimestamp": "2026-11-30T02:59:00Z", "involvedObject": {"namespace": "shop", "name": "web"}}`)
		}, Warn, []string{"no call of a hook has failed", "for shop/web", "connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c.breaks(s)
			findings := s.examine()
			wrong := without(findings, OK)
			i := slices.IndexFunc(findings, func(f Finding) bool { return f.Level == c.level })
			if i < 0 {
				t.Fatalf("want a finding %q; got\n%s", c.level, strings.Join(wrong, "\n"))
			}
			first := findings[i]
			said := first.Check + ": " + first.Detail + " → " + first.Todo
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("want %q in the first finding %q:\n%s\nall:\n%s", want, c.level, said, strings.Join(wrong, "\n"))
				}
			}
			if first.Todo == "" {
				t.Errorf("%s: it doesn't say what to do", said)
			}
			if text := fmt.Sprint(findings, s.asked); strings.Contains(text, "planted-") {
				t.Errorf("a secret is in the findings, or in kubectl's arguments: %s", text)
			}
		})
	}
}

// What the user's rights don't show is said, and is no fault of the install.
func TestWhatTheRightsDontShowIsSaid(t *testing.T) {
	for _, forbidden := range [][]string{{"get secret"}, {"get pods -o json --all-namespaces", "get pods -o json --namespace"}, {"create"}, {"exec"}, {"get crd"}, {"get events"},
		{"get " + controllersCRD}, {"get " + groupsCRD}, {"get deployment"}, {"get service"}, {"get endpointslices"}, {"get networkpolicies"}, {"get pods -o json --selector"}} {
		s := newStage(t)
		s.forbidden = forbidden
		findings := s.examine()
		if wrong := without(findings, OK, Unseen); len(wrong) > 0 {
			t.Errorf("without %q: %s", forbidden, strings.Join(wrong, "\n"))
		}
		if unseen := strings.Join(without(findings, OK), "\n"); !strings.Contains(unseen, "Forbidden") {
			t.Errorf("without %q, nothing says so: %s", forbidden, unseen)
		}
	}
}

// While no pod runs, the CRD is compared with the fields that the user's own program knows.
func TestWithoutAPodTheProgramComparesTheCRDItself(t *testing.T) {
	s := newStage(t)
	delete(s.objects, "pods/vmgroup-7d9-a")
	s.answer.Fields = append(slices.Clone(s.answer.Fields), "spec.zeal")
	if wrong := strings.Join(without(s.examine(), OK), "\n"); !strings.Contains(wrong, "the fields of this program (v1.2.3): it lacks spec.zeal") || !strings.Contains(wrong, "no pod of the server runs") {
		t.Error(wrong)
	}
}
