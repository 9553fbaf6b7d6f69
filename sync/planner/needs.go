package planner

import (
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// NeedsOf returns what a group's members need, without what their template has and the spec doesn't set.
func NeedsOf(g *v1alpha1.VmGroup) plan.Needs {
	n := plan.Needs{CPU: g.Spec.CPU, MemoryGiB: g.Spec.Memory, Members: g.Replicas(), Standby: g.Spec.Standby, Parts: partsOf(g)}
	for i := range g.Spec.Disks {
		n.DisksGiB += g.Spec.Disks[i].SizeGiB
	}
	n.Extra = int32(PolicyOf(&g.Spec, int(n.Members)).Surge)
	return n
}

// partsOf says what a member is made of, by the spec.
func partsOf(g *v1alpha1.VmGroup) (all []plan.NeedsPart) {
	add := func(part string, texts ...string) {
		if texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" }); len(texts) > 0 {
			all = append(all, plan.NeedsPart{Part: part, Is: plan.AtMost(texts, 8)})
		}
	}
	s := &g.Spec
	named := func(what, name string) string { return textIf(name != "", what+" "+name) }
	add("template", s.Template, named("snapshot", s.Clone.Snapshot), textIf(s.Clone.Mode == v1alpha1.CloneLinked, "linked clones"))
	if s.RootDisk != nil {
		add("root disk", fmt.Sprintf("%d GiB", s.RootDisk.SizeGiB))
	}
	for i := range s.Disks {
		d := &s.Disks[i]
		add("disk "+d.Name, fmt.Sprintf("%d GiB", d.SizeGiB), textIf(d.Persistent, "persistent"), named("datastore", d.Datastore), named("storage policy", d.StoragePolicy), string(d.Provisioning))
	}
	for i := range s.Networks {
		add("network "+s.Networks[i].Network, addressesText(g, i)...)
	}
	p := &s.Placement
	if len(p.Zones) > 0 {
		add("zones", zonesText(g)...)
	}
	add("placement", named("pool", p.Pool), named("datastore", p.Datastore), named("storage policy", p.StoragePolicy), named("datacenter", p.Datacenter), named("folder", p.Folder))
	if p.HostGroup != nil {
		add("host groups", p.HostGroup.Names...)
	}
	return all
}

// addressesText says which addresses members have in a network: those of the first and the last member of a new group, by their ordinals.
func addressesText(g *v1alpha1.VmGroup, network int) (texts []string) {
	n := &g.Spec.Networks[network]
	last := g.Replicas() + g.Spec.Standby - 1
	of := func(ordinal int32) (all []string) {
		static, _ := plan.AddressesOf(&g.Spec, ordinal)
		if network < len(static) {
			all = slices.Concat(static[network].IPv4, static[network].IPv6)
		}
		return all
	}
	if first := of(0); len(first) > 0 && last >= 0 {
		text := plan.AtMost(first, 4) + " for " + plan.MemberName(g.Name, 0)
		if final := of(last); len(final) > 0 && last > 0 {
			text += " to " + plan.AtMost(final, 4) + " for " + plan.MemberName(g.Name, last)
		}
		texts = append(texts, text)
	}
	switch {
	case n.WantsDHCP():
		texts = append(texts, "DHCP")
	case !n.WantsAddress():
		texts = append(texts, "no address")
	}
	return texts
}

// zonesText says how many members of a new group each zone has.
func zonesText(g *v1alpha1.VmGroup) []string {
	counts := map[string]int{}
	for ordinal := range g.Replicas() + g.Spec.Standby {
		counts[plan.ZoneOf(&g.Spec, ordinal)]++
	}
	texts := make([]string, len(g.Spec.Placement.Zones))
	for i, zone := range g.Spec.Placement.Zones {
		texts[i] = fmt.Sprintf("%s (%s)", zone, plan.Count(counts[zone], "member"))
	}
	return texts
}

// WarningsOf returns what is probably not meant in a spec, as far as the spec alone shows it. A preview and the check of a group say the same.
func WarningsOf(g *v1alpha1.VmGroup) (all []plan.Warning) {
	warn := func(about, seen, advice string) {
		all = append(all, plan.Warning{About: about, Seen: seen, Advice: advice})
	}
	s := &g.Spec
	if seen, advice := plan.UnlikelyMemory(s.Memory); seen != "" {
		warn("memory", seen, advice)
	}
	none := len(s.Networks) > 0 && !slices.ContainsFunc(s.Networks, func(n v1alpha1.Network) bool { return n.WantsAddress() })
	if none && (s.Readiness.Check == v1alpha1.ReadyGuestIP || s.Readiness.Probes() || s.Service != nil) {
		warn("networks", "no adapter of spec.networks gets an address, and readiness or service needs one", "give an adapter addresses or DHCP, or let user data set an address")
	}
	has, members := plan.AddressCount(s), int(g.Replicas()+s.Standby)
	if surge := PolicyOf(s, int(g.Replicas())).Surge; has >= members && has < members+surge {
		warn("networks", fmt.Sprintf("spec.networks has static addresses for %d members, and an update has up to %d (%s)", has, members+surge, plan.ReasonAddressesExhausted),
			fmt.Sprintf("add some to the ranges, or set update.maxSurge to %d", has-members))
	}
	return all
}
