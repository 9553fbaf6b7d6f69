package inventory

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// hidden is Machine.Unreachable of a VM that exists but that the server's account no longer sees.
const hidden = "hidden"

// hide adds the VMs that a read asked for and vCenter's answer left out, as hidden: the answer says neither that they exist nor that they
// are gone.
func (r *Reading) hide(refs []types.ManagedObjectReference) {
	answered := make(map[string]bool, len(r.Machines))
	for i := range r.Machines {
		answered[r.Machines[i].MoRef] = true
	}
	for _, ref := range refs {
		if ref.Type == "VirtualMachine" && !answered[ref.Value] {
			r.Machines = append(r.Machines, Machine{VM: plan.VM{MoRef: ref.Value, Unreachable: hidden}})
		}
	}
}

// decode adds the VMs and places of an answer, and puts the names of hosts into hosts, by moRef. It keeps nothing else of the answer.
func (r *Reading) decode(objects []types.ObjectContent, hosts map[string]string) {
	var x answer
	all := x.properties()
	for i := range objects {
		switch o := &objects[i]; o.Obj.Type {
		case "HostSystem":
			for _, p := range o.PropSet {
				hosts[o.Obj.Value], _ = p.Val.(string)
			}
		case "VirtualMachine":
			r.Machines = append(r.Machines, x.decode(o, all, r.guestNetworks))
		default:
			r.Places = append(r.Places, decodePlace(o))
		}
	}
}

func decodePlace(o *types.ObjectContent) Place {
	p := Place{MoRef: o.Obj.Value, Kind: o.Obj.Type}
	for _, x := range o.PropSet {
		switch v := x.Val.(type) {
		case string:
			p.Name = v
		case types.ManagedObjectReference:
			p.Parent = v.Value
		}
	}
	return p
}

func decodeClusters(objects []types.ObjectContent) []Cluster {
	all := make([]Cluster, 0, len(objects))
	for i := range objects {
		all = append(all, decodeCluster(&objects[i]))
	}
	return all
}

func decodeCluster(o *types.ObjectContent) Cluster {
	c := Cluster{MoRef: o.Obj.Value, Standalone: o.Obj.Type != "ClusterComputeResource"}
	c.Unread = !c.Standalone
	for _, p := range o.PropSet {
		switch v := p.Val.(type) {
		case string:
			c.Name = v
		case types.ArrayOfManagedObjectReference:
			for _, host := range v.ManagedObjectReference {
				c.Hosts = append(c.Hosts, host.Value)
			}
		case types.ClusterConfigInfoEx:
			c.Unread = false
			c.takeAutomation(&v)
			c.Rules = decodeRules(v.Rule)
			c.VMGroups, c.HostGroups = decodeGroups(v.Group), HostGroups(&v)
		}
	}
	slices.Sort(c.Hosts)
	return c
}

// ofOthers are the parts of a cluster's configuration that the server doesn't need, and that grow with what others do in the cluster: the rules and VM
// groups that no server made, and settings of single VMs and hosts. The configuration is one property, which vCenter doesn't divide into pages.
var ofOthers = []session.Omission{
	{Element: "rule", Unless: func(_, name string) bool { return stamp.RuleOwner(name) != "" }},
	{Element: "group", Unless: func(kind, name string) bool { return kind != "ClusterVmGroup" || stamp.RuleOwner(name) != "" }},
	{Element: "dasVmConfig"}, {Element: "dpmHostConfig"}, {Element: "vsanHostConfig"},
}

// WithoutRulesOfOthers returns a context whose reads of clusters' configurations leave out the rules and VM groups that no server made.
func WithoutRulesOfOthers(ctx context.Context) context.Context {
	return session.Omitting(ctx, ofOthers...)
}

// decodeRules decodes the rules that a server made for a group, and leaves out all others.
func decodeRules(rules []types.BaseClusterRuleInfo) (ours []Rule) {
	for _, info := range rules {
		if info == nil { // of a type that govmomi doesn't know
			continue
		}
		r := info.GetClusterRuleInfo()
		x := Rule{UID: stamp.RuleOwner(r.Name), Name: r.Name, Key: r.Key, UUID: r.RuleUuid, UserCreated: r.UserCreated,
			Enabled: r.Enabled != nil && *r.Enabled, Mandatory: r.Mandatory != nil && *r.Mandatory}
		switch kind := info.(type) {
		case *types.ClusterAntiAffinityRuleSpec:
			x.VMs = sortedMoRefs(kind.Vm)
		case *types.ClusterVmHostRuleInfo:
			x.ForHosts, x.VMGroup, x.HostGroup = true, kind.VmGroupName, kind.AffineHostGroupName
		default:
			continue
		}
		if x.UID != "" {
			ours = append(ours, x)
		}
	}
	slices.SortFunc(ours, func(a, b Rule) int { return cmp.Compare(a.Key, b.Key) })
	return ours
}

// decodeGroups decodes the DRS VM groups that a server made for a group, and leaves out all others.
func decodeGroups(groups []types.BaseClusterGroupInfo) (ours []VMGroup) {
	for _, info := range groups {
		if g, is := info.(*types.ClusterVmGroup); is && stamp.RuleOwner(g.Name) != "" {
			ours = append(ours, VMGroup{UID: stamp.RuleOwner(g.Name), Name: g.Name, UniqueID: g.UniqueID, UserCreated: g.UserCreated, VMs: sortedMoRefs(g.Vm)})
		}
	}
	slices.SortFunc(ours, func(a, b VMGroup) int { return cmp.Compare(a.Name, b.Name) })
	return ours
}

func sortedMoRefs(refs []types.ManagedObjectReference) (values []string) {
	for _, ref := range refs {
		values = append(values, ref.Value)
	}
	slices.Sort(values)
	return values
}

// HostGroups returns the names of a cluster's DRS host groups that have hosts, as vCenter has them, in order: a rule needs one with hosts ([doc]
// ClusterVmHostRuleInfo).
func HostGroups(c *types.ClusterConfigInfoEx) (names []string) {
	for _, info := range c.Group {
		if g, is := info.(*types.ClusterHostGroup); is && len(g.Host) > 0 {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return names
}

// answer is what vCenter says of a VM. A field is zero if vCenter doesn't show the property.
type answer struct {
	Machine
	state   types.VirtualMachineConnectionState
	primary string
	nics    []types.GuestNicInfo
}

// owning are the properties that show the owner of a VM. Of most VMs, the inventory keeps nothing else.
func (x *answer) owning() session.Properties {
	return session.Properties{
		session.To("name", &x.Name),
		session.Taking("parent", func(v types.ManagedObjectReference) { x.Parent, x.Folder = v.Value, v.Value }), // unset in a vApp
		session.Taking("parentVApp", func(v types.ManagedObjectReference) { x.Parent = v.Value }),
		session.To("config.template", &x.Template),
		session.To("config.instanceUuid", &x.InstanceUUID),
		session.Option(stamp.Key, &x.StampText),
		session.To("runtime.connectionState", &x.state),
	}
}

// properties are all that a member needs.
func (x *answer) properties() session.Properties {
	return append(x.owning(),
		session.To("config.changeVersion", &x.ChangeVersion),
		session.Taking("config.files.vmPathName", func(v string) { x.NamedHome, x.File = disks.NamedHome(v), plan.Printable(v) }),
		session.To("summary.config.numVirtualDisks", &x.NumDisks),
		session.To("config.hardware.numCPU", &x.CPU),
		session.Taking("config.hardware.memoryMB", func(v int32) { x.MemoryMB = int64(v) }),
		session.To("config.hardware.numCoresPerSocket", &x.CoresPerSocket),
		session.To("config.hardware.autoCoresPerSocket", &x.AutoCores),
		session.To("config.cpuHotAddEnabled", &x.CPUHotAdd),
		session.To("config.memoryHotAddEnabled", &x.MemoryHotAdd),
		session.To("config.hotPlugMemoryLimit", &x.MaxHotMemoryMB),
		session.Taking("runtime.powerState", func(v types.VirtualMachinePowerState) { x.Power = plan.PowerState(v) }),
		session.Taking("runtime.bootTime", func(v time.Time) { x.BootTime = v.UTC() }),
		session.Taking("runtime.host", func(v types.ManagedObjectReference) { x.HostRef = v.Value }),
		session.Taking("runtime.question", func(v types.VirtualMachineQuestionInfo) { x.Question = questionText(&v) }),
		session.To("guest.ipAddress", &x.primary),
		session.Taking(session.GuestNet, func(v types.ArrayOfGuestNicInfo) { x.nics = v.GuestNicInfo }),
		session.Taking("guest.customizationInfo", func(v types.GuestInfoCustomizationInfo) { x.Customization = guest.CustomizationOf(&v) }),
		session.Taking("guest.toolsRunningStatus", func(v string) { x.Tools = v == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning) }),
	)
}

// decode returns what vCenter says of a VM. all are x's properties, which put the values into x, and networks those whose addresses it can have.
func (x *answer) decode(o *types.ObjectContent, all session.Properties, networks []netip.Prefix) Machine {
	*x = answer{Machine: Machine{VM: plan.VM{MoRef: o.Obj.Value}}}
	session.ObjectOf(o).Into(all)
	x.takeAddresses(networks)
	x.setReachable(x.state, o.MissingSet)
	return x.Machine
}

// takeAddresses takes over the addresses that the guest reports, and of thousands those that a member has (firstAddresses): the others would need memory
// until the reading is published.
func (x *answer) takeAddresses(networks []netip.Prefix) {
	x.IPs, x.firstIPs = addressesWithin(networks, AddressesOf(x.primary, x.nics)), addressesOfFirst(x.nics)
	if len(x.IPs)+len(x.firstIPs) <= 2*addressesMost {
		return
	}
	var has stamp.Stamp // of a VM without a stamp none
	if s, err := stamp.Decode(x.StampText); err == nil {
		has = s
	}
	x.IPs = firstAddresses(addressesInOrder(x.IPs, x.firstIPs, &has), plan.AddressesIn(has.Addresses))
	x.firstIPs = slices.DeleteFunc(slices.Clone(x.IPs), func(ip string) bool { return !slices.Contains(x.firstIPs, ip) })
}

// setReachable decides whether the VM is reachable, from its connection state and the properties that vCenter withheld.
func (m *Machine) setReachable(state types.VirtualMachineConnectionState, missing []types.MissingProperty) {
	m.Readable = m.InstanceUUID != ""
	lost := false
	for _, x := range missing {
		if _, denied := fault.As(&x.Fault, new(*types.NoPermission)); denied {
			lost = true
			m.Readable = m.Readable && x.Path != session.OptionPath(stamp.Key)
		}
	}
	switch {
	case state != "" && state != types.VirtualMachineConnectionStateConnected:
		m.Unreachable = string(state)
	case !m.Readable && lost:
		m.Unreachable = hidden
	case !m.Readable:
		m.Unreachable = "unreadable"
	default:
		m.Reachable = true
	}
}

// takeAutomation takes over how DRS places VMs: the cluster's automation level, and the levels of single VMs that override it.
func (c *Cluster) takeAutomation(x *types.ClusterConfigInfoEx) {
	c.DRS = x.DrsConfig.Enabled != nil && *x.DrsConfig.Enabled
	c.Level = cmp.Or(x.DrsConfig.DefaultVmBehavior, types.DrsBehaviorFullyAutomated)
	if overrides := x.DrsConfig.EnableVmBehaviorOverrides; overrides != nil && !*overrides {
		return
	}
	for _, vm := range x.DrsVmConfig {
		if c.Levels == nil {
			c.Levels = map[string]types.DrsBehavior{}
		}
		if c.Levels[vm.Key.Value] = cmp.Or(vm.Behavior, c.Level); vm.Enabled != nil && !*vm.Enabled {
			c.Levels[vm.Key.Value] = ""
		}
	}
}
