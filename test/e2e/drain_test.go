package e2e

import (
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// The drain time begins with the write that announces the draining to Kubernetes.
func TestAMemberIsDrainedForAsLongAsTheSpecSays(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "drain")
	const drain = 3 * time.Second
	r.kubectlWith(t, strings.Replace(webYAML, "template:", "service: {ports: [{port: 80}], drainSeconds: 3}, readiness: {check: GuestIP}, template:", 1),
		"-n", namespace, "apply", "-f", "-")
	r.endpoints(t, namespace, "web", r.settled(t, namespace, "web", 3))
	for _, c := range []struct {
		what    string
		command []string
	}{
		{"scaled", []string{"scale", "vg/web", "--replicas=2"}},
		{"deleted", []string{"delete", "vg/web", "--wait=false"}},
	} {
		before, asked := len(r.slices(t, namespace)), r.taken()
		r.kubectl(t, append([]string{"-n", namespace}, c.command...)...)
		for began := time.Now(); r.taken() == asked; time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > timeout {
				t.Fatalf("%s: no member is taken down", c.what)
			}
		}
		at := time.Now()
		writes := r.slices(t, namespace)[before:]
		if len(writes) == 0 {
			t.Fatalf("%s: taken down, but no slice was written", c.what)
		}
		t.Logf("%s: taken down %s after the first of %d writes of the slice", c.what, at.Sub(writes[0].At), len(writes))
		if took := at.Sub(writes[0].At); took < drain || took > drain+time.Minute {
			t.Errorf("%s: taken down %s after the slice was written", c.what, took)
		}
		if len(writes) > 2 { // two writes suffice: that the endpoint is terminating, and since when
			t.Errorf("%s: %d writes of the slice until then: %v; want at most 2", c.what, len(writes), writes)
		}
		if c.what == "scaled" {
			r.endpoints(t, namespace, "web", r.settled(t, namespace, "web", 2))
		}
	}
	r.kubectl(t, "-n", namespace, "wait", "--for=delete", "vg/web", "--timeout=2m")
}

// taken counts the calls that take a guest down.
func (r *rig) taken() int {
	calls := r.vcenter.Calls()
	return calls["ShutdownGuest"] + calls["PowerOffVM_Task"]
}

// slices lists the accepted writes of a namespace's EndpointSlices.
func (r *rig) slices(t *testing.T, namespace string) (of []cluster.Write) {
	t.Helper()
	all, err := r.Writes()
	must.Succeed(t, err)
	for _, w := range all {
		if w.Resource == "endpointslices" && w.Namespace == namespace && w.Code < 300 {
			of = append(of, w)
		}
	}
	return of
}
