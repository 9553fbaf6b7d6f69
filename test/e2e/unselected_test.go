package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// lease is the --lease of startServer.
const lease = 30 * time.Second

// selecting makes the CompositeController select the groups with these values of the label vcenter; if there are none, as it is installed.
func (r *rig) selecting(t *testing.T, values ...string) {
	t.Helper()
	const ours = "      - key: " + vcenterLabel + "\n        operator: DoesNotExist\n"
	selector := ours
	if len(values) > 0 {
		selector = fmt.Sprintf("      - {key: vcenter, operator: In, values: [%s]}\n", strings.Join(values, ", "))
	}
	r.applyController(t, overlay(t, "components/metacontroller-rights"), ours, selector)
}

// held describes the parts of a group that must not change while it is not selected: the VMs, the status, the children, the finalizer.
func (r *rig) held(t *testing.T, namespace, name string) string {
	t.Helper()
	var vms []string
	for vm, properties := range r.vms(t, namespace, name) {
		vms = append(vms, fmt.Sprintf("%s %s %s", vm, properties.Self.Value, properties.Runtime.PowerState))
	}
	slices.Sort(vms)
	g := r.group(t, namespace, name)
	status := r.kubectl(t, "-n", namespace, "get", "vg", name, "-o", "jsonpath={.status}")
	return fmt.Sprintf("VMs %v\nstatus %s\nfinalizers %v\nchildren %s", vms, status, g.Finalizers,
		r.versions(t, "-n", namespace, "configmaps,services,endpointslices"))
}

// event waits until the Event of a group says what to do, and returns it.
func (r *rig) event(t *testing.T, namespace, name string, before map[string]int) string {
	t.Helper()
	var event string
	eventually(t, func() string {
		out := r.kubectl(t, "-n", namespace, "get", "events", "--field-selector", "involvedObject.kind=VmGroup,involvedObject.name="+name+",reason=SyncError",
			"-o", `jsonpath={range .items[*]}{.type} {.message}{"\n"}{end}`)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "no longer selects it") {
				event = line
			}
		}
		if event == "" || r.calls(t)["/finalize 422"] == before["/finalize 422"] {
			return "no Event says what to do:\n" + out
		}
		return ""
	})
	return event
}

func TestAGroupThatIsNoLongerSelectedKeepsItsVMs(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "unselected")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	r.selecting(t, "one")
	defer r.selecting(t)
	text := strings.Replace(webYAML, "{name: web}", "{name: web, labels: {vcenter: one}}", 1)
	r.kubectlWith(t, strings.Replace(text, "replicas: 3", "replicas: 2, service: {ports: [{port: 80}]}, readiness: {check: GuestIP}", 1), "-n", namespace, "apply", "-f", "-")
	g := r.settled(t, namespace, "web", 2)
	r.endpoints(t, namespace, "web", g)
	r.quiet(t)
	was, changes := r.held(t, namespace, "web"), r.changesOfVCenter()

	for _, edit := range []struct {
		name       string
		away, back func()
	}{
		{"the label", func() { k("label", "vg", "web", "vcenter=two", "--overwrite") }, func() { k("label", "vg", "web", "vcenter=one", "--overwrite") }},
		{"the selector", func() { r.selecting(t, "three") }, func() { r.selecting(t, "one") }},
	} {
		calls := r.calls(t)
		edit.away()
		event := r.event(t, namespace, "web", calls)
		for _, says := range []string{namespace + "/web", "web-0, web-1", "Nothing is removed", "labelSelector", "delete the VmGroup"} {
			if !strings.Contains(event, says) {
				t.Errorf("the Event does not say %q: %s", says, event)
			}
		}
		time.Sleep(lease + resync) // nothing should happen
		if is := r.held(t, namespace, "web"); is != was {
			t.Errorf("after an edit of %s: want\n%s\nas before, got\n%s", edit.name, was, is)
		}
		if n := r.changesOfVCenter(); n != changes {
			t.Errorf("after an edit of %s: %d changes in vCenter before, %d after", edit.name, changes, n)
		}
		t.Logf("after an edit of %s:\n%s\n%s\n%s", edit.name, event, k("get", "vg"), k("get", "events"))
		edit.back()
		k("patch", "vg", "web", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
		up := r.settled(t, namespace, "web", 3)
		keeps(t, g, up)
		r.endpoints(t, namespace, "web", up)
		k("patch", "vg", "web", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
		r.endpoints(t, namespace, "web", r.settled(t, namespace, "web", 2))
		r.quiet(t)
		was, changes = r.held(t, namespace, "web"), r.changesOfVCenter()
	}

	calls := r.calls(t)
	k("label", "vg", "web", "vcenter-")
	r.event(t, namespace, "web", calls)
	k("delete", "vg", "web", "--timeout=2m") // the server handles a deletion even if the group is not selected
	if left := r.vms(t, namespace, "web"); len(left) > 0 {
		t.Errorf("the group is deleted, but the VMs %v are left", slices.Collect(maps.Keys(left)))
	}
}

func TestAnUnselectedGroupWithoutVMsIsReleased(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "release")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	r.selecting(t, "one")
	defer r.selecting(t)
	text := strings.Replace(webYAML, "{name: web}", "{name: web, labels: {vcenter: one}}", 1)
	r.kubectlWith(t, strings.Replace(text, "replicas: 3", "replicas: 0", 1), "-n", namespace, "apply", "-f", "-")
	r.settled(t, namespace, "web", 0)
	r.quiet(t)
	const finalizer = "metacontroller.io/compositecontroller-vmgroup"
	was := r.held(t, namespace, "web")
	if !strings.Contains(was, finalizer) {
		t.Fatalf("the group has no finalizer %s: %s", finalizer, was)
	}
	began := time.Now()
	k("label", "vg", "web", "vcenter=two", "--overwrite")
	eventually(t, func() string {
		if fs := r.group(t, namespace, "web").Finalizers; len(fs) > 0 {
			return fmt.Sprintf("the group has the finalizers %v", fs)
		}
		return ""
	})
	if took := time.Since(began); took < lease-time.Second {
		t.Errorf("released after %s, but a lease is %s", took, lease)
	}
	if is := r.held(t, namespace, "web"); strings.Replace(is, "finalizers []", "finalizers ["+finalizer+"]", 1) != was {
		t.Errorf("want\n%s\nas before, got\n%s", was, is)
	}
	if out := k("get", "events", "--field-selector", "reason=SyncError", "-o", "name"); out != "" {
		t.Errorf("a wait was reported as an error: %s", k("get", "events"))
	}
	t.Logf("released after %s:\n%s\n%s", time.Since(began).Round(time.Second), k("get", "vg"), k("get", "events"))
	k("label", "vg", "web", "vcenter=one", "--overwrite")
	k("scale", "vg/web", "--replicas=1")
	g := r.settled(t, namespace, "web", 1)
	if !slices.Contains(g.Finalizers, finalizer) || g.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("selected again: finalizers %v", g.Finalizers)
	}
	k("delete", "vg", "web", "--timeout=2m")
	r.onePerOrdinal(t, namespace, "web", 0)
}

// Installs of before the selector served all groups. Their groups have no label: an upgrade leaves everything as it is.
func TestTheSelectorOfTheDefaultInstallChangesNothingForGroupsThatExist(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "before-selector")
	const selector = "    labelSelector:\n      matchExpressions:\n      - key: " + vcenterLabel + "\n        operator: DoesNotExist\n"
	r.applyController(t, overlay(t, "components/metacontroller-rights"), selector, "")
	defer r.selecting(t)
	if out := r.kubectl(t, "get", "compositecontroller", "vmgroup", "-o", "jsonpath={.spec.parentResource.labelSelector}"); out != "" {
		t.Fatalf("there is a selector: %s; want none", out)
	}
	r.up(t, namespace, "web", 2)
	r.quiet(t)
	was, changes := r.held(t, namespace, "web"), r.changesOfVCenter()
	r.selecting(t)
	time.Sleep(lease + resync) // nothing should happen
	if is := r.held(t, namespace, "web"); is != was {
		t.Errorf("want\n%s\nas before, got\n%s", was, is)
	}
	if n := r.changesOfVCenter(); n != changes {
		t.Errorf("%d changes in vCenter", n-changes)
	}
	if out := r.kubectl(t, "-n", namespace, "get", "events", "--field-selector", "reason=SyncError", "-o", "name"); out != "" {
		t.Errorf("Metacontroller reports %s; want none", out)
	}
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=1")
	r.settled(t, namespace, "web", 1)
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
}
