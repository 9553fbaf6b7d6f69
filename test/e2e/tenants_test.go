package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

const limits = `
apiVersion: vm.codeconnect.vmworld.com/v1alpha1
kind: VmGroupLimit
metadata: {name: bounds, namespace: team-a}
spec:
  maxReplicas: 5
  maxCPU: 4
  maxMemory: 16
  templates: [ubuntu-24.04, debian-13]
  datacenters: ["", DC0]
  folders: [""]
  pools: [team-a]
  zones: [team-a-1, team-a-2]
  datastores: ["", team-a]
  storagePolicies: [gold, ""]
  networks: [app, db]
  pciDevices: [grid_t4-4c]
  tags: [backup/daily]
  customAttributes: [owner, tier]
  customizationSpecs: ["", windows]
`

// within is a spec that the limits allow.
func within() map[string]any {
	return map[string]any{
		"replicas": 3, "cpu": 2, "memory": 8, "template": "debian-13", "placement": map[string]any{"pool": "team-a", "storagePolicy": "gold"},
		"networks": []any{map[string]any{"network": "app"}}, "tags": []any{map[string]any{"category": "backup", "name": "daily"}},
	}
}

// with returns spec.placement, or the spec, with another field.
func with(spec map[string]any, field string, value any) map[string]any {
	changed := maps.Clone(spec)
	if changed[field] = value; value == nil {
		delete(changed, field)
	}
	return changed
}

func placed(placement map[string]any) map[string]any { return with(within(), "placement", placement) }

func disk(name, datastore, storagePolicy string) map[string]any {
	return map[string]any{"name": name, "sizeGiB": 10, "datastore": datastore, "storagePolicy": storagePolicy}
}

func manifest(t *testing.T, namespace, name string, spec map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	})
	must.Succeed(t, err)
	return string(text)
}

// tenants is a cluster where the namespace team-a has limits and groups, and open has neither.
func tenants(t *testing.T) *kube {
	t.Helper()
	k := site(t)
	k.kubectl(t, "apply", "-k", overlay(t, "components/tenants"))
	k.kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	for _, name := range []string{"team-a", "open"} {
		k.namespace(t, name)
	}
	create := []string{"create", "-f", "-"}
	k.refuses(t, "a group in a namespace without the label", manifest(t, "team-a", "web", within()), create,
		"namespace team-a cannot have VmGroups", "vm.codeconnect.vmworld.com/groups=limited", "docs/tenants.md")
	k.kubectlWith(t, limits, create...)
	k.kubectl(t, "label", "namespace", "team-a", "vm.codeconnect.vmworld.com/groups=limited")
	k.refuses(t, "too many CPUs", manifest(t, "team-a", "web", with(within(), "cpu", 5)), create, "spec.cpu")
	return k
}

func TestALimitBoundsTheGroupsOfItsNamespaceAndTheRefusalNamesFieldBoundAndNamespace(t *testing.T) {
	k := tenants(t)
	create := []string{"create", "-f", "-"}
	for what, spec := range map[string]map[string]any{
		"all of it":              within(),
		"the largest":            with(with(with(within(), "cpu", 4), "memory", 16), "replicas", 5),
		"zones in place of pool": placed(map[string]any{"zones": []string{"team-a-1", "team-a-2"}}),
		"every optional field":   with(placed(map[string]any{"pool": "team-a", "datastore": "team-a", "datacenter": "DC0"}), "customizationSpec", "windows"),
		"no tags":                with(within(), "tags", nil),
		"standby members":        with(within(), "standby", 2),
		"disks beside the VM":    with(within(), "disks", []any{disk("data", "", "")}),
		"disks that are placed":  with(within(), "disks", []any{disk("data", "team-a", "gold"), disk("logs", "", "gold")}),
	} {
		if _, err := k.KubectlWith(manifest(t, "team-a", "web", spec), append(create, "--dry-run=server")...); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	network := func(names ...string) (list []any) {
		for _, name := range names {
			list = append(list, map[string]any{"network": name})
		}
		return list
	}
	for _, c := range []struct {
		field, value, bound string
		spec                map[string]any
	}{
		{"spec.replicas", "6", "at most 5", with(within(), "replicas", 6)},
		{"spec.replicas + spec.standby", "6", "at most 5", with(within(), "standby", 3)},
		{"spec.cpu", "5", "at most 4", with(within(), "cpu", 5)},
		{"spec.memory", "17", "at most 16", with(within(), "memory", 17)},
		{"spec.template", "'/DC0/vm/debian-13'", "'ubuntu-24.04', 'debian-13'", with(within(), "template", "/DC0/vm/debian-13")},
		{"spec.placement.datacenter", "'DC1'", "'', 'DC0'", placed(map[string]any{"pool": "team-a", "datacenter": "DC1"})},
		{"spec.placement.folder", "'teams'", "''", placed(map[string]any{"pool": "team-a", "folder": "teams"})},
		{"spec.placement.pool", "'team-b'", "'team-a'", placed(map[string]any{"pool": "team-b"})},
		{"spec.placement.pool", "not set", "'team-a'", with(within(), "placement", nil)},
		{"spec.placement.zones", "'team-b-1'", "'team-a-1', 'team-a-2'", placed(map[string]any{"zones": []string{"team-a-1", "team-b-1"}})},
		{"spec.placement.datastore", "'fast'", "'', 'team-a'", placed(map[string]any{"pool": "team-a", "datastore": "fast"})},
		{"spec.placement.storagePolicy", "'platinum'", "'gold', ''", placed(map[string]any{"pool": "team-a", "storagePolicy": "platinum"})},
		{"spec.disks[].datastore", "'fast'", "'', 'team-a'", with(within(), "disks", []any{disk("data", "", ""), disk("logs", "fast", "")})},
		{"spec.disks[].storagePolicy", "'platinum'", "'gold', ''", with(within(), "disks", []any{disk("data", "", "platinum")})},
		{"spec.networks[].network", "'admin'", "'app', 'db'", with(within(), "networks", network("app", "admin"))},
		{"spec.networks[].network", "no value", "'app', 'db'", with(within(), "networks", nil)},
		{"spec.tags", "'backup/never'", "'backup/daily'", with(within(), "tags", []any{map[string]any{"category": "backup", "name": "never"}})},
		{"spec.tags", "'back%2fup/dai%25ly'", "'backup/daily'", with(within(), "tags", []any{map[string]any{"category": "back/up", "name": "dai%ly"}})},
		{"spec.hardware.pciDevices", "'10de:1eb8'", "'grid_t4-4c'", with(within(), "hardware", map[string]any{"pciDevices": []string{"grid_t4-4c", "10de:1eb8"}})},
		{"spec.customAttributes", "'litter'", "'owner', 'tier'", with(within(), "customAttributes", map[string]any{"owner": "a", "litter": "b"})},
		{"spec.customizationSpec", "'linux'", "'', 'windows'", with(within(), "customizationSpec", "linux")},
	} {
		_, err := k.KubectlWith(manifest(t, "team-a", "web", c.spec), create...)
		if err == nil {
			t.Errorf("%s %s is accepted", c.field, c.value)
			k.kubectl(t, "-n", "team-a", "delete", "vg", "web")
			continue
		}
		for _, says := range []string{c.field + " of VmGroup team-a/web ", c.value, "in namespace team-a, VmGroupLimit bounds allows " + c.bound} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: the refusal doesn't say %q: %v", c.field, says, err)
			}
		}
		t.Log(err)
	}
}

// A group that existed before the limit, or that is as large as a former limit allowed, can still be changed and deleted.
func TestALimitStopsNeitherMetacontrollerNorDeletionsNorGroupsThatExist(t *testing.T) {
	k := site(t)
	k.kubectl(t, "apply", "-k", repository+"/manifests")
	k.namespace(t, "team-a")
	spec := with(with(within(), "replicas", 8), "template", "windows")
	k.kubectlWith(t, manifest(t, "team-a", "web", spec), "create", "-f", "-")
	k.kubectl(t, "apply", "-k", overlay(t, "components/tenants"))
	k.kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	patch := func(text string, args ...string) []string {
		return append([]string{"-n", "team-a", "patch", "vg", "web", "--type=merge", "-p", text}, args...)
	}
	pass := func(when string) {
		t.Helper()
		for what, args := range map[string][]string{
			"the finalizer": patch(`{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup"]}}`),
			"the status":    patch(`{"status":{"phase":"RUNNING","currentReplicas":8}}`, "--subresource=status"),
			"fewer members": {"-n", "team-a", "scale", "vg/web", "--replicas=7", "--dry-run=server"},
			"a smaller one": patch(`{"spec":{"replicas":7,"cpu":1}}`, "--dry-run=server"),
		} {
			if _, err := k.Kubectl(args...); err != nil {
				t.Errorf("%s: %s: %v", when, what, err)
			}
		}
	}
	pass("without a limit")
	k.kubectlWith(t, limits, "create", "-f", "-")
	k.refuses(t, "another template", "", patch(`{"spec":{"template":"secret"}}`), "spec.template of VmGroup team-a/web is 'secret'")
	pass("with a limit")
	k.refuses(t, "more members", "", []string{"-n", "team-a", "scale", "vg/web", "--replicas=9"},
		"spec.replicas of VmGroup team-a/web is 9: in namespace team-a, VmGroupLimit bounds allows at most 5")
	k.refuses(t, "more members by a patch", "", patch(`{"spec":{"replicas":9}}`), "spec.replicas of VmGroup team-a/web is 9")
	k.refuses(t, "no pool", "", patch(`{"spec":{"placement":null}}`), "spec.placement.pool")

	t.Log("a deletion passes, and so does the removal of the finalizer")
	k.kubectl(t, "-n", "team-a", "delete", "vg", "web", "--wait=false")
	k.kubectl(t, patch(`{"metadata":{"finalizers":null}}`)...)
	k.kubectl(t, "-n", "team-a", "wait", "--for=delete", "vg/web", "--timeout=1m")
}

// Each of several limits applies, so a second, narrow limit shows what it refuses.
func TestAnEmptyListAllowsNothingAndANarrowOneBoundsTheDisksThatAPolicyPlaces(t *testing.T) {
	k := tenants(t)
	create := []string{"create", "-f", "-"}
	narrow := func(fields string) {
		k.kubectlWith(t, "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroupLimit\nmetadata: {name: narrow, namespace: team-a}\nspec: {"+fields+"}", "apply", "-f", "-")
	}
	narrow("pools: [], zones: [team-a-1], tags: []")
	k.refuses(t, "a pool", manifest(t, "team-a", "web", with(within(), "tags", nil)), create,
		"spec.placement.pool of VmGroup team-a/web is 'team-a': in namespace team-a, VmGroupLimit narrow allows nothing")
	k.refuses(t, "a tag", manifest(t, "team-a", "web", placed(map[string]any{"zones": []string{"team-a-1"}})), create,
		"spec.tags of VmGroup team-a/web has 'backup/daily': in namespace team-a, VmGroupLimit narrow allows nothing")

	narrow(`datastores: [team-a], storagePolicies: ["", gold]`)
	spec := placed(map[string]any{"pool": "team-a", "datastore": "team-a"})
	k.refuses(t, "a disk that a policy places", manifest(t, "team-a", "web", with(spec, "disks", []any{disk("data", "", "gold")})), create,
		"spec.disks[].datastore of VmGroup team-a/web has no value: in namespace team-a, VmGroupLimit narrow allows 'team-a'")
	k.kubectlWith(t, manifest(t, "team-a", "web", with(spec, "disks", []any{disk("data", "", ""), disk("logs", "team-a", "gold")})), create...)
	narrow("datastores: [other], storagePolicies: [other], pools: [team-a]")
	k.refuses(t, "another disk", "", []string{"-n", "team-a", "patch", "vg", "web", "--type=json", "-p",
		`[{"op":"add","path":"/spec/disks/-","value":{"name":"new","sizeGiB":1,"datastore":"team-a"}}]`}, "spec.disks[].datastore of VmGroup team-a/web has 'team-a'")
	k.kubectl(t, "-n", "team-a", "patch", "vg", "web", "--type=json", "-p", `[{"op":"replace","path":"/spec/disks/1/sizeGiB","value":20}]`)
}

// A policy can't count standby members in a Scale, because a Scale has only the replicas.
func TestALimitCountsStandbyMembersExceptWhereAScaleSetsTheReplicas(t *testing.T) {
	k := tenants(t)
	k.kubectlWith(t, manifest(t, "team-a", "web", with(within(), "standby", 2)), "create", "-f", "-")
	patch := func(text string) []string {
		return []string{"-n", "team-a", "patch", "vg", "web", "--type=merge", "-p", text}
	}
	says := func(n int) string {
		return fmt.Sprintf("spec.replicas + spec.standby of VmGroup team-a/web is %d: in namespace team-a, VmGroupLimit bounds allows at most 5", n)
	}
	k.refuses(t, "more members", "", patch(`{"spec":{"replicas":4}}`), says(6))
	k.kubectl(t, "-n", "team-a", "scale", "vg/web", "--replicas=5")
	k.refuses(t, "more standby members", "", patch(`{"spec":{"standby":3}}`), says(8))
	k.refuses(t, "standby members in place of others", "", patch(`{"spec":{"standby":7,"replicas":0}}`), says(7))
	k.kubectl(t, patch(`{"spec":{"cpu":1}}`)...)
	k.kubectl(t, patch(`{"spec":{"standby":1}}`)...)

	t.Log("with maxStandby, what a Scale can add is bounded as well")
	k.kubectl(t, "-n", "team-a", "patch", "vgl", "bounds", "--type=merge", "-p", `{"spec":{"maxStandby":0}}`)
	k.refuses(t, "a standby member", manifest(t, "team-a", "other", with(within(), "standby", 1)), []string{"create", "-f", "-"},
		"spec.standby of VmGroup team-a/other is 1: in namespace team-a, VmGroupLimit bounds allows at most 0")
	k.kubectl(t, patch(`{"spec":{"cpu":2}}`)...)
	k.kubectl(t, patch(`{"spec":{"standby":0}}`)...)
}

// Zones must not be a way around the pools: a group whose zones are taken away would run in the server's own pool.
func TestAGroupCannotLeaveItsZonesForAPoolThatIsNotAllowed(t *testing.T) {
	k := tenants(t)
	k.kubectlWith(t, manifest(t, "team-a", "web", placed(map[string]any{"zones": []string{"team-a-1"}})), "create", "-f", "-")
	k.refuses(t, "neither zones nor pool", "", []string{"-n", "team-a", "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"placement":{"zones":null}}}`}, "spec.placement.pool")
}

func TestTenantsReadTheirLimitsAndCannotChangeThem(t *testing.T) {
	k := tenants(t)
	k.kubectl(t, "-n", "team-a", "create", "rolebinding", "ann", "--clusterrole=admin", "--user=ann")
	for verb, want := range map[string]string{"get": "yes", "list": "yes", "create": "no", "update": "no", "patch": "no", "delete": "no"} {
		eventually(t, func() string {
			out, _ := k.Kubectl("-n", "team-a", "auth", "can-i", verb, "vmgrouplimits", "--as=ann")
			if strings.TrimSpace(out) != want {
				return fmt.Sprintf("the administrator of a namespace can %s VmGroupLimits: %s", verb, out)
			}
			return ""
		})
	}
	if out, err := k.Kubectl("label", "namespace", "team-a", "team=a", "--as=ann"); err == nil {
		t.Errorf("a tenant labels the namespace: %s", out)
	}
}

// A ResourceQuota bounds the number of groups; together with the limit of each group, it bounds the namespace.
func TestAResourceQuotaBoundsTheNumberOfGroups(t *testing.T) {
	k := tenants(t)
	k.kubectl(t, "-n", "team-a", "create", "quota", "groups", "--hard=count/vmgroups.vm.codeconnect.vmworld.com=2")
	for _, name := range []string{"one", "two"} {
		eventually(t, func() string { // the controller of quotas looks for new kinds every 30 s; until then the API server refuses the group
			if _, err := k.KubectlWith(manifest(t, "team-a", name, within()), "create", "-f", "-"); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	_, err := k.KubectlWith(manifest(t, "team-a", "three", within()), "create", "-f", "-")
	const count = "count/vmgroups.vm.codeconnect.vmworld.com="
	says := `"three" is forbidden: exceeded quota: groups, requested: ` + count + "1, used: " + count + "2, limited: " + count + "2"
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a third group: %v; want an error and %q in the text", err, says)
	}
	k.kubectl(t, "-n", "team-a", "scale", "vg/one", "--replicas=5")
	k.refuses(t, "six members", "", []string{"-n", "team-a", "scale", "vg/one", "--replicas=6"}, "at most 5")
	t.Log(k.kubectl(t, "-n", "team-a", "describe", "quota"), k.kubectl(t, "-n", "team-a", "get", "vgl"))
}
