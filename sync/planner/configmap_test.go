package planner_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// hosts reads an inventory as Ansible does, and returns the group's name as well.
func hosts(t *testing.T, text string) (group string, hosts map[string]map[string]any) {
	t.Helper()
	var inventory map[string]struct {
		Hosts map[string]map[string]any `json:"hosts"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &inventory); err != nil || len(inventory) != 1 {
		t.Fatalf("%v:\n%s", err, text)
	}
	for name, g := range inventory {
		group, hosts = name, g.Hosts
	}
	return group, hosts
}

func data(c *plan.Child) map[string]string { return c.Fields.(plan.ConfigMapFields).Data }

func TestAnsibleReadsTheInventory(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"web": "web", "web-servers": "web_servers", "9-lives": "_9_lives", "null": "null", "on": "on", "2026-11": "_2026_11", "1e3": "_1e3"} {
		o := served(3, v1alpha1.Service{})
		o.Group.Name, o.Group.Spec.Service = name, nil // a Service's name begins with a letter
		o.State.VMs[0].IPs = []string{"{{ lookup('pipe', 'reboot') }}", "fe80::1", "fd00::7", "10.0.0.7"}
		o.State.VMs[1].IPs, o.State.VMs[1].Power = nil, plan.PoweredOff
		r := planner.Make(o)
		group, got := hosts(t, data(&r.Children[0])["inventory.yaml"])
		if group != want || len(got) != 3 {
			t.Errorf("%s: group %q, hosts %v", name, group, got)
		}
		for i, host := range []map[string]any{
			{"ansible_host": "fd00::7", "vmgroup_ordinal": 0., "vmgroup_ready": true},
			{"vmgroup_ordinal": 1., "vmgroup_ready": false},
			{"ansible_host": "10.0.0.3", "vmgroup_ordinal": 2., "vmgroup_ready": true},
		} {
			if h := got[plan.MemberName(name, int32(i))]; asJSON(t, h) != asJSON(t, host) {
				t.Errorf("%s: host %d is %v", name, i, h)
			}
		}
	}
}

func TestAGroupWithoutMembersIsPublishedAsEmpty(t *testing.T) {
	t.Parallel()
	none, lost := observed(0), observed(3)
	lost.Children = map[plan.ChildKey]plan.ObservedChild{{Kind: plan.KindConfigMap, Name: "web-members"}: {LastApplied: "{}"}}
	for name, o := range map[string]plan.Observed{"it is to have none": none, "it had some": lost} {
		r := planner.Make(o)
		d := data(&r.Children[0])
		if group, hosts := hosts(t, d["inventory.yaml"]); group != "web" || len(hosts) != 0 || d["members.json"] != "[\n]\n" {
			t.Errorf("%s: the ConfigMap is %v; want no members", name, d)
		}
	}
}

func TestTheConfigMapComesWithTheFirstMember(t *testing.T) {
	t.Parallel()
	if r := planner.Make(observed(3)); len(r.Children) > 0 {
		t.Errorf("before the first member the children are %v; want none", r.Children)
	}
	if r := planner.Make(served(1, v1alpha1.Service{})); !slices.ContainsFunc(r.Children, func(c plan.Child) bool { return c.Key.Kind == plan.KindConfigMap }) {
		t.Errorf("with a member the children are %v; want a ConfigMap", r.Children)
	}
}

func TestTheConfigMapIsSplitBeforeItsAnnotationIsTooLong(t *testing.T) {
	t.Parallel()
	for name, rename := range map[string]string{"plain": "web", "with the worst names": strings.Repeat(`"`, 78) + `\<`} {
		o := served(1000, v1alpha1.Service{})
		o.Group.Spec.Service = nil
		for i := range o.State.VMs {
			m := &o.State.VMs[i]
			m.Name = rename
			m.IPs = append(m.IPs, "2001:db8:1111:2222:3333:4444:5555:6666")
		}
		r := planner.Make(o)
		if len(r.Children) < 2 {
			t.Fatalf("%s: %d ConfigMaps", name, len(r.Children))
		}
		next := 0
		for i := range r.Children {
			c := &r.Children[i]
			if want := []string{"web-members", "web-members-2", "web-members-3", "web-members-4", "web-members-5"}[i]; c.Key.Name != want {
				t.Errorf("%s: the name of %s is %s", name, want, c.Key.Name)
			}
			if text := asJSON(t, object(t, c)); len(text) > 201_000 {
				t.Errorf("%s: %s has %d bytes in its annotation", name, c.Key, len(text))
			}
			var members []struct {
				Name, VMName string
				Ordinal      int32
			}
			if err := json.Unmarshal([]byte(data(c)["members.json"]), &members); err != nil {
				t.Fatal(name, err)
			}
			_, hosts := hosts(t, data(c)["inventory.yaml"])
			for _, m := range members {
				if hosts[m.Name] == nil || int(m.Ordinal) != next || m.Name != fmt.Sprintf("web-%d", next) || m.VMName != rename {
					t.Fatalf("%s: %s has %+v in place of %d", name, c.Key, m, next)
				}
				next++
			}
			if len(hosts) != len(members) {
				t.Errorf("%s: %s has %d members and %d hosts", name, c.Key, len(members), len(hosts))
			}
		}
		if next != 1000 {
			t.Errorf("%s: %d members are published", name, next)
		}
	}
}
