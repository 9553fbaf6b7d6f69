package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// checkNetworks looks up the networks in the options.
func (c *checker) checkNetworks(ctx context.Context) {
	for _, name := range c.Networks {
		found, err := c.v.NetworkOf(ctx, c.at.Pool, name)
		if err != nil {
			c.failed("network", err)
			continue
		}
		keep(&c.networks, found)
		c.ok("network", "%s", found.Path)
	}
}

// checkGroups looks up everything that a clone of each group needs, with all of the server's steps except the clone itself.
func (c *checker) checkGroups(ctx context.Context) {
	for _, g := range c.Groups {
		check, before := "group "+g.Namespace+"/"+g.Name, len(c.findings)
		c.group(ctx, check, g)
		for i := range c.findings[before:] {
			if step, is := strings.CutPrefix(c.findings[before+i].Check, check); is {
				c.findings[before+i].Row = "group" + step
			}
		}
	}
}

func (c *checker) group(ctx context.Context, check string, g *v1alpha1.VmGroup) {
	if problems := g.Validate(); len(problems) > 0 {
		c.add(check, Fail, problems[0].Error(), "correct the field; the API server rejects this group")
		return
	}
	ref := plan.Ref{Namespace: g.Namespace, Name: g.Name, UID: g.UID}
	at, err := c.parts.Inventory.GroupFolderFor(ref, plan.HomeOf(&g.Spec))
	if err != nil {
		c.failed(check, err)
		return
	}
	t := c.template(ctx, check, at, g.Spec.Template, g.Status.Names)
	if t == nil {
		return
	}
	c.warn(check, planner.WarningsOf(g))
	var d *vsphere.Draft
	apart := map[string]*apartMembers{}
	for i := range max(1, len(g.Spec.Placement.Zones), hostGroups(&g.Spec)) {
		if d, err = c.draft(ref, g, at, t, int32(i), g.Spec.Memory<<10); err != nil {
			c.failed(check, err)
			return
		}
		if !d.Fill(ctx, func(step string, err error) { c.failed(check+": "+step, err) }) {
			return
		}
		if seen := d.MixedHosts(); seen != "" && !slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Check == check+": hardware version" && f.Seen == seen }) {
			c.add(check+": hardware version", Warn, seen, "members run on no other host, whatever DRS, HA or maintenance needs: upgrade the other hosts, or set an older version")
		}
		if err := c.remember(ctx, d); err != nil {
			c.failed(check+": networks", err)
			return
		}
		c.room(ctx, check, d, int32(i))
		if !c.rules(ctx, check+": rules", d, apart) {
			return
		}
	}
	c.hostsFor(check+": rules", g, apart)
	if c.readiness(check+": readiness", g) && c.addressesOf(check+": networks", g) && c.userData(check+": user data", g) {
		c.ok(check, "everything a clone needs exists: %s", strings.Join(c.describeClone(d, t, g), "; "))
	}
}

// warn adds the warnings that no finding has yet: members of several zones can share what they lack.
func (c *checker) warn(check string, warnings []plan.Warning) {
	for _, w := range warnings {
		if !slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Check == check+": "+w.About && f.Seen == w.Seen }) {
			c.add(check+": "+w.About, Warn, w.Seen, w.Advice)
		}
	}
}

// room compares what the members of a zone, those at the ordinal's place, need with what there is.
func (c *checker) room(ctx context.Context, check string, d *vsphere.Draft, ordinal int32) {
	members := plan.MembersIn(d.Group().Spec, plan.ZoneOf(d.Group().Spec, ordinal))
	room, err := d.Room(ctx)
	if err != nil {
		c.failed(check+": room", err)
		return
	}
	c.warn(check, room.Warnings(members, members))
}

func hostGroups(s *v1alpha1.VmGroupSpec) int {
	if s.Placement.HostGroup == nil {
		return 0
	}
	return len(s.Placement.HostGroup.Names)
}

// draft returns the draft of a group's clone.
func (c *checker) draft(ref plan.Ref, g *v1alpha1.VmGroup, at *inventory.GroupFolder, t *foundTemplate, ordinal, memoryMB int32) (*vsphere.Draft, error) {
	_, folder := c.parts.Inventory.ExistingFolder(at)
	details := &plan.Details{Spec: &g.Spec, Zone: plan.ZoneOf(&g.Spec, ordinal)}
	details.Addresses, _ = plan.AddressesOf(&g.Spec, ordinal)
	return c.v.Draft(ref, plan.Action{Op: plan.Clone, Key: plan.MemberName(g.Name, ordinal), Ordinal: ordinal, Args: plan.CloneArgs{Template: t.moRef, Fingerprint: t.fingerprint, Folder: folder, CPU: g.Spec.CPU, MemoryMB: int64(memoryMB), Details: details}})
}

// describeClone describes what was found for a clone.
func (c *checker) describeClone(d *vsphere.Draft, t *foundTemplate, g *v1alpha1.VmGroup) (seen []string) {
	spec, clone := &g.Spec, d.Spec()
	add := func(is bool, format string, args ...any) {
		if is {
			seen = append(seen, fmt.Sprintf(format, args...))
		}
	}
	add(true, "template %s", t.path)
	if clone.Snapshot != nil {
		add(true, "snapshot %s, %s clone", clone.Snapshot.Value, strings.ToLower(string(spec.Clone.Mode)))
	}
	add(len(spec.Placement.Zones) > 0, "%d zones", len(spec.Placement.Zones))
	add(hostGroups(spec) > 0, "%d host groups", hostGroups(spec))
	add(len(spec.Networks) > 0, "%d networks", len(spec.Networks))
	add(spec.Placement.StoragePolicy != "", "storage policy %s", spec.Placement.StoragePolicy)
	add(len(d.Encrypts()) > 0, "encrypted before the first power-on")
	add(clone.Customization != nil, "customization %s", spec.CustomizationSpec)
	add(len(spec.Tags) > 0, "%d tags", len(spec.Tags))
	if clone.Config.ManagedBy != nil {
		add(true, "managedBy %s", clone.Config.ManagedBy.ExtensionKey)
	}
	data := c.UserData(g)
	add(data.NotGiven(), "user data not checked (pass the file that has its Secret or ConfigMap, too)")
	add(data.UserData != "" && data.UserData.IsIgnition(), "user data for Ignition")
	add(data.UserData != "" && !data.UserData.IsIgnition(), "user data")
	return seen
}

// remember records the targets of a group's clones, for the check of privileges.
func (c *checker) remember(ctx context.Context, d *vsphere.Draft) error {
	c.encrypting = c.encrypting || len(d.Encrypts()) > 0
	to := d.Spec().Location
	if to.Pool != nil {
		keep(&c.pools, *to.Pool)
	}
	if to.Datastore != nil {
		keep(&c.datastores, *to.Datastore)
	}
	if at := c.parts.Inventory.FolderAt(d.Folder()); at.Ref != c.at.Root {
		keep(&c.folders, at)
	}
	for _, n := range d.Group().Spec.Networks {
		found, err := d.Network(ctx, n.Network)
		if err != nil {
			return err
		}
		keep(&c.networks, found)
	}
	return nil
}

// rules checks whether rules have an effect if a group wants some.
func (c *checker) rules(ctx context.Context, check string, d *vsphere.Draft, apart map[string]*apartMembers) bool {
	if !plan.RulesOf(d.Group().Spec).Wanted() {
		return true
	}
	owner, err := c.v.OwnerOf(ctx, *d.Spec().Location.Pool)
	if err != nil {
		c.failed(check, err)
		return false
	}
	if cluster := c.cluster(owner); cluster.MoRef != "" && (cluster.Standalone || !cluster.DRS) {
		c.add(check, Warn, "DRS is off in "+cluster.Name+", so rules have no effect ("+vcfault.ReasonRuleIneffective+")", "turn on DRS there, or remove placement.antiAffinity and hostGroup")
		return false
	} else if cluster.MoRef != "" && plan.RulesOf(d.Group().Spec).KeepApart() {
		if apart[cluster.MoRef] == nil {
			apart[cluster.MoRef] = &apartMembers{in: cluster, zones: map[string]bool{}}
		}
		apart[cluster.MoRef].zones[d.Group().Zone] = true
	}
	return true
}

// apartMembers are members that a rule keeps apart in one cluster: those of some zones.
type apartMembers struct {
	in    inventory.Cluster
	zones map[string]bool
}

// hostsFor compares, in each cluster, the members that are kept apart with the hosts.
func (c *checker) hostsFor(check string, g *v1alpha1.VmGroup, apart map[string]*apartMembers) {
	for _, at := range slices.Sorted(maps.Keys(apart)) {
		members, hosts := 0, len(apart[at].in.Hosts)
		for ordinal := range g.Replicas() {
			if apart[at].zones[plan.ZoneOf(&g.Spec, ordinal)] {
				members++
			}
		}
		surge := planner.PolicyOf(&g.Spec, int(g.Replicas())).Surge
		if members < hosts && members+surge <= hosts {
			continue
		}
		seen := fmt.Sprintf("%s, and up to %d more during an update, are to be apart on the %s of %s", plan.Count(members, "member"), surge, plan.Count(hosts, "host"), apart[at].in.Name)
		if g.Spec.Placement.AntiAffinity == v1alpha1.AntiAffinityRequired {
			c.add(check, Warn, seen, "vCenter powers no member on where each host with room has one, also while a host is in maintenance: add hosts, or set placement.antiAffinity to Preferred")
			continue
		}
		c.add(check, Warn, seen, "some share a host (MembersShareHost), also while a host is in maintenance; see docs/day-to-day.md before you put one into maintenance, or add hosts")
	}
}

// readiness checks, for a group whose readiness has a probe, that the server is allowed to ask members whether their service answers, and
// each member at its first static address.
func (c *checker) readiness(check string, g *v1alpha1.VmGroup) bool {
	const advice = "name the members' networks in --probe-networks (VMGROUP_PROBE_NETWORKS), or remove readiness.tcpSocket and httpGet"
	switch {
	case !g.Spec.Readiness.Probes():
		return true
	case c.CanProbe == nil:
		c.add(check, Fail, "the server is not allowed to ask any member whether its service answers, so none becomes ready (ProbeRefused)", advice)
		return false
	}
	for ordinal := range g.Replicas() {
		static, _ := plan.AddressesOf(&g.Spec, ordinal)
		var ips []string
		for _, of := range static {
			ips = slices.Concat(ips, of.IPv4, of.IPv6)
		}
		if address := plan.AskedAddress(ips); address.IsValid() && !c.CanProbe(address) {
			c.add(check, Fail, fmt.Sprintf("%s has the address %s, which the server is not allowed to ask (ProbeRefused)", plan.MemberName(g.Name, ordinal), address), advice)
			return false
		}
	}
	return true
}

// addressesOf checks that a group has a static address for each of its members, and reports whether it has. Too few addresses for an
// update are a warning (planner.WarningsOf), because everything else works without them.
func (c *checker) addressesOf(check string, g *v1alpha1.VmGroup) bool {
	for _, other := range c.Groups {
		whose := "the group " + other.Namespace + "/" + other.Name
		if shared := plan.SharedClaim(plan.ClaimsOf(g), plan.ClaimsOf(other), whose); other != g && shared != "" {
			c.add(check, Fail, shared+" ("+plan.ReasonDuplicateAddress+")", "give one of the groups other ranges")
			return false
		}
	}
	has, members := plan.AddressCount(&g.Spec), int(g.Replicas()+g.Spec.Standby)
	if has < members {
		c.add(check, Fail, fmt.Sprintf("spec.networks has static addresses for %d members, and replicas and standby are %d together (AddressesExhausted)", has, members), "add some to the ranges")
		return false
	}
	return true
}

// userData checks whether members can be given a group's user data, and reports whether they can. A format that no guest reads is a warning.
func (c *checker) userData(check string, g *v1alpha1.VmGroup) bool {
	data := c.UserData(g)
	switch {
	case data.Fault != nil && !data.NotGiven():
		c.failed(check, vcfault.ForOperator(data.Fault.Reason, "%s", data.Fault.Message))
		return false
	case data.Unrecognized != "":
		seen, advice, _ := strings.Cut(data.Unrecognized, ": ")
		c.add(check, Warn, seen+" ("+plan.ReasonUserDataUnrecognized+")", advice)
	}
	return true
}
