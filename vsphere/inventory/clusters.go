package inventory

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// putClusters stores a reading of all clusters, and notifies the groups that a change may concern. The caller holds mu.
func (n *Inventory) putClusters(all []Cluster, w *changes) {
	was := n.objects.clusters
	now := clusters{known: true, version: was.version, byRef: make(map[string]Cluster, len(all)), of: map[string]string{}, ruled: map[types.UID]bool{}}
	for _, c := range all {
		now.byRef[c.MoRef] = c
		for _, host := range c.Hosts {
			now.of[host] = c.MoRef
		}
		for _, rule := range c.Rules {
			now.ruled[rule.UID] = true
		}
		for _, vms := range c.VMGroups {
			now.ruled[vms.UID] = true
		}
	}
	if was.known && reflect.DeepEqual(was.byRef, now.byRef) {
		return
	}
	now.version++
	n.objects.clusters = now
	bare := func(x clusters) map[string]Cluster { // without the rules, and what matters only to power-ons
		kept := maps.Clone(x.byRef)
		for ref, c := range kept {
			c.Rules, c.VMGroups, c.Level, c.Levels = nil, nil, "", nil
			kept[ref] = c
		}
		return kept
	}
	if !was.known || !maps.EqualFunc(bare(was), bare(now), func(a, b Cluster) bool { return reflect.DeepEqual(a, b) }) {
		for _, uid := range n.ruleRequests.all() {
			w.fire[uid] = true
		}
	}
	for _, uid := range slices.Concat(slices.Collect(maps.Keys(was.ruled)), slices.Collect(maps.Keys(now.ruled))) {
		if !w.fire[uid] && !reflect.DeepEqual(was.rules(uid), now.rules(uid)) {
			w.fire[uid] = true
		}
	}
}

// rules returns the clusters that have rules or VM groups of a group, by moRef.
func (c *clusters) rules(uid types.UID) map[string]Cluster {
	found := map[string]Cluster{}
	for ref, cluster := range c.byRef {
		if rules, groups := cluster.of(uid); len(rules)+len(groups) > 0 {
			found[ref] = Cluster{Rules: rules, VMGroups: groups}
		}
	}
	return found
}

// of returns the rules of a group, ordered by key, and its VM groups, ordered by name.
func (c *Cluster) of(uid types.UID) (rules []Rule, groups []VMGroup) {
	for _, rule := range c.Rules {
		if rule.UID == uid {
			rules = append(rules, rule)
		}
	}
	for _, vms := range c.VMGroups {
		if vms.UID == uid {
			groups = append(groups, vms)
		}
	}
	return rules, groups
}

// clustersKnown reports whether the clusters of that vCenter were read.
func (n *Inventory) clustersKnown(vcenter string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.clusters.known && n.vcenter == vcenter
}

// usesRules reports whether any group has DRS rules, or wants some.
func (n *Inventory) usesRules() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.objects.clusters.ruled) > 0 || len(n.ruleRequests.all()) > 0
}

// rulesOff reports whether a group's rules are known to differ from what it wants. It checks once, until the members or
// the clusters change. Most groups neither want rules nor have any, and cost nothing. The caller holds mu.
func (n *Inventory) rulesOff(ref plan.Ref, g *group, ask *plan.Query) bool {
	if !n.objects.clusters.known {
		return ask.Rules.Required() // no member runs before the rules are known to exist
	}
	if !ask.Rules.Wanted() && !n.objects.clusters.ruled[ref.UID] {
		return false
	}
	as := ruleCheck{clusters: n.objects.clusters.version, request: ask.Rules}
	if g != nil {
		as.group = g.version
	}
	if last, known := n.ruleRequests.lastCheck(ref.UID); known && last.isOf(as.group, as.clusters, as.request) {
		return last.off
	}
	changes, flaw := n.objects.clusters.compare(ref, n.proven(ref.UID), ask.Rules)
	as.off = len(changes) > 0 || flaw != nil
	if !ask.Preview {
		n.ruleRequests.keepCheck(ref.UID, as)
	}
	return as.off
}

// RuleChange makes one cluster's rules of a group what the group wants. A rule is added only when vCenter has the VM group that it names, and
// a VM group is removed only when no rule names it: so a rule for a host group takes two changes.
type RuleChange struct {
	Cluster string
	// Set are the rules to add, or to change if they have a key.
	Set    []Rule
	Remove []int32
	// VM groups, which vCenter knows by their names.
	AddGroups, EditGroups []VMGroup
	RemoveGroups          []string
}

// compare returns the changes that give a group the rules it wants, ordered by cluster, and why they do not
// suffice; nil if they do.
func (c *clusters) compare(ref plan.Ref, g *group, request plan.Rules) (changes []RuleChange, flaw *vcfault.Error) {
	var members map[string]*spread
	if request.Wanted() {
		members, flaw = c.spread(g, request)
	}
	for at, cluster := range c.byRef {
		here := members[at]
		if here != nil {
			for _, lack := range cluster.lacks(here, request) {
				flaw = first(flaw, lack)
			}
		}
		if change := cluster.change(ref, here, request); !reflect.DeepEqual(change, RuleChange{Cluster: at}) {
			changes = append(changes, change)
		}
	}
	slices.SortFunc(changes, func(a, b RuleChange) int { return strings.Compare(a.Cluster, b.Cluster) })
	return changes, flaw
}

// change returns the change for one cluster; here is nil for one in which no rule is wanted.
func (c *Cluster) change(ref plan.Ref, here *spread, request plan.Rules) RuleChange {
	change := RuleChange{Cluster: c.MoRef}
	rules, groups := c.of(ref.UID)
	named := make(map[string]bool, len(rules))
	for _, rule := range rules {
		named[rule.VMGroup] = true
	}
	want := func(rule Rule, same func(*Rule) bool) {
		rule.UID, rule.Enabled, rule.UserCreated = ref.UID, true, new(true) // none of vCenter's own ([doc] ClusterRuleInfo.userCreated)
		if i := slices.IndexFunc(rules, func(r Rule) bool { return same(&r) }); i >= 0 {
			had := rules[i]
			rules = slices.Delete(rules, i, i+1)
			if rule.Name, rule.Key, rule.UUID, rule.UserCreated = had.Name, had.Key, had.UUID, had.UserCreated; reflect.DeepEqual(rule, had) {
				return
			}
		}
		change.Set = append(change.Set, rule)
	}
	if here != nil {
		if c.Standalone || c.Unread || !c.DRS { // rules would have no effect
			return change
		}
		if len(here.apart) >= 2 {
			want(Rule{Name: stamp.RuleName(ref), Mandatory: request.AntiAffinity == v1alpha1.AntiAffinityRequired, VMs: here.apart}, func(r *Rule) bool { return !r.ForHosts })
		}
		for at, vms := range here.bound {
			hosts, found := FindHostGroup(c.HostGroups, request.HostGroup.Names[at])
			if !found {
				continue
			}
			name := stamp.VMGroupName(ref, at)
			i := slices.IndexFunc(groups, func(g VMGroup) bool { return g.Name == name })
			if i < 0 {
				change.AddGroups = append(change.AddGroups, VMGroup{UID: ref.UID, Name: name, UserCreated: new(true), VMs: vms})
				continue
			}
			if has := groups[i]; !slices.Equal(has.VMs, vms) {
				has.VMs = vms
				change.EditGroups = append(change.EditGroups, has)
			}
			groups = slices.Delete(groups, i, i+1)
			want(Rule{Name: name, ForHosts: true, Mandatory: request.HostsRequired(), VMGroup: name, HostGroup: hosts},
				func(r *Rule) bool { return r.ForHosts && r.VMGroup == name })
		}
	}
	for _, rule := range rules { // two replicas may each have added a rule at the same time, or the group no longer wants one
		change.Remove = append(change.Remove, rule.Key)
	}
	for _, vms := range groups {
		if !named[vms.Name] {
			change.RemoveGroups = append(change.RemoveGroups, vms.Name)
		}
	}
	slices.SortFunc(change.AddGroups, byName)
	slices.SortFunc(change.EditGroups, byName)
	slices.SortFunc(change.Set, func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
	return change
}

func byName(a, b VMGroup) int { return strings.Compare(a.Name, b.Name) }

// first returns the fault whose message sorts first, so that equal facts give equal faults.
func first(a, b *vcfault.Error) *vcfault.Error {
	if a == nil || b.Message < a.Message {
		return b
	}
	return a
}

// spread lists the moRefs of a group's members in one cluster, in order: those to keep apart, and those of each host group, by the index of
// its name in the spec.
type spread struct {
	apart []string
	bound map[int][]string
}

// spread returns a group's members, without those in quarantine, by cluster.
func (c *clusters) spread(g *group, request plan.Rules) (by map[string]*spread, flaw *vcfault.Error) {
	by = map[string]*spread{}
	if g == nil {
		return by, nil
	}
	for ref, m := range g.refs {
		if m.Template || !m.Stamp.Quarantined.IsZero() || m.HostRef == "" {
			continue
		}
		cluster, known := c.of[m.HostRef]
		if !known {
			flaw = vcfault.ForOperator(vcfault.ReasonMissingPrivilege,
				"The clusters of the members' hosts cannot be seen, so there is no DRS rule for spec.placement.antiAffinity or hostGroup: grant vCenter's user the privilege System.Read on the clusters.")
			continue
		}
		here := by[cluster]
		if here == nil {
			here = &spread{bound: map[int][]string{}}
			by[cluster] = here
		}
		if request.KeepApart() && !m.outOfRule(request) {
			here.apart = append(here.apart, ref)
		}
		if _, at := request.HostGroupOf(m.Stamp.Ordinal); at >= 0 {
			here.bound[at] = append(here.bound[at], ref)
		}
	}
	for cluster, here := range by {
		if slices.Sort(here.apart); len(here.apart) < 2 && len(here.bound) == 0 {
			delete(by, cluster)
		}
		for _, refs := range here.bound {
			slices.Sort(refs)
		}
	}
	return by, flaw
}

// outOfRule reports whether a rule that keeps members apart leaves a member out, so that DRS powers it on beside another. Once the member is on, the rule
// names it, and DRS moves it as soon as it can.
func (m *Member) outOfRule(request plan.Rules) bool {
	return m.Stamp.OutOfRule && m.Power != plan.PoweredOn && request.AntiAffinity == v1alpha1.AntiAffinityPreferred
}

// BackInRule returns the members of a group that are on although their stamps still say that the rule leaves them out.
func (n *Inventory) BackInRule(uid types.UID) (members []*Member) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if g := n.proven(uid); g != nil {
		for _, m := range g.refs {
			if m.Stamp.OutOfRule && m.Power == plan.PoweredOn {
				members = append(members, m)
			}
		}
	}
	return members
}

// InOptionalRule reports whether a rule that keeps the members of a member's group apart names it and isn't mandatory.
func (n *Inventory) InOptionalRule(m *Member) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	cluster := n.objects.clusters.byRef[n.objects.clusters.of[m.HostRef]]
	return slices.ContainsFunc(cluster.Rules, func(r Rule) bool {
		return r.UID == m.Stamp.UID && !r.ForHosts && r.Enabled && !r.Mandatory && slices.Contains(r.VMs, m.MoRef)
	})
}

// lacks returns why rules for these members would have no effect in a cluster. If DRS is off, or the host is in no cluster, it reports only
// rules that are required.
func (c *Cluster) lacks(here *spread, request plan.Rules) (lacks []*vcfault.Error) {
	apart := len(here.apart) >= 2 && request.AntiAffinity == v1alpha1.AntiAffinityRequired
	bound := len(here.bound) > 0 && request.HostsRequired()
	lack := func(is bool, reason, format string, args ...any) {
		if is {
			lacks = append(lacks, vcfault.ForOperator(reason, format, args...))
		}
	}
	switch {
	case c.Unread:
		lack(true, vcfault.ReasonMissingPrivilege, "vCenter does not show the DRS rules of the cluster %s: grant vCenter's user the privilege System.Read on it, if it lacks that.", c.Name)
	case c.Standalone:
		lack(apart, vcfault.ReasonRuleIneffective,
			"The host %s is in no cluster, so DRS cannot keep the members on it apart: set spec.placement.pool or zones to a cluster, or spec.placement.antiAffinity to Preferred.", c.Name)
		lack(bound, vcfault.ReasonRuleIneffective,
			"The host %s is in no cluster, so DRS cannot keep the members in a host group: set spec.placement.pool or zones to a cluster, or spec.placement.hostGroup.rule to Preferred.", c.Name)
	case !c.DRS:
		lack(apart, vcfault.ReasonRuleIneffective,
			"DRS is off in the cluster %s, so nothing keeps the members apart: turn it on, or set spec.placement.antiAffinity to Preferred.", c.Name)
		lack(bound, vcfault.ReasonRuleIneffective,
			"DRS is off in the cluster %s, so nothing keeps the members in their host group: turn it on, or set spec.placement.hostGroup.rule to Preferred.", c.Name)
	default:
		for at := range here.bound {
			name := request.HostGroup.Names[at]
			if _, found := FindHostGroup(c.HostGroups, name); !found {
				lacks = append(lacks, NoHostGroup(c.Name, name, c.HostGroups))
			}
		}
	}
	return lacks
}

// FindHostGroup finds the DRS host group that a name of the spec means, and returns its name as vCenter has it: vCenter may escape it, as it
// does other objects' names.
func FindHostGroup(all []string, name string) (string, bool) {
	if slices.Contains(all, name) {
		return name, true
	}
	i := slices.IndexFunc(all, func(has string) bool { return naming.Unescape(has) == name })
	if i < 0 {
		return "", false
	}
	return all[i], true
}

// NoHostGroup returns the fault for a cluster without a DRS host group of that name; others are those that it has.
func NoHostGroup(cluster, name string, others []string) *vcfault.Error {
	instead := "create it there"
	if len(others) > 0 {
		others = slices.Clone(others)
		for i := range others {
			others[i] = naming.Unescape(others[i])
		}
		instead += ", or set spec.placement.hostGroup.names to one of " + vcfault.Listing(others)
	}
	return vcfault.ForOperator(vcfault.ReasonHostGroupNotFound, "The cluster %s has no DRS host group %q with hosts in it: %s.", cluster, name, instead)
}

// RuleChanges returns the changes that bring a group's rules in line with what is known now; lack is nil, or why they do not
// suffice.
func (n *Inventory) RuleChanges(ref plan.Ref, request plan.Rules) (changes []RuleChange, lack error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.objects.clusters.known {
		return nil, vcfault.ForRetry(plan.ReasonInventoryNotRead, "The clusters' DRS rules are being read.")
	}
	changes, flaw := n.objects.clusters.compare(ref, n.proven(ref.UID), request)
	if flaw != nil {
		return changes, flaw
	}
	return changes, nil
}

// Clusters returns the clusters as last read.
func (n *Inventory) Clusters() []Cluster {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Collect(maps.Values(n.objects.clusters.byRef))
}
