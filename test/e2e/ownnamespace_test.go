package e2e

import (
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// A group that was created in the server's own namespace, before the policy refused that, is deleted together with it. Nothing can be created there any more,
// so the server comes back in another namespace, as docs/troubleshooting.md says ("A group hangs in deletion").
func TestAGroupInTheServersOwnNamespaceEndsWithAServerInAnother(t *testing.T) {
	r := life(t)
	own, other := "vmgroup-system", r.namespace(t, "vmgroup-again")
	r.up(t, own, "stuck", 2)
	r.server.Kill()
	r.kubectl(t, "delete", "namespace", own, "--wait=false")
	eventually(t, func() string {
		if _, err := r.Kubectl("-n", own, "get", "secret", "vmgroup-hook-token"); err == nil {
			return "the Secrets of the server are still there"
		}
		return ""
	})
	if _, err := r.Kubectl("-n", own, "create", "secret", "generic", "vmgroup-hook-token", "--from-file=token="+r.path("token")); err == nil || !strings.Contains(err.Error(), "being terminated") {
		t.Fatalf("the Secrets can be created again in a namespace that is being deleted: %v", err)
	}
	if vms := r.vms(t, own, "stuck"); len(vms) != 2 {
		t.Fatalf("%d VMs without a server, want 2", len(vms))
	}
	r.startServer(t)
	r.secrets(t, other)
	r.applyController(t, overlay(t, "components/metacontroller-rights"), "namespace: "+own, "namespace: "+other)
	r.kubectl(t, "wait", "--for=delete", "namespace/"+own, "--timeout=3m")
	if vms := r.vms(t, own, "stuck"); len(vms) > 0 {
		t.Errorf("the namespace is gone, and %d VMs are left", len(vms))
	}
	r.systemNamespace(t) // for the tests that follow
	r.secrets(t, own)
	r.applyController(t, overlay(t, "components/metacontroller-rights"))
	must.Succeed(t, ok("http://"+r.health+"/readyz"))
}
