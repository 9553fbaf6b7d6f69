package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// webYAML is a group as a user writes it.
const webYAML = `apiVersion: vm.codeconnect.vmworld.com/v1alpha1
kind: VmGroup
metadata: {name: web}
spec: {cpu: 2, memory: 4, replicas: 3, template: vm-operator-template}
`

func TestKubectlAloneTakesAGroupThroughItsLife(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "life")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	patch := func(spec string) { k("patch", "vg", "web", "--type=merge", "-p", `{"spec":`+spec+`}`) }
	none := func(which string, a, b *v1alpha1.VmGroup) {
		t.Helper()
		for _, ref := range moRefs(a) {
			if slices.Contains(moRefs(b), ref) {
				t.Errorf("%s is still a member after %s", ref, which)
			}
		}
	}

	r.kubectlWith(t, webYAML, "-n", namespace, "apply", "-f", "-")
	r.settled(t, namespace, "web", 3)
	if out, want := table(k("get", "vg", "--no-headers")), "web  RUNNING  3  3  2  4  vm-operator-template  3  AGE  successfully reconciled VmGroup"; out != want {
		t.Errorf("kubectl get vg shows %s; want %s", out, want)
	}
	if n := len(r.vms(t, namespace, "web")); n != 3 {
		t.Errorf("%d VMs; want 3", n)
	}
	var members []struct{ Name string }
	eventually(t, func() string { // Metacontroller writes the children after the status of the same answer
		out := k("get", "configmap", "web-members", "-o", `jsonpath={.data.members\.json}`)
		if err := json.Unmarshal([]byte(out), &members); err != nil || len(members) != 3 {
			return "the ConfigMap has " + out
		}
		return ""
	})

	k("scale", "vg/web", "--replicas=5")
	r.settled(t, namespace, "web", 5)
	k("scale", "vg/web", "--replicas=2")
	g := r.settled(t, namespace, "web", 2)
	if vms := r.vms(t, namespace, "web"); len(vms) != 2 || vms["web-0"].Name == "" || vms["web-1"].Name == "" {
		t.Errorf("scaled to 2: %d VMs", len(vms))
	}

	patch(`{"template":"vm-operator-template-2"}`)
	rolled := r.settled(t, namespace, "web", 2)
	none("a roll", g, rolled)

	patch(`{"memory":8,"cpu":4}`)
	resized := r.settled(t, namespace, "web", 2)
	for name, vm := range r.vms(t, namespace, "web") {
		if vm.Config.Hardware.MemoryMB != 8192 || vm.Config.Hardware.NumCPU != 4 {
			t.Errorf("%s has %d MB and %d CPUs; want 8192 and 4", name, vm.Config.Hardware.MemoryMB, vm.Config.Hardware.NumCPU)
		}
	}

	t.Log("user data")
	patch(`{"userData":{"secretKeyRef":{"name":"boot"}}}`)
	g = r.until(t, namespace, "web", "an error", func(g *v1alpha1.VmGroup) bool { return g.Status.Phase == v1alpha1.PhaseError })
	if !strings.Contains(g.Status.LastMessage, namespace+"/boot") || len(moRefs(g)) != 2 {
		t.Errorf("without the Secret: %q, %d members", g.Status.LastMessage, len(moRefs(g)))
	}
	k("create", "secret", "generic", "boot", "--from-literal=user-data=#cloud-config\n# planted-one\n")
	first := r.settled(t, namespace, "web", 2)
	none("user data", resized, first)
	r.hasUserData(t, namespace, "web", "planted-one")
	k("patch", "secret", "boot", "--type=merge", "-p", `{"stringData":{"user-data":"#cloud-config\n# planted-two\n"}}`)
	r.until(t, namespace, "web", "cloned with the new text", func(g *v1alpha1.VmGroup) bool {
		return g.Status.Phase == v1alpha1.PhaseRunning && len(moRefs(g)) == 2 && !slices.Contains(moRefs(first), moRefs(g)[0]) && !slices.Contains(moRefs(first), moRefs(g)[1])
	})
	r.hasUserData(t, namespace, "web", "planted-two")

	t.Log("a Service")
	patch(`{"service":{"ports":[{"port":80}]},"readiness":{"check":"GuestIP"}}`)
	g = r.settled(t, namespace, "web", 2)
	r.endpoints(t, namespace, "web", g)
	if ip := k("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"); ip != "None" {
		t.Errorf("the Service has the address %s; want %s", ip, "None")
	}
	patch(`{"service":{"type":"ClusterIP"}}`)
	eventually(t, func() string {
		ip, _ := r.Kubectl("-n", namespace, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
		if ip == "" || ip == "None" {
			return "the Service has the address " + ip
		}
		return ""
	})
	r.endpoints(t, namespace, "web", r.settled(t, namespace, "web", 2))
	address := k("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	for _, kind := range []string{"LoadBalancer", "ClusterIP"} {
		patch(`{"service":{"type":"` + kind + `"}}`)
		eventually(t, func() string {
			is, _ := r.Kubectl("-n", namespace, "get", "service", "web", "-o", "jsonpath={.spec.type} {.spec.clusterIP} {.spec.ports[*].nodePort}")
			node := strings.TrimPrefix(is, kind+" "+address+" ")
			if node == is || (node != "") != (kind == "LoadBalancer") {
				return "the Service is " + is + "; want the type " + kind + " and the address " + address
			}
			return ""
		})
	}
	r.endpoints(t, namespace, "web", r.settled(t, namespace, "web", 2))

	t.Log("an operator destroys a member")
	g = r.settled(t, namespace, "web", 2)
	r.destroy(t, g.Status.Members[0].MoRef)
	r.until(t, namespace, "web", "healed", func(h *v1alpha1.VmGroup) bool {
		return h.Status.Phase == v1alpha1.PhaseRunning && h.Status.ReadyReplicas == 2 && !slices.Contains(moRefs(h), g.Status.Members[0].MoRef)
	})
	r.endpoints(t, namespace, "web", r.settled(t, namespace, "web", 2))

	described := k("describe", "vg", "web")
	if !strings.Contains(described, "successfully reconciled VmGroup") || strings.Contains(described, "SyncError") {
		t.Errorf("kubectl describe has a SyncError, or no successful sync: %s", described)
	}
	k("delete", "vg", "web", "--timeout=2m")
	if left := r.vms(t, namespace, "web"); len(left) > 0 {
		t.Errorf("the group is deleted, but %d VMs are left", len(left))
	}
	eventually(t, func() string {
		return k("get", "configmaps,services,endpointslices", "-o", "name", "-l", "controller-uid")
	})
	for what, text := range map[string]string{"the server's log": r.server.Log(), "the output of describe": described, "Metacontroller's log": r.metacontroller.Log()} {
		if strings.Contains(text, "planted-") {
			t.Errorf("the user data is in %s", what)
		}
	}
}

// hasUserData checks what the members of a group find at their first boot.
func (r *rig) hasUserData(t *testing.T, namespace, name, planted string) {
	t.Helper()
	vms := r.vms(t, namespace, name)
	for vm, properties := range vms {
		data := map[string]string{}
		for _, o := range properties.Config.ExtraConfig {
			data[o.GetOptionValue().Key], _ = o.GetOptionValue().Value.(string)
		}
		text := plain(t, data["guestinfo.userdata"], data["guestinfo.userdata.encoding"])
		if !strings.Contains(text, planted) {
			t.Errorf("%s has the user data %q; want %q in the text", vm, text, planted)
		}
	}
	if len(vms) == 0 {
		t.Errorf("%s/%s has no VMs", namespace, name)
	}
}

// plain decodes guestinfo.
func plain(t *testing.T, text, encoding string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	must.Succeed(t, err)
	if !strings.HasPrefix(encoding, "gz") {
		return string(raw)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(raw))
	must.Succeed(t, err)
	unzipped, err := io.ReadAll(unzip)
	must.Succeed(t, err)
	return string(unzipped)
}

// endpoints waits until the Service reaches exactly the members of a group.
func (r *rig) endpoints(t *testing.T, namespace, name string, g *v1alpha1.VmGroup) {
	t.Helper()
	var want []string
	for _, m := range g.Status.Members {
		want = append(want, m.IPs...)
	}
	slices.Sort(want)
	eventually(t, func() string {
		out := r.kubectl(t, "-n", namespace, "get", "endpointslices", "-l", "kubernetes.io/service-name="+name, "-o",
			`jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[*]}{"\n"}{end}`)
		got := strings.Fields(out)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			return strings.Join(got, " ") + "  are reached, want " + strings.Join(want, " ")
		}
		return ""
	})
}

// destroy removes a VM, as an operator would.
func (r *rig) destroy(t *testing.T, moRef string) {
	t.Helper()
	destroy(t, r.vcenter.Admin(), moRef)
}

// destroy destroys a VM, and tries again if the server powers the VM on in between.
func destroy(t *testing.T, client *govmomi.Client, moRef string) {
	t.Helper()
	ctx := context.Background()
	vm := object.NewVirtualMachine(client.Client, types.ManagedObjectReference{Type: "VirtualMachine", Value: moRef})
	var err error
	for range 10 {
		_ = wait(ctx)(vm.PowerOff(ctx))
		if err = wait(ctx)(vm.Destroy(ctx)); err == nil {
			return
		}
	}
	t.Fatal(err)
}
