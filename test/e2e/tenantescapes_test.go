package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// bound sets fields of the limit of team-a.
func (k *kube) bound(t *testing.T, fields string) {
	t.Helper()
	k.kubectl(t, "-n", "team-a", "patch", "vgl", "bounds", "--type=merge", "-p", `{"spec":`+fields+`}`)
}

// selects makes a group one of an install, by its label.
func selects(group, install string) string {
	return strings.Replace(group, `"metadata":{`, `"metadata":{"labels":{"`+vcenterLabel+`":"`+install+`"},`, 1)
}

// passes checks that the API server accepts the kubectl command args in a dry run.
func (k *kube) passes(t *testing.T, what, input string, args ...string) {
	t.Helper()
	if _, err := k.KubectlWith(input, append(args, "--dry-run=server")...); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// Each install has its own vCenter account, so a tenant who can choose any install has the rights of all accounts.
func TestALimitBoundsTheInstallsThatAGroupCanChoose(t *testing.T) {
	k := tenants(t)
	web, create := manifest(t, "team-a", "web", within()), []string{"create", "-f", "-"}
	k.passes(t, "without a bound", selects(web, "west"), create...)
	k.kubectlWith(t, selects(manifest(t, "team-a", "old", within()), "north"), create...)
	k.kubectlWith(t, manifest(t, "team-a", "plain", within()), create...)
	k.bound(t, `{"vcenters":["","east"]}`)

	says := func(name, value, bound string) string {
		return "the label " + vcenterLabel + " of VmGroup team-a/" + name + " is '" + value + "': in namespace team-a, VmGroupLimit bounds allows " + bound
	}
	k.refuses(t, "another install", selects(web, "west"), create, says("web", "west", "'', 'east'"))
	k.refuses(t, "a label that selects no install", selects(web, ""), create, says("web", "(empty)", "'', 'east'"))
	k.passes(t, "the default install", web, create...)
	k.passes(t, "one that is allowed", selects(web, "east"), create...)

	t.Log("groups that exist keep their install, and change to none that isn't allowed")
	edit := func(name, patch string, more ...string) []string {
		return append([]string{"-n", "team-a", "patch", "vg", name, "--type=merge", "-p", patch}, more...)
	}
	label := func(value string) string {
		return `{"metadata":{"labels":{"` + vcenterLabel + `":` + value + `}}}`
	}
	k.refuses(t, "another label", "", edit("old", label(`"west"`)), says("old", "west", "'', 'east'"))
	k.refuses(t, "another label, and the spec", "", edit("plain", `{"metadata":{"labels":{"`+vcenterLabel+`":"west"}},"spec":{"cpu":1}}`), says("plain", "west", "'', 'east'"))
	k.refuses(t, "an empty label", "", edit("plain", label(`""`)), says("plain", "(empty)", "'', 'east'"))
	k.passes(t, "a label that is allowed", "", edit("old", label(`"east"`))...)
	k.passes(t, "no label", "", edit("old", label(`null`))...)
	k.bound(t, `{"vcenters":["east"]}`)
	k.refuses(t, "no label where one is needed", web, create, strings.Replace(says("web", "", "'east'"), "is ''", "is not set", 1))
	for _, name := range []string{"old", "plain"} {
		k.passes(t, "the spec of "+name, "", edit(name, `{"spec":{"cpu":1}}`)...)
		k.passes(t, "another label of "+name, "", edit(name, `{"metadata":{"labels":{"team":"a"}}}`)...)
		k.passes(t, "the finalizer of "+name, "", edit(name, `{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup"]}}`)...)
		k.passes(t, "the status of "+name, "", edit(name, `{"status":{"phase":"RUNNING"}}`, "--subresource=status")...)
	}
}

// A tenant who deletes groups but keeps their VMs, or keeps the VMs of removed members, has more VMs than the quota times maxReplicas.
func TestALimitBoundsTheVMsThatAGroupLeavesBehind(t *testing.T) {
	k := tenants(t)
	create := []string{"create", "-f", "-"}
	deletion := func(name string, value any) string {
		return manifest(t, "team-a", name, with(within(), "deletion", value))
	}
	retain, month := map[string]any{"policy": "Retain"}, map[string]any{"quarantineSeconds": 2592000}
	k.passes(t, "Retain, without a bound", deletion("web", retain), create...)
	k.kubectlWith(t, deletion("old", map[string]any{"policy": "Retain", "quarantineSeconds": 7200}), create...)
	k.kubectlWith(t, deletion("plain", nil), create...)
	k.bound(t, `{"deletionPolicies":["Delete"],"maxQuarantineSeconds":3600}`)
	const policy, seconds = "spec.deletion.policy of VmGroup team-a/", "spec.deletion.quarantineSeconds of VmGroup team-a/"
	k.refuses(t, "Retain", deletion("web", retain), create, policy+"web is 'Retain': in namespace team-a, VmGroupLimit bounds allows 'Delete'")
	k.refuses(t, "a month", deletion("web", month), create, seconds+"web is 2592000: in namespace team-a, VmGroupLimit bounds allows at most 3600")
	k.passes(t, "nothing said", deletion("web", nil), create...)
	k.passes(t, "no policy, and a short time", deletion("web", map[string]any{"quarantineSeconds": 3600}), create...)
	k.passes(t, "the policy that is allowed", deletion("web", map[string]any{"policy": "Delete"}), create...)

	edit := func(name, patch string) []string {
		return []string{"-n", "team-a", "patch", "vg", name, "--type=merge", "-p", patch}
	}
	k.refuses(t, "Retain by an edit", "", edit("plain", `{"spec":{"deletion":{"policy":"Retain"}}}`), policy+"plain is 'Retain'")
	k.refuses(t, "a longer time", "", edit("old", `{"spec":{"deletion":{"quarantineSeconds":7201}}}`), seconds+"old is 7201")
	k.passes(t, "a shorter time", "", edit("old", `{"spec":{"cpu":1,"deletion":{"quarantineSeconds":7000}}}`)...)

	t.Log("also after the deletion began")
	k.kubectl(t, edit("plain", `{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup"]}}`)...)
	k.kubectl(t, "-n", "team-a", "delete", "vg", "plain", "--wait=false")
	k.refuses(t, "Retain in a deletion", "", edit("plain", `{"spec":{"deletion":{"policy":"Retain"}}}`), policy+"plain is 'Retain'")
	k.passes(t, "the end of a deletion", "", edit("plain", `{"metadata":{"finalizers":null}}`)...)
}

// The annotation abandon, and the removal of the finalizer, end a deletion without the server: like Retain, both leave VMs behind.
func TestWhereRetainIsNotAllowedATenantLeavesNoVMsInAnotherWay(t *testing.T) {
	k := tenants(t)
	k.kubectl(t, "-n", "team-a", "create", "rolebinding", "ann", "--clusterrole=admin", "--user=ann")
	k.kubectl(t, "apply", "-f", repository+"/charts/vmgroup/files/metacontroller-rights/clusterrole.yaml")
	k.kubectl(t, "create", "clusterrolebinding", "mc", "--clusterrole=vmgroup-metacontroller", "--user=mc")
	k.kubectlWith(t, manifest(t, "team-a", "web", within()), "create", "-f", "-")
	edit := func(user, patch string) []string {
		return []string{"-n", "team-a", "patch", "vg", "web", "--type=merge", "-p", patch, "--as=" + user}
	}
	const abandon, release = `{"metadata":{"annotations":{"vm.codeconnect.vmworld.com/abandon":"true"}}}`, `{"metadata":{"finalizers":["example.com/other"]}}`
	k.kubectl(t, edit("mc", `{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup","example.com/other"]}}`)...)
	eventually(t, func() string { // the role admin gets its rules a moment later
		if _, err := k.Kubectl(append(edit("ann", `{"spec":{"cpu":1}}`), "--dry-run=server")...); err != nil {
			return err.Error()
		}
		return ""
	})
	k.passes(t, "abandon, where Retain is allowed", "", edit("ann", abandon)...)
	k.passes(t, "the finalizer, where Retain is allowed", "", edit("ann", release)...)
	k.bound(t, `{"deletionPolicies":["Delete"]}`)
	const where = "would leave VMs of VmGroup team-a/web behind: in namespace team-a, the deletionPolicies of VmGroupLimit bounds don't allow Retain"
	for range 2 { // before the deletion and during it
		k.refuses(t, "abandon", "", edit("ann", abandon), "the annotation vm.codeconnect.vmworld.com/abandon "+where)
		k.refuses(t, "the removal of the finalizer", "", edit("ann", release), "the removal of Metacontroller's finalizer "+where)
		k.passes(t, "another finalizer", "", edit("ann", `{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup"]}}`)...)
		k.passes(t, "another annotation", "", edit("ann", `{"metadata":{"annotations":{"team":"a"}}}`)...)
		for _, user := range []string{"mc", "admin"} {
			args := edit(user, release)
			if user == "admin" {
				args = args[:len(args)-1] // the test's own user
			}
			k.passes(t, "the finalizer by "+user, "", args...)
		}
		k.kubectl(t, "-n", "team-a", "delete", "vg", "web", "--wait=false", "--as=ann")
	}
}

// Deleted with its server, such a group would keep the namespace forever.
func TestAGroupInTheServersOwnNamespaceIsRefused(t *testing.T) {
	k := tenants(t)
	k.kubectl(t, "label", "namespace", "vmgroup-system", "vm.codeconnect.vmworld.com/groups=limited")
	k.refuses(t, "the server's namespace", manifest(t, "vmgroup-system", "web", within()), []string{"create", "-f", "-"}, "can't be in the namespace of its server, vmgroup-system")
	k.passes(t, "another one", manifest(t, "team-a", "web", within()), "create", "-f", "-")
}

// A namespace's VmGroupLimit is deleted with it at once, and its groups once their VMs are gone.
func TestALimitIsNoLaxerWhileItsNamespaceIsDeleted(t *testing.T) {
	k := tenants(t)
	k.kubectl(t, "create", "clusterrolebinding", "ann", "--clusterrole=admin", "--user=ann") // a RoleBinding would go with the namespace
	k.kubectl(t, "apply", "-f", repository+"/charts/vmgroup/files/metacontroller-rights/clusterrole.yaml")
	k.kubectl(t, "create", "clusterrolebinding", "mc", "--clusterrole=vmgroup-metacontroller", "--user=mc")
	k.bound(t, `{"deletionPolicies":["Delete"]}`)
	k.kubectlWith(t, manifest(t, "team-a", "web", within()), "create", "-f", "-")
	edit := func(user, patch string) []string {
		return []string{"-n", "team-a", "patch", "vg", "web", "--type=merge", "-p", patch, "--as=" + user}
	}
	k.kubectl(t, edit("mc", `{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup"]}}`)...)
	k.kubectl(t, "delete", "namespace", "team-a", "--wait=false")
	eventually(t, func() string {
		left, err := k.Kubectl("-n", "team-a", "get", "vgl", "-o", "name")
		if err != nil {
			return err.Error()
		}
		return left
	})
	const where = " would leave VMs of VmGroup team-a/web behind: namespace team-a is being deleted"
	const retain = `{"spec":{"deletion":{"policy":"Retain"}}}`
	k.refuses(t, "Retain", "", edit("ann", retain), "spec.deletion.policy Retain"+where)
	k.refuses(t, "abandon", "", edit("ann", `{"metadata":{"annotations":{"vm.codeconnect.vmworld.com/abandon":"true"}}}`), "the annotation vm.codeconnect.vmworld.com/abandon"+where)
	k.refuses(t, "the removal of the finalizer", "", edit("ann", `{"metadata":{"finalizers":null}}`), "the removal of Metacontroller's finalizer"+where)
	k.passes(t, "another edit", "", edit("ann", `{"spec":{"paused":false}}`)...)
	k.passes(t, "Retain by those who can write the status", "", edit("mc", retain)...)
	k.kubectl(t, edit("mc", `{"metadata":{"finalizers":null}}`)...)
	k.kubectl(t, "wait", "--for=delete", "namespace/team-a", "--timeout=1m")
}

// A storage policy chooses datastores, and zones take the pool's place: a limit that bounds the one and says nothing of the other must not leak.
func TestAListThatALimitLeavesOutIsNoWayAroundAnotherList(t *testing.T) {
	k := tenants(t)
	create := []string{"create", "-f", "-"}
	web := func(placement map[string]any, disks ...any) string {
		return manifest(t, "team-a", "web", with(placed(placement), "disks", disks))
	}
	k.kubectlWith(t, manifest(t, "team-a", "old", within()), create...) // with the policy gold
	k.bound(t, `{"storagePolicies":null}`)
	const leaving = "in namespace team-a, VmGroupLimit bounds allows only leaving it out, because it bounds "
	k.refuses(t, "a storage policy", web(map[string]any{"pool": "team-a", "storagePolicy": "gold"}), create,
		"spec.placement.storagePolicy of VmGroup team-a/web is 'gold': "+leaving+"datastores and not storagePolicies")
	k.refuses(t, "a disk's storage policy", web(map[string]any{"pool": "team-a"}, disk("data", "team-a", "gold")), create,
		"spec.disks[].storagePolicy of VmGroup team-a/web has 'gold': "+leaving+"datastores and not storagePolicies")
	k.passes(t, "no storage policy", web(map[string]any{"pool": "team-a", "datastore": "team-a"}, disk("data", "team-a", "")), create...)
	k.passes(t, "a group that had one", "", "-n", "team-a", "patch", "vg", "old", "--type=merge", "-p", `{"spec":{"cpu":1}}`)
	k.bound(t, `{"datastores":null}`)
	k.passes(t, "a storage policy where datastores are not bounded", web(map[string]any{"pool": "team-a", "storagePolicy": "gold"}, disk("data", "", "gold")), create...)

	zones := web(map[string]any{"zones": []string{"team-b-1"}})
	k.bound(t, `{"zones":null}`)
	k.refuses(t, "zones", zones, create, "spec.placement.zones of VmGroup team-a/web has 'team-b-1': "+leaving+"pools and not zones")
	k.passes(t, "a pool", web(map[string]any{"pool": "team-a"}), create...)
	k.bound(t, `{"pools":null,"zones":["team-b-1"]}`)
	k.refuses(t, "a pool", web(map[string]any{"pool": "team-a"}), create, "spec.placement.pool of VmGroup team-a/web is 'team-a': "+leaving+"zones and not pools")
	k.passes(t, "neither", web(nil), create...)
	k.passes(t, "zones", zones, create...)
	k.bound(t, `{"zones":[]}`)
	k.refuses(t, "zones where none are allowed", zones, create, "VmGroupLimit bounds allows nothing")
	k.passes(t, "any pool where only zones are forbidden", web(map[string]any{"pool": "team-b"}), create...)
}

func TestTheSampleOfALimitIsClosed(t *testing.T) {
	k := tenants(t)
	k.kubectl(t, "-n", "team-a", "delete", "vgl", "bounds")
	limit, _, _ := strings.Cut(string(read(t, repository+"/manifests/samples/tenant.yaml")), "---\n") // without the sample's quota, which takes effect only after a while
	k.kubectlWith(t, limit, "create", "-f", "-")
	spec, create := with(within(), "placement", map[string]any{"pool": "team-a"}), []string{"create", "-f", "-"}
	in := func(field string, value any) map[string]any {
		return with(spec, "placement", map[string]any{"pool": "team-a", field: value})
	}
	for field, refused := range map[string]map[string]any{
		"spec.placement.storagePolicy":    in("storagePolicy", "gold"),
		"spec.disks[].storagePolicy":      with(spec, "disks", []any{disk("data", "", "gold")}),
		"spec.placement.zones":            with(spec, "placement", map[string]any{"zones": []string{"team-b"}}),
		"spec.placement.datacenter":       in("datacenter", "DC1"),
		"spec.placement.folder":           in("folder", "teams"),
		"spec.customizationSpec":          with(spec, "customizationSpec", "join-the-domain"),
		"spec.standby":                    with(spec, "standby", 1),
		"spec.deletion.policy":            with(spec, "deletion", map[string]any{"policy": "Retain"}),
		"spec.deletion.quarantineSeconds": with(spec, "deletion", map[string]any{"quarantineSeconds": 60}),
	} {
		k.refuses(t, field, manifest(t, "team-a", "web", refused), create, field+" of VmGroup team-a/web ")
	}
	k.refuses(t, "another install", selects(manifest(t, "team-a", "web", spec), "east"), create, vcenterLabel+" of VmGroup team-a/web is 'east'")
	k.passes(t, "what it allows", manifest(t, "team-a", "web", in("datastore", "team-a")), create...)
}

// The API server drops a refusal's own text that has more than 5 KiB, or a newline.
func TestARefusalSaysWhatItIsAboutHoweverLongTheListsAre(t *testing.T) {
	k := tenants(t)
	create := []string{"create", "-f", "-"}
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf(`"%03d%s"`, i, strings.Repeat("ü", 300)))
	}
	k.bound(t, `{"templates":["\nnew",`+strings.Join(names[1:], ",")+`],"networks":["app","two\nlines"]}`)
	k.refuses(t, "a template that is not in a long list", manifest(t, "team-a", "web", within()), create,
		"spec.template of VmGroup team-a/web is 'debian-13': in namespace team-a, VmGroupLimit bounds allows ' new', '001üü", "ü …")
	var long []any
	for i := range 5 {
		long = append(long, map[string]any{"network": fmt.Sprint(i, strings.Repeat("漢", 1000))})
	}
	k.bound(t, `{"templates":null}`)
	k.refuses(t, "long names", manifest(t, "team-a", "web", with(within(), "networks", long)), create,
		"spec.networks[].network of VmGroup team-a/web has '0漢漢", "漢 …: in namespace team-a, VmGroupLimit bounds allows 'app', 'two lines'")
	network := []any{map[string]any{"network": "with\na newline"}}
	k.refuses(t, "a newline", manifest(t, "team-a", "web", with(within(), "networks", network)), create,
		"spec.networks[].network of VmGroup team-a/web has 'with a newline': in namespace team-a, VmGroupLimit bounds allows 'app', 'two lines'")
}

// The API server bounds the cost of a policy: the largest limit must stay within the bound, for a group with the most possible values.
func TestTheLargestLimitIsWithinWhatAPolicyCanCost(t *testing.T) {
	k := tenants(t)
	values := func(n int, last string) (list []string) {
		for i := range n - 1 {
			list = append(list, fmt.Sprint(i, strings.Repeat("x", 1000)))
		}
		return append(list, last)
	}
	lists := map[string]any{}
	for list, last := range map[string]string{
		"templates": "debian-13", "datacenters": "", "folders": "", "pools": "team-a", "zones": "team-a-1", "datastores": "", "storagePolicies": "gold",
		"networks": "app", "tags": "backup/daily", "customAttributes": "owner", "customizationSpecs": "",
	} {
		lists[list] = values(100, last)
	}
	short := func(names []string) (list []string) { // these names have at most 80 characters
		for _, name := range names {
			list = append(list, name[:min(len(name), 80)])
		}
		return list
	}
	var devices []string
	for i := range v1alpha1.MaxPCIDevices {
		devices = append(devices, fmt.Sprintf("10de:%04x", i))
	}
	lists["hostGroups"] = short(values(100, ""))
	lists["pciDevices"] = append(short(values(100-len(devices), "grid_t4-4c")), devices...)
	text, err := json.Marshal(map[string]any{"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroupLimit",
		"metadata": map[string]any{"namespace": "team-a", "name": "bounds"}, "spec": lists})
	must.Succeed(t, err)
	k.kubectlWith(t, string(text), "replace", "-f", "-")
	group := func(zone string) string {
		var networks, disks []any
		for _, name := range values(10, "app") {
			networks = append(networks, map[string]any{"network": name})
		}
		for i := range 14 {
			disks = append(disks, disk(fmt.Sprint("disk-", i), "", "gold"))
		}
		spec := with(with(within(), "networks", networks), "disks", disks)
		spec = with(spec, "hardware", map[string]any{"pciDevices": devices})
		return manifest(t, "team-a", "web", with(spec, "placement", map[string]any{"zones": values(32, zone), "storagePolicy": "gold"}))
	}
	k.refuses(t, "a zone", group("team-b-1"), []string{"create", "-f", "-"}, "spec.placement.zones of VmGroup team-a/web has 'team-b-1': in namespace team-a")
	k.kubectlWith(t, group("team-a-1"), "create", "-f", "-")
	k.refuses(t, "a zone by an edit", group("team-b-1"), []string{"replace", "-f", "-"}, "spec.placement.zones of VmGroup team-a/web has 'team-b-1': in namespace team-a")
	k.passes(t, "an edit", strings.Replace(group("team-a-1"), `"cpu":2`, `"cpu":1`, 1), "replace", "-f", "-")
}
