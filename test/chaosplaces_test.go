package test

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// settle changes one thing of where members run, what they know, and how they are found.
func (c *chaos) settle() {
	s, text := &c.group.Spec, ""
	switch c.rand.IntN(7) {
	case 0, 1:
		s.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
		text = fmt.Sprintf("#cloud-config %d", c.rand.IntN(2))
		c.group.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": text}}}
		text = "user data " + text
	case 2:
		c.group.Related = nil
		text = "the Secret is gone"
	case 3:
		s.Tags = []v1alpha1.Tag{{Category: "team", Name: []string{"shop", "bank"}[c.rand.IntN(2)], Create: true}}
		if c.rand.IntN(3) == 0 {
			s.Tags = nil
		}
		text = fmt.Sprint("tags ", s.Tags)
	case 4:
		s.Placement.AntiAffinity = []v1alpha1.AntiAffinity{"", v1alpha1.AntiAffinityPreferred, v1alpha1.AntiAffinityRequired}[c.rand.IntN(3)]
		text = "anti-affinity " + string(s.Placement.AntiAffinity)
	case 5:
		s.Placement.Zones = [][]string{nil, {"DC0_C0", "DC0_C1"}}[c.rand.IntN(2)]
		text = fmt.Sprint("zones ", s.Placement.Zones)
	case 6:
		s.Networks = nil
		if c.rand.IntN(2) == 0 {
			s.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.99"}, PrefixLength: 24}}}
		}
		text = fmt.Sprint(len(s.Networks), " networks")
	}
	c.group.Generation++
	c.say("settled, generation %d: %s", c.group.Generation, text)
}

// revision is what members are to be made from.
func (c *chaos) revision() string {
	ref, wanted := plan.UserDataOf(&c.group.VmGroup)
	if !wanted || c.group.Related == nil {
		return plan.Revision(&c.group.Spec)
	}
	return plan.RevisionWith(&c.group.Spec, ref.Take([]byte(c.group.Related[0].Data["user-data"])).Digest)
}

// restore gives back the Secret that the spec names.
func (c *chaos) restore() {
	if c.group.Spec.UserData != nil && c.group.Related == nil {
		c.group.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": "#cloud-config restored"}}}
	}
}

// unsettled says what is wrong with where a member is, or with what it knows.
func (c *chaos) unsettled(vm vcsim.VM, stamp vsphere.Stamp) string {
	d, err := c.Details(vm.Path)
	if err != nil {
		return err.Error()
	}
	s := &c.group.Spec
	if zone := plan.ZoneOf(s, stamp.Ordinal); zone != "" && !strings.HasPrefix(d.Pool, "/DC0/host/"+zone+"/") {
		return fmt.Sprintf("%s is in %s, and not in %s", vm.Path, d.Pool, zone)
	}
	if want := c.group.Related; s.UserData != nil && guestInfo(c.t, d, "userdata") != want[0].Data["user-data"] {
		return vm.Path + " has other user data"
	}
	if len(s.Networks) > 0 && !strings.Contains(guestInfo(c.t, d, "metadata"), fmt.Sprintf("10.0.0.%d/24", 10+stamp.Ordinal)) {
		return vm.Path + " is not told its address"
	}
	var tags []string
	for _, t := range s.Tags {
		tags = append(tags, t.Category+"/"+t.Name)
	}
	if got, err := c.TagsOf(vm.Path); err != nil || !slices.Equal(got, tags) {
		return fmt.Sprintf("%s has the tags %v, not %v (%v)", vm.Path, got, tags, err)
	}
	return ""
}

// unruled says what is wrong with the DRS rules: one for each cluster with two members or more, if any is wanted.
func (c *chaos) unruled() string {
	mode := c.group.Spec.Placement.AntiAffinity
	for i := range 2 {
		var want []string
		for _, vm := range c.members() {
			if d, err := c.Details(vm.Path); err == nil && strings.HasPrefix(d.Host, fmt.Sprintf("/DC0/host/DC0_C%d/", i)) {
				want = append(want, vm.Name)
			}
		}
		slices.Sort(want)
		if mode == "" || len(want) < 2 {
			want = nil
		}
		rules, err := c.Rules(fmt.Sprintf("/DC0/host/DC0_C%d", i))
		if err != nil {
			return err.Error()
		}
		var got []string
		for _, rule := range rules {
			if got = append(got, rule.VMs...); rule.Mandatory != (mode == v1alpha1.AntiAffinityRequired) {
				return fmt.Sprintf("%+v, and %s is wanted", rule, mode)
			}
		}
		if len(rules) > 1 || !slices.Equal(got, want) {
			return fmt.Sprintf("the rules of cluster %d are %+v; wanted is %s for %v", i, rules, mode, want)
		}
	}
	return ""
}
