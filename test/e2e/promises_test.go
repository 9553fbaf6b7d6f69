package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// These tests check promises to users as test/promises does, with kubectl alone: by the VMs in vCenter and their moRefs.

// identities are a group's VMs by name: the moRef of each.
func (r *rig) identities(t *testing.T, namespace, name string) map[string]string {
	t.Helper()
	refs := map[string]string{}
	for member, vm := range r.vms(t, namespace, name) {
		refs[member] = vm.Self.Value
	}
	return refs
}

func TestAServerThatIsKilledDuringAScaleInDestroysNoMoreThanItSays(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "promise-scale-in")
	r.kubectlWith(t, strings.Replace(webYAML, "replicas: 3", "replicas: 12, update: {maxUnavailable: 50%}, deletion: {shutdownTimeoutSeconds: 0}", 1), "-n", namespace, "apply", "-f", "-")
	r.settled(t, namespace, "web", 12)
	before := r.identities(t, namespace, "web")
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=6")
	eventually(t, func() string {
		if n := len(r.identities(t, namespace, "web")); n > 11 {
			return fmt.Sprintf("%d VMs", n)
		}
		return ""
	})
	r.server.Kill()
	r.startServer(t)
	r.settled(t, namespace, "web", 6)
	after := r.identities(t, namespace, "web")
	want := maps.Clone(before)
	maps.DeleteFunc(want, func(name, _ string) bool { return len(name) > len("web-5") || name > "web-5" })
	if !maps.Equal(after, want) {
		t.Errorf("there are %v, and %v were to stay", after, want)
	}
	if all := byReason(r.events(t, namespace, "web")); len(all["MemberGone"])+len(all["MemberVanished"])+len(all["MemberPoweredOff"]) > 0 {
		t.Errorf("what the server did is reported as somebody's doing: %q", all)
	}
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
	r.onePerOrdinal(t, namespace, "web", 0)
}

func TestATypoInTheTemplateTakesNoMemberDown(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "promise-typo")
	r.up(t, namespace, "web", 4)
	before := r.vms(t, namespace, "web")
	for _, limits := range []string{``, `,"update":{"maxSurge":0,"maxUnavailable":2}`} {
		r.kubectl(t, "-n", namespace, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"template":"nonesuch"`+limits+`}}`)
		r.until(t, namespace, "web", "blocked", func(g *v1alpha1.VmGroup) bool {
			return meta.IsStatusConditionTrue(g.Status.Conditions, v1alpha1.ConditionCloneBlocked) && g.Status.ObservedGeneration == g.Generation
		})
		time.Sleep(3 * time.Second) // in which nothing must happen
		for name, vm := range before {
			if now := r.vms(t, namespace, "web")[name]; now.Self != vm.Self || now.Runtime.PowerState != vm.Runtime.PowerState {
				t.Errorf("%s was %s, and is %q (%s)", name, vm.Self.Value, now.Self.Value, now.Runtime.PowerState)
			}
		}
	}
	r.kubectl(t, "-n", namespace, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"template":"vm-operator-template"}}`)
	r.settled(t, namespace, "web", 4)
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
}

// It follows "Try a change on one member" in docs/day-to-day.md.
func TestACanaryGoesBackAsTheDocumentsSay(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "promise-canary")
	r.up(t, namespace, "web", 4)
	before := r.identities(t, namespace, "web")
	made := func() (others int) {
		for name, ref := range r.identities(t, namespace, "web") {
			if before[name] != ref {
				others++
			}
		}
		return others
	}
	r.kubectl(t, "-n", namespace, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"update":{"canary":1},"template":"vm-operator-template-2"}}`)
	g := r.until(t, namespace, "web", "held by its canary", func(g *v1alpha1.VmGroup) bool {
		return g.Status.Phase == v1alpha1.PhaseRunning && g.Status.ObservedGeneration == g.Generation && meta.IsStatusConditionTrue(g.Status.Conditions, "UpdateHeld")
	})
	if n := made(); n != 1 {
		t.Errorf("a canary of 1 made %d", n)
	}
	canary := slices.DeleteFunc(moRefs(g), func(ref string) bool { return slices.Contains(slices.Collect(maps.Values(before)), ref) })
	r.kubectl(t, "-n", namespace, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"template":"vm-operator-template"}}`)
	r.until(t, namespace, "web", "without its canary", func(g *v1alpha1.VmGroup) bool {
		return g.Status.Phase == v1alpha1.PhaseRunning && g.Status.ObservedGeneration == g.Generation && len(canary) == 1 && !slices.Contains(moRefs(g), canary[0])
	})
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
}

func TestTheEventThatNamesKeptDisksArrives(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "promise-disks")
	r.kubectlWith(t, strings.Replace(webYAML, "replicas: 3", "replicas: 2, disks: [{name: data, sizeGiB: 1, persistent: true}], deletion: {shutdownTimeoutSeconds: 0}", 1), "-n", namespace, "apply", "-f", "-")
	g := r.settled(t, namespace, "web", 2)
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
	eventually(t, func() string {
		all := byReason(r.events(t, namespace, "web"))
		for _, d := range g.Status.Disks {
			if !strings.Contains(strings.Join(all["DisksKept"], "\n"), d.ID) {
				return fmt.Sprintf("no Event DisksKept names %s: %q", d.ID, all)
			}
		}
		for _, ref := range moRefs(g) {
			if !strings.Contains(strings.Join(all["MemberRemoved"], "\n"), ref) {
				return fmt.Sprintf("no Event MemberRemoved names %s: %q", ref, all)
			}
		}
		return ""
	})
}
