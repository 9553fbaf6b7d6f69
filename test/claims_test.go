package test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestGroupsWithTheSameAddressesSaySoAndNameNoneOfOtherNamespaces(t *testing.T) {
	inRig(t, vcsim.Config{Portgroups: 1, Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		s := r.serve()
		oa, ob, stranger := s.group("oa", 1), s.group("ob", 1), s.groupOf("secret", "hidden", "uid-hidden", 1)
		with := func(network, ranges string) func(*v1alpha1.VmGroupSpec) {
			return func(s *v1alpha1.VmGroupSpec) {
				s.Networks = []v1alpha1.Network{{Network: network, IPv4: &v1alpha1.Addresses{Ranges: []string{ranges}, PrefixLength: 24}}}
			}
		}
		for g, edit := range map[*metacontroller.Group]func(*v1alpha1.VmGroupSpec){
			oa: with("VM Network", "10.0.0.4-10.0.0.9"), ob: with("VM Network", "10.0.0.10-10.0.0.19"), stranger: with("DC0_DVPG0", "10.0.0.4-10.0.0.9"),
		} {
			g.Edit(edit)
			up(t, g)
		}
		says := func(g *metacontroller.Group) string {
			t.Helper()
			a := mustSync(t, g)
			if c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionDuplicateAddress); c != nil {
				return c.Message
			}
			return ""
		}
		if text := says(oa) + says(ob) + says(stranger); text != "" {
			t.Errorf("groups with different ranges or networks report a duplicate address: %s; want none", text)
		}
		edit := with("VM Network", "10.0.0.9-10.0.0.19")
		edited := ob.VmGroup.DeepCopy()
		edit(&edited.Spec)
		if _, answer := ask(t, ob, "/plan", edited, false); !strings.Contains(answer, "10.0.0.9-10.0.0.19 in the network VM Network: the group oa also has") {
			t.Errorf("the plan is %s; want %q in the text", answer, "10.0.0.9-10.0.0.19 in the network VM Network: the group oa also has")
		}
		ob.Edit(edit)
		if text := says(ob); text != "10.0.0.9-10.0.0.19 in the network VM Network: the group oa also has addresses of this range" {
			t.Errorf("ob says %q", text)
		}
		up(t, ob)
		stranger.Edit(edit)
		up(t, stranger)
		mustSync(t, ob) // renews the group's lease, which may have expired
		if text := says(oa); !strings.Contains(text, "the group ob also has") {
			t.Errorf("with two other groups, oa says %q; want %q in the text", text, "the group ob also has")
		}
		remove(t, ob)
		if text := says(oa); text != "10.0.0.4-10.0.0.9 in the network VM Network: a group of another namespace also has addresses of this range" {
			t.Errorf("with a group of another namespace, oa says %q", text)
		}
		remove(t, stranger)
		if text := says(oa); text != "" {
			t.Errorf("once the other groups are gone, oa says %q; want none", text)
		}
	})
}
