package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestPlanSaysWhichGroupsOfTheManifestsHaveTheSameAddresses(t *testing.T) {
	t.Parallel()
	group := func(namespace, network string) string {
		return "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: web, namespace: " + namespace +
			"}\nspec: {cpu: 1, memory: 1, template: vm-operator-template, networks: [{network: " + network +
			", ipv4: {ranges: [10.0.0.4-10.0.0.9], prefixLength: 24}}]}\n---\n"
	}
	vc := against(startVCenter(t, vcsim.Config{Portgroups: 1}))
	for network, says := range map[string]bool{"VM Network": true, "DC0_DVPG0": false} {
		_, errs, status := preview(t, vc, group("shop", "VM Network")+group("blog", network))
		if strings.Contains(errs, "blog/web: 10.0.0.4-10.0.0.9 in the network VM Network: the group shop/web also has") != says || status != 2 {
			t.Errorf("%s: exit status %d: %s", network, status, errs)
		}
	}
}

// preview runs vmgroup plan with manifests on its standard input.
func preview(t *testing.T, env []string, manifests string, args ...string) (out, errs string, status int) {
	t.Helper()
	c := vmgroup(env, append([]string{"plan", "-f", "-"}, args...)...)
	c.Stdin = strings.NewReader(manifests)
	return run(t, c)
}

const head = "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: web, namespace: shop}\nspec: {cpu: 2, memory: 4, replicas: 2, template: vm-operator-template"

func TestPlanShowsWhatWillBlockAGroup(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serveReady(t, against(vc))
	for spec, want := range map[string]hook.PlanBlock{
		"networks: [{network: nowhere}]":                                              {Op: "Clone", VM: "web-0", Part: "networks", Reason: "NetworkNotFound"},
		"placement: {datastore: nowhere}":                                             {Op: "Clone", VM: "web-0", Part: "storage", Reason: "DatastoreNotFound"},
		"placement: {pool: nowhere}":                                                  {Op: "Clone", VM: "web-0", Part: "resource pool", Reason: "ResourcePoolNotFound"},
		"placement: {storagePolicy: nowhere}":                                         {Op: "Clone", VM: "web-0", Part: "storage", Reason: "StoragePolicyNotFound"},
		"tags: [{category: nowhere, name: x}]":                                        {Op: "Clone", VM: "web-0", Part: "tags", Reason: "TagNotFound"},
		"customizationSpec: nowhere":                                                  {Op: "Clone", VM: "web-0", Part: "customization", Reason: "CustomizationSpecNotFound"},
		"clone: {mode: Linked, snapshot: nowhere}":                                    {Op: "Clone", VM: "web-0", Part: "template and snapshot", Reason: "SnapshotNotFound"},
		"disks: [{name: data, sizeGiB: 1, datastore: nowhere}]":                       {Op: "Clone", VM: "web-0", Part: "disks", Reason: "DatastoreNotFound"},
		"disks: [{name: data, sizeGiB: 1, persistent: true, datastore: nowhere}]":     {Op: "Clone", VM: "web-0", Part: "disks", Reason: "DatastoreNotFound"},
		"disks: [{name: data, sizeGiB: 1, persistent: true, storagePolicy: nowhere}]": {Op: "Clone", VM: "web-0", Part: "disks", Reason: "StoragePolicyNotFound"},
		"placement: {zones: [none]}":                                                  {Op: "Clone", VM: "web-0", Part: "resource pool", Reason: "ResourcePoolNotFound"},
		"replicas: 0":                                                                 {Reason: "TemplateNotFound"}, // with an unknown template, as set below
	} {
		manifest := head + ", " + spec + "}\n"
		if strings.HasPrefix(spec, "replicas") {
			manifest = strings.Replace(head, "vm-operator-template", "nowhere", 1) + "}\n"
		}
		for _, args := range [][]string{{"--server", p.url}, {}} {
			out, errs, status := preview(t, against(vc), manifest, append([]string{"-o", "json"}, args...)...)
			var answers []hook.PlanAnswer
			if err := json.Unmarshal([]byte(out), &answers); err != nil || status != 1 || len(answers) != 1 {
				t.Fatalf("%s, %v: exit status %d: %s%s", spec, args, status, out, errs)
			}
			if !slices.ContainsFunc(answers[0].Blocked, func(b hook.PlanBlock) bool {
				said := b.Message != ""
				b.Message = ""
				return said && b == want
			}) {
				t.Errorf("%s, %v: %+v", spec, args, answers[0].Blocked)
			}
		}
		if out, _, _ := preview(t, against(vc), manifest, "--server", p.url); !strings.Contains(out, "\nblocked") || !strings.Contains(out, "("+want.Reason+")") {
			t.Errorf("%s:\n%s", spec, out)
		}
	}
	if n := vc.Calls()["CloneVM_Task"] + vc.Calls()["CreateFolder"]; n > 1 { // the server itself makes its root folder
		t.Errorf("%d calls that create something; want at most 1", n)
	}
}

// A first apply often has the group and its Secret in one file.
func TestPlanTakesUserDataFromTheManifests(t *testing.T) {
	t.Parallel()
	const from, data = ", userData: {secretKeyRef: {name: boot}}}\n---\n", "apiVersion: v1\nkind: Secret\nmetadata: {name: boot"
	vc := startVCenter(t, vcsim.Config{})
	p := serveReady(t, against(vc))
	for _, c := range []struct {
		manifest, says string
		status         int
	}{
		{head + from + data + ", namespace: shop}\nstringData: {user-data: '#cloud-config planted'}\n", "Clone", 2},
		{data + ", namespace: shop}\ndata: {user-data: I2Nsb3VkLWNvbmZpZyBwbGFudGVk}\n---\n" + head + from, "Clone", 2},
		{head + from + data + ", namespace: shop}\nstringData: {user-data: planted}\n", "is in no format that guests read", 2},
		{head + from + data + "}\nstringData: {user-data: '#cloud-config planted'}\n", "blocked (UserDataNotGiven)", 1}, // in namespace default
		{head + from + data + ", namespace: shop}\nstringData: {another: planted}\n", "blocked (UserDataKeyNotFound)", 1},
		{head + from + data + ", namespace: shop}\ndata: planted\n", "standard input, document 2: the data of Secret boot must be text by key", 1},
		{head + from + data + ", namespace: shop}\ndata: {user-data: planted!}\n", "base64", 1},
	} {
		for _, args := range [][]string{{"--server", p.url}, {}} {
			out, errs, status := preview(t, against(vc), c.manifest, args...)
			if status != c.status || !strings.Contains(out+errs, c.says) || strings.Contains(out+errs, "planted") || strings.Contains(errs, "skipped") {
				t.Errorf("%v, exit status %d: %s%s%s", args, status, out, errs, c.manifest)
			}
		}
	}
	_, errs, status := preview(t, nil, head+from+data+", namespace: shop}\nstringData: {user-data: planted}\n", "--server", "http://vmgroup.example.com")
	if status != 1 || !strings.Contains(errs, "plain HTTP to another machine, so others on the network could read the user data") {
		t.Errorf("vmgroup ended with the exit status %d: %s; want 1 and %q in the text", status, errs, "plain HTTP to another machine, so others on the network could read the user data")
	}
}

func TestPlanShowsWhatWillBlockAnEditOfAGroupThatRuns(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serve(t, against(vc))
	g := metacontroller.New(p.url, "shop", "web", "uid-web", 2)
	g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1}} })
	if _, err := g.Until(t.Context(), metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		edit func(*v1alpha1.VmGroupSpec)
		want hook.PlanBlock
	}{
		{func(s *v1alpha1.VmGroupSpec) { s.Tags = []v1alpha1.Tag{{Category: "nowhere", Name: "x"}} }, hook.PlanBlock{Op: "Prepare", VM: "web-0", Part: "tags", Reason: "TagNotFound"}},
		{func(s *v1alpha1.VmGroupSpec) {
			s.Disks = append(s.Disks, v1alpha1.Disk{Name: "more", SizeGiB: 1, Datastore: "nowhere"})
		}, hook.PlanBlock{Op: "SetDisks", VM: "web-0", Part: "disks", Reason: "DatastoreNotFound"}},
	} {
		edited := g.VmGroup.DeepCopy()
		c.edit(&edited.Spec)
		manifest, err := json.Marshal(edited)
		must.Succeed(t, err)
		for _, args := range [][]string{{"--server", p.url}, {}} {
			out, errs, status := preview(t, against(vc), string(manifest), append([]string{"-o", "json"}, args...)...)
			var answers []hook.PlanAnswer
			if err := json.Unmarshal([]byte(out), &answers); err != nil || status != 1 || len(answers) != 1 || len(answers[0].Blocked) != 1 || answers[0].Blocked[0].Message == "" {
				t.Fatalf("%v: exit status %d: %s%s", args, status, out, errs)
			}
			if answers[0].Blocked[0].Message = ""; answers[0].Blocked[0] != c.want {
				t.Errorf("%v: %+v", args, answers[0].Blocked)
			}
		}
	}
}

func TestPlanKnowsWhatATemplateNamesInAContentLibraryWhenItIsAskedForTheFirstTime(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	ref, err := vc.AddTemplate("/DC0/vm", "ubuntu of the library")
	must.Succeed(t, err)
	must.Succeed(t, vc.AddLibrary("golden"))
	for name, kind := range map[string]string{"ubuntu": "vm-template", "appliance": "ovf", "installer": "iso"} {
		must.Succeed(t, vc.AddLibraryItem("golden", name, kind, ref))
	}
	p := serveReady(t, against(vc))
	for template, want := range map[string]int{"golden/ubuntu": 2, "golden/installer": 1, "golden/none": 1, "golden/appliance": 1} {
		manifest := strings.Replace(head, "vm-operator-template", template, 1) + "}\n"
		for _, args := range [][]string{{"--server", p.url}, {}} {
			out, errs, status := preview(t, against(vc), manifest, args...)
			if deploys := strings.Contains(out, "is deployed as the template vmgroup-appliance-1-"); status != want || deploys != (template == "golden/appliance") || !deploys && strings.Contains(out, "LibraryReading") {
				t.Errorf("%s, %v: exit status %d: %s%s", template, args, status, out, errs)
			}
		}
	}
}

func TestPlanOfASettledGroupHasNothingToDo(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serve(t, against(vc))
	g := metacontroller.New(p.url, "shop", "web", "uid-web", 2)
	if _, err := g.Until(t.Context(), metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(&g.VmGroup)
	must.Succeed(t, err)
	// The input is as from kubectl and kustomize: a List, another kind, and several files.
	list := `{"apiVersion":"v1","kind":"List","items":[` + string(manifest) + `]}`
	other := filepath.Join(t.TempDir(), "other.yaml")
	must.Succeed(t, os.WriteFile(other, []byte("---\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"), 0o600))
	out, errs, status := preview(t, against(vc), list, "--server", p.url, "-f", other)
	if status != 0 || !strings.HasSuffix(out, "is RUNNING: successfully reconciled VmGroup\nnothing to do\n\nPlan: 0 to create, 0 to change, 0 to remove\n") || !strings.Contains(errs, "skipped a Namespace of v1: not a VmGroup") {
		t.Errorf("vmgroup ended with the exit status %d:\n%s%s", status, out, errs)
	}
	two := string(manifest) + "\n---\n" + strings.Replace(head, "name: web", "name: db", 1) + "}\n"
	out, errs, status = preview(t, against(vc), two, "-o", "yaml")
	var answers []hook.PlanAnswer
	if err := yaml.UnmarshalStrict([]byte(out), &answers); err != nil || status != 2 || len(answers) != 2 || len(answers[0].Steps) != 0 || len(answers[1].Steps) == 0 {
		t.Errorf("vmgroup ended with the exit status %d, %v:\n%s%s", status, err, out, errs)
	}
}

func TestPlanExplainsWhatAFieldAccepts(t *testing.T) {
	t.Parallel()
	for spec, says := range map[string]string{
		"memory: 4Gi":            `spec.memory: "4Gi" is invalid: use a whole number of GiB, such as 4, without a unit`,
		"memory: 1.5":            `spec.memory: 1.5 is invalid: use a whole number of GiB`,
		`cpu: "2"`:               `spec.cpu: "2" is invalid: use a whole number of virtual CPUs`,
		"template: 24.04":        `spec.template: 24.04 is invalid: use a string (put it in quotation marks)`,
		"networks: prod":         `spec.networks: "prod" is invalid: use a list`,
		`paused: "yes"`:          `spec.paused: "yes" is invalid: use true or false`,
		"placement: cluster-1":   `spec.placement: "cluster-1" is invalid: use an object`,
		"networks: [{name: 24}]": "standard input, document 1",
	} {
		manifest := "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: web}\nspec: {" + spec + "}\n"
		if _, errs, status := preview(t, nil, manifest, "--simulator"); status != 1 || !strings.Contains(errs, says) || strings.Contains(errs, "Go struct") {
			t.Errorf("%s: exit status %d: %s", spec, status, errs)
		}
	}
	if _, errs, _ := preview(t, nil, "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: web}\nspec: {cpus: 2, mem: 4}\n", "--simulator"); strings.Count(errs, "\n") != 2 || !strings.Contains(errs, `document 1: unknown field "spec.mem": did you mean memory?`) {
		t.Errorf("of two unknown fields: %s", errs)
	}
	if _, errs, status := preview(t, nil, "", "-f", t.TempDir(), "--simulator"); status != 1 || !strings.Contains(errs, "has no file that ends in .yaml, .yml or .json") {
		t.Errorf("of a directory: exit status %d: %s; want 1 and %q in the text", status, errs, "has no file that ends in .yaml, .yml or .json")
	}
	for manifest, says := range map[string]string{
		"kind: VmGroup\napiVersion: v2": `found a "VmGroup" of "v2", not a VmGroup of vm.codeconnect.vmworld.com/v1alpha1`,
		"- 1":                           "not a Kubernetes object",
		"a: b: c":                       "document 1: ",
		"kind: Secret\napiVersion: v1":  "--file - contains no VmGroup",
		"":                              "--file - contains no VmGroup",
	} {
		if _, errs, status := preview(t, nil, manifest, "--simulator"); status != 1 || !strings.Contains(errs, says) {
			t.Errorf("%q: exit status %d: %s; want 1 and %q in the text", manifest, status, errs, says)
		}
	}
}

func TestPlanReportsFieldsOneALineAndAsksWhichWasMeant(t *testing.T) {
	t.Parallel()
	const begin = "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\n"
	_, errs, status := preview(t, nil, begin+"metadata: {name: web, naemspace: x}\nspec: {cpus: 2, replica: 1, disks: [{name: a}, {sizeGB: 3}], placement: {poool: x}, zzz: 1}\n", "--simulator")
	where := "vmgroup: standard input, document 1: unknown field "
	want := []string{`"metadata.naemspace": did you mean namespace?`, `"spec.cpus": did you mean cpu?`, `"spec.disks[1].sizeGB": did you mean sizeGiB?`,
		`"spec.placement.poool": did you mean pool?`, `"spec.replica": did you mean replicas?`,
		`"spec.zzz": spec has the fields adopt, clone, cpu, customAttributes, customizationSpec, deletion, disks, extraConfig, hardware, healing, inventory, memory, networks, paused, placement, readiness, replace, replicas, rootDisk, scaleIn, service, standby, tags, template, update, userData`}
	if status != 1 || errs != where+strings.Join(want, "\n"+where)+"\n" {
		t.Errorf("vmgroup ended with the exit status %d:\n%s", status, errs)
	}
	out, errs, status := preview(t, nil, begin+"metadata: {name: web}\nspec: {cpu: 0, memory: -4, template: x}\n", "--simulator")
	if status != 1 || !strings.HasPrefix(out, "default/web is new:\nspec.cpu: Invalid value: 0: must be between 1 and 768\nspec.memory: Invalid value: -4: ") {
		t.Errorf("vmgroup ended with the exit status %d:\n%s%s", status, out, errs)
	}
}

// With `kubectl exec` into the server's container, plan has the server's environment.
func TestPlanFindsTheServerInItsOwnContainer(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	p := serve(t, nil, append([]string{"--simulator"}, k.flags()...)...)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.url, "https://"))
	must.Succeed(t, err)
	env := []string{"VMGROUP_LISTEN=:" + port, "VMGROUP_TLS_CERT_FILE=" + k.path("tls.crt"), "VMGROUP_TOKEN_FILE=" + k.path("token-next") + "," + k.path("token")}
	eventually(t, "a plan of the server", func() bool {
		out, _, status := preview(t, env, head+"}\n")
		return status == 2 && strings.Contains(out, "PowerOn")
	})
	// Without vCenter settings, plan asks the server.
	k.issue("tls") // the server uses the new certificate once it has read the files again
	eventually(t, "a plan after the certificate changed", func() bool {
		_, _, status := preview(t, env, head+"}\n")
		return status == 2
	})
	vc := startVCenter(t, vcsim.Config{})
	out, errs, status := preview(t, append(against(vc), append(env, "VMGROUP_CLIENT_CA_FILE="+k.path("ca.crt"))...), head+"}\n")
	if status != 2 || !strings.Contains(errs, "the server here requires a client certificate, so plan connects to vCenter itself") {
		t.Errorf("vmgroup ended with the exit status %d: %s%s; want 2 and %q in the text", status, out, errs, "the server here requires a client certificate, so plan connects to vCenter itself")
	}
}

func TestPlanOfABlockedGroupSaysEachSentenceOnce(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serve(t, against(vc))
	g := metacontroller.New(p.url, "shop", "web", "uid-web", 2)
	g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Networks = []v1alpha1.Network{{Network: "nowhere"}} })
	if _, err := g.Until(t.Context(), func(a metacontroller.Answer) bool { return a.Status.Phase == v1alpha1.PhaseError }); err != nil {
		t.Fatal(err)
	}
	tried, err := json.Marshal(&g.VmGroup)
	must.Succeed(t, err)
	for _, c := range []struct{ manifest, sentence, blocked string }{
		{string(tried), "there is no network", "\nblocked at Clone web-0 networks (NetworkNotFound)\n"},
		{strings.Replace(head, "vm-operator-template", "nowhere", 1) + "}\n", `template "nowhere" not found`, "\nblocked (TemplateNotFound)\n"},
		{head + ", readiness: {tcpSocket: {port: 22}}}\n", "the server is not allowed to ask any member whether its service answers", "\nblocked: not ready yet: web-0, web-1 (ProbeRefused)\n"},
		{strings.Replace(head, "replicas: 2", "replicas: -1", 1) + "}\n", "spec.replicas: Invalid value", "\nblocked (InvalidSpec)\n"},
	} {
		out, errs, status := preview(t, nil, c.manifest, "--server", p.url)
		if status != 1 || strings.Count(strings.ToLower(out), strings.ToLower(c.sentence)) != 1 || !strings.Contains(out, c.blocked) {
			t.Errorf("vmgroup ended with the exit status %d, want once %q and %q:\n%s%s", status, c.sentence, c.blocked, out, errs)
		}
	}
}

func TestTheEmbeddedVCenterHasWhatTheSamplesNeed(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Glob("../../manifests/samples/vmgroup*.yaml")
	must.Succeed(t, err)
	args := append([]string{"plan", "--simulator", "-o", "json", "../../manifests/samples/user-data.yaml", "../../manifests/samples/ignition.yaml"}, samples...)
	out, errs, status := run(t, vmgroup(nil, args...))
	var answers []hook.PlanAnswer
	if err := json.Unmarshal([]byte(out), &answers); err != nil || status != 2 || len(answers) != len(samples) {
		t.Fatalf("exit status %d, %d answers, and the error %v: %s", status, len(answers), err, errs)
	}
	for _, a := range answers {
		if len(a.Blocked) > 0 {
			t.Errorf("%s is blocked: %+v", a.Group, a.Blocked)
		}
	}
}
