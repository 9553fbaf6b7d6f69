package e2e

import (
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// lost counts the members that the group had before and lacks after.
func lost(before, after *v1alpha1.VmGroup) (n int) {
	for _, ref := range moRefs(before) {
		if !slices.Contains(moRefs(after), ref) {
			n++
		}
	}
	return n
}

// stays waits for a while, and returns the group.
func (r *rig) stays(t *testing.T, namespace, name string, during time.Duration) *v1alpha1.VmGroup {
	t.Helper()
	time.Sleep(during) // the absence of an event can only be seen by waiting
	g := r.group(t, namespace, name)
	t.Logf("%s, %d of %d, %d ready: %s", g.Status.Phase, g.Status.CurrentReplicas, g.Status.DesiredReplicas, g.Status.ReadyReplicas, g.Status.LastMessage)
	return g
}

// The clones of two updates succeed, but the updates can't be completed: vCenter has no key provider, or the place has no free address. A
// former version of the server destroyed 4 of 8 members, and one of 6, for these updates.
func TestNoHealthyMemberGoesForOneThatIsNeverFinished(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "never-finished")
	patch := func(name, spec string) {
		r.kubectl(t, "-n", namespace, "patch", "vg", name, "--type=merge", "-p", `{"spec":`+spec+`}`)
	}
	r.up(t, namespace, "ez1", 8)
	patch("ez1", `{"update":{"maxSurge":0,"maxUnavailable":4}}`)
	keys := r.settled(t, namespace, "ez1", 8)
	r.up(t, namespace, "ez2", 8)
	byDefault := r.settled(t, namespace, "ez2", 8)
	r.up(t, namespace, "ad1", 6)
	patch("ad1", `{"update":{"maxSurge":0,"maxUnavailable":1}}`)
	addresses := r.settled(t, namespace, "ad1", 6)

	patch("ez1", `{"placement":{"storagePolicy":"VM Encryption Policy"}}`)
	patch("ez2", `{"placement":{"storagePolicy":"VM Encryption Policy"}}`)
	patch("ad1", `{"networks":[{"network":"VM Network","ipv4":{"ranges":["10.0.0.10-10.0.0.12"],"prefixLength":24}}]}`)
	r.until(t, namespace, "ez1", "it needs an operator", func(g *v1alpha1.VmGroup) bool { return g.Status.Phase == v1alpha1.PhaseError })
	r.until(t, namespace, "ez2", "it needs an operator", func(g *v1alpha1.VmGroup) bool { return g.Status.Phase == v1alpha1.PhaseError })
	r.until(t, namespace, "ad1", "it needs an operator", func(g *v1alpha1.VmGroup) bool { return g.Status.Phase == v1alpha1.PhaseError })
	after := r.stays(t, namespace, "ez1", 20*time.Second)
	if n := lost(keys, after); n > 1 || after.Status.ReadyReplicas < 7 {
		t.Errorf("%d of 8 members were lost to members that can't be encrypted, without extra members; one is allowed", n)
	}
	if n := lost(byDefault, r.stays(t, namespace, "ez2", 0)); n > 0 {
		t.Errorf("%d of 8 members were lost to members that can't be encrypted, although extra ones come first", n)
	}
	after = r.stays(t, namespace, "ad1", 0)
	if n := lost(addresses, after); n != 3 || after.Status.ReadyReplicas != 6 || !strings.Contains(after.Status.LastMessage, "static addresses for 3 members") {
		t.Errorf("%d of 6 members were replaced where there are 3 addresses, and %d are ready", n, after.Status.ReadyReplicas)
	}
}

// hostWithoutTemplates returns a host that runs a member and has no template. members is the path of the members without the ordinal.
func (r *rig) hostWithoutTemplates(t *testing.T, members string, count int) string {
	t.Helper()
	hostOf := func(vm string) string {
		d, err := r.vcenter.Details(vm)
		must.Succeed(t, err)
		return d.Host
	}
	templates := []string{hostOf("/DC0/vm/vm-operator-template"), hostOf("/DC0/vm/vm-operator-template-2")}
	for i := range count {
		if host := hostOf(fmt.Sprint(members, i)); !slices.Contains(templates, host) {
			return host
		}
	}
	t.Fatal("all members are on the hosts of the templates")
	return ""
}

// In a former version, a member that had been given up became a member again when its VM returned, and the server destroyed its replacement.
func TestAMemberThatWasGivenUpAndReturnsTakesNoMembersPlace(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "returns")
	before := r.up(t, namespace, "rb", 6)
	host := r.hostWithoutTemplates(t, "/DC0/vm/vm-operator/"+namespace+"/rb/rb-", 6)
	must.Succeed(t, r.vcenter.RemoveHost(host))
	isAway := func(m v1alpha1.Member) bool { return m.Reason == "MemberVanished" }
	missing := r.until(t, namespace, "rb", "its members on that host are missing", func(g *v1alpha1.VmGroup) bool { return slices.ContainsFunc(g.Status.Members, isAway) })
	var entries, stayed []string
	for _, m := range missing.Status.Members {
		if isAway(m) {
			entries = append(entries, fmt.Sprintf(`{"name":%q,"moRef":%q}`, m.Name, m.MoRef))
		} else {
			stayed = append(stayed, m.MoRef)
		}
	}
	t.Logf("%d of 6 members are missing", len(entries))
	r.kubectl(t, "-n", namespace, "patch", "vg", "rb", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"replicas":%d,"replace":[%s]}}`, max(1, len(stayed)), strings.Join(entries, ",")))
	r.settled(t, namespace, "rb", int32(max(1, len(stayed))))
	must.Succeed(t, r.vcenter.AddHost(path.Base(host)))
	r.until(t, namespace, "rb", "what returned is kept aside", func(g *v1alpha1.VmGroup) bool { return len(g.Status.Quarantined) == len(entries) })
	after := r.stays(t, namespace, "rb", 10*time.Second)
	slices.Sort(stayed)
	if is := moRefs(after); !slices.Equal(is, stayed) || after.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("%s with %v, which were %v, and %v once others had left", after.Status.Phase, is, moRefs(before), stayed)
	}
	for _, q := range after.Status.Quarantined {
		t.Logf("%s (%s) is kept aside: %s", q.Name, q.MoRef, q.Reason)
	}
}

// A former version reported neither the VMs that abandon leaves behind, nor a typo in spec.replace, nor that ranges have few free addresses.
func TestWhatAnOperatorMistypesOrLeavesBehindIsTold(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "told")
	r.up(t, namespace, "ab", 2)
	out, err := r.Kubectl("-n", namespace, "patch", "vg", "ab", "--dry-run=server", "--type=merge", "-p",
		`{"spec":{"networks":[{"network":"VM Network","ipv4":{"ranges":["10.0.0.20-10.0.0.10"],"prefixLength":24}}]}}`)
	if err == nil || !strings.Contains(out+err.Error(), "first address is not above its last") {
		t.Errorf("reversed ranges: %v %s", err, out)
	}
	r.kubectl(t, "-n", namespace, "patch", "vg", "ab", "--type=merge", "-p", `{"spec":{"replace":[{"name":"ab-0","moRef":"vm-424242"}]}}`)
	told := func(reason, text string) func() string {
		return func() string {
			for _, e := range r.events(t, namespace, "ab") {
				if e.Reason == reason && strings.Contains(e.Message, text) {
					t.Logf("%s %s: %s", e.Type, e.Reason, e.Message)
					return ""
				}
			}
			return "no Event " + reason + " with " + text
		}
	}
	eventually(t, told("ReplaceNamesNoVM", "vm-424242"))
	r.kubectl(t, "-n", namespace, "annotate", "vg", "ab", v1alpha1.AnnotationAbandon+"=true")
	r.kubectl(t, "-n", namespace, "delete", "vg", "ab", "--wait=false")
	eventually(t, told("Abandoned", "ab-1 (vm-"))
	r.kubectl(t, "-n", namespace, "wait", "--for=delete", "vg/ab", "--timeout=2m")
}

// A guest without an address is never ready by GuestIP: a former version destroyed its VM and cloned it again, without end.
func TestASpecThatIsNeverReadyIsNotClonedForEver(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "never-ready")
	r.kubectlWith(t, `apiVersion: vm.codeconnect.vmworld.com/v1alpha1
kind: VmGroup
metadata: {name: bridge}
spec:
  cpu: 1
  memory: 1
  replicas: 1
  template: vm-operator-template
  networks: [{network: VM Network, dhcp: false}]
  readiness: {check: GuestIP, initialDelaySeconds: 1, timeoutSeconds: 10}
`, "-n", namespace, "apply", "-f", "-")
	saysSo := func(g *v1alpha1.VmGroup) bool {
		return g.Status.Phase == v1alpha1.PhaseError && strings.Contains(g.Status.LastMessage, "no member made from the present spec has ever been ready")
	}
	before := r.until(t, namespace, "bridge", "healing has stopped", saysSo)
	if after := r.stays(t, namespace, "bridge", 30*time.Second); lost(before, after) > 0 || !saysSo(after) {
		t.Errorf("%v were replaced by %v", moRefs(before), moRefs(after))
	}
	r.server.Kill()
	r.startServer(t)
	if after := r.stays(t, namespace, "bridge", 30*time.Second); lost(before, after) > 0 || !saysSo(after) {
		t.Errorf("after a restart of the server, %v were replaced by %v", moRefs(before), moRefs(after))
	}
	r.kubectl(t, "-n", namespace, "patch", "vg", "bridge", "--type=merge", "-p", `{"spec":{"networks":null}}`)
	r.settled(t, namespace, "bridge", 1)
}

// Where no VmGroup is left, users need the list of orphans most, but a former version refused an empty list of VmGroups.
func TestOrphansAreListedWhereNoVmGroupIsLeft(t *testing.T) {
	r := life(t)
	list := r.kubectl(t, "-n", r.namespace(t, "no-groups"), "get", "vmgroups", "-o", "yaml")
	u := r.vcenter.URL()
	check := exec.Command(r.path("vmgroup"), "check", "--orphans", "-f", "-", "--host", u.Host, "--user", u.User.Username(),
		"--password-file", r.path("password"), "--thumbprint", r.vcenter.ThumbprintSHA256())
	check.Stdin = strings.NewReader(list)
	out, err := check.CombinedOutput()
	if text := strings.Join(strings.Fields(string(out)), " "); !strings.Contains(text, "-f has no VmGroup, so every object that the server made in vCenter is listed") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
