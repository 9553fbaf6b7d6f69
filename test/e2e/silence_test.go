package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// In a settled cluster, there must be no hook call that the server did not ask for, no write, and no call that changes vCenter. Otherwise
// each group would cause such calls forever.
func TestASettledClusterIsSilent(t *testing.T) {
	r := life(t)
	r.kubectl(t, "delete", "vg", "--all", "--all-namespaces", "--timeout=2m") // the groups that other tests left, because the test counts the calls for all groups together
	namespace := r.namespace(t, "silence")
	defer r.kubectl(t, "-n", namespace, "delete", "vg", "--all", "--timeout=2m")
	for name, spec := range map[string]string{
		"plain":   `replicas: 2, template: vm-operator-template`,
		"service": `replicas: 2, template: vm-operator-template, readiness: {check: GuestIP}, service: {type: ClusterIP, ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]}`,
		"unnamed": `replicas: 1, template: vm-operator-template, service: {ports: [{port: 80}]}`,
		"user":    `replicas: 1, template: vm-operator-template, userData: {configMapKeyRef: {name: boot}}, inventory: None`,
		"stuck":   `replicas: 1, template: there-is-none`,
		"none":    `replicas: 0, template: vm-operator-template`,
	} {
		r.kubectlWith(t, fmt.Sprintf("apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: %s}\nspec: {cpu: 1, memory: 1, %s}\n", name, spec),
			"-n", namespace, "apply", "-f", "-")
	}
	r.kubectl(t, "-n", namespace, "create", "configmap", "boot", "--from-literal=user-data=#cloud-config\n")
	for name, members := range map[string]int32{"plain": 2, "service": 2, "unnamed": 1, "user": 1, "none": 0} {
		r.settled(t, namespace, name, members)
		if name == "service" || name == "unnamed" { // members are ready before they have addresses, unless readiness asks for them
			r.endpoints(t, namespace, name, r.until(t, namespace, name, "with addresses", func(g *v1alpha1.VmGroup) bool {
				return !slices.ContainsFunc(g.Status.Members, func(m v1alpha1.Member) bool { return len(m.IPs) == 0 })
			}))
		}
	}
	r.quiet(t) // Metacontroller writes the children after the status of the same answer

	const groups = 6 // the server asks for a call of each group a second, because they are few; the CompositeController adds one a minute
	versions := func() string {
		return r.versions(t, "-n", namespace, "vg,configmaps,services,endpointslices")
	}
	began, calls, writes, stored, changes := time.Now(), r.calls(t), len(r.writes(t)), versions(), r.changesOfVCenter()
	time.Sleep(4 * resync)
	calls2, writes2, stored2, changes2 := r.calls(t), r.writes(t), versions(), r.changesOfVCenter()
	passed := time.Since(began)

	periods := groups * (int(passed/time.Second) + 1 + int(passed/time.Minute) + 1)
	for hook, n := range calls2 {
		if n -= calls[hook]; n > periods || hook != "/sync 200" && hook != "/customize 200" && n > 0 {
			t.Errorf("%s was called %d times in %s, want at most %d", hook, n, passed, periods)
		}
	}
	if n := calls2["/sync 200"] - calls["/sync 200"]; n < groups {
		t.Errorf("only %d hook calls in %s", n, passed)
	}
	if len(writes2) > writes {
		t.Errorf("Metacontroller wrote %v", writes2[writes:])
	}
	if stored2 != stored {
		t.Errorf("versions before:\n%s\nnow:\n%s", stored, stored2)
	}
	if changes2 != changes {
		t.Errorf("calls that change something in vCenter: %d before, %d after", changes, changes2)
	}
	t.Logf("in %s: %d calls of sync, %d of customize, of at most %d; %d writes", passed.Round(time.Second), calls2["/sync 200"]-calls["/sync 200"],
		calls2["/customize 200"]-calls["/customize 200"], periods, len(writes2)-writes)
}

// writes are Metacontroller's writes, including refused ones.
func (r *rig) writes(t *testing.T) []cluster.Write {
	t.Helper()
	all, err := r.Writes()
	must.Succeed(t, err)
	var its []cluster.Write
	for _, w := range all {
		if w.User == string(cluster.Metacontroller) {
			its = append(its, w)
		}
	}
	return its
}

// quiet waits until Metacontroller has written nothing for one period.
func (r *rig) quiet(t *testing.T) {
	t.Helper()
	n, since := len(r.writes(t)), time.Now()
	eventually(t, func() string {
		if now := len(r.writes(t)); now != n {
			n, since = now, time.Now()
		}
		if time.Since(since) < resync {
			return fmt.Sprintf("Metacontroller keeps writing: %v", r.writes(t)[max(0, n-5):])
		}
		return ""
	})
}

// changesOfVCenter counts the calls that change something.
func (r *rig) changesOfVCenter() (n int) {
	for method, calls := range r.vcenter.Calls() {
		looks := false
		for _, prefix := range []string{"Retrieve", "WaitFor", "CheckFor", "Continue", "Create", "Destroy", "Find", "Query", "Current", "Read", "Cancel", "Login", "Logout", "SessionIsActive", "ModifyListView", "ResetListView", "GET "} {
			// Create and Destroy are calls for filters, collectors and views; calls that begin a task end in _Task.
			looks = looks || strings.HasPrefix(method, prefix) && !strings.HasSuffix(method, "_Task") && method != "CreateFolder"
		}
		if !looks {
			n += calls
		}
	}
	return n
}
