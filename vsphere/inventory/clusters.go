package inventory

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// clusters holds what is known of clusters and rules.
type clusters struct {
	known   bool
	version uint64 // counts the changes
	byRef   map[string]Cluster
	of      map[string]string // the cluster by its host, both by moRef
	ruled   map[types.UID]bool
}

// putClusters stores a reading of all clusters, and notifies the groups that a change may concern. The caller holds mu.
func (n *Inventory) putClusters(all []Cluster, w *changes) {
	was := n.clusters
	now := clusters{known: true, version: was.version, byRef: make(map[string]Cluster, len(all)), of: map[string]string{}, ruled: map[types.UID]bool{}}
	for _, c := range all {
		now.byRef[c.MoRef] = c
		for _, host := range c.Hosts {
			now.of[host] = c.MoRef
		}
		for _, rule := range c.Rules {
			now.ruled[rule.UID] = true
		}
	}
	if was.known && reflect.DeepEqual(was.byRef, now.byRef) {
		return
	}
	now.version++
	n.clusters = now
	bare := func(x clusters) map[string]Cluster { // without the rules, and what matters only to power-ons
		kept := maps.Clone(x.byRef)
		for ref, c := range kept {
			c.Rules, c.Level, c.Levels = nil, "", nil
			kept[ref] = c
		}
		return kept
	}
	if !was.known || !maps.EqualFunc(bare(was), bare(now), func(a, b Cluster) bool { return reflect.DeepEqual(a, b) }) {
		n.interest.Lock()
		for uid := range n.ruleRequests {
			w.fire[uid] = true
		}
		n.interest.Unlock()
	}
	for _, uid := range slices.Concat(slices.Collect(maps.Keys(was.ruled)), slices.Collect(maps.Keys(now.ruled))) {
		if !w.fire[uid] && !reflect.DeepEqual(was.rules(uid), now.rules(uid)) {
			w.fire[uid] = true
		}
	}
}

// rules are a group's, by cluster, ordered by key.
func (c *clusters) rules(uid types.UID) map[string][]Rule {
	found := map[string][]Rule{}
	for ref, cluster := range c.byRef {
		for _, rule := range cluster.Rules {
			if rule.UID == uid {
				found[ref] = append(found[ref], rule)
			}
		}
	}
	return found
}

// clustersKnown reports whether the clusters of that vCenter were read.
func (n *Inventory) clustersKnown(vcenter string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.clusters.known && n.vcenter == vcenter
}

// usesRules reports whether any group has DRS rules, or wants some.
func (n *Inventory) usesRules() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.interest.Lock()
	defer n.interest.Unlock()
	return len(n.clusters.ruled)+len(n.ruleRequests) > 0
}

// ruleCheck records whether a group's rules are off, for one version of its members and of the clusters.
type ruleCheck struct {
	group, clusters uint64
	request         v1alpha1.AntiAffinity
	off             bool
}

// rulesOff reports whether a group's rules are known to differ from what it wants. It checks once, until the members or
// the clusters change. Most groups neither want rules nor have any, and cost nothing. The caller holds mu.
func (n *Inventory) rulesOff(uid types.UID, g *group, ask *plan.Query) bool {
	request := ask.AntiAffinity
	if !n.clusters.known {
		return request == v1alpha1.AntiAffinityRequired // no member runs before the rule is known to exist
	}
	if !WantsRules(request) && !n.clusters.ruled[uid] {
		return false
	}
	as := ruleCheck{clusters: n.clusters.version, request: request}
	if g != nil {
		as.group = g.version
	}
	n.interest.Lock()
	last, known := n.ruleChecks[uid]
	n.interest.Unlock()
	if as.off = last.off; known && last == as {
		return last.off
	}
	changes, flaw := n.clusters.compare(uid, g, request)
	as.off = len(changes) > 0 || flaw != nil
	if !ask.Preview {
		n.interest.Lock()
		n.ruleChecks[uid] = as
		n.interest.Unlock()
	}
	return as.off
}

// RuleChange brings one cluster's rules of a group in line.
type RuleChange struct {
	Cluster string
	Set     *Rule // to be made, or changed if it has a key
	Remove  []int32
}

// compare returns the changes that give a group the rules it wants, ordered by cluster, and why they do not
// suffice; nil if they do.
func (c *clusters) compare(uid types.UID, g *group, request v1alpha1.AntiAffinity) (changes []RuleChange, flaw *vcfault.Error) {
	var wanted map[string][]string
	if WantsRules(request) {
		wanted, flaw = c.spread(g)
	}
	for ref, vms := range wanted {
		if lack := c.lack(ref, len(vms), request); lack != nil {
			flaw = first(flaw, lack)
		}
	}
	there := c.rules(uid)
	for ref := range c.byRef {
		change := RuleChange{Cluster: ref}
		vms, rules := wanted[ref], there[ref]
		if len(vms) >= 2 {
			if cluster := c.byRef[ref]; cluster.Standalone || cluster.Unread || !cluster.DRS {
				continue
			}
			rule := Rule{UID: uid, UserCreated: new(true)} // none of vCenter's own ([doc] ClusterRuleInfo.userCreated)
			if len(rules) > 0 {
				rule, rules = rules[0], rules[1:]
			}
			mandatory := request == v1alpha1.AntiAffinityRequired
			if !rule.Enabled || rule.Mandatory != mandatory || !slices.Equal(rule.VMs, vms) {
				rule.Enabled, rule.Mandatory, rule.VMs = true, mandatory, vms
				change.Set = &rule
			}
		}
		for _, rule := range rules { // two replicas created one at the same time, or none is wanted any more
			change.Remove = append(change.Remove, rule.Key)
		}
		if change.Set != nil || len(change.Remove) > 0 {
			changes = append(changes, change)
		}
	}
	slices.SortFunc(changes, func(a, b RuleChange) int { return strings.Compare(a.Cluster, b.Cluster) })
	return changes, flaw
}

// first returns the fault whose message sorts first, so that equal facts give equal faults.
func first(a, b *vcfault.Error) *vcfault.Error {
	if a == nil || b.Message < a.Message {
		return b
	}
	return a
}

// spread returns where a group's members are, without those in quarantine, by cluster, each list in order.
func (c *clusters) spread(g *group) (by map[string][]string, flaw *vcfault.Error) {
	by = map[string][]string{}
	if g == nil {
		return by, nil
	}
	for ref, m := range g.refs {
		if m.Template || !m.Stamp.Quarantined.IsZero() || m.HostRef == "" {
			continue
		}
		cluster, known := c.of[m.HostRef]
		if !known {
			flaw = vcfault.New(vcfault.ReasonMissingPrivilege, true,
				"The clusters of the members' hosts cannot be seen, so there is no DRS rule for spec.placement.antiAffinity: grant vCenter's user the privilege System.Read on the clusters.")
			continue
		}
		by[cluster] = append(by[cluster], ref)
	}
	for _, refs := range by {
		slices.Sort(refs)
	}
	return by, flaw
}

// lack returns why a rule for so many members would have no effect in a cluster. A rule that is merely preferred may have none.
func (c *clusters) lack(ref string, members int, request v1alpha1.AntiAffinity) *vcfault.Error {
	cluster := c.byRef[ref]
	required := request == v1alpha1.AntiAffinityRequired
	switch {
	case members < 2:
	case cluster.Unread:
		return vcfault.New(vcfault.ReasonMissingPrivilege, true, "The DRS rules of the cluster %s cannot be read: grant vCenter's user the privilege System.Read on it.", cluster.Name)
	case cluster.Standalone && required:
		return vcfault.New(vcfault.ReasonRuleIneffective, true,
			"The host %s is in no cluster, so DRS cannot keep the members on it apart: set spec.placement.pool or zones to a cluster, or spec.placement.antiAffinity to Preferred.", cluster.Name)
	case !cluster.DRS && required:
		return vcfault.New(vcfault.ReasonRuleIneffective, true,
			"DRS is off in the cluster %s, so nothing keeps the members apart: turn it on, or set spec.placement.antiAffinity to Preferred.", cluster.Name)
	}
	return nil
}

// RuleChanges returns the changes that bring a group's rules in line with what is known now; lack is nil, or why they do not
// suffice.
func (n *Inventory) RuleChanges(uid types.UID, request v1alpha1.AntiAffinity) (changes []RuleChange, lack error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.clusters.known {
		return nil, vcfault.New(plan.ReasonInventoryNotRead, false, "The clusters' DRS rules are being read.")
	}
	changes, flaw := n.clusters.compare(uid, n.groups[uid], request)
	if flaw != nil {
		return changes, flaw
	}
	return changes, nil
}

// WantsRules reports whether spec.placement.antiAffinity asks for DRS rules.
func WantsRules(request v1alpha1.AntiAffinity) bool {
	return request == v1alpha1.AntiAffinityPreferred || request == v1alpha1.AntiAffinityRequired
}
