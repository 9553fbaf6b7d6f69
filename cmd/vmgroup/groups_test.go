package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	response, err := http.Get(url)
	must.Succeed(t, err)
	defer response.Body.Close() //nolint:errcheck // the body was only read
	text, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return response.StatusCode, string(text)
}

const plantedManifest = `apiVersion: vm.codeconnect.vmworld.com/v1alpha1
kind: VmGroup
metadata: {name: web}
spec: {cpu: 2, memory: 4, replicas: 3, template: vm-operator-template, userData: {secretKeyRef: {name: boot}}}
`

func TestEveryReplicaReportsAGroupWithoutItsUserData(t *testing.T) {
	t.Parallel()
	const planted = "#cloud-config\npassword: planted-secret\n"
	vc := startVCenter(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
	called, other := serve(t, against(vc), "--log-level", "debug"), serve(t, against(vc), "--log-level", "debug")
	g := metacontroller.New(called.url, "default", "web", "uid-web", 2)
	g.Spec.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
	g.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": planted}}}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := g.Until(ctx, metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	output := ""
	for _, p := range []*process{called, other} {
		eventually(t, "both members are discovered", func() bool {
			code, body := get(t, p.url+"/sd?port=9100&namespace=default&group=web")
			var targets []struct {
				Targets []string
				Labels  map[string]string
			}
			output += body
			return code == 200 && json.Unmarshal([]byte(body), &targets) == nil && len(targets) == 2 &&
				targets[1].Labels["__meta_vmgroup_member"] == "web-1" && strings.HasSuffix(targets[1].Targets[0], ":9100")
		})
		code, body := get(t, p.url+"/groups/default/web")
		var r plan.Report
		if err := json.Unmarshal([]byte(body), &r); err != nil || code != 200 || r.Lease != (p == called) || r.UID != "uid-web" || len(r.Members) != 2 || len(r.Members[0].IPs) == 0 {
			t.Errorf("%d %s", code, body)
		}
		_, all := get(t, p.url+"/groups")
		_, metrics := get(t, p.health+"/metrics")
		output += body + all + metrics
		r.Actions = nil // only the report of a single group has actions
		if short, err := json.Marshal(r); err != nil || strings.TrimSpace(all) != "["+string(short)+"]" {
			t.Errorf("/groups: %s", all)
		}
		if code, _ := get(t, p.url+"/groups/default/db"); code != 404 {
			t.Errorf("a group that doesn't exist: %d", code)
		}
	}

	forecast := func(want int, env []string, args ...string) string {
		t.Helper()
		out, errs, status := preview(t, env, plantedManifest, args...)
		if status != want {
			t.Errorf("vmgroup ended with the exit status %d: %s%s; want %d", status, out, errs, want)
		}
		output += out + errs
		return out
	}
	if out := forecast(2, nil, "--server", called.url); strings.Count(out, "Clone") != 1 || strings.Contains(out, "Destroy") {
		t.Errorf("the server that knows the user data plans:\n%s", out)
	}
	for _, out := range []string{forecast(1, nil, "--server", other.url), forecast(1, against(vc))} {
		if !strings.Contains(out, "spec.userData names Secret default/boot, which is unknown here: add it to the manifests") ||
			!strings.Contains(out, "blocked (UserDataNotGiven)") || strings.Contains(out, "nothing to do") {
			t.Errorf("without the user data:\n%s", out)
		}
	}
	must.Succeed(t, g.Delete(ctx))
	for _, p := range []*process{called, other} {
		eventually(t, "the group is no longer reported", func() bool { _, body := get(t, p.url+"/groups"); return body == "[]\n" })
		p.stop(t)
		output += p.logged()
	}
	if !strings.Contains(output, `"hook":"/sd"`) {
		t.Error("the logs are not at level debug")
	}
	if strings.Contains(output, "planted") {
		t.Errorf("leaked: %s", output)
	}
}

func TestThePlanTableHasNoVMForStepsOfTheGroup(t *testing.T) {
	t.Parallel()
	steps := []plan.Step{
		{Round: 1, Action: plan.Action{Op: plan.CreateFolder, Key: plan.FolderKey, Reason: "a"}},
		{Round: 2, Action: plan.Action{Op: plan.Prepare, Key: "web-0", Reason: "b", Args: &plan.Details{UserData: "planted"}}},
		{Round: 2, Action: plan.Action{Op: plan.SetRules, Key: plan.RulesKey, Reason: "c"}},
		{Round: 3, Action: plan.Action{Op: plan.ConfirmGone, Key: plan.ConfirmKey, Reason: "d"}},
	}
	verdicts := []plan.Verdict{
		{VM: "web-0", MoRef: "vm-1", Is: plan.Update, Reason: "e", WaitsFor: "f"}, {VM: "web-1", MoRef: "vm-2", Is: plan.Update, Reason: "e", WaitsFor: "f"},
		{VM: "web-2", Is: plan.Create, Reason: "g"},
	}
	a := hook.Answer(t.Context(), nil, plan.Ref{Namespace: "default", Name: "web"}, &plan.Result{Verdicts: verdicts}, &plan.Outlook{Steps: steps})
	var out bytes.Buffer
	must.Succeed(t, planTable(&out, []hook.PlanAnswer{a}))
	want := `default/web is : 
VERDICT  VM            REASON
Update   web-0, web-1  e; waits for f
Create   web-2         g

ROUND  ACTION        VM     REASON
1      CreateFolder  -      a
2      Prepare       web-0  b
2      SetRules      -      c
3      ConfirmGone   -      d

Plan: 0 to create, 1 to change, 0 to remove
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	if text, err := json.Marshal(a); err != nil || strings.Contains(string(text), plan.RulesKey) || strings.Contains(string(text), "planted") {
		t.Errorf("%s %v", text, err)
	}
}
